"""ALTER TABLE: its clauses, and the order in which their changes apply.

The server drops columns first and takes all old names from before the statement; then columns are
moved and added in the order of the clauses, with AFTER meaning the new names
(``mysql_prepare_alter_table``). A rename of the table comes last.
"""

from __future__ import annotations

from headwater.cdc.ddl.changes import (
    AddColumns,
    Change,
    ChangeColumn,
    ChangeDefault,
    CharacterSetChange,
    ColumnDefinition,
    DropColumns,
    ForeignKey,
    ForeignKeyChange,
    Irrelevant,
    KeyChange,
    RenameColumns,
    RenameTables,
    RowsReplaced,
    TableComment,
)
from headwater.cdc.ddl.columns import (
    ColumnReader,
    OtherKey,
    PrimaryKey,
    column_keys,
    read_charset_name,
    read_column,
    read_default,
    read_elements,
    read_key,
)
from headwater.cdc.ddl.table_options import (
    read_partition_operation,
    read_partitioning,
    read_table_option,
)
from headwater.cdc.ddl.tokens import Cursor, TokenType, UnclearSyntaxError
from headwater.cdc.model.tables import TableName


def read_alter_table(cursor: Cursor) -> tuple[Change, ...]:
    """Read ALTER TABLE from behind ALTER."""
    cursor.take_any("ONLINE", "OFFLINE")
    ignore = cursor.take("IGNORE")
    cursor.expect("TABLE")
    cursor.take("IF", "EXISTS")
    clauses = _Clauses(cursor, cursor.table())
    read_wait(cursor)
    while not cursor.at_end():
        clauses.read()
        if cursor.take(","):
            if cursor.at_end():
                raise cursor.unclear("a clause")
        elif not (cursor.at_end() or clauses.may_follow()):
            raise cursor.unclear("a comma or the end of the statement")
    return clauses.changes(ignore=ignore)


def read_wait(cursor: Cursor) -> None:
    """Read MariaDB's WAIT n or NOWAIT, if stated."""
    if cursor.take("WAIT"):
        if cursor.advance().type is not TokenType.NUMBER:
            raise cursor.unclear("a number of seconds")
    else:
        cursor.take("NOWAIT")


class _Clauses:
    """The clauses of one ALTER TABLE as far as they have been read."""

    def __init__(self, cursor: Cursor, table: TableName) -> None:
        self._cursor = cursor
        self._table = table
        self._dropped: list[str] = []
        self._drop_if_exists = False
        self._renames: list[tuple[str, str]] = []
        self._rename_if_exists = False
        self._columns: list[Change] = []
        self._key_dropped = False
        self._key_columns: tuple[str, ...] | None = None
        self._foreign_keys: list[ForeignKey] = []
        self._dropped_constraints: list[str] = []
        self._others: list[Change] = []
        self._new_name: TableName | None = None
        self._irrelevant: list[str] = []
        self._after_option = False

    def may_follow(self) -> bool:
        """Whether the next clause needs no comma: options, and partitioning at the end."""
        cursor = self._cursor
        return self._after_option or cursor.at_any("PARTITION", "REMOVE", "UPGRADE")

    def read(self) -> None:
        """Read a clause."""
        cursor = self._cursor
        self._after_option = False
        partitions = read_partitioning(cursor, self._table) or read_partition_operation(
            cursor, self._table
        )
        if partitions is not None:
            self._others.append(partitions)
        elif cursor.take("ADD"):
            self._add()
        elif cursor.take("DROP"):
            self._drop()
        elif cursor.take("CHANGE"):
            self._change()
        elif cursor.take("MODIFY"):
            self._modify()
        elif cursor.take("RENAME"):
            self._rename()
        elif cursor.take("ALTER"):
            self._alter()
        elif cursor.take("CONVERT", "TO"):
            self._convert()
        else:
            self._option()

    def _add(self) -> None:
        cursor = self._cursor
        if cursor.at("PERIOD", "FOR") or cursor.at("SYSTEM", "VERSIONING"):
            raise UnclearSyntaxError("a system-versioned table or a period is not supported")
        is_column = cursor.take("COLUMN")
        key = None if is_column else read_key(cursor)
        if key is not None:
            self._add_key(key)
            return
        conditional = cursor.take("IF", "NOT", "EXISTS")
        if cursor.at("("):
            columns, keys = read_elements(cursor, conditional=conditional)
        else:
            columns, keys = [read_column(cursor, conditional=conditional)], []
        self._add_columns(tuple(definition for _, definition in columns))
        for column_key in keys + column_keys([reader for reader, _ in columns]):
            self._add_key(column_key)

    def _add_columns(self, columns: tuple[ColumnDefinition, ...]) -> None:
        last = self._columns[-1] if self._columns else None
        if isinstance(last, AddColumns):
            self._columns[-1] = AddColumns(self._table, last.columns + columns)
        elif columns:
            self._columns.append(AddColumns(self._table, columns))

    def _add_key(self, key: PrimaryKey | ForeignKey | OtherKey) -> None:
        if isinstance(key, PrimaryKey):
            self._key_columns = key.columns
        elif isinstance(key, ForeignKey):
            self._foreign_keys.append(key)
        else:
            self._irrelevant.append("adds an index or a constraint")

    def _drop(self) -> None:
        cursor = self._cursor
        if cursor.at("PERIOD", "FOR") or cursor.at("SYSTEM", "VERSIONING"):
            raise UnclearSyntaxError("a system-versioned table or a period is not supported")
        if cursor.take("PRIMARY", "KEY"):
            self._key_dropped = True
        elif cursor.take("FOREIGN", "KEY"):
            cursor.take("IF", "EXISTS")
            self._dropped_constraints.append(cursor.name("a foreign key"))
        elif word := cursor.take_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            cursor.take("IF", "EXISTS")
            self._drop_named(word, self._key_name())
        else:
            cursor.take("COLUMN")
            self._drop_if_exists |= cursor.take("IF", "EXISTS")
            self._dropped.append(cursor.name("a column"))
            cursor.take_any("RESTRICT", "CASCADE")

    def _key_name(self) -> str:
        return "PRIMARY" if self._cursor.take("PRIMARY") else self._cursor.name("a key")

    def _drop_named(self, word: str, name: str) -> None:
        if name.upper() == "PRIMARY" and word != "CHECK":
            self._key_dropped = True
        elif word == "CONSTRAINT":
            self._dropped_constraints.append(name)
        else:
            self._irrelevant.append("drops an index or a check")

    def _change(self) -> None:
        cursor = self._cursor
        cursor.take("COLUMN")
        conditional = cursor.take("IF", "EXISTS")
        old = cursor.name("a column")
        reader, definition = read_column(cursor, conditional=conditional)
        former = None if definition.name == old else old
        if former is not None:
            self._renames.append((former, definition.name))
            self._rename_if_exists |= conditional
        self._redefine(reader, definition, former)

    def _modify(self) -> None:
        cursor = self._cursor
        cursor.take("COLUMN")
        conditional = cursor.take("IF", "EXISTS")
        self._redefine(*read_column(cursor, conditional=conditional))

    def _redefine(
        self, reader: ColumnReader, definition: ColumnDefinition, former: str | None = None
    ) -> None:
        self._columns.append(ChangeColumn(self._table, definition, former))
        for key in column_keys([reader]):
            self._add_key(key)

    def _rename(self) -> None:
        cursor = self._cursor
        if cursor.take("COLUMN"):
            self._rename_if_exists |= cursor.take("IF", "EXISTS")
            old = cursor.name("a column")
            cursor.expect("TO")
            self._renames.append((old, cursor.name("a column")))
        elif cursor.take_any("INDEX", "KEY"):
            cursor.take("IF", "EXISTS")
            cursor.name("an index")
            cursor.expect("TO")
            cursor.name("an index")
            self._irrelevant.append("renames an index")
        else:
            cursor.take_any("TO", "AS", "=")
            self._new_name = cursor.table()

    def _alter(self) -> None:
        cursor = self._cursor
        if cursor.take_any("INDEX", "KEY"):
            cursor.take("IF", "EXISTS")
            cursor.name("an index")
            cursor.take("NOT")
            if not cursor.take_any("VISIBLE", "INVISIBLE", "IGNORED"):
                raise cursor.unclear("VISIBLE, INVISIBLE or IGNORED")
            self._irrelevant.append("changes an index")
        elif cursor.take_any("CHECK", "CONSTRAINT"):
            cursor.name("a constraint")
            cursor.take("NOT")
            cursor.expect("ENFORCED")
            self._irrelevant.append("changes a constraint")
        else:
            cursor.take("COLUMN")
            conditional = cursor.take("IF", "EXISTS")
            self._alter_column(cursor.name("a column"), conditional)

    def _alter_column(self, column: str, conditional: bool) -> None:
        cursor = self._cursor
        if cursor.take("SET", "DEFAULT"):
            default = read_default(cursor)
            self._columns.append(ChangeDefault(self._table, column, default, conditional))
        elif cursor.take("DROP", "DEFAULT"):
            self._columns.append(ChangeDefault(self._table, column, None, conditional))
        elif cursor.take("SET", "VISIBLE") or cursor.take("SET", "INVISIBLE"):
            self._irrelevant.append("changes whether a column is visible")
        else:
            raise cursor.unclear("SET DEFAULT, DROP DEFAULT, SET VISIBLE or SET INVISIBLE")

    def _convert(self) -> None:
        cursor = self._cursor
        if not (
            cursor.take("CHARACTER", "SET") or cursor.take("CHAR", "SET") or cursor.take("CHARSET")
        ):
            raise cursor.unclear("CHARACTER SET")
        name = None if cursor.take("DEFAULT") else read_charset_name(cursor)
        collation = read_charset_name(cursor) if cursor.take("COLLATE") else None
        self._others.append(CharacterSetChange(self._table, name, collation))

    def _option(self) -> None:
        cursor = self._cursor
        if verb := cursor.take_any("DISCARD", "IMPORT"):
            cursor.expect("TABLESPACE")
            self._others.append(RowsReplaced(self._table, f"{verb} TABLESPACE"))
        elif cursor.take("COMMENT"):
            cursor.take("=")
            self._others.append(TableComment(self._table, cursor.string()))
            self._after_option = True
        elif cursor.take("ORDER", "BY"):
            self._order_by()
        elif cursor.take_any("ALGORITHM", "LOCK"):
            cursor.take("=")
            cursor.advance()
        elif cursor.take_any("ENABLE", "DISABLE"):
            cursor.expect("KEYS")
        elif cursor.take_any("WITH", "WITHOUT"):
            cursor.expect("VALIDATION")
        elif cursor.take_any("FORCE", "NOWAIT", "SECONDARY_LOAD", "SECONDARY_UNLOAD"):
            pass
        elif read_table_option(cursor):
            self._after_option = True
        else:
            raise cursor.unclear("a clause of ALTER TABLE")
        self._irrelevant.append("sets table options")

    def _order_by(self) -> None:
        cursor = self._cursor
        while True:
            cursor.name("a column")
            cursor.take_any("ASC", "DESC")
            if not (cursor.at(",") and _is_order_item(cursor)):
                return
            cursor.advance()

    def changes(self, *, ignore: bool) -> tuple[Change, ...]:
        """The changes of all clauses in the order in which they apply.

        Args:
            ignore: Whether ALTER IGNORE removed duplicates of a new unique key.
        """
        table = self._table
        changes: list[Change] = []
        if self._dropped:
            changes.append(DropColumns(table, tuple(self._dropped), self._drop_if_exists))
        if self._renames:
            changes.append(RenameColumns(table, tuple(self._renames), self._rename_if_exists))
        changes += self._columns
        if self._key_dropped or self._key_columns is not None:
            changes.append(KeyChange(table, self._key_dropped, self._key_columns))
        if self._foreign_keys or self._dropped_constraints:
            changes.append(
                ForeignKeyChange(table, tuple(self._foreign_keys), tuple(self._dropped_constraints))
            )
        changes += self._others
        if ignore:
            changes.append(RowsReplaced(table, "ALTER IGNORE may have removed rows"))
        if self._new_name is not None:
            changes.append(RenameTables(((table, self._new_name),)))
        if not changes:
            reasons = dict.fromkeys(self._irrelevant or ["changes nothing"])
            changes.append(Irrelevant(" and ".join(reasons), (table,)))
        return tuple(changes)


def _is_order_item(cursor: Cursor) -> bool:
    _, name, after = (cursor.rest + cursor.rest[-1:] * 2)[:3]
    ends = after.type is TokenType.END or after.text in (",", ";")
    is_name = name.type is TokenType.QUOTED_NAME or name.keyword not in ("FORCE", "ADD", "DROP")
    return is_name and (ends or after.keyword in ("ASC", "DESC"))
