"""The part of a condition of Spark's that a predicate can say."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.storage.predicate.sql_text import exact_predicate, implied_predicate, to_sql
from headwater.storage.schema.table_schema import Schema, TableSchema, highest_field_id

_DECLARED = Schema.from_arrow(
    pa.schema([("id", pa.int64()), ("a name", pa.string()), ("ok", pa.bool_())])
)
SCHEMA = TableSchema(0, _DECLARED.fields, highest_field_id(_DECLARED.fields), (), (), {}, None, 0)
COLUMNS = {"c0": "id", "c1": "a name", "c2": "ok", "s.c0": "id", "s.f": "a name"}


@pytest.mark.parametrize(
    ("condition", "implied"),
    [
        ("((c0 IS NOT NULL) AND (c0 > 5L))", "(NOT `id` IS NULL) AND (`id` > 5)"),
        ("c0 > 5L AND upper(c1) = 'X'", "(`id` > 5)"),
        ("c0 > 5L OR upper(c1) = 'X'", None),
        ("(c0 > 5L AND upper(c1) = 'X') OR c2", "((`id` > 5)) OR (`ok` = TRUE)"),
        ("NOT (c0 > 5L AND upper(c1) = 'X')", None),
        ("NOT (c0 > 5L)", "`id` <= 5"),
        ("startswith(c1, 'x') AND c0 > scalarsubquery()", "(STARTSWITH(`a name`, 'x'))"),
        ("CAST(c0 AS STRING) = '5'", None),
        ("c1 = 'a c0' collate UTF8_LCASE", None),
        ("c1 = 'a c0'", "`a name` = 'a c0'"),
        ("c3 = 1", None),
        ("s.`f` = 'x' AND s.f.g = 'y' AND s.id = 1", "(`a name` = 'x')"),
        ("s.c0 = 1 OR t.c0 = 2", None),
        ("s.c0", None),
        ("s.c0 > 3L AND x.s.c0 > 4L", "(`id` > 3)"),
        ("this is no condition (", None),
    ],
)
def test_parts_that_cannot_be_said_are_left_out(condition: str, implied: str | None) -> None:
    found = implied_predicate(condition, SCHEMA, COLUMNS)
    assert (None if found is None else to_sql(found, SCHEMA)) == implied


@pytest.mark.parametrize(
    ("condition", "exact"),
    [
        ("((c0 IS NOT NULL) AND (c0 > 5L))", "(NOT `id` IS NULL) AND (`id` > 5)"),
        ("c0 > 5L AND upper(c1) = 'X'", None),
        ("s.c0 > 3L OR NOT c2", "(`id` > 3) OR (`ok` <> TRUE)"),
        ("c0 > scalarsubquery()", None),
        ("c3 = 1", None),
        ("this is no condition (", None),
    ],
)
def test_a_condition_is_said_as_a_whole_or_not_at_all(condition: str, exact: str | None) -> None:
    found = exact_predicate(condition, SCHEMA, COLUMNS)
    assert (None if found is None else to_sql(found, SCHEMA)) == exact
