"""The tables of a source that a pipeline follows, by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.cdc.model.name_patterns import NamePattern
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Invalid

__all__ = ["NameFilter", "Pattern", "Selection"]

_FORM = "write one such as 'shop.*' or 'shop.orders'"
# A backslash takes the next character as it is, so that names may have dots and asterisks.
_PART = re.compile(r"\\(.)|(\*)|(\?)|([^\\])", re.DOTALL)


@dataclass(frozen=True)
class Pattern:
    """A pattern of tables: a database and a table with a dot between them.

    ``*`` stands for any characters and ``?`` for one; a backslash takes the next character as it
    is. Letters count as they are written.

    Attributes:
        text: The pattern.
        database, table: Its parts as regular expressions.
    """

    text: str
    database: re.Pattern[str]
    table: re.Pattern[str]

    @staticmethod
    def parse(text: str) -> Pattern:
        """Read a pattern; Invalid."""
        parts = [""]
        for escaped, many, one, plain in _PART.findall(text):
            if plain == ".":
                parts.append("")
            else:
                parts[-1] += ".*" if many else "." if one else re.escape(escaped or plain)
        ends_escaped = text.endswith("\\") and not text.endswith("\\\\")
        if len(parts) != len(("database", "table")) or not all(parts) or ends_escaped:
            raise Invalid(f"'{text}' is not a pattern of tables; {_FORM}")
        database, table = (re.compile(part, re.DOTALL) for part in parts)
        return Pattern(text, database, table)

    def matches(self, name: TableName) -> bool:
        """Whether a table is meant."""
        is_database = self.database.fullmatch(name.database) is not None
        return is_database and self.table.fullmatch(name.table) is not None


@dataclass(frozen=True)
class NameFilter:
    """Paimon's choice of names by regular expressions; without any, all names.

    Attributes:
        including: What names must match.
        excluding: What names must not match.
    """

    including: NamePattern | None = None
    excluding: NamePattern | None = None

    @staticmethod
    def parse(kind: str, including: str | None, excluding: str | None) -> NameFilter:
        """Read the options ``including-KIND`` and ``excluding-KIND``; Invalid."""
        return NameFilter(
            None if including is None else NamePattern.parse(f"including-{kind}", including),
            None if excluding is None else NamePattern.parse(f"excluding-{kind}", excluding),
        )

    def matches(self, name: str) -> bool:
        """Whether a name is chosen."""
        is_included = self.including is None or self.including.matches(name)
        return is_included and not (self.excluding is not None and self.excluding.matches(name))


@dataclass(frozen=True)
class Selection:
    """Tables that are followed: those that are included and not excluded.

    Attributes:
        include: Patterns, one at least.
        exclude: Patterns.
        tables, databases: What the parts of their names must be besides.
    """

    include: Sequence[Pattern]
    exclude: Sequence[Pattern] = ()
    tables: NameFilter = field(default_factory=NameFilter)
    databases: NameFilter = field(default_factory=NameFilter)

    @staticmethod
    def parse(include: Iterable[str], exclude: Iterable[str] = ()) -> Selection:
        """Read patterns; Invalid."""
        selection = Selection(
            [Pattern.parse(text) for text in include], [Pattern.parse(text) for text in exclude]
        )
        if not selection.include:
            raise Invalid(f"no table is included; {_FORM}")
        return selection

    def matches(self, name: TableName) -> bool:
        """Whether a table is followed."""
        if not (self.databases.matches(name.database) and self.tables.matches(name.table)):
            return False
        is_included = any(pattern.matches(name) for pattern in self.include)
        return is_included and not any(pattern.matches(name) for pattern in self.exclude)
