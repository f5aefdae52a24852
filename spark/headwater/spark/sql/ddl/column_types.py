"""Types as Spark's SQL writes them, read and written.

Beyond Spark, TIMESTAMP_NTZ, TIMESTAMP_LTZ, BINARY and VARBINARY take a parameter, MULTISET, VECTOR
and BLOB are types, and NOT NULL may follow a type within ARRAY and MAP: so every type of a table
has a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from headwater.spark.char_types import AS_TEXT
from headwater.spark.names import quoted
from headwater.spark.session import is_set
from headwater.spark.sql.names import quoted_identifier, string_literal
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root, vector_type
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)

__all__ = [
    "BINARY_COLLATION",
    "read_type",
    "refuse_collation",
    "session_type_names",
    "short_type_text",
    "type_text",
]

BINARY_COLLATION = "UTF8_BINARY"
"""The collation of all strings of tables."""

# Spark's precision of times, in digits of a second.
_MICROSECONDS = 6
# Paimon's files hold milliseconds of a time of day.
_MAX_TIME_DIGITS = 3

_PLAIN: Mapping[str, AtomicType] = {
    "BOOLEAN": AtomicType(Root.BOOLEAN),
    "TINYINT": AtomicType(Root.TINYINT),
    "BYTE": AtomicType(Root.TINYINT),
    "SMALLINT": AtomicType(Root.SMALLINT),
    "SHORT": AtomicType(Root.SMALLINT),
    "INT": AtomicType(Root.INT),
    "INTEGER": AtomicType(Root.INT),
    "BIGINT": AtomicType(Root.BIGINT),
    "LONG": AtomicType(Root.BIGINT),
    "FLOAT": AtomicType(Root.FLOAT),
    "REAL": AtomicType(Root.FLOAT),
    "DOUBLE": AtomicType(Root.DOUBLE),
    "DATE": AtomicType(Root.DATE),
    "STRING": AtomicType(Root.VARCHAR, length=MAX_LENGTH),
    "BLOB": AtomicType(Root.BLOB),
}
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
# The root, and what stands for the parameter where there is none; None where there must be one.
_LENGTHS: Mapping[str, tuple[Root, int | None]] = {
    "CHAR": (Root.CHAR, None),
    "CHARACTER": (Root.CHAR, None),
    "VARCHAR": (Root.VARCHAR, None),
    "BINARY": (Root.BINARY, 0),
    "VARBINARY": (Root.VARBINARY, None),
}
_TIMES: Mapping[str, Root] = {
    "TIMESTAMP": Root.TIMESTAMP_LTZ,
    "TIMESTAMP_LTZ": Root.TIMESTAMP_LTZ,
    "TIMESTAMP_NTZ": Root.TIMESTAMP,
    "TIME": Root.TIME,
}
_MAX_DIGITS = 38
_MAX_FRACTION = 9


def session_type_names(spark: SparkSession) -> dict[str, str]:
    """The names of types that a session's settings take for others, as `Statement` has them."""
    names: dict[str, str] = {}
    if (spark.conf.get("spark.sql.timestampType") or "").upper() == "TIMESTAMP_NTZ":
        names["TIMESTAMP"] = "TIMESTAMP_NTZ"
    if is_set(spark, "spark.sql.charAsVarchar"):
        names |= {"CHAR": "VARCHAR", "CHARACTER": "VARCHAR"}
    if is_set(spark, AS_TEXT):
        names |= dict.fromkeys(("CHAR", "CHARACTER", "VARCHAR"), "STRING")
    return names


def refuse_collation(statement: Statement) -> None:
    """Read ``COLLATE name`` after a type, or ``DEFAULT COLLATION name``, if it comes next.

    Raises:
        Unsupported: It names another collation than that of all strings of tables.
    """
    clause = "COLLATE"
    if statement.accept("DEFAULT", "COLLATION"):
        clause = "DEFAULT COLLATION"
    elif not statement.accept("COLLATE"):
        return
    name = ".".join(statement.name_parts())
    if name.upper().removeprefix("SYSTEM.BUILTIN.") != BINARY_COLLATION:
        raise Unsupported(
            f"{clause} {name} is not supported: Paimon's STRING has no collation, and tables "
            f"compare strings by their bytes ({BINARY_COLLATION}); leave the clause out, and write "
            f"COLLATE {name} after the columns and strings that a query compares"
        )


def read_type(statement: Statement) -> DataType:
    """Read a type; null is a value of it. Fields of structs have no ids yet.

    TIMESTAMP is the type of an instant, with the local time zone, unless the session takes it for
    another, see `session_type_names`.

    Raises:
        Invalid: There is no type.
        Unsupported: It has a collation.
    """
    data_type = _read_plain_type(statement)
    if isinstance(data_type, AtomicType) and data_type.root in (Root.CHAR, Root.VARCHAR):
        refuse_collation(statement)
    return data_type


def _read_plain_type(statement: Statement) -> DataType:
    refused = statement.unexpected("a type")
    written = statement.name().upper()
    name = statement.type_names.get(written, written)
    match name:
        case "ARRAY" | "MULTISET":
            statement.expect("<")
            element = _read_inner(statement)
            statement.expect(">")
            return ArrayType(element) if name == "ARRAY" else MultisetType(element)
        case "VECTOR":
            statement.expect("<")
            element = _read_inner(statement)
            statement.expect(",")
            length = statement.integer()
            statement.expect(">")
            if not isinstance(element, AtomicType):
                raise Invalid(f"a VECTOR cannot hold {element}")
            return vector_type(element, length, nullable=True)
        case "MAP":
            statement.expect("<")
            key = _read_inner(statement, nullable=False)
            statement.expect(",")
            value = _read_inner(statement)
            statement.expect(">")
            return MapType(key, value)
        case "STRUCT":
            return RowType(_read_fields(statement))
        case "VARIANT":
            return VariantType()
    if name in _PLAIN:
        if written in _LENGTHS:
            _bounded(written, _read_parameters(statement), refused)
        return _PLAIN[name]
    parameters = _read_parameters(statement)
    first = parameters[0] if parameters else None
    if name in _DECIMALS and len(parameters) <= 2:
        precision = 10 if first is None else first
        scale = parameters[1] if len(parameters) > 1 else 0
        if not (1 <= precision <= _MAX_DIGITS and 0 <= scale <= precision):
            raise Invalid(
                f"DECIMAL({precision}, {scale}): the precision must be between 1 and "
                f"{_MAX_DIGITS}, and the scale between 0 and it"
            )
        return AtomicType(Root.DECIMAL, precision=precision, scale=scale)
    if name in _TIMES and len(parameters) <= 1:
        digits = _MICROSECONDS if first is None else first
        if not 0 <= digits <= _MAX_FRACTION:
            raise Invalid(f"{name}({digits}): the precision must be between 0 and {_MAX_FRACTION}")
        root = _TIMES[name]
        return AtomicType(
            root, precision=min(digits, _MAX_TIME_DIGITS) if root is Root.TIME else digits
        )
    if name in _LENGTHS:
        return _bounded(name, parameters, refused)
    raise refused


def _bounded(name: str, parameters: Sequence[int], refused: Invalid) -> AtomicType:
    """A type of `_LENGTHS`, with its length in brackets."""
    if len(parameters) > 1:
        raise refused
    root, default = _LENGTHS[name]
    if not parameters:
        if default is None:
            raise Invalid(f"type {name} needs a length: write {name}(10)")
        return AtomicType(Root.VARBINARY, length=MAX_LENGTH)
    (length,) = parameters
    if not 1 <= length <= MAX_LENGTH:
        raise Invalid(f"{name}({length}): the length must be between 1 and {MAX_LENGTH}")
    return AtomicType(root, length=length)


def _read_parameters(statement: Statement) -> list[int]:
    parameters: list[int] = []
    if statement.accept("("):
        parameters.append(statement.integer())
        while statement.accept(","):
            parameters.append(statement.integer())
        statement.expect(")")
    return parameters


def _read_inner(statement: Statement, *, nullable: bool = True) -> DataType:
    data_type = read_type(statement)
    if statement.accept("NOT", "NULL"):
        nullable = False
    elif statement.accept("NULL"):
        nullable = True
    return replace(data_type, nullable=nullable)


def _read_fields(statement: Statement) -> tuple[DataField, ...]:
    statement.expect("<")
    fields: list[DataField] = []
    while not statement.accept(">"):
        if fields:
            statement.expect(",")
        name = statement.name()
        statement.accept(":")
        data_type = _read_inner(statement)
        comment = statement.string() if statement.accept("COMMENT") else None
        fields.append(DataField(-1, name, data_type, comment))
    return tuple(fields)


def type_text(data_type: DataType) -> str:
    """The text that `read_type` reads as a type, whatever its own nullability."""
    match data_type:
        case AtomicType():
            return _atomic_text(data_type)
        case VariantType():
            return "VARIANT"
        case VectorType():
            return f"VECTOR<{_inner_text(data_type.element)}, {data_type.length}>"
        case ArrayType():
            return f"ARRAY<{_inner_text(data_type.element)}>"
        case MultisetType():
            return f"MULTISET<{_inner_text(data_type.element)}>"
        case MapType():
            key = type_text(data_type.key) + (" NULL" if data_type.key.nullable else "")
            return f"MAP<{key}, {_inner_text(data_type.value)}>"
        case RowType():
            return f"STRUCT<{', '.join(map(_field_text, data_type.fields))}>"


def _inner_text(data_type: DataType) -> str:
    return type_text(data_type) + ("" if data_type.nullable else " NOT NULL")


def _field_text(field: DataField) -> str:
    comment = "" if field.description is None else f" COMMENT {string_literal(field.description)}"
    return f"{quoted_identifier(field.name)}: {_inner_text(field.type)}{comment}"


def _atomic_text(data_type: AtomicType) -> str:
    match data_type.root:
        case Root.VARBINARY if data_type.length == MAX_LENGTH:
            return "BINARY"
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ if data_type.precision == _MICROSECONDS:
            return "TIMESTAMP_NTZ" if data_type.root is Root.TIMESTAMP else "TIMESTAMP"
        case Root.TIMESTAMP:
            return f"TIMESTAMP_NTZ({data_type.precision})"
        case Root.TIMESTAMP_LTZ:
            return f"TIMESTAMP_LTZ({data_type.precision})"
        case _:
            return str(replace(data_type, nullable=True))


def short_type_text(data_type: DataType) -> str:
    """A type as DESCRIBE shows it: in small letters, without nullability and comments."""
    match data_type:
        case AtomicType() | VariantType():
            return type_text(data_type).lower().replace(", ", ",")
        case VectorType():
            return f"vector<{short_type_text(data_type.element)},{data_type.length}>"
        case ArrayType():
            return f"array<{short_type_text(data_type.element)}>"
        case MultisetType():
            return f"multiset<{short_type_text(data_type.element)}>"
        case MapType():
            return f"map<{short_type_text(data_type.key)},{short_type_text(data_type.value)}>"
        case RowType():
            fields = (f"{_short_name(f.name)}:{short_type_text(f.type)}" for f in data_type.fields)
            return f"struct<{','.join(fields)}>"


def _short_name(name: str) -> str:
    return quoted(name) if quoted_identifier(name) != name and not name.isidentifier() else name
