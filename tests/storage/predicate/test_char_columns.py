"""Predicates on CHAR columns: of padded values, and of the values that are stored."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.storage.predicate.char_columns import (
    compared_as_they_are,
    of_stored_values,
    padded_predicate,
)
from headwater.storage.predicate.filter import (
    Predicate,
    filter_rows,
    parse_predicate,
    to_expression,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField, parse_type

LENGTH = 4
CHARS, TEXTS = (
    TableSchema(0, (DataField(0, "c", parse_type(name)),), 1, (), (), {}, None, 0)
    for name in (f"CHAR({LENGTH})", "STRING")
)
STORED = ["", " ", "a", "a ", "a b", "ab", "ab  ", "abcd", "b", "a\x01", "\x01", "é", None]
PADDED = [None if value is None else value.ljust(LENGTH) for value in STORED]
CONDITIONS = (
    "c = 'ab  '", "c = 'ab'", "c = 'ab       '", "c <> 'a'", "c IN ('a   ', 'abcd', 'x')",
    "c NOT IN ('ab')", "c < 'ab'", "c <= 'a   '", "c > 'a   '", "c >= 'ab'", "c > 'a\x01  '",
    "NOT (c > 'a   ' OR c IS NULL)", "c LIKE 'a%'", "c LIKE 'a %'", "NOT (c LIKE 'ab%')",
    "NOT (c LIKE 'a %')", "c LIKE 'ab'", "NOT (c LIKE 'ab')", "c = 'abcde'", "c = '    '",
    "c >= 'é' AND c <> 'b'", "c IS NULL OR c = ''",
)  # fmt: skip


def chosen(condition: Predicate, values: list[str | None], schema: TableSchema) -> list[object]:
    """The places of the values that a condition is true for."""
    batch = pa.record_batch({"c": pa.array(values, pa.string()), "at": range(len(values))})
    kept = filter_rows(batch, to_expression(condition, schema))
    return list(kept.column("at").to_pylist())


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_are_of_padded_values(text: str) -> None:
    condition = padded_predicate(parse_predicate(text, CHARS), CHARS)
    expected = chosen(condition, PADDED, TEXTS)
    assert chosen(condition, STORED, CHARS) == expected
    implied = of_stored_values(condition, {"c": LENGTH})
    if implied is not None:
        assert set(expected) <= set(chosen(implied, STORED, TEXTS))


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_whose_literals_are_not_padded(text: str) -> None:
    """As Spark and Polars compare them."""
    condition = parse_predicate(text, TEXTS)
    expected = chosen(condition, PADDED, TEXTS)
    exact = compared_as_they_are(condition, CHARS, {"c"}, exact=True)
    if exact is not None:
        assert chosen(exact, STORED, CHARS) == expected
    implied = compared_as_they_are(condition, CHARS, {"c"}, exact=False)
    if implied is not None:
        assert set(expected) <= set(chosen(implied, STORED, CHARS))
    assert compared_as_they_are(condition, CHARS, (), exact=False) is None or "IS NULL" in text
