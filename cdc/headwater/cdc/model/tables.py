"""Tables of a source, and what stands in the way of following them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import DataType

__all__ = ["Finding", "SourceColumn", "SourceTable", "TableName"]

_SPECIAL = re.compile(r"[.*?\\]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NAME = re.compile(r"((?:[^.\\]|\\.)+)\.((?:[^.\\]|\\.)+)", re.DOTALL)


class TableName(NamedTuple):
    """The name of a table of a source.

    Args:
        database: The database, or a PostgreSQL schema.
        table: The table.
    """

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def escaped(self) -> str:
        """The name as a pattern writes it: without a doubt which dot stands between its parts."""
        return ".".join(_SPECIAL.sub(r"\\\g<0>", part) for part in (self.database, self.table))

    @staticmethod
    def from_escaped(text: str) -> TableName:
        """Read a name as `escaped` writes it; Invalid."""
        parts = _NAME.fullmatch(text)
        if parts is None:
            raise Invalid(f"'{text}' is not the name of a table; write one such as 'shop.orders'")
        database, table = (_ESCAPED.sub(r"\1", part) for part in parts.groups())
        return TableName(database, table)


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source's table.

    Attributes:
        name: Its name.
        source_type: Its type in the source's words, such as ``int(10) unsigned``.
        type: Its type in the lake.
        default: The value of rows that do not say one, as the source shows it; None for NULL.
        comment: Its comment; empty for none.
        is_generated: Whether the source computes it from other columns.
        collation: The collation of text; None for other types.
        id: The number that it keeps when it is renamed; None where the source has none.
    """

    name: str
    source_type: str
    type: DataType
    default: str | None = None
    comment: str = ""
    is_generated: bool = False
    collation: str | None = None
    id: int | None = None


@dataclass(frozen=True)
class StoredPart:
    """A table, or a partition of it.

    Attributes:
        id: The number that it keeps when it is renamed.
        file: Another one when all of its rows are written again.
        is_made_empty: Whether it had no rows when it became a partition.
    """

    id: int
    file: int
    is_made_empty: bool


@dataclass(frozen=True)
class Storage:
    """Where a source has a table's rows.

    Attributes:
        altered: Another text when its columns are altered.
        parts: Its partitions; itself if it has none.
    """

    altered: str
    parts: tuple[StoredPart, ...]


@dataclass(frozen=True)
class SourceTable:
    """A table of a source that can be followed.

    Attributes:
        name: Its name.
        columns: Its columns, in their order.
        primary_key: The names of the key's columns, in the key's order; empty without a key.
        comment: Its comment; empty for none.
        id: The number that it keeps when it is renamed; None where the source has none.
        storage: Where its rows are, beside its definition; None where the log has
            every change of them.
    """

    name: TableName
    columns: Sequence[SourceColumn]
    primary_key: Sequence[str] = ()
    comment: str = ""
    id: int | None = None
    storage: Storage | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Finding:
    """Something that keeps a source or one of its tables from being followed.

    Attributes:
        subject: The server's setting, privilege, table or column.
        problem: Why it does not work, with values.
        remedy: What to do.
        table: The table; None for what concerns the server.
    """

    subject: str
    problem: str
    remedy: str
    table: TableName | None = None

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}; {self.remedy}"
