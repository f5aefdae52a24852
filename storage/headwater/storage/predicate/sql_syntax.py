"""The grammar of predicates in SQL text, in Spark's dialect: `sql_text` is how to use it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.predicate.char_columns import char_lengths, compared_as_they_are
from headwater.storage.predicate.literal import (
    IsoText,
    comparison,
    membership,
    starts_with,
    within_reach,
)
from headwater.storage.predicate.tree import (
    MIRRORED,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    columns_of,
    without_not,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType
from headwater.storage.types.values import (
    StorageValue,
    parse_moment,
    storage_value,
    units_per_second,
)

__all__ = ["read_exact", "read_implied", "read_predicate", "write_predicate"]

_Literal: TypeAlias = "bool | int | float | Decimal | str | bytes | dt.date | IsoText | None"

# To read more takes longer than linear time, and no type has so many.
_MAX_DIGITS = 1000

_OPERATORS: Mapping[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_NEXT = (
    "a filter may use =, <>, <, <=, >, >=, <=>, IN, BETWEEN, IS NULL, LIKE 'text%', AND, OR and "
    "NOT between columns and literals"
)


def read_predicate(sql: str, schema: TableSchema, *, any_case: bool = False) -> Predicate:
    """The predicate that a condition says: see `sql_text.parse_predicate`."""
    try:
        statements = sqlglot.parse(sql, dialect="spark")
        if len(statements) != 1 or statements[0] is None:
            raise Invalid(f"filter '{sql}' is not one condition")
        return without_not(_Reader(sql, schema, any_case=any_case).predicate(statements[0]))
    except SqlglotError as error:
        reason = str(error).split("\n", 1)[0]
        raise Invalid(f"filter '{sql}' is not valid SQL: {reason}") from error
    except RecursionError:
        raise Invalid(f"filter '{sql[:100]}…' is nested too deeply") from None


def read_implied(sql: str, schema: TableSchema, columns: Mapping[str, str]) -> Predicate | None:
    """The predicate that a condition implies: see `sql_text.implied_predicate`."""
    try:
        result = _implied(_Reader(sql, schema), _with_names(sql, columns))
        return None if result is None else without_not(result)
    except (SqlglotError, RecursionError):
        return None


def read_exact(sql: str, schema: TableSchema, columns: Mapping[str, str]) -> Predicate | None:
    """The predicate that says just what a condition does: see `sql_text.exact_predicate`."""
    try:
        return without_not(_Reader(sql, schema).predicate(_with_names(sql, columns)))
    except (Invalid, NotFound, Unsupported, SqlglotError, RecursionError):
        return None


def _with_names(sql: str, columns: Mapping[str, str]) -> exp.Expr:
    """A condition whose columns have the names of the table's."""
    tree = sqlglot.parse_one(sql, dialect="spark")
    for column in tree.find_all(exp.Column):
        name = columns.get(".".join(part.name for part in column.parts))
        if name is not None:
            for part in ("catalog", "db", "table"):
                column.set(part, None)
            column.set("this", exp.to_identifier(name, quoted=True))
    return tree


def _implied(reader: _Reader, node: exp.Expr) -> Predicate | None:
    match node:
        case exp.Paren():
            return _implied(reader, node.this)
        case exp.And():
            said: list[Predicate] = []
            for part in node.flatten():
                result = _implied(reader, part)
                if result is not None:
                    said.extend(result.operands if isinstance(result, And) else [result])
            return And(tuple(said)) if said else None
        case exp.Or():
            cases = [_implied(reader, part) for part in node.flatten()]
            whole = tuple(part for part in cases if part is not None)
            return Or(whole) if len(whole) == len(cases) else None
    try:
        return reader.predicate(node)
    except (Invalid, NotFound, Unsupported):
        return None


class _Reader:
    def __init__(self, sql: str, schema: TableSchema, *, any_case: bool = False) -> None:
        self._sql = sql
        self._schema = schema
        self._any_case = any_case

    def _unsupported(self, node: exp.Expr) -> Unsupported:
        return Unsupported(
            f"filter '{self._sql}': '{node.sql(dialect='spark')}' is not supported; {_NEXT}"
        )

    def _only(self, node: exp.Expr, *names: str) -> None:
        # A clause that is not looked at (NOT inside LIKE, ESCAPE, FILTER…) would change the sense.
        if any(value for name, value in node.args.items() if name not in names):
            raise self._unsupported(node)

    def predicate(self, node: exp.Expr) -> Predicate:
        kind = type(node)
        if kind in _OPERATORS:
            self._only(node, "this", "expression")
            return self._compare(node, _OPERATORS[kind], node.this, node.expression)
        match node:
            case exp.Paren():
                self._only(node, "this")
                return self.predicate(node.this)
            case exp.And():
                self._only(node, "this", "expression")
                return And(tuple(self.predicate(part) for part in node.flatten()))
            case exp.Or():
                self._only(node, "this", "expression")
                return Or(tuple(self.predicate(part) for part in node.flatten()))
            case exp.Not():
                self._only(node, "this")
                return Not(self.predicate(node.this))
            case exp.Boolean() | exp.Null():
                return Constant(None if isinstance(node, exp.Null) else bool(node.this))
            case exp.Column():
                return comparison(self._schema, self._column(node), "=", True)
            case exp.NullSafeEQ():
                self._only(node, "this", "expression")
                return self._null_safe(node)
            case exp.Is():
                self._only(node, "this", "expression")
                return self._is(node)
            case exp.In():
                self._only(node, "this", "expressions")
                values = [self._literal(item) for item in node.expressions]
                return membership(self._schema, self._column(node.this), values)
            case exp.Between():
                self._only(node, "this", "low", "high")
                low = self._compare(node, ">=", node.this, node.args["low"])
                high = self._compare(node, "<=", node.this, node.args["high"])
                return And((low, high))
            case exp.Like():
                self._only(node, "this", "expression", "negate")
                like = self._like(node)
                return Not(like) if node.args.get("negate") else like
            case exp.StartsWith():
                self._only(node, "this", "expression")
                prefix = self._literal(node.expression)
                if not isinstance(prefix, str):
                    raise self._unsupported(node)
                return starts_with(self._schema, self._column(node.this), prefix)
        raise self._unsupported(node)

    def _column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Column):
            raise self._unsupported(node)
        self._only(node, "this")
        name: str = node.name
        if self._any_case and name not in self._schema.field_by_name:
            alike = [own for own in self._schema.moved_columns if own.lower() == name.lower()]
            name = alike[0] if len(alike) == 1 else name
        self._schema.column(name)
        return name

    def _compare(self, node: exp.Expr, op: Operator, left: exp.Expr, right: exp.Expr) -> Predicate:
        if isinstance(left, exp.Column):
            return comparison(self._schema, self._column(left), op, self._literal(right))
        if isinstance(right, exp.Column):
            return comparison(self._schema, self._column(right), MIRRORED[op], self._literal(left))
        # Two literals, such as 1 = 1.
        first, second = self._literal(left), self._literal(right)
        if first is None or second is None:
            return Constant(None)
        sign = _order(first, second)
        if sign is None:
            raise self._unsupported(node)
        holds = {"=": sign == 0, "<": sign < 0, ">": sign > 0}
        holds |= {"!=": sign != 0, "<=": sign <= 0, ">=": sign >= 0}
        return Constant(holds[op])

    def _null_safe(self, node: exp.NullSafeEQ) -> Predicate:
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column):
            left, right = right, left
        column, value = self._column(left), self._literal(right)
        if value is None:
            return IsNull(column)
        equal = comparison(self._schema, column, "=", value)
        return And((IsNull(column, negated=True), equal))

    def _is(self, node: exp.Is) -> Predicate:
        column = self._column(node.this)
        match node.expression:
            case exp.Null():
                return IsNull(column)
            case exp.Boolean(this=value):
                equal = comparison(self._schema, column, "=", bool(value))
                return And((IsNull(column, negated=True), equal))
        raise self._unsupported(node)

    def _like(self, node: exp.Like) -> Predicate:
        column, pattern = self._column(node.this), self._literal(node.expression)
        if not isinstance(pattern, str):
            raise self._unsupported(node)
        text: list[str] = []
        characters = iter(pattern)
        for character in characters:
            if character == "\\":
                text.append(next(characters, "\\"))
            elif character == "%" and next(characters, None) is None:
                return starts_with(self._schema, column, "".join(text))
            elif character in "%_":
                raise self._unsupported(node)
            else:
                text.append(character)
        starts_with(self._schema, column, "")
        equal = comparison(self._schema, column, "=", "".join(text))
        # LIKE pads no text.
        result = compared_as_they_are(equal, self._schema, {column}, exact=True)
        return equal if result is None else result

    def _literal(self, node: exp.Expr) -> _Literal:
        match node:
            case exp.Paren():
                return self._literal(node.this)
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal(is_string=True) | exp.RawString():
                return str(node.this)
            case exp.Literal():
                return self._number(node)
            case exp.HexString():
                try:
                    return bytes.fromhex(str(node.this))
                except ValueError:
                    raise Invalid(f"filter '{self._sql}': {node} is not hexadecimal") from None
            case exp.Neg():
                value = self._literal(node.this)
                if isinstance(value, Decimal):
                    # Not `-value`, which rounds to the context's 28 digits.
                    return value.copy_negate()
                if isinstance(value, int | float) and not isinstance(value, bool):
                    return -value
            case exp.Cast():
                return self._cast(node)
        raise self._unsupported(node)

    def _number(self, node: exp.Literal) -> int | Decimal:
        text = str(node.this)
        if len(text) > _MAX_DIGITS:
            raise Invalid(f"filter '{self._sql}': a number has more than {_MAX_DIGITS} digits")
        try:
            return int(text) if text.isdigit() else Decimal(text)
        except (ValueError, InvalidOperation):
            raise self._unsupported(node) from None

    def _moment(self, node: exp.Cast, is_date: bool, text: str) -> dt.date | IsoText:
        if not is_date:
            return IsoText(text)
        try:
            nanos, _ = parse_moment(text)
        except ValueError:
            raise Invalid(f"filter '{self._sql}': '{node.sql('spark')}' is not a date") from None
        # A date keeps the day that is written, whatever time of it follows.
        return dt.date.fromisoformat("1970-01-01") + dt.timedelta(nanos // 86_400_000_000_000)

    def _cast(self, node: exp.Cast) -> _Literal:
        """``DATE '…'``, ``TIMESTAMP '…'``, ``10L`` and ``CAST(literal AS type)``."""
        self._only(node, "this", "to", "safe")
        value = self._literal(node.this)
        target = node.to
        kind = target.this
        if value is None:
            return None
        if kind in _MOMENTS and isinstance(value, str):
            return self._moment(node, kind is exp.DataType.Type.DATE, value)
        numeric = _NUMBERS.get(kind)
        if kind is exp.DataType.Type.DECIMAL:
            sizes = [int(part.name) for part in target.expressions]
            precision, scale = (*sizes, *(10, 0)[len(sizes) :])
            numeric = AtomicType(Root.DECIMAL, precision=precision, scale=scale)
        if numeric is None:
            raise self._unsupported(node)
        try:
            return _to_number(value, numeric)
        except (Invalid, ValueError, ArithmeticError):
            raise self._unsupported(node) from None


def _to_number(value: _Literal, data_type: AtomicType) -> StorageValue:
    """A literal cast to a numeric type; Invalid or ValueError when the cast would change it."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise Invalid(f"{value!r} is not a number")
    if data_type.root in (Root.FLOAT, Root.DOUBLE):
        return storage_value(float(value), data_type)
    if isinstance(value, str) and len(value) > _MAX_DIGITS:
        raise Invalid(f"a number has more than {_MAX_DIGITS} digits")
    exact = within_reach(Decimal(value))
    if data_type.root is Root.DECIMAL:
        return storage_value(exact, data_type)
    if exact != exact.to_integral_value():
        raise Invalid(f"{value!r} is not an integer")
    return storage_value(int(exact), data_type)


def _order(first: _Literal, second: _Literal) -> int | None:
    """The sign of first - second; None when they cannot be compared."""
    if isinstance(first, str) and isinstance(second, str):
        return (first > second) - (first < second)
    numbers = [
        value
        for value in (first, second)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    ]
    if len(numbers) == 2:
        return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])
    return None


_MOMENTS = frozenset(
    {
        exp.DataType.Type.DATE,
        exp.DataType.Type.TIME,
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMPLTZ,
        exp.DataType.Type.TIMESTAMPNTZ,
        exp.DataType.Type.DATETIME,
    }
)
_NUMBERS: Mapping[object, AtomicType] = {
    exp.DataType.Type.TINYINT: AtomicType(Root.TINYINT),
    exp.DataType.Type.SMALLINT: AtomicType(Root.SMALLINT),
    exp.DataType.Type.INT: AtomicType(Root.INT),
    exp.DataType.Type.BIGINT: AtomicType(Root.BIGINT),
    exp.DataType.Type.FLOAT: AtomicType(Root.FLOAT),
    exp.DataType.Type.DOUBLE: AtomicType(Root.DOUBLE),
}


# To SQL ---------------------------------------------------------------------------------------


def write_predicate(predicate: Predicate, schema: TableSchema, *, pads: bool = False) -> str:
    """The condition that says a predicate: see `sql_text.to_sql`."""
    tree = _tree(predicate, schema)
    if pads:
        lengths = char_lengths(schema, columns_of(predicate))
        tree = tree.transform(lambda node: _padded(node, lengths))
    return tree.sql(dialect="spark")


def _padded(node: exp.Expr, lengths: Mapping[str, int]) -> exp.Expr:
    length = lengths.get(node.name) if isinstance(node, exp.Column) else None
    if length is None:
        return node
    # Spark cuts longer texts.
    size = exp.Anonymous(this="char_length", expressions=[node.copy()])
    width = exp.Anonymous(this="greatest", expressions=[exp.Literal.number(length), size])
    return exp.Anonymous(this="rpad", expressions=[node.copy(), width, exp.Literal.string(" ")])


_NODES: Mapping[Operator, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


def _tree(predicate: Predicate, schema: TableSchema) -> exp.Expr:
    match predicate:
        case And() | Or():
            node = exp.And if isinstance(predicate, And) else exp.Or
            parts = [exp.Paren(this=_tree(part, schema)) for part in predicate.operands]
            if not parts:
                return exp.Boolean(this=isinstance(predicate, And))
            joined: exp.Expr = parts[0]
            for part in parts[1:]:
                joined = node(this=joined, expression=part)
            return joined
        case Not():
            return exp.Not(this=exp.Paren(this=_tree(predicate.operand, schema)))
        case Constant(value=None):
            return exp.Null()
        case Constant():
            return exp.Boolean(this=predicate.value)
    column = exp.column(schema.column(predicate.column).name, quoted=True)
    data_type = schema.column(predicate.column).type
    node_of: exp.Expr
    match predicate:
        case Comparison():
            value = _value_node(predicate.value, data_type)
            return _NODES[predicate.op](this=column, expression=value)
        case In(values=()):
            # SQL has no empty list: false, or null for a null.
            never: Predicate = And((IsNull(predicate.column), Constant(None)))
            return _tree(Not(never) if predicate.negated else never, schema)
        case In():
            values = [_value_node(value, data_type) for value in predicate.values]
            node_of = exp.In(this=column, expressions=values)
        case IsNull():
            node_of = exp.Is(this=column, expression=exp.Null())
        case StartsWith():
            prefix = exp.Literal.string(predicate.prefix)
            node_of = exp.StartsWith(this=column, expression=prefix)
    return exp.Not(this=node_of) if predicate.negated else node_of


def _value_node(value: StorageValue, data_type: DataType) -> exp.Expr:
    assert isinstance(data_type, AtomicType)
    match data_type.root, value:
        case Root.DATE, int():
            return _cast_node(_iso(value, "D"), "DATE")
        case Root.TIME, int():
            return _cast_node(_iso(value, "ms")[11:], "TIME")
        case ((Root.TIMESTAMP | Root.TIMESTAMP_LTZ), int()):
            unit = {10**3: "ms", 10**6: "us", 10**9: "ns"}[units_per_second(data_type)]
            text = _iso(value, unit).replace("T", " ")
            if data_type.root is Root.TIMESTAMP:
                return _cast_node(text, "TIMESTAMP_NTZ")
            return _cast_node(f"{text}Z", "TIMESTAMP_LTZ")
        case ((Root.FLOAT | Root.DOUBLE), float()):
            return _cast_node(repr(value), str(data_type.root))
        case _, bool():
            return exp.Boolean(this=value)
        case _, str():
            return exp.Literal.string(value)
        case _, bytes():
            return exp.HexString(this=value.hex().upper())
        case _, Decimal():
            text = format(value, "f")
            return exp.Literal.number(text)
        case _:
            return exp.Literal.number(str(value))


def _iso(value: int, unit: str) -> str:
    return str(np.array(value, f"datetime64[{unit}]"))


def _cast_node(text: str, name: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(name, dialect="spark"))
