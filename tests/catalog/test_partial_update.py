"""Tables whose rows are updated column by column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema_change import AddColumn, SetOption
from headwater.storage.types.atomic_type import AtomicType, Root

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        ("a", pa.int64()),
        ("b", pa.string()),
        ("s", pa.int64()),
        ("t", pa.int64()),
    ]
)
REMOVE = {"partial-update.remove-record-on-delete": "true"}
GROUPS = {"fields.s.sequence-group": "a", "fields.t.sequence-group": "b"}
REMOVE_ON_GROUP = {"partial-update.remove-record-on-sequence-group": "s"}


def _table(folder: Path, options: Mapping[str, str], schema: pa.Schema = SCHEMA) -> Table:
    given = {"bucket": "1", "merge-engine": "partial-update", **options}
    return _lake(folder).create_table("d.t", schema, primary_keys=["k"], options=given)


def _lake(folder: Path) -> Lake:
    lake = connect(folder)
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake


def _rows(table: Table) -> list[tuple[object, ...]]:
    found = table.scan().to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))


def test_each_column_keeps_the_newest_value_that_is_there(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    table.write({"k": [1, 2], "a": [1, 2], "b": ["x", "y"]})
    table.write({"k": [1, 3], "a": [None, 3], "b": ["z", None]})
    table.write({"k": [1, 2], "s": [7, 8]})
    expected = [(1, 1, "z", 7, None), (2, 2, "y", 8, None), (3, 3, None, None, None)]
    assert _rows(table) == expected
    # What is filtered for may lie in another file than the other columns.
    assert table.scan(columns=["b"], where="s = 7").to_arrow().to_pylist() == [{"b": "z"}]
    table.compact()
    table.write({"k": [2], "b": ["new"]})
    assert _rows(table) == [expected[0], (2, 2, "new", 8, None), expected[2]]


def test_rows_are_ordered_by_the_sequence_field_of_the_table(tmp_path: Path) -> None:
    table = _table(tmp_path, {"sequence.field": "t"})
    table.write({"k": [1], "a": [1], "b": ["late"], "t": [9]})
    table.write({"k": [1], "a": [2], "b": ["early"], "s": [4], "t": [5]})
    assert _rows(table) == [(1, 1, "late", 4, 9)]


def test_streams_update_their_groups_apart(tmp_path: Path) -> None:
    table = _table(tmp_path, GROUPS)
    table.write({"k": [1], "a": [10], "s": [5]})
    table.write({"k": [1], "b": ["x"], "t": [3]})
    table.write({"k": [1], "a": [20], "s": [4]})
    assert _rows(table) == [(1, 10, "x", 5, 3)]
    table.write({"k": [1], "a": [None], "s": [6], "_ROW_KIND": ["+U"]})
    assert _rows(table) == [(1, None, "x", 6, 3)]
    table.write({"k": [1], "b": ["x"], "t": [4], "_ROW_KIND": ["-D"]})
    table.compact()
    assert _rows(table) == [(1, None, None, 6, 4)]


def test_rows_that_retract_are_not_written_without_a_rule_for_them(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    for kind in ("-U", "-D"):
        with pytest.raises(Invalid, match=r"'ignore-delete'.*remove-record-on-delete.*sequence-gr"):
            table.write({"k": [1], "a": [1], "_ROW_KIND": [kind]})
    ignoring = _table(tmp_path, {"partial-update.ignore-delete": "true"})
    ignoring.write({"k": [1, 1], "a": [1, 2], "_ROW_KIND": ["+I", "-D"]})
    assert _rows(ignoring) == [(1, 1, None, None, None)]


def test_rows_are_deleted_where_options_say_so(tmp_path: Path) -> None:
    table = _table(tmp_path, REMOVE)
    table.write({"k": [1, 2], "a": [1, 2], "b": ["x", "y"]})
    table.write({"k": [1], "s": [4]})
    table.write({"k": [1], "_ROW_KIND": ["-D"]})
    assert _rows(table) == [(2, 2, "y", None, None)]
    table.compact()
    table.write({"k": [1], "t": [5]})
    assert _rows(table) == [(1, None, None, None, 5), (2, 2, "y", None, None)]


def test_rows_are_deleted_through_a_group_that_knows_them(tmp_path: Path) -> None:
    table = _table(tmp_path, {**GROUPS, **REMOVE_ON_GROUP})
    table.write({"k": [1, 2], "a": [1, 2], "b": ["x", "y"], "s": [5, None], "t": [6, 7]})
    table.write({"k": [1], "s": [5], "_ROW_KIND": ["-D"]})
    assert _rows(table) == [(2, 2, "y", None, 7)]
    # A row of the group that is older than what is there removes nothing.
    table.write({"k": [2], "a": [3], "s": [8]})
    table.write({"k": [2], "a": [3], "s": [7], "_ROW_KIND": ["-D"]})
    assert _rows(table) == [(2, 3, "y", 8, 7)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fields.x.sequence-group": "a"}, "'fields.x.sequence-group' is about column 'x'"),
        ({"fields.s.sequence-group": "a,x"}, "'x', which does not exist"),
        ({"fields.s.sequence-group": "a, b"}, "' b', which does not exist.*without spaces"),
        ({"fields.s.sequence-group": "k"}, "'k', a column of the primary key"),
        ({"fields.k.sequence-group": "a"}, "'k', a column of the primary key"),
        (
            {"fields.s.sequence-group": "a", "fields.t.sequence-group": "b,a"},
            "'a' is in two sequence groups",
        ),
        ({"fields.a.aggregate-function": "sum"}, "'a' has the aggregate function sum.*sequence"),
        ({"fields.default-aggregate-function": "max"}, "'a' has the aggregate function max"),
        ({**REMOVE, "ignore-delete": "true"}, "'ignore-delete' and 'partial-update.remove-record"),
        (
            {**GROUPS, **REMOVE_ON_GROUP, "ignore-delete": "true"},
            "'ignore-delete' and 'partial-update.remove-record-on-sequence-group'",
        ),
        ({**GROUPS, **REMOVE}, "sequence-group' and 'partial-update.remove-record-on-delete'"),
        (REMOVE_ON_GROUP, "'s', which is not a sequence field"),
        (
            {**GROUPS, "partial-update.remove-record-on-sequence-group": "s,b"},
            "'b', which is not a sequence field",
        ),
        (
            {"sequence.field": "s", "fields.s.aggregate-function": "last_non_null_value"},
            "'s' must not have an aggregate function",
        ),
        ({**GROUPS, "fields.a.aggregate-function": "listagg"}, "'a' of type BIGINT"),
    ],
)
def test_options_that_contradict_each_other_are_refused_at_creation(
    tmp_path: Path, options: Mapping[str, str], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        _table(tmp_path, options)
    with connect(tmp_path) as lake:
        assert not lake.table_exists("d.t")


def test_options_are_checked_when_they_change(tmp_path: Path) -> None:
    table = _table(tmp_path, GROUPS)
    with connect(tmp_path) as lake:
        with pytest.raises(Invalid, match="'a' is in two sequence groups"):
            lake.alter_table("d.t", SetOption("fields.t.sequence-group", "b,a"))
        lake.alter_table(
            "d.t",
            AddColumn(("c",), AtomicType(Root.BIGINT)),
            SetOption("fields.s.sequence-group", "a,c"),
            SetOption("fields.c.aggregate-function", "sum"),
        )
        table = lake.table("d.t")
    table.write({"k": [1, 1], "c": [3, 4], "s": [2, 1]})
    table.write({"k": [1], "c": [2], "s": [2], "_ROW_KIND": ["-U"]})
    assert table.scan(columns=["c", "s"]).to_arrow().to_pylist() == [{"c": 5, "s": 2}]


def test_a_group_of_two_sequence_fields_that_share_one_is_another_engines(tmp_path: Path) -> None:
    options = {"fields.s.sequence-group": "a", "fields.s,t.sequence-group": "b"}
    with pytest.raises(Unsupported, match=r"'s' is in two sequence groups.*for_another_engine"):
        _table(tmp_path, options)


def test_a_column_that_must_not_be_null_never_is(tmp_path: Path) -> None:
    schema = SCHEMA.set(1, pa.field("a", pa.int64(), False))
    table = _table(tmp_path, GROUPS, schema)
    table.write({"k": [1], "a": [1], "s": [1]})
    table.write({"k": [1, 2], "a": [1, 2], "s": [2, 1], "_ROW_KIND": ["-D", "-D"]})
    with pytest.raises(Invalid, match="column 'a' must not be null"):
        table.scan().to_arrow()
    with pytest.raises(Invalid, match="column 'a' must not be null"):
        table.compact()
    table.write({"k": [1, 2], "a": [5, 3], "s": [3, 2]})
    assert _rows(table) == [(1, 5, None, 3, None), (2, 3, None, 2, None)]
    table.compact()
    assert _rows(table) == [(1, 5, None, 3, None), (2, 3, None, 2, None)]
