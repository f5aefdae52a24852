"""What a statement makes of a table: its columns, its key, and whether its rows are read again.

The statement states neither the table's character set nor what a column was before. Where its text
columns all have one collation, types are sized as if it were the table's; a TABLE_MAP shows if it
is not. A column's own collation is known only where it is stated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.cdc.ddl import (
    AddColumns,
    Change,
    ChangeColumn,
    ChangeDefault,
    CharacterSetChange,
    ColumnDefinition,
    DropColumns,
    ForeignKeyChange,
    Irrelevant,
    KeyChange,
    NotUnderstood,
    PartitionChange,
    Position,
    RenameColumns,
    RowsReplaced,
    Syntax,
    TableComment,
    Truncate,
)
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.mysql.charsets import charset_of
from headwater.cdc.mysql.column_types import TypeMapping, lake_type, parse_source_type
from headwater.cdc.mysql.redefined_columns import converted_type, reread_reason
from headwater.cdc.mysql.type_synonyms import column_type, is_text
from headwater.cdc.source.table_changes import TableChanges
from headwater.storage.errors import Unsupported

__all__ = ["apply_change", "apply_changes"]

_SYNTAX = Syntax()
_REMEDY = "read the table's columns from the source"


@dataclass(frozen=True)
class _Session:
    """What the log tells of the session that ran a statement."""

    mapping: Collection[TypeMapping]
    syntax: Syntax
    explicit_timestamps: bool | None
    strict: bool


def apply_change(
    change: Change,
    table: SourceTable,
    *,
    mapping: Collection[TypeMapping] = (),
    syntax: Syntax = _SYNTAX,
    explicit_timestamps: bool | None = None,
    strict: bool = False,
) -> TableChanges:
    """A table after a statement with one change; see `apply_changes`."""
    return apply_changes(
        (change,),
        table,
        mapping=mapping,
        syntax=syntax,
        explicit_timestamps=explicit_timestamps,
        strict=strict,
    )


def apply_changes(
    changes: Sequence[Change],
    table: SourceTable,
    *,
    mapping: Collection[TypeMapping] = (),
    syntax: Syntax = _SYNTAX,
    explicit_timestamps: bool | None = None,
    strict: bool = False,
) -> TableChanges:
    """A table after a statement.

    All changes of the statement are needed: IF NOT EXISTS is about the columns before it, and a key
    that the statement drops no longer forbids nulls. Defaults are set in the source's notation as
    far as it is known; expressions stay as they were written.

    Args:
        changes: The changes that `headwater.cdc.ddl.interpret` found. Those of other tables are
            left out.
        table: The table before the statement.
        mapping: Choices of types in the lake.
        syntax: How the session writes statements; it also decides between MySQL and MariaDB.
        explicit_timestamps: Whether ``explicit_defaults_for_timestamp`` is on; None if unknown.
        strict: Whether the session's ``sql_mode`` rejects nulls in a column that becomes NOT NULL,
            and text that a character set lacks.

    Raises:
        Unsupported: A change is not understood, or does not fit the table.
    """
    session = _Session(mapping, syntax, explicit_timestamps, strict)
    draft = _Draft(table, changes, session)
    name = table.name
    for change in changes:
        if change.concerns(name):
            draft.apply(change, name)
    return draft.result()


class _Draft:
    """A table while the changes of a statement are applied."""

    def __init__(self, table: SourceTable, changes: Sequence[Change], session: _Session) -> None:
        self._before = table
        self._session = session
        self._columns = list(table.columns)
        self._key = list(table.primary_key)
        self._comment = table.comment
        self._dropped: set[str] = set()
        # The present name of each column that was there before, by its name then.
        self._names = {column.name: column.name for column in table.columns}
        self._reasons: list[str] = []
        self._unknown: str | None = None
        keys = [change for change in changes if isinstance(change, KeyChange)]
        self._key_stays = not any(change.dropped for change in keys)

    def apply(self, change: Change, name: TableName) -> None:
        match change:
            case AddColumns():
                self._add(change)
            case DropColumns(columns=columns, if_exists=if_exists):
                for column in columns:
                    self._drop(column, if_exists)
            case RenameColumns(renames=renames, if_exists=if_exists):
                self._rename(renames, if_exists)
            case ChangeColumn():
                self._change(change)
            case ChangeDefault():
                self._change_default(change)
            case KeyChange():
                self._change_key(change)
            case CharacterSetChange():
                self._convert(change)
            case TableComment(comment=comment):
                self._comment = comment
            case PartitionChange() | RowsReplaced() | Truncate():
                self._replace_rows(change, name)
            case ForeignKeyChange() | Irrelevant():
                pass
            case NotUnderstood(reason=reason):
                raise self._unsupported(reason)
            case _:
                raise self._unsupported(f"{type(change).__name__} is not a change of its columns")

    def result(self) -> TableChanges:
        """The table, and what else follows."""
        table = replace(
            self._before,
            columns=tuple(self._columns),
            primary_key=tuple(self._key),
            comment=self._comment,
        )
        renames = tuple((old, new) for old, new in self._names.items() if old != new)
        key_before = tuple(self._names.get(column) for column in self._before.primary_key)
        reasons = "; ".join(dict.fromkeys(self._reasons))
        key_changed = key_before != table.primary_key
        return TableChanges(table, renames, reasons or None, key_changed, self._unknown)

    def _unsupported(self, problem: str) -> Unsupported:
        return Unsupported(
            f"cannot follow a statement about table {self._before.name}: {problem}; {_REMEDY}"
        )

    def _find(self, name: str, columns: Sequence[SourceColumn] | None = None) -> int | None:
        columns = self._columns if columns is None else columns
        wanted = name.lower()
        return next((at for at, item in enumerate(columns) if item.name.lower() == wanted), None)

    def _index(self, name: str) -> int:
        at = self._find(name)
        if at is None:
            raise self._unsupported(f"column '{name}' is not known")
        return at

    def _update(self, at: int, **values: Any) -> SourceColumn:
        self._columns[at] = replace(self._columns[at], **values)
        return self._columns[at]

    def _add(self, change: AddColumns) -> None:
        for definition in change.columns:
            # IF NOT EXISTS is about the columns before the statement, and those added before.
            is_there = self._find(definition.name, self._before.columns) is not None
            if definition.conditional and (is_there or self._find(definition.name) is not None):
                continue
            if self._find(definition.name) is not None:
                raise self._unsupported(f"column '{definition.name}' exists already")
            definition = self._with_nullability(definition)
            self._place(self._column(definition, None), definition.position)
            if definition.fills_rows:
                self._reasons.append(f"column '{definition.name}' was added with values")
            if definition.name.lower() in self._dropped:
                self._reasons.append(f"column '{definition.name}' was dropped and added again")

    def _place(self, column: SourceColumn, position: Position | None) -> None:
        if position is None:
            self._columns.append(column)
        elif position.after is None:
            self._columns.insert(0, column)
        else:
            self._columns.insert(self._index(position.after) + 1, column)

    def _drop(self, name: str, if_exists: bool) -> None:
        at = self._find(name)
        if at is None and if_exists:
            return
        dropped = self._columns.pop(self._index(name))
        self._dropped.add(dropped.name.lower())
        self._names.pop(dropped.name, None)
        self._key = [column for column in self._key if column != dropped.name]

    def _rename(self, pairs: Iterable[tuple[str, str]], if_exists: bool) -> None:
        moves: dict[int, str] = {}
        for old, new in pairs:
            at = self._find(old)
            if at is not None:
                moves[at] = new
            elif not if_exists:
                raise self._unsupported(f"column '{old}' is not known")
        renames = {self._columns[at].name: new for at, new in moves.items()}
        for at, new in moves.items():
            self._update(at, name=new)
        self._follow(renames)

    def _follow(self, renames: Mapping[str, str]) -> None:
        self._key = [renames.get(column, column) for column in self._key]
        self._names = {old: renames.get(now, now) for old, now in self._names.items()}

    def _change(self, change: ChangeColumn) -> None:
        definition = change.definition
        # IF EXISTS is about the columns before the statement.
        former = self._find(change.former or definition.name, self._before.columns)
        if definition.conditional and former is None:
            return
        at = self._index(definition.name)
        old = self._columns[at]
        if self._key_stays:
            definition = definition.in_key(tuple(self._key))
        definition = self._with_nullability(definition)
        new = self._column(definition, old)
        was_nullable = old.type.nullable or TypeMapping.TO_NULLABLE in self._session.mapping
        reason = reread_reason(old, new, definition, strict=self._session.strict)
        if reason is not None:
            self._reasons.append(f"column '{new.name}' {reason}")
            is_stated = definition.character_set is not None or new.collation is not None
            if parse_source_type(new.source_type).name in ("enum", "set") and not is_stated:
                # Its type has the names as the table's default character set has them.
                self._unknown = self._reasons[-1]
        elif definition.nullable is False and was_nullable and not self._session.strict:
            is_key = new.name.lower() in (column.lower() for column in self._key)
            if not is_key:
                self._reasons.append(f"column '{new.name}' may have had nulls")
        if self._may_compute_otherwise(old, new):
            self._reasons.append(f"columns that are generated may use column '{new.name}'")
        if definition.position is None:
            self._columns[at] = new
        else:
            del self._columns[at]
            self._place(new, definition.position)
        # MODIFY writes the name as the statement does.
        self._follow({old.name: new.name})

    def _may_compute_otherwise(self, old: SourceColumn, new: SourceColumn) -> bool:
        """Whether generated columns that use a redefined column may have other values."""
        if not any(column.is_generated for column in self._before.columns):
            return False
        is_collated = is_text(parse_source_type(new.source_type).name)
        is_same = (old.source_type, old.collation) == (new.source_type, new.collation)
        return not is_same or (is_collated and new.collation is None)

    def _with_nullability(self, definition: ColumnDefinition) -> ColumnDefinition:
        if definition.nullable is not None:
            return definition
        if self._session.explicit_timestamps is None:
            raise self._unsupported(
                f"whether column '{definition.name}' is NOT NULL depends on "
                "explicit_defaults_for_timestamp, which is not known"
            )
        return replace(definition, nullable=self._session.explicit_timestamps)

    def _column(self, definition: ColumnDefinition, old: SourceColumn | None) -> SourceColumn:
        """A column as a definition has it."""
        charset = definition.character_set or charset_of(definition.collation)
        charset = charset or self._likely_charset()
        text = column_type(
            definition.type,
            syntax=self._session.syntax,
            charset=None if charset is None else charset.lower(),
        )
        source = parse_source_type(text)
        collation = None
        if definition.type.upper() == "JSON":
            collation = "utf8mb4_bin" if self._session.syntax.mariadb else None
        elif is_text(source.name):
            collation = _full_name(definition.collation)
        return SourceColumn(
            name=definition.name,
            source_type=text,
            type=lake_type(
                source, nullable=definition.nullable is not False, mapping=self._session.mapping
            ),
            default=self._default(definition),
            comment=definition.comment or "",
            is_generated=definition.generated is not None,
            collation=collation,
        )

    def _likely_charset(self) -> str | None:
        """The character set of a text column that does not state one, as far as others show it."""
        collations = {
            column.collation
            for column in self._before.columns
            # JSON of MariaDB has its own.
            if column.collation and (column.source_type, column.collation[-4:]) != _MARIADB_JSON
        }
        return charset_of(collations.pop()) if len(collations) == 1 else None

    def _default(self, definition: ColumnDefinition) -> str | None:
        is_mariadb = self._session.syntax.mariadb
        default = definition.default
        if definition.generated is not None:
            return None
        if default is None or default.is_null:
            return "NULL" if is_mariadb and definition.nullable is not False else None
        if default.literal is None:
            return default.sql
        is_number = default.sql.lstrip("+-")[:1].isdigit()
        if is_number or not is_mariadb:
            return default.literal
        return "'" + default.literal.replace("'", "''") + "'"

    def _change_default(self, change: ChangeDefault) -> None:
        at = self._find(change.column)
        if at is None and change.if_exists:
            return
        at = self._index(change.column)
        default = self._default(ColumnDefinition(change.column, "INT", default=change.default))
        self._update(at, default=default)

    def _change_key(self, change: KeyChange) -> None:
        if not change.dropped and self._key:
            # A table has one key: the column with it was there, and IF NOT EXISTS left it so.
            return
        self._key = []
        for name in change.columns or ():
            at = self._index(name)
            column = self._columns[at]
            self._key.append(column.name)
            if column.type.nullable and TypeMapping.TO_NULLABLE not in self._session.mapping:
                self._update(at, type=replace(column.type, nullable=False))
                self._reasons.append(f"column '{column.name}' of the key may have had nulls")

    def _convert(self, change: CharacterSetChange) -> None:
        charset = change.character_set or charset_of(change.collation)
        for at, column in enumerate(self._columns):
            source = parse_source_type(column.source_type)
            if not is_text(source.name):
                continue
            text = converted_type(column, source, charset)
            collation = _full_name(change.collation) if charset != "binary" else None
            mapping = self._session.mapping
            type_ = lake_type(
                parse_source_type(text), nullable=column.type.nullable, mapping=mapping
            )
            is_certain = charset is not None and column.collation is not None
            if not is_certain and TypeMapping.LONGTEXT_TO_BYTES in mapping:
                raise self._unsupported(
                    f"whether column '{column.name}' becomes a LONGTEXT depends on its character "
                    "set, which is not known"
                )
            self._update(at, source_type=text, type=type_, collation=collation)
        self._reasons.append("its text was converted to another character set")

    def _replace_rows(self, change: Change, name: TableName) -> None:
        if isinstance(change, Truncate):
            self._reasons.append("TRUNCATE removed its rows")
        elif name in change.tables_to_reread:
            what = change.operation if isinstance(change, PartitionChange) else ""
            what = what or (change.reason if isinstance(change, RowsReplaced) else "a statement")
            self._reasons.append(f"{what} replaced rows without events")


def _full_name(collation: str | None) -> str | None:
    """A collation as the information schema has it; None if its character set is not stated."""
    return None if collation is None or charset_of(collation) is None else collation.lower()


_MARIADB_JSON = ("longtext", "_bin")
