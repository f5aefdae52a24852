"""The form of a procedure: its parameters, its result, its work; and the arguments of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.options import check_options
from headwater.spark.sql.session_options import with_session_options
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import parse_duration
from headwater.storage.schema.table_type import table_type

__all__ = ["Arguments", "Parameter", "Procedure", "Rows"]

Rows = Sequence[tuple[object, ...]]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a procedure.

    Attributes:
        name: Its name.
        kind: The Python type of its values: str, int, bool or list (of texts).
        is_required: True if a call must give it.
    """

    name: str
    kind: type = str
    is_required: bool = False


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        context: The session of the call.
        values: Those that are given and are not NULL, by the parameters' names.
    """

    context: SqlContext
    values: Mapping[str, str | int | bool | list[str]]

    def text(self, name: str) -> str | None:
        """A text; None where it is not given, or blank, as Paimon has it."""
        value = self.values.get(name)
        if value is None:
            return None
        return str(value) if str(value).strip() else None

    def required(self, name: str) -> str:
        """A text that must be there; raises Invalid where it is blank."""
        found = self.text(name)
        if found is None:
            raise Invalid(f"argument '{name}' must not be blank")
        return found

    def texts(self, name: str) -> list[str] | None:
        """Several texts; None where they are not given."""
        value = self.values.get(name)
        assert value is None or isinstance(value, list)
        return value

    def integer(self, name: str) -> int | None:
        """An integer; None where it is not given."""
        value = self.values.get(name)
        assert value is None or isinstance(value, int)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value, or its default."""
        value = self.values.get(name, default)
        assert isinstance(value, bool)
        return value

    def duration(self, name: str) -> timedelta | None:
        """A length of time such as ``1 d``; None where it is not given."""
        text = self.text(name)
        return None if text is None else timedelta(milliseconds=parse_duration(text, name))

    def pattern(self, name: str, default: str | None = None) -> re.Pattern[str] | None:
        """A regular expression; raises Invalid where it is none."""
        text = self.text(name) or default
        try:
            return None if text is None else re.compile(text)
        except re.error as error:
            raise Invalid(
                f"argument '{name}': '{text}' is no regular expression: {error}"
            ) from None

    def moment(self, name: str, table: Table) -> datetime | None:
        """A time such as ``2026-01-31 12:00:00``, in the table's zone unless it has one.

        Raises:
            Invalid: The text is no time.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise Invalid(
                f"argument '{name}': '{text}' is not a time such as 2026-01-31 12:00:00"
            ) from None
        zone = table.storage.runtime.time_zone()
        return found if found.tzinfo is not None else found.replace(tzinfo=zone)

    def options(self, name: str = "options") -> dict[str, str]:
        """Options written as ``k1=v1,k2=v2``; raises Invalid."""
        found: dict[str, str] = {}
        for part in (self.text(name) or "").split(","):
            if not part.strip():
                continue
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                raise Invalid(f"argument '{name}': '{part.strip()}' is not of the form key=value")
            found[key.strip()] = value.strip()
        return found

    def identifier(self, name: str = "table") -> Identifier:
        """The name of a table, a view or a function; one without a database is in that in use."""
        parts = [part.strip().strip("`") for part in self.required(name).split(".")]
        return Identifier.parse(self.context.full_name(parts))

    def table(self, name: str = "table") -> Table:
        """A table, with the session's options and the call's ``options`` laid over its own.

        Raises:
            Invalid: An option is unknown, or cannot be laid over a table.
            NotFound: There is no such table.
            Unsupported: The table is of a type that has no snapshots.
        """
        found = self.context.table(str(self.identifier(name)))
        kind = table_type(found.schema.options)
        if not kind.has_snapshots:
            raise Unsupported(
                f"table {found.name} is of type {kind}: it has no snapshots, which procedures "
                "are for"
            )
        found = with_session_options(self.context, found)
        options = self.options()
        if not options:
            return found
        check_options(options)
        return found.with_options(options)


@dataclass(frozen=True)
class Procedure:
    """A procedure.

    Attributes:
        name: Its name, after ``sys.``
        summary: Its work in a sentence, for the page of procedures.
        parameters: Its parameters in their order.
        run: Does the work, and gives the rows of the result.
        columns: The result's columns and their Python types.
    """

    name: str
    summary: str
    parameters: Sequence[Parameter]
    run: Callable[[Arguments], Rows]
    columns: Mapping[str, type] = field(default_factory=lambda: {"result": bool})
