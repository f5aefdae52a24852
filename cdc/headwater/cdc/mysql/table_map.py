"""TABLE_MAP events: the shape of the rows that follow, with ``binlog_row_metadata=FULL``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from headwater.cdc.mysql.charsets import BINARY_COLLATION, charset_of_collation
from headwater.cdc.mysql.events import Event, read_packed_integer
from headwater.storage.errors import CorruptData, Unsupported


class ColumnType(IntEnum):
    """The types of columns in the log (``enum_field_types``)."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    MARIADB_BLOB_COMPRESSED = 140
    MARIADB_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_T = ColumnType
_NUMERIC = frozenset(
    {_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.NEWDECIMAL, _T.FLOAT, _T.DOUBLE, _T.YEAR}
)
_CHARACTER = frozenset(
    {_T.STRING, _T.VAR_STRING, _T.VARCHAR, _T.BLOB, _T.VECTOR}
    | {_T.MARIADB_VARCHAR_COMPRESSED, _T.MARIADB_BLOB_COMPRESSED}
)
_TWO_BYTES_OF_LENGTH = frozenset({_T.VARCHAR, _T.VAR_STRING, _T.MARIADB_VARCHAR_COMPRESSED})
_NO_METADATA = frozenset({_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.DATE, _T.YEAR})
_ONE_BYTE = frozenset(
    {_T.FLOAT, _T.DOUBLE, _T.BLOB, _T.GEOMETRY, _T.JSON, _T.VECTOR}
    | {_T.TIMESTAMP2, _T.DATETIME2, _T.TIME2, _T.MARIADB_BLOB_COMPRESSED}
)


class Metadata(IntEnum):
    """The fields of optional metadata."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column as the log has it.

    Args:
        name: The column's name.
        type: Its type; ENUM and SET are told from STRING.
        nullable: Whether it takes null.
        length: The most bytes of CHAR, BINARY and VARCHAR; the bytes of a length of BLOB, JSON and
            GEOMETRY, of a value of ENUM, SET, FLOAT and DOUBLE; the bits of BIT; the digits of a
            second of TIME, DATETIME and TIMESTAMP.
        precision: The digits of a DECIMAL.
        scale: The digits of a DECIMAL after the point.
        unsigned: Whether a number is unsigned.
        collation: The collation id of text, ENUM and SET; 63 of bytes; None of other types.
        values: The values of an ENUM or SET.
        geometry_type: The kind of GEOMETRY, as MySQL numbers them; 0 is any.
        visible: Whether ``SELECT *`` returns it.
    """

    name: str
    type: ColumnType
    nullable: bool
    length: int = 0
    precision: int = 0
    scale: int = 0
    unsigned: bool = False
    collation: int | None = None
    values: tuple[str, ...] = ()
    geometry_type: int = 0
    visible: bool = True

    @property
    def is_binary(self) -> bool:
        """Whether a string holds bytes rather than text."""
        return self.collation == BINARY_COLLATION


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as the log has it. Rows of equal shapes are decoded together.

    Args:
        database: The database's name.
        table: The table's name.
        columns: All columns, in the order of the table.
        primary_key: The indexes of the primary key's columns, in the order of the key; empty
            without one.
        primary_key_prefixes: How many characters of each of these columns the key has; 0 is all.
    """

    database: str
    table: str
    columns: tuple[ColumnShape, ...]
    primary_key: tuple[int, ...] = ()
    primary_key_prefixes: tuple[int, ...] = ()

    @property
    def qualified_name(self) -> str:
        """The table's name with its database."""
        return f"{self.database}.{self.table}"


class TableMap(NamedTuple):
    """The number that rows events have instead of a table, until the next TABLE_MAP with it."""

    table_id: int
    shape: TableShape


def parse_table_map(event: Event) -> TableMap:
    """Parse a TABLE_MAP event. The shape of equal events is parsed once.

    Raises:
        CorruptData: The event ends too early.
        Unsupported: The log does not have the columns' names, or has a type that is not supported.
    """
    return _parse(event.body.tobytes())


@lru_cache(maxsize=4096)
def _parse(body: bytes) -> TableMap:
    return TableMap(int.from_bytes(body[:6], "little"), _parse_shape(body[8:]))


@lru_cache(maxsize=4096)
def _parse_shape(body: bytes) -> TableShape:
    try:
        return _ShapeParser(body).parse()
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptData(
            f"cannot read a TABLE_MAP event of {len(body)} bytes: {error}; read the log again from "
            "its source"
        ) from error


class _ShapeParser:
    """Reads the body of one TABLE_MAP event, without its table id and flags."""

    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)
        self._offset = 0
        self._table = ""

    def parse(self) -> TableShape:
        database, table = self._name(), self._name()
        self._table = f"{database}.{table}"
        types = bytes(self._take(self._integer()))
        metadata = self._take(self._integer())
        nullable = self._take((len(types) + 7) // 8)
        columns = list(self._columns(types, metadata, nullable))
        fields = self._optional_metadata()
        if Metadata.COLUMN_NAME not in fields and columns:
            raise Unsupported(
                f"cannot read rows of {self._table}: the log does not have the names of its "
                "columns; set binlog_row_metadata=FULL at the source"
            )
        columns = self._with_metadata(columns, fields)
        key, prefixes = _primary_key(fields)
        return TableShape(database, table, tuple(columns), key, prefixes)

    def _take(self, size: int) -> memoryview:
        start, self._offset = self._offset, self._offset + size
        if self._offset > len(self._body):
            raise IndexError(f"{size} bytes at {start} are expected")
        return self._body[start : self._offset]

    def _integer(self) -> int:
        value, self._offset = read_packed_integer(self._body, self._offset)
        return value

    def _name(self) -> str:
        """A string with its length before it and a NUL after it."""
        name = bytes(self._take(self._take(1)[0])).decode()
        self._take(1)
        return name

    def _columns(
        self, types: bytes, metadata: memoryview, nullable: memoryview
    ) -> Iterator[ColumnShape]:
        offset = 0
        for index, code in enumerate(types):
            column, size = self._column(index, code, metadata[offset:])
            offset += size
            yield replace(column, nullable=bool(nullable[index // 8] >> index % 8 & 1))
        if offset != len(metadata):
            raise IndexError(f"expected {offset} bytes of types, got {len(metadata)}")

    def _column(self, index: int, code: int, metadata: memoryview) -> tuple[ColumnShape, int]:
        """A column without its name, and how many bytes of metadata it takes."""
        column = ColumnShape("", ColumnType.NULL, True)
        type_ = ColumnType(code) if code in ColumnType._value2member_map_ else None
        if type_ in _NO_METADATA:
            return replace(column, type=type_), 0
        if type_ in _ONE_BYTE:
            return replace(column, type=type_, length=metadata[0]), 1
        if type_ in _TWO_BYTES_OF_LENGTH:
            return replace(column, type=type_, length=metadata[0] | metadata[1] << 8), 2
        if type_ is ColumnType.NEWDECIMAL:
            return replace(column, type=type_, precision=metadata[0], scale=metadata[1]), 2
        if type_ is ColumnType.BIT:
            return replace(column, type=type_, length=metadata[0] + 8 * metadata[1]), 2
        if type_ is ColumnType.STRING:
            kind, length = _string_type(metadata[0], metadata[1])
            return replace(column, type=kind, length=length), 2
        raise Unsupported(
            f"cannot read rows of {self._table}: column {index + 1} has the type "
            f"{code if type_ is None else type_.name}, which is not supported; exclude the table, "
            f"or convert the column at the source{_ADVICE.get(code, '')}"
        )

    def _optional_metadata(self) -> dict[int, memoryview]:
        fields = {}
        while self._offset < len(self._body):
            field = self._take(1)[0]
            if field not in Metadata._value2member_map_:
                raise Unsupported(
                    f"cannot read rows of {self._table}: the log has metadata of the unknown kind "
                    f"{field}; update Headwater"
                )
            fields[field] = self._take(self._integer())
        return fields

    def _with_metadata(
        self, columns: list[ColumnShape], fields: dict[int, memoryview]
    ) -> list[ColumnShape]:
        names = list(_strings(fields.get(Metadata.COLUMN_NAME, memoryview(b""))))
        if len(names) != len(columns):
            raise IndexError(f"{len(columns)} columns have {len(names)} names")
        collations = _collations(columns, fields)
        enums, sets = (
            list(_string_lists(fields.get(field, memoryview(b""))))
            for field in (Metadata.ENUM_STR_VALUE, Metadata.SET_STR_VALUE)
        )
        geometries = list(_integers(fields.get(Metadata.GEOMETRY_TYPE, memoryview(b""))))
        signs = fields.get(Metadata.SIGNEDNESS)
        visible = fields.get(Metadata.COLUMN_VISIBILITY)
        result = []
        numbers = 0
        for index, column in enumerate(columns):
            column = replace(column, name=names[index].decode(), collation=collations.get(index))
            if column.type in _NUMERIC and signs is not None:
                column = replace(column, unsigned=_high_bit(signs, numbers))
                numbers += 1
            if column.type in (ColumnType.ENUM, ColumnType.SET):
                values = (enums if column.type is ColumnType.ENUM else sets).pop(0)
                charset = charset_of_collation(_text_collation(column.collation))
                column = replace(column, values=tuple(charset.decode(value) for value in values))
            if column.type is ColumnType.GEOMETRY:
                column = replace(column, geometry_type=geometries.pop(0))
            if visible is not None:
                column = replace(column, visible=_high_bit(visible, index))
            result.append(column)
        return result


_UTF8_COLLATION = 45
_OLD_TIME = "; ALTER TABLE … FORCE rewrites columns of an old server in the present format"
_ADVICE: Mapping[int, str] = {
    ColumnType.TIMESTAMP: _OLD_TIME,
    ColumnType.DATETIME: _OLD_TIME,
    ColumnType.TIME: _OLD_TIME,
}


def _text_collation(collation: int | None) -> int | None:
    """The collation of the values of ENUM and SET, which are text in the lake.

    The server returns those of the character set ``binary`` as they are, and the lake's are UTF-8.
    """
    return _UTF8_COLLATION if collation == BINARY_COLLATION else collation


def _string_type(first: int, second: int) -> tuple[ColumnType, int]:
    """ENUM, SET or STRING, whose length has two of its bits in the type's byte."""
    if first & 0x30 != 0x30:
        return ColumnType.STRING, second | ((first & 0x30) ^ 0x30) << 4
    type_ = ColumnType(first) if first in (ColumnType.ENUM, ColumnType.SET) else ColumnType.STRING
    return type_, second


def _high_bit(bitmap: memoryview, index: int) -> bool:
    """A bit of a bitmap whose highest bit of a byte is the first."""
    return bool(bitmap[index // 8] & 0x80 >> index % 8)


def _integers(data: memoryview) -> Iterator[int]:
    offset = 0
    while offset < len(data):
        value, offset = read_packed_integer(data, offset)
        yield value


def _strings(data: memoryview) -> Iterator[bytes]:
    offset = 0
    while offset < len(data):
        size, offset = read_packed_integer(data, offset)
        yield bytes(data[offset : offset + size])
        offset += size


def _string_lists(data: memoryview) -> Iterator[list[bytes]]:
    offset = 0
    while offset < len(data):
        count, offset = read_packed_integer(data, offset)
        values = []
        for _ in range(count):
            size, offset = read_packed_integer(data, offset)
            values.append(bytes(data[offset : offset + size]))
            offset += size
        yield values


def _collations(columns: Sequence[ColumnShape], fields: dict[int, memoryview]) -> dict[int, int]:
    """The collation id of each column that has one."""
    collations: dict[int, int] = {}
    # MariaDB counts GEOMETRY among the columns with text; MySQL alone writes the visibility.
    is_mysql = Metadata.COLUMN_VISIBILITY in fields
    character = _CHARACTER if is_mysql else _CHARACTER | {ColumnType.GEOMETRY}
    for types, default_field, field in (
        (character, Metadata.DEFAULT_CHARSET, Metadata.COLUMN_CHARSET),
        (
            frozenset({ColumnType.ENUM, ColumnType.SET}),
            Metadata.ENUM_AND_SET_DEFAULT_CHARSET,
            Metadata.ENUM_AND_SET_COLUMN_CHARSET,
        ),
    ):
        indexes = [index for index, column in enumerate(columns) if column.type in types]
        if default_field in fields:
            default, *others = _integers(fields[default_field])
            ids = dict(zip(others[::2], others[1::2], strict=False))
            collations |= {
                column: ids.get(position, default) for position, column in enumerate(indexes)
            }
        elif field in fields:
            ids_in_order = list(_integers(fields[field]))
            if len(ids_in_order) != len(indexes):
                raise IndexError(f"{len(indexes)} columns have {len(ids_in_order)} collations")
            collations |= zip(indexes, ids_in_order, strict=True)
    return collations


def _primary_key(fields: dict[int, memoryview]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if Metadata.PRIMARY_KEY_WITH_PREFIX in fields:
        pairs = list(_integers(fields[Metadata.PRIMARY_KEY_WITH_PREFIX]))
        return tuple(pairs[::2]), tuple(pairs[1::2])
    key = tuple(_integers(fields.get(Metadata.SIMPLE_PRIMARY_KEY, memoryview(b""))))
    return key, (0,) * len(key)
