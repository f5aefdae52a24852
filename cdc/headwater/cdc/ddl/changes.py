"""What a DDL statement changes: frozen values, in the order in which they apply.

A change names its tables with their databases. `Change.tables_to_reread` lists those whose rows may
differ afterwards in a way that neither row events nor the change itself describe: their rows must
be read again from the source. Column names are written as in the statement; MySQL and MariaDB
compare them without regard to case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headwater.cdc.model.tables import TableName


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column is put: after another one, or first when `after` is None."""

    after: str | None = None


@dataclass(frozen=True, slots=True)
class Default:
    """A column's DEFAULT clause.

    Attributes:
        sql: The expression as written: ``'web'``, ``NULL``, ``current_timestamp(3)``, ``(1 + 1)``.
        literal: The value of a constant string or number; None for NULL and other expressions.
    """

    sql: str
    literal: str | None = None

    @property
    def is_null(self) -> bool:
        """Whether the default is the constant NULL."""
        return self.literal is None and self.sql.upper() == "NULL"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key. On MariaDB and MySQL up to 9.5 its cascades make no row events."""

    columns: tuple[str, ...]
    references: TableName
    referenced_columns: tuple[str, ...] = ()
    name: str | None = None
    on_delete: str | None = None
    on_update: str | None = None

    @property
    def cascades(self) -> bool:
        """Whether changes of the referenced table may change rows of this one."""
        silent = {None, "RESTRICT", "NO ACTION"}
        return self.on_delete not in silent or self.on_update not in silent


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as ADD, CHANGE, MODIFY or CREATE TABLE define it.

    Attributes:
        type: The type as written, with its modifiers: ``bigint(20) unsigned``, ``enum('a','b')``.
        nullable: Whether it holds NULL; None where a setting of the server decides (a TIMESTAMP
            without NULL or NOT NULL depends on ``explicit_defaults_for_timestamp``).
        default: The DEFAULT clause, None if there is none.
        generated: The expression of a generated column.
        stored: Whether a generated column is stored rather than virtual.
        position: FIRST or AFTER, None if not stated.
        conditional: Whether IF EXISTS or IF NOT EXISTS may have left the table as it was.
    """

    name: str
    type: str
    nullable: bool | None = True
    default: Default | None = None
    on_update: str | None = None
    comment: str | None = None
    character_set: str | None = None
    collation: str | None = None
    generated: str | None = None
    stored: bool = False
    auto_increment: bool = False
    invisible: bool = False
    position: Position | None = None
    conditional: bool = False

    def in_key(self, primary_key: tuple[str, ...]) -> ColumnDefinition:
        """This column as a table with that primary key has it: its columns are not null."""
        names = {name.lower() for name in primary_key}
        return replace(self, nullable=False) if self.name.lower() in names else self

    @property
    def fills_rows(self) -> bool:
        """Whether rows that exist get a value other than NULL when this column is added."""
        if self.generated is not None or self.auto_increment or self.nullable is not True:
            return True
        return self.default is not None and not self.default.is_null


class Change:
    """Base of all changes."""

    __slots__ = ()

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables that the change is about."""
        raise NotImplementedError

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """Tables whose rows may have changed without row events, in an unknown way."""
        return ()

    def concerns(self, table: TableName) -> bool:
        """Whether the change may be about a table."""
        return table in self.tables


@dataclass(frozen=True, slots=True)
class TableChange(Change):
    """Base of changes of one table."""

    table: TableName

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The table."""
        return (self.table,)


@dataclass(frozen=True, slots=True)
class AddColumns(TableChange):
    """Columns added in this order, each at its position or else at the end."""

    columns: tuple[ColumnDefinition, ...]

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The table, unless all columns start as NULL."""
        return self.tables if any(column.fills_rows for column in self.columns) else ()


@dataclass(frozen=True, slots=True)
class DropColumns(TableChange):
    """Columns dropped. A primary key loses the dropped columns.

    Attributes:
        if_exists: Whether some of them may not have existed.
    """

    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumns(TableChange):
    """Columns renamed at once: all old names are those from before, so that two may be swapped."""

    renames: tuple[tuple[str, str], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn(TableChange):
    """A column redefined with CHANGE or MODIFY. `definition.name` is its name afterwards.

    The statement does not state what the column was before. A caller that knows its type, character
    set, nullability and expression to be the same need not read the table again.

    Attributes:
        former: The name before, where CHANGE states another one; None if the name stays.
    """

    definition: ColumnDefinition
    former: str | None = None

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The table: its values may have been converted."""
        return self.tables


@dataclass(frozen=True, slots=True)
class ChangeDefault(TableChange):
    """ALTER COLUMN … SET DEFAULT, or DROP DEFAULT when `default` is None. Rows stay as they are."""

    column: str
    default: Default | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class KeyChange(TableChange):
    """The primary key dropped, added, or both.

    Attributes:
        dropped: Whether the former primary key was dropped.
        columns: The new primary key's columns by their new names, None if there is none.
    """

    dropped: bool
    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ForeignKeyChange(TableChange):
    """Foreign keys added or dropped.

    Attributes:
        dropped: Names of dropped ones; after DROP CONSTRAINT, which may also drop a check or a
            unique key, read the table's foreign keys from the information schema.
    """

    added: tuple[ForeignKey, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CharacterSetChange(TableChange):
    """CONVERT TO CHARACTER SET: all text columns; a TEXT may become a MEDIUMTEXT.

    Attributes:
        character_set: The name, None for the database's default.
    """

    character_set: str | None
    collation: str | None = None

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The table: characters that the new set lacks were replaced."""
        return self.tables


@dataclass(frozen=True, slots=True)
class TableComment(TableChange):
    """A table's comment set; an empty one removes it. Rows stay as they are."""

    comment: str


class RowEffect(StrEnum):
    """What an operation on partitions does to rows."""

    NONE = "none"
    REMOVED = "removed"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class PartitionChange(TableChange):
    """An operation on partitions.

    Attributes:
        operation: Its keywords: ``DROP PARTITION``, ``PARTITION BY``, ``REMOVE PARTITIONING``.
        effect: What it does to the rows of `table`.
        partitions: The named partitions; empty for ALL and for operations without names.
        other_table: The table that rows came from or went to.
    """

    operation: str
    effect: RowEffect
    partitions: tuple[str, ...] = ()
    other_table: TableName | None = None

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The partitioned table, and the other one of EXCHANGE and CONVERT."""
        return (self.table,) if self.other_table is None else (self.table, self.other_table)

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """Both tables, unless all rows stay."""
        return () if self.effect is RowEffect.NONE else self.tables


@dataclass(frozen=True, slots=True)
class RowsReplaced(TableChange):
    """Rows changed without events while the columns stayed, as by IMPORT TABLESPACE."""

    reason: str

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The table."""
        return self.tables


@dataclass(frozen=True, slots=True)
class RenameTables(Change):
    """Tables renamed one after the other, as ``RENAME TABLE a TO b, c TO a`` does.

    Attributes:
        renames: Pairs of old and new name in the statement's order.
        if_exists: Whether pairs may have been left out because the old table did not exist.
    """

    renames: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False

    @property
    def tables(self) -> tuple[TableName, ...]:
        """All names, old and new, in the order of the statement."""
        return tuple(dict.fromkeys(name for pair in self.renames for name in pair))

    @property
    def moves(self) -> Mapping[TableName, TableName]:
        """The name of each renamed table before the statement and after it."""
        former: dict[TableName, TableName] = {}
        for old, new in self.renames:
            former[new] = former.pop(old, old)
        return {old: new for new, old in former.items()}

    @property
    def replaced(self) -> Mapping[TableName, TableName]:
        """The names under which another table stands now, each with that table's former name.

        So ends an online schema change: ``orders`` is moved away, and the copy takes its name.
        """
        moves = self.moves
        return {new: old for old, new in moves.items() if new in moves and new != old}

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The replaced names: what was copied has rows of its own."""
        return tuple(self.replaced)


@dataclass(frozen=True, slots=True)
class CreateTable(TableChange):
    """A table created.

    Attributes:
        columns: Its columns; empty with LIKE, and with AS SELECT only those that are spelled out.
        primary_key: The columns of its primary key, empty if there is none.
        like: The table whose definition was copied.
        as_select: Whether rows came from a query. With row events the server logs them and no AS
            SELECT; a query in the log means that they are not there.
        if_not_exists: Whether the table may have existed and stayed as it was.
        or_replace: Whether a table of this name was dropped before.
    """

    columns: tuple[ColumnDefinition, ...] = ()
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    like: TableName | None = None
    as_select: bool = False
    if_not_exists: bool = False
    or_replace: bool = False

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The table, if a query filled it."""
        return self.tables if self.as_select else ()


@dataclass(frozen=True, slots=True)
class DropTables(Change):
    """Tables dropped, with all their rows."""

    names: tuple[TableName, ...]
    if_exists: bool = False

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The dropped tables."""
        return self.names


@dataclass(frozen=True, slots=True)
class DropDatabase(Change):
    """A database dropped, with all its tables."""

    database: str
    if_exists: bool = False

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Nothing: the statement does not name the tables."""
        return ()

    def concerns(self, table: TableName) -> bool:
        """Whether the table was in the database."""
        return table.database == self.database


@dataclass(frozen=True, slots=True)
class Truncate(TableChange):
    """All rows of a table removed."""


@dataclass(frozen=True, slots=True)
class Irrelevant(Change):
    """A statement that changes neither rows nor columns: indexes, table options, views, users."""

    reason: str
    names: tuple[TableName, ...] = ()

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables, where the statement names them."""
        return self.names


@dataclass(frozen=True, slots=True)
class NotUnderstood(Change):
    """A statement whose effect is not known.

    Attributes:
        reason: What was not understood, and where.
        names: The tables that it is about as far as it was read.
        any_table: Whether it may be about tables other than `names`.
        changes_rows: Whether it changes rows alone, and leaves all columns as they are.
    """

    reason: str
    names: tuple[TableName, ...] = ()
    any_table: bool = True
    changes_rows: bool = False

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables that it names, as far as it was read."""
        return self.names

    @property
    def tables_to_reread(self) -> tuple[TableName, ...]:
        """The same tables."""
        return self.names

    def concerns(self, table: TableName) -> bool:
        """Whether the table is named, or may be another one that is meant."""
        return self.any_table or table in self.names
