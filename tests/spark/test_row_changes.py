"""Updates, deletes and merges by Spark, of tables with and without a primary key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from tests.spark.conftest import Rows, data_files, named_files, rows
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake
from headwater.spark.row_change import RowCounts
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported
from headwater.storage.schema.change import UpdateColumnDefaultValue
from headwater.storage.snapshot.snapshot import CommitKind

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, name STRING, at STRUCT<x: INT, y: STRING>, part STRING"
MODES = pytest.mark.modes
KINDS = {
    "keyed": (["part", "id"], {"bucket": "2"}),
    "appended": ([], {}),
    "marked": ([], {"deletion-vectors.enabled": "true"}),
    "tracked": ([], {"row-tracking.enabled": "true"}),
    "dynamic": (["part", "id"], {"bucket": "-1"}),
    "across": (["id"], {"bucket": "-1"}),
    "postponed": (["part", "id"], {"bucket": "-2"}),
    "clustered": (
        ["part", "id"],
        {
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "pk-clustering-override": "true",
            "clustering.columns": "name",
        },
    ),
    "looked-up": (
        ["part", "id"],
        {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ),
}

# One of each way of writing by default, the others among the modes.
EACH = [
    pytest.param("keyed"),
    pytest.param("appended", marks=MODES),
    *(pytest.param(kind, marks=MODES) for kind in KINDS if kind not in ("keyed", "appended")),
]


def make(lake: SparkLake, kind: str, name: str = "db.t") -> str:
    keys, options = KINDS[kind]
    schema = lake.spark.createDataFrame([], COLUMNS).schema
    lake.create_table(name, schema, primary_keys=keys, partition_keys=["part"], options=options)
    lake.catalog.table(name).write(
        [
            {"id": 1, "name": "a", "at": {"x": 1, "y": "x"}, "part": "p"},
            {"id": 2, "name": "b", "at": None, "part": "p"},
            {"id": 3, "name": "c", "at": {"x": 3, "y": "z"}, "part": "q"},
        ]
    )
    return name


@pytest.mark.modes
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"deletion-vectors.enabled": "true"}, marks=MODES)]
)
def test_rows_that_change_keep_their_row_ids(lake: SparkLake, options: dict[str, str]) -> None:
    source = lake.spark.createDataFrame(
        [(i, "a", i % 2) for i in range(6)], "id INT, v STRING, p INT"
    )
    lake.create_table(
        "db.t",
        source.schema,
        partition_keys=["p"],
        options={**options, "row-tracking.enabled": "true"},
    )
    lake.write(source.coalesce(1), "db.t")

    def found() -> dict[int, tuple[int, str, int]]:
        shown = "SELECT _ROW_ID, id, v, _SEQUENCE_NUMBER FROM db.`t$row_tracking`"
        return {row[0]: tuple(row[1:]) for row in lake.sql(shown).collect()}

    ids = {row[0]: row_id for row_id, row in found().items()}
    assert sorted(ids.values()) == list(range(6))
    lake.sql("UPDATE db.t SET v = 'b' WHERE id IN (1, 2)")
    new = lake.spark.createDataFrame(
        [(2, "c", 0), (3, "c", 1), (9, "c", 1)], "id INT, v STRING, p INT"
    )
    new.createOrReplaceTempView("new")
    try:
        lake.sql(
            "MERGE INTO db.t USING new ON t.id = new.id WHEN MATCHED AND t.id = 3 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET v = new.v WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        lake.spark.catalog.dropTempView("new")
    lake.sql("DELETE FROM db.t WHERE id = 5")
    expected = {ids[i]: (i, "a", 1) for i in (0, 4)}
    expected |= {ids[1]: (1, "b", 2), ids[2]: (2, "c", 3), 6: (9, "c", 3)}
    assert found() == expected
    lake.sql("CALL sys.compact(table => 'db.t')")
    assert found() == expected
    named = lake.sql("SELECT *, x._row_id, _SEQUENCE_NUMBER n FROM db.t x WHERE _ROW_ID = 6")
    assert named.columns == ["id", "v", "p", "_row_id", "n"]
    assert [tuple(row) for row in named.collect()] == [(9, "c", 1, 6, 3)]
    assert lake.table("db.t", ["_ROW_ID"], where="id = 9").collect()[0][0] == 6
    lake.sql("DELETE FROM db.t WHERE _ROW_ID = 6")
    del expected[6]
    assert found() == expected


@pytest.mark.modes
@pytest.mark.parametrize("evolves", [False, True])
def test_rows_are_changed_by_their_ids(lake: SparkLake, evolves: bool) -> None:
    options = "'row-tracking.enabled' = 'true'"
    if evolves:
        options += ", 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true'"
    lake.sql(f"CREATE TABLE db.t (id INT, b BIGINT) TBLPROPERTIES ({options})")
    lake.sql("USE db")
    for start in (0, 3):
        lake.sql(f"INSERT INTO t SELECT id, id FROM range({start}, {start + 3})")

    def found() -> Rows:
        return rows(lake.sql("SELECT _ROW_ID, id, b FROM t"))

    done = lake.sql("UPDATE t AS u SET b = u._row_id * 10 WHERE u._ROW_ID IN (1, 4)")
    assert rows(done) == [(2,)]
    assert rows(lake.sql("DELETE FROM t WHERE _ROW_ID = 0 OR _ROW_ID > 100")) == [(1,)]
    assert found() == [(1, 1, 10), (2, 2, 2), (3, 3, 3), (4, 4, 40), (5, 5, 5)]
    lake.sql(
        "MERGE INTO t USING (SELECT _ROW_ID AS at, b + 1 AS b FROM t WHERE id < 3) s "
        "ON t._ROW_ID = s.at WHEN MATCHED THEN UPDATE SET b = s.b "
        "WHEN NOT MATCHED BY SOURCE AND t._ROW_ID = 5 THEN DELETE"
    )
    assert found() == [(1, 1, 11), (2, 2, 3), (3, 3, 3), (4, 4, 40)]
    # A table is merged with itself.
    lake.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING t AS s ON t._ROW_ID = s.`_row_id` + 1 "
        "WHEN MATCHED AND s._ROW_ID = 1 THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT *"
    )
    assert found() == [(1, 1, 11), (2, 2, 11), (3, 3, 3), (4, 4, 40), (6, 4, 40)]
    for text, says in (
        ("UPDATE t SET _ROW_ID = 9", "no column '_ROW_ID'"),
        ("INSERT INTO t REPLACE WHERE _ROW_ID = 1 VALUES (1, 1)", "new rows have no _ROW_ID yet"),
    ):
        with pytest.raises(HeadwaterError, match=says):
            lake.sql(text)
    lake.sql("CREATE TABLE plain (id INT)")
    with pytest.raises(Unsupported, match="_ROW_ID is not known of rows that are changed"):
        lake.sql("DELETE FROM plain WHERE _ROW_ID = 6")


@pytest.mark.skipif(
    kind_of_session() == "connect", reason="Spark Connect shows no plans: all files are opened"
)
@pytest.mark.parametrize("evolves", [False, True])
def test_a_merge_by_ids_opens_the_files_that_hold_them(lake: SparkLake, evolves: bool) -> None:
    options = f"'row-tracking.enabled' = 'true', 'data-evolution.enabled' = '{evolves}'"
    lake.sql(f"CREATE TABLE db.t (id INT, b BIGINT) TBLPROPERTIES ({options})")
    lake.sql("INSERT INTO db.t SELECT id, id FROM range(0, 3)")
    table = lake.catalog.table("db.t")
    doomed = {file.name for file in table.files()}
    lake.sql("INSERT INTO db.t SELECT id, id FROM range(3, 6)")
    for path in Path(table.storage.layout.location.removeprefix("file://")).rglob("data-*"):
        if path.name in doomed:
            path.write_bytes(b"not Parquet")
    for source in ("VALUES (4L, 1), (NULL, 2), (77L, 3)", "SELECT id, id FROM range(4, 2000)"):
        lake.sql(
            f"MERGE INTO db.t USING (SELECT * FROM ({source}) AS s(at, b)) s ON t._ROW_ID = s.at "
            "WHEN MATCHED THEN UPDATE SET b = s.b * 10"
        )
    read = lake.sql("SELECT _ROW_ID, b FROM db.t WHERE _ROW_ID > 2")
    assert rows(read) == [(3, 3), (4, 40), (5, 50)]


@pytest.mark.parametrize("kind", EACH)
def test_an_update_changes_the_rows_that_fulfil_its_condition(lake: SparkLake, kind: str) -> None:
    name = make(lake, kind)
    done = lake.update(
        name,
        {"name": sf.concat("name", sf.lit("!")), "at.y": "concat(part, '-', id)"},
        where="upper(name) IN ('A', 'B')",
    )
    assert done == RowCounts(updated=2)
    table = lake.catalog.table(name)
    # Where rows are looked up, the compaction that tells of the change comes after it.
    snapshot = next(
        each for each in table.snapshots() if each.commit_kind is not CommitKind.COMPACT
    )
    assert (snapshot.properties or {})["headwater.operation"] == "UPDATE"
    assert rows(lake.table(name)) == [
        (1, "a!", (1, "p-1"), "p"),
        (2, "b!", (None, "p-2"), "p"),
        (3, "c", (3, "z"), "q"),
    ]
    latest = table.latest_snapshot()
    assert lake.update(name, {"name": 7}, where=sf.col("id") > 9) == RowCounts()
    assert table.latest_snapshot() == latest


@pytest.mark.parametrize("kind", EACH)
def test_a_merge_follows_the_first_clause_that_holds(lake: SparkLake, kind: str) -> None:
    name = make(lake, kind)
    source = lake.spark.createDataFrame(
        [
            (1, "A", (10, "X"), "p"),
            (2, "gone", None, "p"),
            (4, "D", (4, "w"), "q"),
            (5, "no", None, "q"),
        ],
        COLUMNS,
    )
    merge = lake.merge(name, source, on=["part", "id"])
    done = (
        merge.when_matched_delete("source.name = 'gone'")
        .when_matched_update({"name": "source.name || target.name"}, "target.id < 3")
        .when_not_matched_insert_all("source.name <> 'no'")
        .when_not_matched_insert({"id": "id * 10", "part": "part"})
        .when_not_matched_by_source_update({"name": sf.lit("alone")})
        .execute()
    )
    assert done == RowCounts(inserted=2, updated=2, deleted=1)
    assert rows(lake.table(name)) == [
        (1, "Aa", (1, "x"), "p"),
        (3, "alone", (3, "z"), "q"),
        (4, "D", (4, "w"), "q"),
        (50, None, None, "q"),
    ]


@pytest.mark.parametrize("kind", EACH)
def test_a_row_that_two_rows_of_the_source_match_is_refused(
    lake: SparkLake, folder: Path, kind: str
) -> None:
    name = make(lake, kind)
    before = data_files(folder)
    source = lake.spark.createDataFrame(
        [(1, "A", "p"), (1, "B", "p")], "id INT, name STRING, part STRING"
    )
    merge = lake.merge(name, source, on="target.id = source.id AND target.part = source.part")
    with pytest.raises(Invalid, match="make the source's rows distinct"):
        # Also where no clause takes one of them.
        merge.when_matched_update({"name": "source.name"}, "source.name = 'A'").execute()
    assert data_files(folder) == before
    again = lake.merge(name, source, on=["id", "part"])
    assert again.when_matched_delete().execute() == RowCounts(deleted=1)
    assert [row[0] for row in rows(lake.table(name))] == [2, 3]


@MODES
def test_a_source_with_random_values_is_computed_once(lake: SparkLake) -> None:
    name = make(lake, "keyed")
    chance = sf.rand()
    source = lake.spark.range(0, 200).select(
        (sf.floor(chance * 1000) + 100).alias("id"), sf.lit("p").alias("part")
    )
    source = source.groupBy("id", "part").count().withColumn("name", sf.lit("n"))
    done = (
        lake.merge(name, source, on=["id", "part"])
        .when_matched_update({"name": "'twice'"})
        .when_not_matched_insert({"id": "id", "part": "part", "name": "name"})
        .execute()
    )
    assert done.updated == 0
    added = lake.table(name).where("id >= 100")
    assert added.count() == done.inserted == added.where("name = 'n'").count()


@MODES
@pytest.mark.parametrize("kind", KINDS)
def test_of_merges_at_the_same_time_none_is_lost(lake: SparkLake, kind: str) -> None:
    name = make(lake, kind)
    source = lake.spark.createDataFrame([(1, "p"), (7, "q")], "id BIGINT, part STRING")

    def merge(_: int) -> RowCounts:
        return (
            lake.merge(name, source, on=["id", "part"])
            .when_matched_update({"name": "concat(coalesce(target.name, ''), '+')"})
            .when_not_matched_insert({"id": "id", "part": "part", "name": "''"})
            .execute()
        )

    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(merge, range(3)))
    assert sum(each.affected for each in done) == 6
    names = {row[0]: row[1] for row in rows(lake.table(name))}
    assert (names[1], names[7]) == ("a+++", "++")


@MODES
@pytest.mark.parametrize("kind", ["keyed", "appended", "marked"])
def test_a_change_that_fails_leaves_nothing(lake: SparkLake, folder: Path, kind: str) -> None:
    name = make(lake, kind)
    before, snapshot = data_files(folder), lake.catalog.table(name).latest_snapshot()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        lake.update(name, {"name": "cast(1 / (id - 3) as string)"})
    with pytest.raises(Invalid, match=r"column 'at\.x': .* cannot be stored as int safely"):
        lake.update(name, {"at.x": "name"})
    with pytest.raises(NotFound, match="no column 'nome'"):
        lake.update(name, {"nome": "name"})
    with pytest.raises(Exception, match="CAST_OVERFLOW"):
        lake.update(name, {"at.x": "id * 1000000000000"})
    assert data_files(folder) == before
    assert lake.catalog.table(name).latest_snapshot() == snapshot


def test_changes_that_rows_cannot_tell_are_refused(lake: SparkLake) -> None:
    schema = lake.spark.createDataFrame([], "id BIGINT, name STRING").schema
    lake.create_table("db.k", schema, primary_keys=["id"], options={"bucket": "1"})
    with pytest.raises(Invalid, match="part of the primary key"):
        lake.update("db.k", {"id": "id + 1"})
    merge = lake.merge("db.k", lake.spark.range(1), on=["id"])
    with pytest.raises(Invalid, match="a merge needs a clause"):
        merge.execute()
    with pytest.raises(Invalid, match="give it a condition"):
        merge.when_matched_delete().when_matched_delete()


@MODES
def test_new_versions_that_would_lose_replace_stored_rows(lake: SparkLake) -> None:
    schema = lake.spark.createDataFrame([], "id BIGINT, age INT, name STRING").schema
    options = {"bucket": "1", "sequence.field": "age"}
    lake.create_table("db.aged", schema, primary_keys=["id"], options=options)
    lake.write(lake.spark.createDataFrame([(1, 5, "a"), (2, 5, "b")], schema), "db.aged")
    assert lake.update("db.aged", {"age": "age - 1"}, where="id = 1") == RowCounts(updated=1)
    assert rows(lake.table("db.aged")) == [(1, 4, "a"), (2, 5, "b")]
    lake.update("db.aged", {"age": "age + 1", "name": "'new'"}, where="id = 1")
    assert rows(lake.table("db.aged")) == [(1, 5, "new"), (2, 5, "b")]
    other_key = lake.spark.createDataFrame([(3, "b")], "id INT, name STRING")
    merge = lake.merge("db.aged", other_key, on=["name"])
    with pytest.raises(Invalid, match="another primary key"):
        merge.when_matched_update({"id": "source.id"}).execute()


@MODES
@pytest.mark.parametrize("kind", ["keyed", "appended", "marked"])
def test_only_files_that_the_source_can_match_are_read_and_written(
    lake: SparkLake, kind: str
) -> None:
    name = make(lake, kind)
    table = lake.catalog.table(name)
    before = set(named_files(lake, name))
    source = lake.spark.createDataFrame([(3, "q", 1)], "id BIGINT, part STRING, extra INT")
    done = (
        lake.merge(name, source, on="target.id = source.id AND (target.part = source.part)")
        .with_schema_evolution()
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert done == RowCounts(updated=1)
    assert rows(lake.table(name).select("id", "name", "at.x", "extra")) == [
        (1, "a", 1, None),
        (2, "b", None, None),
        (3, "c", 3, 1),
    ]
    kept = {file.name for file in table.refresh().files() if file.partition == "part=p"}
    assert kept
    assert kept <= before


@pytest.mark.modes
def test_nulls_of_new_versions_become_defaults_and_deleted_rows_are_as_they_were(
    lake: SparkLake,
) -> None:
    keys, options = KINDS["keyed"]
    schema = lake.spark.createDataFrame([], COLUMNS).schema
    lake.create_table(
        "db.t", schema, primary_keys=keys, options={**options, "changelog-producer": "input"}
    )
    old = [(1, None, None, "p"), (2, None, None, "p"), (3, None, None, "p")]
    lake.write(lake.spark.createDataFrame(old, COLUMNS), "db.t")
    table = lake.catalog.table("db.t").alter(UpdateColumnDefaultValue(("name",), "none"))
    before = table.latest_snapshot()
    source = lake.spark.createDataFrame([(1, True), (2, False)], "id BIGINT, goes BOOLEAN")
    lake.merge("db.t", source, "target.id = source.id").when_matched_delete(
        "source.goes"
    ).when_matched_update({"at.x": 5}).execute()
    latest = table.latest_snapshot()
    assert before is not None
    assert latest is not None
    changes = table.changes(before.id, latest.id).to_arrow()
    told = zip(
        *(changes.column(name).to_pylist() for name in ("_ROW_KIND", "id", "name")), strict=True
    )
    assert sorted(told) == [("+U", 2, "none"), ("-D", 1, None)]
    assert rows(lake.table("db.t").select("id", "name")) == [(2, "none"), (3, None)]


@MODES
@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
        {"merge-engine": "partial-update", "deletion-vectors.enabled": "true"},
        {"ignore-delete": "true"},
    ],
    ids=lambda options: options.get("merge-engine", "ignore-delete"),
)
def test_rows_of_each_merge_engine_change_as_the_sdk_changes_them(
    lake: SparkLake, options: dict[str, str]
) -> None:
    def source(text: str) -> DataFrame:
        return lake.spark.sql(f"SELECT * FROM VALUES {text} AS s(id, n, name)")

    first = source("(0L, 1, 'a'), (1L, 2, 'b'), (2L, 3, 'c'), (3L, 4, 'd'), (4L, 5, NULL)")
    second = source("(1L, 20, 'bb'), (5L, 50, 'f')")
    for name in ("db.ours", "db.sdk"):
        lake.create_table(
            name, first.schema, primary_keys=["id"], options={"bucket": "2", **options}
        )
        lake.write(first, name)
        lake.write(second, name)
    sdk = lake.catalog.table("db.sdk")

    def same() -> list[tuple[object, ...]]:
        ours = rows(lake.table("db.ours"))
        assert ours == rows(lake.table("db.sdk"))
        return ours

    changed = lake.sql("UPDATE db.ours o SET o.n = o.n * -10, name = upper(o.name) WHERE o.id < 2")
    assert [tuple(row) for row in changed.collect()] == [(2,)]
    polars = {"n": pl.col("n") * -10, "name": pl.col("name").str.to_uppercase()}
    sdk.update(polars, where="id < 2")
    assert same()[0][:2] == (0, -10)
    assert lake.sql("DELETE FROM db.ours o WHERE o.id % 8 = 3").collect()[0][0] == 1
    sdk.delete("id = 3")
    same()
    new = "(1L, 7, 'm'), (5L, -1, 'gone'), (8L, 8, 'new')"
    merged = lake.sql(
        f"MERGE INTO db.ours t USING (SELECT * FROM VALUES {new} AS s(id, n, name)) s "
        "ON t.id = s.id WHEN MATCHED AND s.n < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert [tuple(row) for row in merged.collect()] == [(3, 1, 1, 1)]
    sdk.delete("id = 5")
    sdk.merge(source("(1L, 7, 'm'), (8L, 8, 'new')").toArrow(), on=["id"], when_matched="update")
    matching = same()
    assert [row[0] for row in matching] == [0, 1, 2, 4, 8]
    twice = lake.merge("db.ours", source("(1L, 1, 'x'), (1L, 2, 'y')"), on=["id"])
    with pytest.raises(Invalid, match="make the source's rows distinct"):
        twice.when_matched_update_all().execute()
    for name in ("db.ours", "db.sdk"):
        lake.write(source("(0L, 3, 'after'), (3L, 4, 'again')"), name)
    assert len(same()) == 6


SUMMED = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}


@MODES
@pytest.mark.parametrize(
    ("keys", "bucket"),
    [(["part", "id"], "-1"), (["id"], "-1"), (["part", "id"], "-2")],
    ids=["dynamic", "across", "postponed"],
)
def test_rows_whose_files_are_written_anew_change_in_buckets_of_every_kind(
    lake: SparkLake, keys: list[str], bucket: str
) -> None:
    def source(text: str) -> DataFrame:
        return lake.spark.sql(f"SELECT * FROM VALUES {text} AS s(id, n, part)")

    first = source("(1L, 1, 'p'), (2L, 2, 'p'), (3L, 3, 'q'), (4L, 4, 'q'), (5L, 5, 'q')")
    lake.create_table(
        "db.s",
        first.schema,
        primary_keys=keys,
        partition_keys=["part"],
        options={"bucket": bucket, "dynamic-bucket.target-row-num": "2", **SUMMED},
    )
    lake.write(first, "db.s")
    lake.write(source("(1L, 10, 'p'), (4L, 40, 'q')"), "db.s")
    moves = keys == ["id"]
    assert lake.update("db.s", {"n": "-n"}, where="id < 5 AND n + 0 > 1") == RowCounts(updated=4)
    new = "(1L, 100, 'p', 'U'), (3L, 0, 'q', 'D'), (6L, 6, 'q', 'I'), (7L, 7, 'r', 'I')"
    merge = lake.merge(
        "db.s", lake.spark.sql(f"SELECT * FROM VALUES {new} AS s(id, n, part, what)"), on=["id"]
    )
    done = (
        merge.when_matched_delete("what = 'D'")
        .when_matched_update({"n": "source.n", "part": "'z'"} if moves else {"n": "source.n"})
        .when_not_matched_insert({"id": "id", "n": "n", "part": "part"})
        .execute()
    )
    assert done == RowCounts(inserted=2, updated=1, deleted=1)
    lake.write(source(f"(1L, 1, '{'z' if moves else 'p'}'), (7L, 1, 'r')"), "db.s")
    assert rows(lake.table("db.s")) == [
        (1, 101, "z" if moves else "p"),
        (2, -2, "p"),
        (4, -44, "q"),
        (5, 5, "q"),
        (6, 6, "q"),
        (7, 8, "r"),
    ]
    again = lake.merge("db.s", source("(2L, 0, 'p')"), "target.id = source.id AND target.n > 0")
    again.when_matched_update({"n": "0"}).when_not_matched_insert_all()
    left = again.when_not_matched_by_source_update({"n": "n + 1"})
    with pytest.raises(Invalid, match="make the source's rows distinct"):
        left.execute()


@MODES
def test_more_rows_change_in_one_commit_than_a_process_would_hold(lake: SparkLake) -> None:
    count = 1_100_000
    numbers = lake.spark.range(count).select("id", sf.lit(1).cast("bigint").alias("n"))
    options = {"bucket": "2", "write-only": "true", **SUMMED}
    lake.create_table("db.many", numbers.schema, primary_keys=["id"], options=options)
    lake.write(numbers, "db.many")
    lake.write(numbers, "db.many")
    before = lake.catalog.table("db.many").latest_snapshot()
    assert before is not None
    done = lake.merge("db.many", numbers.withColumn("n", sf.col("id")), on=["id"])
    assert done.when_matched_update_all().execute() == RowCounts(updated=count)
    after = lake.catalog.table("db.many").latest_snapshot()
    assert after is not None
    assert after.id == before.id + 1
    left = lake.table("db.many").agg(sf.count("*"), sf.sum("n"), sf.count_if(sf.expr("n <> id")))
    assert tuple(left.collect()[0]) == (count, count * (count - 1) // 2, 0)


@MODES
@pytest.mark.parametrize("keyed", [True, False])
def test_a_merge_adds_fields_of_structs_and_widens_types_if_that_is_said(
    lake: SparkLake, keyed: bool
) -> None:
    spark = lake.spark
    made = "1 AS id, named_struct('a', 1) AS s, array(named_struct('x', 2)) AS l, 3 AS n"
    properties = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')" if keyed else ""
    lake.sql(
        f"CREATE TABLE db.e (id INT, s STRUCT<a: INT>, l ARRAY<STRUCT<x: INT>>, n INT) {properties}"
    )
    lake.write(spark.sql(f"SELECT {made}"), "db.e")
    lake.sql("USE db")
    source = (
        "SELECT id, named_struct('B', 'b') AS s, array(named_struct('y', 9L, 'x', 4)) AS l, "
        "CAST(id AS BIGINT) AS n, 'more' AS extra FROM VALUES (1), (2) AS v(id)"
    )
    merge = (
        f"MERGE WITH SCHEMA EVOLUTION INTO e USING ({source}) s ON e.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    lake.sql(merge)
    types = dict(lake.table("db.e").dtypes)
    assert types == {
        "id": "int", "s": "struct<a:int,B:string>", "l": "array<struct<x:int,y:bigint>>",
        "n": "int", "extra": "string",
    }  # fmt: skip
    expected = [
        (1, (1, "b"), [(4, 9)], 1, "more"),
        (2, (None, "b"), [(4, 9)], 2, "more"),
    ]
    assert rows(lake.table("db.e")) == expected
    widens = "spark.paimon.write.merge-schema.type-widening"
    try:
        spark.conf.set(widens, "yes")
        with pytest.raises(Invalid, match="must be true or false, not 'yes'"):
            lake.sql(merge)
        spark.conf.set(widens, "true")
        lake.sql(merge)
        assert rows(lake.sql("SELECT * FROM e")) == expected
    finally:
        spark.conf.unset(widens)
    assert dict(lake.table("db.e").dtypes)["n"] == "bigint"


@MODES
@pytest.mark.parametrize("keyed", [True, False])
def test_a_merge_keeps_fields_of_structs_that_the_source_lacks(
    lake: SparkLake, keyed: bool
) -> None:
    properties = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')" if keyed else ""
    lake.sql(
        "CREATE TABLE db.t (id INT, s STRUCT<a: INT, in: STRUCT<b: INT, c: INT>>, "
        f"l ARRAY<STRUCT<x: INT, y: INT>>) {properties}"
    )
    old = (
        "named_struct('a', 1, 'in', named_struct('b', 2, 'c', 3)), "
        "array(named_struct('x', 1, 'y', 2))"
    )
    lake.sql(f"INSERT INTO db.t VALUES (1, {old}), (2, {old}), (3, NULL, NULL), (4, {old})")
    source = (
        "SELECT id, IF(id IN (2, 3), NULL, named_struct('in', named_struct('c', 30))) AS s, "
        "array(named_struct('y', 20)) AS l FROM VALUES (1), (2), (3), (5) AS v(id)"
    )
    lake.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO db.t USING ({source}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(lake.table("db.t")) == [
        (1, (1, (2, 30)), [(None, 20)]),
        (2, (1, (2, None)), [(None, 20)]),
        (3, None, [(None, 20)]),
        (4, (1, (2, 3)), [(1, 2)]),
        (5, (None, (None, 30)), [(None, 20)]),
    ]
    # All that a value says is taken, where it is assigned by name.
    assign = "MERGE WITH SCHEMA EVOLUTION INTO db.t USING ({}) s ON t.id = s.id WHEN MATCHED THEN "
    lake.sql(assign.format(source) + "UPDATE SET s = s.s")
    assert rows(lake.table("db.t").where("id = 1").select("s")) == [((None, (None, 30)),)]


@pytest.mark.modes
def test_a_merge_adds_columns_that_its_clauses_name(lake: SparkLake) -> None:
    spark = lake.spark
    lake.sql("CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a')")
    source = "SELECT id, 'b' AS v, 9L AS score, 8 AS other FROM VALUES (1), (2) AS v(id)"
    merge = (
        f"INTO db.t USING ({source}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.score = s.score + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, SCORE) VALUES (s.id, s.score)"
    )
    with pytest.raises(NotFound, match=r"no column 't\.score'"):
        lake.sql(f"MERGE {merge}")
    lake.sql(f"MERGE WITH SCHEMA EVOLUTION {merge}")
    assert lake.table("db.t").dtypes == [("id", "int"), ("v", "string"), ("score", "bigint")]
    assert rows(lake.table("db.t")) == [(1, "a", 10), (2, None, 9)]
    setting = "spark.paimon.write.merge-schema"
    star = "MERGE INTO db.t USING (SELECT 2 AS id, 5 AS more) s ON t.id = s.id WHEN MATCHED THEN"
    with pytest.raises(Invalid, match="lacks the columns v, score"):
        lake.sql(f"{star} UPDATE SET *")
    try:
        spark.conf.set(setting, "true")
        lake.sql(f"{star} UPDATE SET *")
    finally:
        spark.conf.unset(setting)
    assert rows(lake.table("db.t")) == [(1, "a", 10, None), (2, None, 9, 5)]
    with pytest.raises(NotFound, match="no column 'nothing'"):
        lake.sql(f"{star.replace('MERGE', 'MERGE WITH SCHEMA EVOLUTION')} UPDATE SET nothing = 1")


@pytest.mark.modes
def test_structs_in_arrays_and_maps_are_assigned_by_the_names_of_their_fields(
    lake: SparkLake,
) -> None:
    lake.sql("CREATE TABLE db.t (id INT, l ARRAY<STRUCT<a: INT, b: STRING>>, "
             "m MAP<STRING, STRUCT<a: INT, b: STRING>>)")  # fmt: skip
    given = "named_struct('B', 'y', 'a', 2)"
    source = f"SELECT 1 AS id, array({given}) AS l, map('k', {given}) AS m"
    merge = f"MERGE INTO db.t USING ({source}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    lake.sql(merge)
    assert rows(lake.table("db.t")) == [(1, [(2, "y")], {"k": (2, "y")})]
    for wrong, says in (
        (merge.replace("'a', 2", "'a', 2, 'c', 3"), "'l.element'.* fields c are not in both"),
        (merge.replace("'a', 2", "'a', 'x'"), "'l.element.a': .* string cannot be stored as int"),
    ):
        with pytest.raises(Invalid, match=says):
            lake.sql(wrong)
