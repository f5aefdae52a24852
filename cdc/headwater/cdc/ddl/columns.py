"""Column, key and foreign key definitions: what CREATE TABLE and ALTER TABLE … ADD share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.cdc.ddl.changes import ColumnDefinition, Default, ForeignKey, Position
from headwater.cdc.ddl.tokens import Cursor, TokenType, UnclearSyntaxError, words
from headwater.cdc.model.tables import TableName

_TYPES = words(
    "BIT BOOL BOOLEAN TINYINT SMALLINT MEDIUMINT INT INTEGER BIGINT INT1 INT2 INT3 INT4 INT8 "
    "MIDDLEINT SERIAL DEC DECIMAL NUMERIC FIXED FLOAT FLOAT4 FLOAT8 DOUBLE REAL DATE TIME "
    "DATETIME TIMESTAMP YEAR CHAR CHARACTER NCHAR VARCHAR NVARCHAR VARCHARACTER BINARY "
    "VARBINARY TINYBLOB BLOB MEDIUMBLOB LONGBLOB TINYTEXT TEXT MEDIUMTEXT LONGTEXT LONG ENUM "
    "SET JSON UUID INET4 INET6 VECTOR GEOMETRY POINT LINESTRING POLYGON MULTIPOINT "
    "MULTILINESTRING MULTIPOLYGON GEOMETRYCOLLECTION GEOMCOLLECTION"
)
# Types of more than one word, longest first.
_LONG_TYPES = (
    ("NATIONAL", "CHARACTER", "VARYING"),
    ("NATIONAL", "CHAR", "VARYING"),
    ("NATIONAL", "CHARACTER"),
    ("NATIONAL", "CHAR"),
    ("NATIONAL", "VARCHAR"),
    ("NATIONAL", "VARCHARACTER"),
    ("NCHAR", "VARYING"),
    ("NCHAR", "VARCHAR"),
    ("NCHAR", "VARCHARACTER"),
    ("LONG", "CHARACTER", "VARYING"),
    ("LONG", "CHAR", "VARYING"),
    ("LONG", "VARCHAR"),
    ("LONG", "VARCHARACTER"),
    ("LONG", "VARBINARY"),
    ("CHARACTER", "VARYING"),
    ("CHAR", "VARYING"),
    ("DOUBLE", "PRECISION"),
)
_MODIFIERS = ("UNSIGNED", "SIGNED", "ZEROFILL", "BINARY", "ASCII", "UNICODE", "BYTE")
# Modifiers that are character sets, by their names.
_CHARSETS = {"ASCII": "latin1", "UNICODE": "ucs2"}
_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


@dataclass
class ColumnReader:
    """What is known of a column while its definition is read."""

    name: str
    type: str
    values: dict[str, object] = field(default_factory=dict)
    primary: bool = False
    foreign_key: ForeignKey | None = None

    def definition(self, *, conditional: bool, position: Position | None) -> ColumnDefinition:
        """Build the definition, with what the server implies."""
        values = dict(self.values)
        is_serial = self.type.upper() == "SERIAL"
        if self.primary or is_serial or values.get("auto_increment"):
            values["nullable"] = False
        elif self.type.upper().startswith("TIMESTAMP"):
            values.setdefault("nullable", None)
        values["auto_increment"] = is_serial or bool(values.get("auto_increment"))
        return ColumnDefinition(
            self.name,
            self.type,
            conditional=conditional,
            position=position,
            **values,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """The columns of a primary key."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherKey:
    """An index, a unique key or a check: nothing that rows depend on."""

    unique: bool = False


def read_column(
    cursor: Cursor, *, conditional: bool = False
) -> tuple[ColumnReader, ColumnDefinition]:
    """Read a column definition: name, type, attributes and position."""
    name = cursor.name("a column")
    reader = _read_type(cursor, name)
    while not (cursor.at_any(",", ")", ";", "FIRST", "AFTER") or cursor.at_end()):
        if not _read_attribute(cursor, reader):
            break
    position = read_position(cursor)
    return reader, reader.definition(conditional=conditional, position=position)


def read_position(cursor: Cursor) -> Position | None:
    """Read FIRST or AFTER a column, if stated."""
    if cursor.take("FIRST"):
        return Position()
    if cursor.take("AFTER"):
        return Position(cursor.name("a column"))
    return None


def _read_type(cursor: Cursor, column: str) -> ColumnReader:
    """Read a type with its modifiers."""
    start = cursor.token.start
    for keywords in _LONG_TYPES:
        if cursor.take(*keywords):
            break
    else:
        if cursor.token.keyword not in _TYPES:
            raise cursor.unclear(f"a type of column {column}")
        cursor.advance()
    if cursor.at("("):
        cursor.group()
    values: dict[str, object] = {}
    while modifier := cursor.take_any(*_MODIFIERS):
        if modifier in _CHARSETS:
            values["character_set"] = _CHARSETS[modifier]
    return ColumnReader(column, cursor.text_since(start), values)


def _not_null(cursor: Cursor, reader: ColumnReader) -> None:
    cursor.expect("NULL")
    reader.values["nullable"] = False


def _null(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["nullable"] = True


def _default(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["default"] = read_default(cursor)


def _on_update(cursor: Cursor, reader: ColumnReader) -> None:
    start = cursor.token.start
    if not cursor.take_any(*_NOW):
        raise cursor.unclear("CURRENT_TIMESTAMP")
    if cursor.at("("):
        cursor.group()
    reader.values["on_update"] = cursor.text_since(start)


def _comment(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["comment"] = cursor.string()


def _character_set(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["character_set"] = read_charset_name(cursor)


def _collation(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["collation"] = read_charset_name(cursor)


def _auto_increment(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["auto_increment"] = True


def _primary(cursor: Cursor, reader: ColumnReader) -> None:
    reader.primary = True


def _unique(cursor: Cursor, reader: ColumnReader) -> None:
    cursor.take("KEY")


def _serial(cursor: Cursor, reader: ColumnReader) -> None:
    cursor.expect("DEFAULT", "VALUE")
    reader.values.update(nullable=False, auto_increment=True)


def _generated(cursor: Cursor, reader: ColumnReader) -> None:
    if cursor.at("ROW"):
        raise UnclearSyntaxError("the table is system-versioned, which is not supported")
    reader.values["generated"] = cursor.group()
    stored = cursor.take_any("STORED", "PERSISTENT", "VIRTUAL")
    reader.values["stored"] = stored in ("STORED", "PERSISTENT")


def _references(cursor: Cursor, reader: ColumnReader) -> None:
    reader.foreign_key = read_references(cursor, (reader.name,), None)


def _check(cursor: Cursor, reader: ColumnReader) -> None:
    read_check(cursor)


def _constraint(cursor: Cursor, reader: ColumnReader) -> None:
    if not cursor.at("CHECK"):
        cursor.name("a constraint")
    cursor.expect("CHECK")
    read_check(cursor)


def _visibility(cursor: Cursor, reader: ColumnReader) -> None:
    reader.values["invisible"] = True


def _nothing(cursor: Cursor, reader: ColumnReader) -> None:
    pass


def _word(cursor: Cursor, reader: ColumnReader) -> None:
    cursor.take("=")
    cursor.advance()


def _compressed(cursor: Cursor, reader: ColumnReader) -> None:
    if cursor.take("="):
        cursor.name("a method of compression")


_ATTRIBUTES: Mapping[tuple[str, ...], Callable[[Cursor, ColumnReader], None]] = {
    ("NOT", "SECONDARY"): _nothing,
    ("NOT",): _not_null,
    ("NULL",): _null,
    ("DEFAULT",): _default,
    ("ON", "UPDATE"): _on_update,
    ("COMMENT",): _comment,
    ("CHARACTER", "SET"): _character_set,
    ("CHAR", "SET"): _character_set,
    ("CHARSET",): _character_set,
    ("COLLATE",): _collation,
    ("AUTO_INCREMENT",): _auto_increment,
    ("PRIMARY", "KEY"): _primary,
    ("KEY",): _primary,
    ("UNIQUE",): _unique,
    ("SERIAL",): _serial,
    ("GENERATED", "ALWAYS", "AS"): _generated,
    ("AS",): _generated,
    ("REFERENCES",): _references,
    ("CONSTRAINT",): _constraint,
    ("CHECK",): _check,
    ("INVISIBLE",): _visibility,
    ("VISIBLE",): _nothing,
    ("COLUMN_FORMAT",): _word,
    ("STORAGE",): _word,
    ("ENGINE_ATTRIBUTE",): _word,
    ("SECONDARY_ENGINE_ATTRIBUTE",): _word,
    ("SRID",): _word,
    ("REF_SYSTEM_ID",): _word,
    ("COMPRESSED",): _compressed,
    ("BINARY",): _nothing,
}


def _read_attribute(cursor: Cursor, reader: ColumnReader) -> bool:
    for keywords, read in _ATTRIBUTES.items():
        if cursor.take(*keywords):
            read(cursor, reader)
            return True
    return False


def read_charset_name(cursor: Cursor) -> str:
    """Read a character set or a collation, which may be a string."""
    cursor.take("=")
    if cursor.token.type is TokenType.STRING:
        return cursor.string()
    if cursor.take("BINARY"):
        return "binary"
    return cursor.name("a character set")


def read_default(cursor: Cursor) -> Default:
    """Read what follows DEFAULT: a constant, a function or an expression in parentheses."""
    start = cursor.token.start
    if cursor.at("("):
        cursor.group()
        return Default(cursor.text_since(start))
    sign = cursor.take_any("-", "+")
    token = cursor.token
    if token.type is TokenType.NUMBER:
        cursor.advance()
        return Default(cursor.text_since(start), ("-" if sign == "-" else "") + token.text)
    if sign:
        raise cursor.unclear("a number")
    if token.type is TokenType.STRING:
        return _string_default(cursor, start)
    if token.type is TokenType.BITS:
        cursor.advance()
        return Default(cursor.text_since(start))
    if token.type is not TokenType.WORD:
        raise cursor.unclear("a default")
    return _word_default(cursor, start)


def _string_default(cursor: Cursor, start: int) -> Default:
    literal = cursor.string()
    return Default(cursor.text_since(start), literal)


def _word_default(cursor: Cursor, start: int) -> Default:
    if cursor.take("NEXT", "VALUE", "FOR"):
        cursor.table()
        return Default(cursor.text_since(start))
    word = cursor.advance().text
    token = cursor.token
    introduces = word.startswith("_") or word.upper() in ("DATE", "TIME", "TIMESTAMP")
    if introduces and token.type is TokenType.STRING:
        return _string_default(cursor, start)
    if introduces and token.type is TokenType.BITS:
        cursor.advance()
    elif cursor.at("("):
        cursor.group()
    elif word.upper() not in (
        "NULL",
        "TRUE",
        "FALSE",
        *_NOW,
        "CURRENT_DATE",
        "CURRENT_TIME",
        "UUID",
    ):
        raise UnclearSyntaxError(
            f"default {word!r} at offset {start} is not a constant or function"
        )
    return Default(cursor.text_since(start))


def read_check(cursor: Cursor) -> None:
    """Read what follows CHECK."""
    cursor.group()
    if cursor.take("NOT"):
        cursor.expect("ENFORCED")
    else:
        cursor.take("ENFORCED")


def read_references(cursor: Cursor, columns: tuple[str, ...], name: str | None) -> ForeignKey:
    """Read what follows REFERENCES."""
    references: TableName = cursor.table()
    referenced = read_key_columns(cursor) if cursor.at("(") else ()
    actions: dict[str, str] = {}
    while True:
        if cursor.take("MATCH"):
            cursor.advance()
        elif event := cursor.take_any("ON"):
            event = cursor.take_any("DELETE", "UPDATE")
            if not event:
                raise cursor.unclear("DELETE or UPDATE")
            actions[f"on_{event.lower()}"] = _read_action(cursor)
        else:
            return ForeignKey(columns, references, referenced, name, **actions)


def _read_action(cursor: Cursor) -> str:
    for keywords in (
        ("SET", "NULL"),
        ("SET", "DEFAULT"),
        ("NO", "ACTION"),
        ("CASCADE",),
        ("RESTRICT",),
    ):
        if cursor.take(*keywords):
            return " ".join(keywords)
    raise cursor.unclear("CASCADE, RESTRICT, SET NULL, SET DEFAULT or NO ACTION")


def read_key_columns(cursor: Cursor) -> tuple[str, ...]:
    """Read a key's columns in parentheses, without their lengths and orders."""
    cursor.expect("(")
    columns = []
    while True:
        columns.append(cursor.name("a column"))
        if cursor.at("("):
            cursor.group()
        cursor.take_any("ASC", "DESC")
        if not cursor.take(","):
            break
    if cursor.at("WITHOUT"):
        raise UnclearSyntaxError("a key over a period is not supported")
    cursor.expect(")")
    return tuple(columns)


def read_key(cursor: Cursor) -> PrimaryKey | ForeignKey | OtherKey | None:
    """Read a key, a constraint or a check; None if a column definition comes next."""
    name = None
    constrained = cursor.take("CONSTRAINT")
    if constrained and not cursor.at_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        name = cursor.name("a constraint")
    if cursor.take("PRIMARY", "KEY"):
        return _read_primary_key(cursor)
    if cursor.take("FOREIGN", "KEY"):
        return _read_foreign_key(cursor, name)
    if cursor.take("CHECK"):
        read_check(cursor)
        return OtherKey()
    unique = cursor.take("UNIQUE")
    if not unique and constrained:
        raise cursor.unclear("a key")
    is_index = unique or cursor.take_any("FULLTEXT", "SPATIAL", "INDEX", "KEY")
    if is_index or cursor.at("VECTOR", "INDEX") or cursor.at("VECTOR", "KEY"):
        _skip_index(cursor)
        return OtherKey(unique=unique)
    return None


def _read_primary_key(cursor: Cursor) -> PrimaryKey:
    if cursor.at_name() and not cursor.at("USING"):
        cursor.name()
    if cursor.take("USING"):
        cursor.advance()
    columns = read_key_columns(cursor)
    cursor.skip_until(",", ")", "PARTITION", "REMOVE")
    return PrimaryKey(columns)


def _read_foreign_key(cursor: Cursor, name: str | None) -> ForeignKey:
    cursor.take("IF", "NOT", "EXISTS")
    if not cursor.at("("):
        index = cursor.name("a key")
        name = name or index
    columns = read_key_columns(cursor)
    cursor.expect("REFERENCES")
    return read_references(cursor, columns, name)


def _skip_index(cursor: Cursor) -> None:
    cursor.skip_until("(")
    cursor.group()
    cursor.skip_until(",", ")", "PARTITION", "REMOVE")


def read_elements(
    cursor: Cursor, *, conditional: bool = False
) -> tuple[list[tuple[ColumnReader, ColumnDefinition]], list[PrimaryKey | ForeignKey | OtherKey]]:
    """Read columns and keys in parentheses, as CREATE TABLE and ADD (…) have them."""
    cursor.expect("(")
    columns = []
    keys = []
    while True:
        if cursor.at("PERIOD", "FOR"):
            raise UnclearSyntaxError("a table with a period is not supported")
        key = read_key(cursor)
        if key is None:
            columns.append(read_column(cursor, conditional=conditional))
        else:
            keys.append(key)
        if not cursor.take(","):
            break
    cursor.expect(")")
    return columns, keys


def column_keys(readers: list[ColumnReader]) -> list[PrimaryKey | ForeignKey | OtherKey]:
    """The keys that column definitions state themselves."""
    keys: list[PrimaryKey | ForeignKey | OtherKey] = []
    for reader in readers:
        if reader.primary:
            keys.append(PrimaryKey((reader.name,)))
        if reader.foreign_key is not None:
            keys.append(reader.foreign_key)
    return keys
