"""Parts that statements which change rows have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.spark.names import dotted
from headwater.spark.row_change import RowCounts
from headwater.spark.source.table_read import read_frame
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.function_calls import with_functions
from headwater.spark.sql.query.read import plan_read
from headwater.spark.sql.query.references import outer_metadata
from headwater.spark.sql.query.splice import splice
from headwater.spark.sql.session_options import table_to_change
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_views import drop_temporary_view
from headwater.storage.errors import Unsupported

__all__ = ["Expressions", "assigned_name", "assignments", "counted", "target_table"]

_QUERY = re.compile(r"\b(select|from|table)\b", re.IGNORECASE)
_SELECT = "SELECT "


@dataclass
class Expressions:
    """The expressions of a statement, whose subqueries read tables of the catalog.

    As a context manager it forgets the temporary views that stand for these tables.

    Attributes:
        context: The user's.
        table: The table that the statement changes.
        alias: Its name in the expressions.
    """

    context: SqlContext
    table: Table
    alias: str
    _views: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in self._views:
            drop_temporary_view(self.context.session.spark, name)

    def text(self, written: str) -> str:
        """The user's text, with views in the places of the catalog's tables.

        Raises:
            Unsupported: It names the places of rows of the table that is changed.
        """
        self._refuse_metadata(written)
        if not _QUERY.search(written):
            return with_functions(written, self.context)
        spliced = splice(_SELECT + written, self.context)
        session = self.context.session
        zone = str(session.spark.conf.get("spark.sql.session.timeZone"))
        places: dict[str, str] = {}
        for at, relation in enumerate(spliced.relations):
            name = f"headwater_{self.table.storage.runtime.new_uuid().replace('-', '')}"
            read = plan_read(session, relation, None, at, zone)
            read_frame(session, read).createOrReplaceTempView(name)
            self._views.append(name)
            places[f"t{at}"] = name
        return spliced.text.format(**places)[len(_SELECT) :]

    def _refuse_metadata(self, written: str) -> None:
        own = {name.casefold() for name in self.table.schema.moved_columns}
        called = (self.alias.casefold(), self.table.identifier.name.casefold())
        for *qualifier, name in outer_metadata(written):
            if name.casefold() in own or (qualifier and qualifier[-1].casefold() not in called):
                continue
            raise Unsupported(
                f"table {self.table.name}: {name} is not known of rows that are changed: choose "
                "them by the table's own columns, which a SELECT tells for the rows of a place"
            )


def target_table(
    statement: Statement, context: SqlContext, *ends: str
) -> tuple[Table, str, tuple[str, ...]]:
    """Read the table that a statement changes, with its alias.

    Args:
        statement: Read up to the table's name.
        context: The user's.
        ends: The keywords that may follow.

    Returns:
        The table, its name in expressions, and its name as it is written.
    """
    parts = statement.name_parts()
    table = table_to_change(context, parts, statement.hint())
    alias = parts[-1]
    if statement.accept("AS") or not (statement.at_end or any(map(statement.peek, ends))):
        alias = statement.name()
    return table, alias, parts


def assignments(
    statement: Statement, table: Table, names: Sequence[Sequence[str]], *ends: str
) -> dict[str, str]:
    """Read ``a = expression, s.f = expression``.

    Args:
        statement: Read up to the first.
        table: The table.
        names: The names of the table that may stand before a column's.
        ends: The keywords that may follow.
    """
    values: dict[str, str] = {}
    while True:
        name = assigned_name(statement.name_parts(), table, names)
        statement.expect("=")
        text = statement.until(",", *ends)
        if not text:
            raise statement.unexpected("an expression")
        if name in values:
            raise statement.unexpected(f"no other value of '{name}'")
        values[name] = text
        if not statement.accept(","):
            return values


def assigned_name(parts: Sequence[str], table: Table, names: Sequence[Sequence[str]]) -> str:
    """The name of an assigned column or field, without the table's."""
    columns = {name.casefold() for name in table.schema.field_by_name}
    for prefix in names:
        head = [part.casefold() for part in parts[: len(prefix)]]
        if len(parts) > len(prefix) and head == [part.casefold() for part in prefix]:
            rest = parts[len(prefix) :]
            if rest[0].casefold() in columns:
                return _name(rest)
    return _name(parts)


def _name(parts: Sequence[str]) -> str:
    # A column of one part is looked up as it is.
    return parts[0] if len(parts) == 1 else dotted(parts)


def counted(counts: RowCounts | None, *kinds: str) -> pa.Table:
    """The answer of a statement: the rows it affected, null where that is not known."""
    if counts is None:
        nothing = pa.array([None], pa.int64())
        return pa.table({f"num_{kind}_rows": nothing for kind in ("affected", *kinds)})
    rows = {
        "affected": counts.affected,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "inserted": counts.inserted,
    }
    return pa.table({f"num_{kind}_rows": pa.array([rows[kind]]) for kind in ("affected", *kinds)})
