"""UPDATE and MERGE of rows whose new versions are older than the stored ones by ``sequence.field``.

Each statement is compared with `Table.update` of the SDK on an equal table.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from tests.spark.conftest import Rows, data_files, rows, stored

from headwater.catalog.table.table import Table
from headwater.spark import SparkLake
from headwater.storage.errors import Invalid
from headwater.storage.snapshot.snapshot import CommitKind

pytestmark = pytest.mark.spark

MODES = pytest.mark.modes
COLUMNS = "id INT, a INT, b STRING, v BIGINT"
ROWS: Rows = [(1, 5, "m", 1), (2, 5, "m", 2), (3, None, "m", 3), (4, 5, None, 4)]
OPTIONS = {
    "deduplicate": {},
    "partial-update": {},
    "aggregation": {"fields.v.aggregate-function": "sum"},
}
LATER: Rows = [(1, 4, "z", 100), (2, 5, "a", 100), (3, 1, "a", 100), (4, 9, "a", 100)]


def make(lake: SparkLake, name: str, options: Mapping[str, str]) -> Table:
    """A table with `ROWS`, whose sequence fields are ``a`` and ``b``."""
    schema = lake.spark.createDataFrame([], COLUMNS).schema
    options = {"bucket": "2", "sequence.field": "a,b", **options}
    lake.create_table(f"db.{name}", schema, primary_keys=["id"], options=options)
    write(lake, name, ROWS)
    lake.sql("USE db")
    return lake.catalog.table(f"db.{name}")


def write(lake: SparkLake, name: str, values: Rows) -> None:
    lake.write(lake.spark.createDataFrame(values, COLUMNS), f"db.{name}")


def both(lake: SparkLake, options: Mapping[str, str]) -> tuple[Table, Table]:
    """Two equal tables: ``t`` for statements and ``copy`` for the SDK."""
    return make(lake, "t", options), make(lake, "copy", options)


def check_alike(lake: SparkLake, *, kinds: bool = True) -> None:
    """Check that both tables hold the same rows, now and after later rows."""
    pair = [lake.catalog.table(f"db.{name}") for name in ("t", "copy")]
    if kinds:
        first, second = (table.latest_snapshot() for table in pair)
        assert first is not None
        assert second is not None
        assert first.commit_kind is second.commit_kind
    assert stored(lake, "db.t") == stored(lake, "db.copy")
    for name in ("t", "copy"):
        write(lake, name, LATER)
    assert stored(lake, "db.t") == stored(lake, "db.copy")


UPDATES: Mapping[str, tuple[str, Mapping[str, object], str | None]] = {
    "lowered": ("a = a - 1, v = 10", {"a": pl.col("a") - 1, "v": 10}, None),
    "raised": ("a = a + 1, v = 10", {"a": pl.col("a") + 1, "v": 10}, None),
    "equal": ("a = 5, b = 'm', v = 10", {"a": 5, "b": "m", "v": 10}, "id < 3"),
    "to null": ("a = NULL, v = 10", {"a": None, "v": 10}, "id = 1"),
    "from null": ("a = 1, v = 10", {"a": 1, "v": 10}, "id = 3"),
    "second lowered": ("b = 'a', v = 10", {"b": "a", "v": 10}, "id < 4"),
    "second raised": ("b = 'z', v = 10", {"b": "z", "v": 10}, None),
    "second to null": ("b = NULL, v = 10", {"b": None, "v": 10}, "id = 2"),
    "first raised, second lowered": ("a = 6, b = 'a'", {"a": 6, "b": "a"}, None),
    "first lowered, second raised": ("a = 4, b = 'z'", {"a": 4, "b": "z"}, None),
}

DEFAULT_CASES = {
    ("lowered", "ascending"),
    ("equal", "ascending"),
    ("raised", "descending"),
    ("to null", "descending"),
    ("from null", "descending"),
    ("second lowered", "ascending"),
}
CASES = [
    pytest.param(update, order, marks=() if (update, order) in DEFAULT_CASES else MODES)
    for update in UPDATES
    for order in ("ascending", "descending")
]


@pytest.mark.parametrize(("update", "order"), CASES)
def test_an_update_does_what_it_says_whatever_the_sequence(
    lake: SparkLake, update: str, order: str
) -> None:
    _, copy = both(lake, {"sequence.field.sort-order": order})
    values, changes, where = UPDATES[update]
    condition = "" if where is None else f" WHERE {where}"
    lake.sql(f"UPDATE t SET {values}{condition}")
    copy.update(changes, where=where)
    check_alike(lake)


def test_rows_that_were_updated_have_the_values_of_the_statement(lake: SparkLake) -> None:
    make(lake, "t", {})
    counts = lake.sql("UPDATE t SET a = a - id, b = NULL, v = 9 WHERE id IN (1, 2, 3)").collect()
    assert [tuple(row) for row in counts] == [(3,)]
    assert stored(lake, "db.t") == [
        (1, 4, None, 9), (2, 3, None, 9), (3, None, None, 9), (4, 5, None, 4)
    ]  # fmt: skip
    write(lake, "t", [(1, 3, "z", 100), (2, 3, None, 100)])
    assert stored(lake, "db.t")[:2] == [(1, 4, None, 9), (2, 3, None, 100)]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.parametrize("order", ["ascending", pytest.param("descending", marks=MODES)])
def test_other_merge_engines_are_updated_as_by_the_sdk(
    lake: SparkLake, engine: str, order: str
) -> None:
    options = {"merge-engine": engine, "sequence.field.sort-order": order, **OPTIONS[engine]}
    _, copy = both(lake, options)
    for values, changes, where in (UPDATES[name] for name in ("lowered", "to null", "from null")):
        condition = "" if where is None else f" WHERE {where}"
        lake.sql(f"UPDATE t SET {values}{condition}")
        copy.update(changes, where=where)
    check_alike(lake)


@pytest.mark.parametrize(
    ("engine", "order"),
    [
        ("deduplicate", "ascending"),
        *(
            pytest.param(engine, order, marks=MODES)
            for engine in OPTIONS
            for order in ("ascending", "descending")
            if (engine, order) != ("deduplicate", "ascending")
        ),
    ],
)
def test_a_merge_does_what_it_says_whatever_the_sequence(
    lake: SparkLake, engine: str, order: str
) -> None:
    options = {"merge-engine": engine, "sequence.field.sort-order": order, **OPTIONS[engine]}
    _, copy = both(lake, options)
    lake.sql(
        "MERGE INTO t USING (SELECT * FROM VALUES (1, 4), (2, NULL), (9, 1) AS s(id, a)) s "
        "ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET a = s.a, v = 10 "
        "WHEN NOT MATCHED THEN INSERT (id, a, v) VALUES (s.id, s.a, 11) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET a = -1, b = 'a' "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = t.a - 1"
    )
    copy.update({"a": 4, "v": 10}, where="id = 1")
    copy.update({"a": None, "v": 10}, where="id = 2")
    copy.update({"a": -1, "b": "a"}, where="id = 3")
    copy.update({"a": pl.col("a") - 1}, where="id = 4")
    copy.write({"id": [9], "a": [1], "v": [11]})
    check_alike(lake, kinds=False)


@pytest.mark.parametrize("clause", ["MATCHED", "NOT MATCHED BY SOURCE"])
@pytest.mark.parametrize(
    "change",
    [
        "to null",
        *(
            pytest.param(change, marks=MODES)
            for change in ("lowered", "equal", "raised", "from null")
        ),
    ],
)
def test_each_clause_of_a_merge_updates_as_the_sdk_does(
    lake: SparkLake, clause: str, change: str
) -> None:
    _, copy = both(lake, {})
    values, changes, where = UPDATES[change]
    ids = {None: (1, 2, 3, 4), "id < 3": (1, 2), "id = 1": (1,), "id = 3": (3,)}[where]
    source = ids if clause == "MATCHED" else [at for at in (1, 2, 3, 4, 9) if at not in ids]
    listed = ", ".join(f"({at})" for at in source)
    lake.sql(
        f"MERGE INTO t USING (SELECT * FROM VALUES {listed} AS s(id)) s ON t.id = s.id "
        f"WHEN {clause} THEN UPDATE SET {values.replace('= a', '= t.a')}"
    )
    copy.update(changes, where=where)
    check_alike(lake)


def test_a_merge_of_whole_rows_replaces_newer_ones(lake: SparkLake) -> None:
    make(lake, "t", {})
    lake.sql(
        "MERGE INTO t USING (SELECT * FROM VALUES (1, 1, 'a', 10), (2, 9, 'a', 20), "
        "(9, 1, 'a', 90) AS s(id, a, b, v)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert stored(lake, "db.t") == [
        (1, 1, "a", 10), (2, 9, "a", 20), *ROWS[2:], (9, 1, "a", 90)
    ]  # fmt: skip


@MODES
@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "-1"},
        {"bucket": "-2"},
        {"deletion-vectors.enabled": "true"},
        {"changelog-producer": "lookup"},
        {"ignore-delete": "true"},
    ],
    ids=str,
)
def test_rows_of_each_layout_of_buckets_are_lowered(
    lake: SparkLake, options: Mapping[str, str]
) -> None:
    make(lake, "t", options)
    lake.sql(
        "MERGE INTO t USING (SELECT * FROM VALUES (1, 4), (9, 1) AS s(id, a)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET a = s.a, v = 10 "
        "WHEN NOT MATCHED THEN INSERT (id, a, v) VALUES (s.id, s.a, 11)"
    )
    lake.catalog.table("db.t").compact()
    assert stored(lake, "db.t") == [(1, 4, "m", 10), *ROWS[1:], (9, 1, None, 11)]


def test_negative_zero_is_older_than_zero(lake: SparkLake) -> None:
    for kind in ("DOUBLE", "FLOAT"):
        name = f"db.{kind.lower()}"
        lake.sql(
            f"CREATE TABLE {name} (id INT, x {kind}) "
            "TBLPROPERTIES ('primary-key' = 'id', bucket = 1, 'sequence.field' = 'x')"
        )
        lake.sql(f"INSERT INTO {name} VALUES (1, 0.0), (2, {kind}('NaN')), (3, -1)")
        lake.sql(f"UPDATE {name} SET x = CASE id WHEN 1 THEN -{kind}('0') ELSE x END")
        assert [str(row[1]) for row in rows(lake.sql(f"SELECT * FROM {name}"))] == [
            "-0.0", "nan", "-1.0"
        ]  # fmt: skip
        lake.sql(f"UPDATE {name} SET x = CASE id WHEN 3 THEN {kind}('NaN') ELSE 1 END")
        assert [str(row[1]) for row in rows(lake.sql(f"SELECT * FROM {name}"))] == [
            "1.0", "1.0", "nan"
        ]  # fmt: skip


def test_what_is_compared_is_what_is_written(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, x DOUBLE, at INT) "
        "TBLPROPERTIES ('primary-key' = 'id', bucket = 1, 'sequence.field' = 'x')"
    )
    lake.sql("INSERT INTO db.t SELECT CAST(id AS INT), 0.5D, 0 FROM range(400)")
    lake.sql("UPDATE db.t SET x = rand(), at = 1")
    assert rows(lake.sql("SELECT at, count(*) FROM db.t GROUP BY at")) == [(1, 400)]


def test_one_commit_changes_all_rows_and_leaves_no_other_files(
    lake: SparkLake, folder: Path
) -> None:
    table = make(lake, "t", {"changelog-producer": "none"})
    before, first = data_files(folder), table.latest_snapshot()
    assert first is not None
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        lake.sql("UPDATE t SET a = a - 1, v = cast(1 / (id - 3) AS BIGINT)")
    with pytest.raises(Invalid, match="several rows of the source"):
        lake.sql(
            "MERGE INTO t USING (SELECT * FROM VALUES (1), (1) AS s(id)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET a = 1"
        )
    assert (data_files(folder), lake.catalog.table("db.t").latest_snapshot()) == (before, first)
    lake.sql("UPDATE t SET a = a - id")
    latest = lake.catalog.table("db.t").latest_snapshot()
    assert latest is not None
    assert (latest.id, latest.commit_kind) == (first.id + 1, CommitKind.OVERWRITE)
    after = {file.name for file in lake.catalog.table("db.t").files()}
    assert set(data_files(folder)) == after.union(before)
