"""The rules for indexes that primary-key tables have of their columns."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headwater.storage.errors import Invalid
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type

FIELDS = (
    DataField(0, "k", parse_type("BIGINT NOT NULL")),
    DataField(1, "n", parse_type("DECIMAL(5, 2)")),
    DataField(2, "s", parse_type("STRING")),
    DataField(3, "a", parse_type({"type": "ARRAY", "element": "INT"})),
    DataField(4, "v", parse_type({"type": "VECTOR", "element": "FLOAT", "length": 3})),
    DataField(5, "b", parse_type("BYTES")),
)
MARKED = {"bucket": "1", "deletion-vectors.enabled": "true"}
VECTOR = {"pk-vector.index.columns": "v", "fields.v.pk-vector.index.type": "ivf-flat"}


def check(options: Mapping[str, str], *, keyed: bool = True) -> None:
    keys = ("k",) if keyed else ()
    new_table_schema(Schema(FIELDS, primary_keys=keys, options=dict(options)), 0)


@pytest.mark.parametrize(
    "options",
    [
        {**MARKED, "pk-btree.index.columns": "n, s", "pk-multivalue.index.columns": "a"},
        {**MARKED, "bucket": "-2", "pk-bitmap.index.columns": "k"},
        {**MARKED, **VECTOR, "pk-full-text.index.columns": "s"},
        {"bucket": "1", "merge-engine": "first-row", **VECTOR},
        {**MARKED, **VECTOR, "fields.v.pk-vector.distance.metric": "INNER-product"},
        {"bucket": "1", "pk-btree.index.columns": " "},
    ],
)
def test_tables_have_indexes(options: Mapping[str, str]) -> None:
    check(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**MARKED, "pk-btree.index.columns": "x"}, "column 'x', which does not exist"),
        ({**MARKED, "pk-btree.index.columns": "n,n"}, "column 'n' is named twice"),
        (
            {**MARKED, "pk-btree.index.columns": "n", "pk-bitmap.index.columns": "n"},
            "by 'pk-btree.index.columns' and 'pk-bitmap.index.columns'",
        ),
        ({**MARKED, "pk-btree.index.columns": "b"}, r"'b' of type .*; it must be of a type that"),
        ({**MARKED, "pk-bitmap.index.columns": "a"}, "'a' of type ARRAY<INT>; it must be of a"),
        ({**MARKED, "pk-multivalue.index.columns": "n"}, "it must be an array"),
        ({**MARKED, "pk-full-text.index.columns": "n"}, "it must be of type CHAR, VARCHAR"),
        ({**MARKED, **VECTOR, "pk-vector.index.columns": "n"}, "it must be of type VECTOR"),
        ({**MARKED, "pk-vector.index.columns": "v"}, "needs 'fields.v.pk-vector.index.type'"),
        (
            {**MARKED, **VECTOR, "fields.v.pk-vector.distance.metric": "l3"},
            "'fields.v.pk-vector.distance.metric' must be one of l2, cosine, inner_product",
        ),
        ({**MARKED, "pk-full-text.index.columns": "s,k"}, "'k' of type BIGINT"),
        ({"bucket": "1", "pk-btree.index.columns": "n"}, "needs 'deletion-vectors.enabled'"),
        (
            {"bucket": "1", "merge-engine": "first-row", "pk-btree.index.columns": "n"},
            "needs 'deletion-vectors.enabled'",
        ),
        (
            {**MARKED, "deletion-vectors.merge-on-read": "true", "pk-btree.index.columns": "n"},
            "excludes 'deletion-vectors.merge-on-read'",
        ),
        ({**MARKED, "bucket": "-1", "pk-btree.index.columns": "n"}, "'bucket' is -1"),
    ],
)
def test_a_rule_is_named(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        check(options)


def test_a_table_without_a_key_has_none() -> None:
    with pytest.raises(Invalid, match=r"'pk-btree\.index\.columns' needs a primary key"):
        check({"pk-btree.index.columns": "n"}, keyed=False)
