"""``CALL``: how calls are read, and what each procedure does."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.conftest import rows
from tests.spark.sql.conftest import Run
from tests.spark_sessions import kind_of_session

from headwater.catalog.model.column import columns_from_arrow
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewSchema
from headwater.catalog.table.table import Table
from headwater.spark import SparkLake
from headwater.spark.sql.call.procedures import LEFT_OUT, PROCEDURES
from headwater.spark.sql.context import SqlContext
from headwater.storage.errors import AlreadyExists, CorruptData, Invalid, NotFound, Unsupported
from headwater.storage.files.local import local_path

DONE = [(True,)]


@pytest.fixture
def table(run: Run, context: SqlContext) -> Table:
    """An append table of three snapshots, each a file in each of two partitions."""
    run("CREATE TABLE t (id INT, p INT) PARTITIONED BY (p)")
    table = context.catalog.table("db.t")
    for number in range(3):
        table.write({"id": [number, number], "p": [0, 1]})
    return table


def latest(table: Table) -> int:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return snapshot.id


def files(table: Table, partition: int) -> int:
    return sum(file.partition == f"p={partition}" for file in table.files())


# How calls are read --------------------------------------------------------------------------


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("sys.compct('t')", Unsupported, r"did you mean sys\.compact\?"),
    ("compact('t')", Invalid, r"write CALL sys\.compact"),
    ("paimon.sys.merge_branch('t', 'b')", Invalid, r"write CALL sys\.merge_branch"),
    ("sys.compact()", Invalid, r"'table' is missing: sys\.compact\(table STRING, \[partitions"),
    ("sys.compact(NULL)", Invalid, "'table' is missing"),
    ("sys.compact(tbl => 't')", Invalid, "no argument is called 'tbl'"),
    ("sys.compact(table => 't', TABLE => 't')", Invalid, "given twice"),
    ("sys.compact('t', order_by => 'id')", Invalid, "all arguments by their names or none"),
    ("sys.purge_files('t', 1)", Invalid, "too many arguments"),
    ("sys.create_tag('t', 'a', 'x')", Invalid, "'snapshot' is of type BIGINT, not 'x'"),
    ("sys.compact_manifest('t', dry_run => 1)", Invalid, "by their names"),
    ("sys.compact_manifest(table => 't', dry_run => 1)", Invalid, "BOOLEAN, not '1'"),
    ("sys.purge_files(1 + 1)", Invalid, "where , is expected"),
    ("sys.purge_files('t') now", Invalid, "end of the statement"),
    ("sys.compact(table => 't', options => 'x')", Invalid, "key=value"),
    ("sys.compact(table => 't', options => 'buckett=1')", Invalid, "did you mean 'bucket'"),
    ("sys.compact(table => 't', options => 'team.owner=a')", Invalid, "'team.owner' is not an"),
    ("sys.compact(table => ' ')", Invalid, "'table' must not be blank"),
]


def test_calls_that_are_not_understood_are_refused(run: Run, table: Table) -> None:
    for text, error, message in REFUSED:
        with pytest.raises(error, match=message):
            run(f"CALL {text}")
        assert latest(table) == 3


def test_procedures_that_are_left_out_say_why(run: Run) -> None:
    for name in LEFT_OUT:
        with pytest.raises(Unsupported, match=rf"sys\.{name} is not supported: "):
            run(f"CALL sys.{name}(map('a', 'b'), array(1))")


def test_a_call_may_name_the_warehouse_and_the_database(run: Run, table: Table) -> None:
    assert run("CALL main.SYS.create_tag(`table` => 'main.db.t', `Tag` => 'a')") == DONE
    assert run("CALL sys.create_tag('db.`t`', 'b', 2L, NULL)") == DONE
    assert [(tag.name, tag.snapshot.id) for tag in table.tags()] == [("a", 3), ("b", 2)]


# Files ---------------------------------------------------------------------------------------


def test_compact_takes_partitions_or_a_condition(run: Run, table: Table) -> None:
    assert run("CALL sys.compact(table => 't', partitions => 'p=0')") == DONE
    assert (files(table, 0), files(table, 1)) == (1, 3)
    assert run("CALL sys.compact(table => 't', where => 'p > 0 AND p < 3')") == DONE
    assert (files(table, 0), files(table, 1)) == (1, 1)
    assert latest(table) == 5
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [0, 0, 1, 1, 2, 2]
    for arguments, message in {
        "partitions => 'p=0', where => 'p = 1'": "give one of them",
        "partitions => 'p'": "is not a partition",
        "partitions => ';'": "names no partition",
        "compact_strategy => 'some'": "'full' or 'minor'",
        "order_by => 'id'": "order_by needs order_strategy",
        "partition_idle_time => '1 h', order_strategy => 'order', order_by => 'id'": "not for sort",
        "partition_idle_time => '1 h', order_by => 'id'": "not for sort",
        "buckets => '0'": r"no fixed number of buckets \('bucket' is -1\)",
    }.items():
        with pytest.raises(Invalid, match=message):
            run(f"CALL sys.compact(table => 't', {arguments})")


@pytest.mark.skipif(
    kind_of_session() == "connect", reason="Spark Connect shows no plans: such texts are refused"
)
@pytest.mark.spark
def test_conditions_of_calls_mean_what_they_mean_to_spark(lake: SparkLake) -> None:
    """Moments in the session's time zone, CHAR filled up, constants computed."""
    lake.sql("CREATE TABLE db.m (id INT, at TIMESTAMP, c CHAR(3)) PARTITIONED BY (at, c)")
    table = lake.catalog.table("db.m")
    at = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (12, 17)]
    for _ in range(2):
        table.write({"id": [1, 2], "at": at, "c": ["q  ", "r  "]})
    zone = str(lake.spark.conf.get("spark.sql.session.timeZone"))
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for where, left in (
            ("at = '2026-01-01 17:00:00'", 4),  # Of no partition: they are 07:00 and 12:00 there.
            ("at = '2026-01-01 12:00:00'", 3),
            ("c = concat('q', '')", 2),
        ):
            lake.sql(f'CALL sys.compact(table => "db.m", where => "{where}")')
            assert len(table.files()) == left
        with pytest.raises(Unsupported, match="is not supported"):
            lake.sql("CALL sys.compact(table => 'db.m', where => 'lower(c) = c')")
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", zone)


def test_compact_takes_numbers_of_buckets(run: Run, context: SqlContext) -> None:
    run(
        "CREATE TABLE k (id INT) TBLPROPERTIES "
        "('primary-key' = 'id', 'bucket' = '4', 'write-only' = 'true')"
    )
    keyed = context.catalog.table("db.k")
    for _ in range(2):
        keyed.write({"id": list(range(40))})
    assert run("CALL sys.compact(table => 'k', buckets => '0 - 1, 3')") == DONE
    assert Counter(file.bucket for file in keyed.files()) == {0: 1, 1: 1, 2: 2, 3: 1}
    for buckets, message in {
        "0,,1": "'' is not a number or range",
        "-1": "'-1' is not a number or range",
        "3-1": "ends before it begins",
        "0-4": "has the buckets 0 to 3, and none is 4",
        "7-99999999999": "none is 7",
    }.items():
        with pytest.raises(Invalid, match=message):
            run(f"CALL sys.compact(table => 'k', buckets => '{buckets}')")
    run("CREATE TABLE c (id INT) TBLPROPERTIES ('bucket'='2','bucket-key'='id')")
    with pytest.raises(Invalid, match="sorting is of whole partitions"):
        run("CALL sys.compact('c', NULL, NULL, 'order', 'id', NULL, NULL, NULL, '0')")


def test_compact_sorts_and_lays_options_over(run: Run, table: Table) -> None:
    run(
        "CALL sys.compact(table => 't', partitions => 'p=0;p=1', order_strategy => 'zorder', "
        "order_by => 'ID', options => 'target-file-size=1 mb')"
    )
    assert (files(table, 0), files(table, 1)) == (1, 1)
    run("CALL sys.compact(table => 't', compact_strategy => 'minor')")
    run("CALL sys.compact(table => 't', partition_idle_time => '1 h')")
    assert latest(table) == 4


def test_compact_of_idle_partitions_leaves_the_others(run: Run, table: Table) -> None:
    run("CALL sys.compact(table => 't', partition_idle_time => '1 h')")
    assert (files(table, 0), files(table, 1)) == (3, 3)
    run("CALL sys.compact(table => 't', partition_idle_time => '0 ms')")
    assert (files(table, 0), files(table, 1)) == (1, 1)
    run("CREATE TABLE plain (id INT)")
    for chosen in ("partition_idle_time => '1 h'", "partitions => 'p=1'"):
        with pytest.raises(Invalid, match=r"db\.plain has no partitions"):
            run(f"CALL sys.compact(table => 'plain', {chosen})")


def test_a_database_is_compacted(run: Run, context: SqlContext, table: Table) -> None:
    run("CREATE TABLE files (id INT) USING csv")
    run("CREATE TABLE left (id INT)")
    call = "CALL sys.compact_database(including_databases => 'd.*', excluding_tables => '.*left')"
    assert run(call) == [("Compact database finished. Success: 1, Failed: 0",)]
    assert (files(table, 0), files(table, 1)) == (1, 1)
    with pytest.raises(Invalid, match="no regular expression"):
        run("CALL sys.compact_database('(')")


def test_manifests_and_file_indexes_are_rewritten(run: Run, table: Table) -> None:
    assert run("CALL sys.compact_manifest('t')") == DONE
    run("ALTER TABLE t SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'id')")
    assert run("CALL sys.rewrite_file_index(table => 't', where => 'p = 1')") == [(1, 3)]
    assert run("CALL sys.rewrite_file_index('t')") == [(1, 3)]
    assert run("CALL sys.rewrite_file_index('t')") == [(0, 0)]
    assert run("CALL sys.rewrite_file_index(table => 't', rebuild => true)") == [(2, 6)]


def test_bucket_indexes_are_rebuilt(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE keyed (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    keyed = context.catalog.table("db.keyed")
    keyed.write({"id": [1, 2], "v": ["a", "b"]})
    (path,) = Path(local_path(keyed.info.path)).glob("index/index-*")
    path.write_bytes(b"12345678")
    with pytest.raises(CorruptData, match="rebuild-bucket-indexes"):
        keyed.write({"id": [1], "v": ["c"]})
    assert run("CALL sys.rebuild_bucket_index('keyed')") == [(True,)]
    assert run("CALL sys.rebuild_bucket_index(table => 'keyed')") == [(False,)]
    keyed.write({"id": [1], "v": ["c"]})
    assert keyed.scan().to_arrow().sort_by("id")["v"].to_pylist() == ["c", "b"]


def test_a_dry_run_tells_of_manifests(
    run: Run, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    call = "CALL sys.compact_manifest(table => 't'"
    before = table.latest_snapshot()
    with caplog.at_level("INFO"):
        assert run(f"{call}, dry_run => true)") == DONE
    assert " manifests of " in caplog.messages[-1]
    assert not caplog.messages[-1].startswith("table db.t: 0 ")
    assert table.latest_snapshot() == before
    sorted_by = "manifest_sort_enabled => true, manifest_sort_partition_field"
    assert run(f"{call}, {sorted_by} => 'p')") == DONE
    assert table.latest_snapshot() != before
    with caplog.at_level("INFO"):
        run(f"{call}, dry_run => true)")
    assert "table db.t: 0 manifests of 0 bytes" in caplog.messages[-1]
    for argument, problem in (
        ("manifest_sort_enabled => false", "always sorted"),
        ("manifest_sort_partition_field => 'id'", r"in their order \(p\), not by 'id' first"),
        ("manifest_sort_max_rewrite_size => '1 gb'", "or nothing is"),
    ):
        with pytest.raises(Unsupported, match=problem):
            run(f"{call}, {argument})")


def test_orphan_files_are_removed(run: Run, table: Table) -> None:
    place = Path(table.info.path.removeprefix("file://"))
    (place / "p=0" / "bucket-0" / "data-lost.parquet").write_bytes(b"12345")
    call = "CALL sys.remove_orphan_files(table => 'db.*', older_than => '2100-01-01 00:00:00'"
    with pytest.raises(Invalid, match="older_than must be before now"):
        run(f"{call})")
    assert run("CALL sys.remove_orphan_files('t')") == [(0, 0)]
    with pytest.raises(Invalid, match="mode is 'local' or 'distributed'"):
        run("CALL sys.remove_orphan_files(table => 't', mode => 'far')")
    with pytest.raises(Invalid, match="at least 1, not 0"):
        run("CALL sys.remove_orphan_files(table => 't', parallelism => 0)")
    now = table.storage.runtime.now_millis()
    instant = pa.scalar(now + 1, pa.timestamp("ms", tz="UTC")).as_py().isoformat()
    call = f"CALL sys.remove_orphan_files(table => 'db.*', older_than => '{instant}'"
    assert run(f"{call}, dry_run => true)") == [(1, 5)]
    assert run(f"{call}, mode => 'local', parallelism => 2)") == [(1, 5)]


def test_files_that_do_not_exist_are_taken_out(run: Run, table: Table) -> None:
    place = Path(table.info.path.removeprefix("file://"))
    lost = min((place / "p=0").rglob("data-*"))
    lost.unlink()
    row = (f"file://{lost}",)
    with pytest.raises(Invalid, match="at least 1, not 0"):
        run("CALL sys.remove_unexisting_files(table => 't', parallelism => 0)")
    assert run("CALL sys.remove_unexisting_files(table => 'db.*', dry_run => true)") == [row]
    assert files(table, 0) == 3
    assert run("CALL sys.remove_unexisting_files('t')") == [row]
    assert (files(table, 0), files(table, 1)) == (2, 3)
    assert run("CALL sys.remove_unexisting_files('t')") == []


# The past ------------------------------------------------------------------------------------


def test_tables_are_rolled_back(run: Run, table: Table) -> None:
    run("ALTER TABLE t CREATE TAG two AS OF VERSION 2")
    assert run("CALL sys.rollback(table => 't', version => 'two')") == [(3, 2)]
    with pytest.raises(Invalid, match="one of version, snapshot and tag"):
        run("CALL sys.rollback(table => 't', snapshot => 1, tag => 'two')")
    with pytest.raises(NotFound):
        run("CALL sys.rollback(table => 't', tag => 'none')")
    table.write({"id": [9], "p": [0]})
    assert run("CALL sys.rollback('t', 2)") == [(3, 2)]
    first = table.snapshot(1).time_millis
    with pytest.raises(NotFound):
        run(f"CALL sys.rollback_to_timestamp('t', {first - 1})")
    assert run(f"CALL sys.rollback_to_timestamp('t', {first})") == [(2, 1)]
    assert table.scan().count() == 2
    with pytest.raises(NotFound, match="watermark"):
        run("CALL sys.rollback_to_watermark('t', 5)")


def test_snapshots_and_tags_expire(run: Run, table: Table) -> None:
    run("CALL sys.create_tag(table => 't', tag => 'old', snapshot => 1)")
    assert run("CALL sys.expire_snapshots(table => 't', retain_max => 2, retain_min => 1)") == [
        (1,)
    ]
    call = "CALL sys.expire_snapshots(table => 't', retain_min => 1, older_than => '{}')"
    assert run(call.format("2020-01-01 00:00:00")) == [(0,)]
    with pytest.raises(Invalid, match="must be before now"):
        run(call.format("2100-01-01 00:00:00"))
    with pytest.raises(Invalid, match="is not a time"):
        run(call.format("yesterday"))
    assert run("CALL sys.expire_tags('t')") == [("No expired tags.",)]
    assert run("CALL sys.expire_tags(table => 't', older_than => '2100-01-01 00:00:00')") == [
        ("old",)
    ]


def test_changelogs_expire_by_themselves(run: Run, context: SqlContext) -> None:
    run(
        "CREATE TABLE c (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', "
        "'changelog-producer' = 'input', 'snapshot.num-retained.min' = '2', "
        "'snapshot.num-retained.max' = '2', 'changelog.num-retained.max' = '100', "
        "'consumer.changelog-only' = 'true', 'write-only' = 'true')"
    )
    table = context.catalog.table("db.c")
    for number in range(9):
        table.write({"id": [number]})
    assert run("CALL sys.expire_changelogs('c')") == [(0,)]
    run("CALL sys.reset_consumer(table => 'c', consumerId => 'slow', nextSnapshotId => 4)")
    assert run("CALL sys.expire_snapshots('c')") == [(7,)]
    call = "CALL sys.expire_changelogs(table => 'c', {})"
    assert run(call.format("older_than => '2020-01-01 00:00:00', retain_min => 1")) == [(0,)]
    assert run(call.format("retain_max => 8, max_deletes => 5")) == [(1,)]
    assert run(call.format("retain_max => 4")) == [(2,)]
    assert run(call.format("delete_all => true")) == [(0,)]
    assert table.changes(since=3, until=9).to_arrow().num_rows == 6
    run("CALL sys.clear_consumers('c')")
    assert run(call.format("retain_max => 4, retain_min => 4")) == [(2,)]
    assert run(call.format("delete_all => true")) == [(2,)]
    assert [each.id for each in table.snapshots()] == [9, 8]
    assert table.scan().count() == 9
    with pytest.raises(Invalid, match="leave out the other arguments"):
        run(call.format("delete_all => true, retain_max => 1"))
    with pytest.raises(Invalid, match="at most 1 changelogs cannot be retained"):
        run(call.format("retain_min => 2, retain_max => 1"))


def test_partitions_expire_and_are_marked_done(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE d (id INT, dt STRING) PARTITIONED BY (dt)")
    table = context.catalog.table("db.d")
    table.write({"id": [1, 2], "dt": ["2020-01-01", "2999-01-01"]})
    call = "CALL sys.expire_partitions(table => 'd', expiration_time => '1 d', "
    call += "timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$dt')"
    assert run(call) == [("dt=2020-01-01",)]
    assert run(call) == [("No expired partitions.",)]
    assert run("CALL sys.mark_partition_done('d', 'dt=2999-01-01')") == DONE
    place = Path(table.info.path.removeprefix("file://"))
    assert (place / "dt=2999-01-01" / "_SUCCESS").exists()


def test_purging_leaves_an_empty_table_without_a_past(run: Run, table: Table) -> None:
    run("CALL sys.create_tag('t', 'a', 1)")
    run("CALL sys.create_branch('t', 'b', 'a')")
    run("CALL sys.reset_consumer('t', 'c', 1)")
    assert run("CALL sys.purge_files('t')") == [("Success",)]
    assert (table.tags(), table.branches(), table.consumers()) == ([], [], [])
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    assert table.scan().count() == 0
    place = Path(table.info.path.removeprefix("file://"))
    assert not list(place.rglob("data-*"))


# What refers to it ---------------------------------------------------------------------------


def test_tags_are_made_changed_and_deleted(run: Run, table: Table) -> None:
    run("CREATE TABLE empty (id INT)")
    with pytest.raises(NotFound, match=r"db\.empty has no snapshot yet that tag 'a' could name"):
        run("CALL sys.create_tag('empty', 'a')")
    assert run("CALL sys.create_tag('t', 'a', 1, '1 d')") == DONE
    assert table.tag("a").retained_millis == 86_400_000
    assert run("CALL sys.replace_tag(table => 't', tag => 'a', snapshot => 2)") == DONE
    assert table.tag("a").snapshot.id == 2
    assert run("CALL sys.rename_tag('t', 'a', 'b')") == DONE
    with pytest.raises(NotFound):
        run("CALL sys.delete_tag('t', 'b,c')")
    assert run("CALL sys.delete_tag('t', 'b')") == DONE
    assert run("CALL sys.trigger_tag_automatic_creation('t')") == DONE
    assert table.tags() == []


def test_a_tag_is_made_of_a_moment(run: Run, table: Table) -> None:
    second, last = table.snapshot(2), table.snapshot(3)
    assert run(f"CALL sys.create_tag_from_timestamp('t', 'a', {last.time_millis})") == [
        ("a", 3, last.time_millis, "null")
    ]
    made = run(f"CALL sys.create_tag_from_timestamp('t', 'd', {second.time_millis + 1})")
    assert made[0][1] == 3
    assert run("CALL sys.create_tag_from_timestamp('t', 'b', 1)")[0][1] == 1
    # A snapshot that has expired and has a tag counts.
    assert run("CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1)") == [
        (2,)
    ]
    assert run("CALL sys.create_tag_from_timestamp('t', 'e', 1)")[0][1] == 1
    assert table.tag("e").snapshot.id == 1
    assert run(f"CALL sys.create_tag_from_timestamp('t', 'f', {second.time_millis + 1})") == [
        ("f", 3, last.time_millis, "null")
    ]
    with pytest.raises(NotFound, match="or later"):
        run(f"CALL sys.create_tag_from_timestamp('t', 'c', {last.time_millis + 1})")
    with pytest.raises(Invalid, match="'timestamp' is missing"):
        run("CALL sys.create_tag_from_timestamp('t', 'c')")


def test_branches_come_and_go(run: Run, table: Table) -> None:
    run("CALL sys.create_tag('t', 'a', 1)")
    assert run("CALL sys.create_branch('t', 'b', 'a')") == DONE
    with pytest.raises(AlreadyExists):
        run("CALL sys.create_branch('t', 'b')")
    assert run("CALL sys.create_branch(table=>'t', branch=>'b', ignoreIfExists=>'true')") == DONE
    assert run("CALL sys.create_branch('t$branch_b', 'c', 'a')") == DONE
    assert run("SHOW BRANCHES t") == [("b",), ("c",)]
    with pytest.raises(NotFound, match="no branch 'x'"):
        run("CALL sys.delete_branch('t', 'c,x')")
    with pytest.raises(AlreadyExists, match=r"db\.t has a branch 'b' already"):
        run("CALL sys.rename_branch('t', 'c', 'b')")
    assert run("CALL sys.rename_branch('t', 'c', 'd')") == DONE
    assert run("CALL sys.delete_branch('t', 'd')") == DONE
    assert run("CALL sys.fast_forward('t', 'b')") == DONE
    assert table.refresh().scan().count() == 2


def test_consumers_are_moved_and_forgotten(run: Run, table: Table) -> None:
    for name in ("a1", "a2", "b"):
        assert run(f"CALL sys.reset_consumer('t', '{name}', 2)") == DONE
    with pytest.raises(NotFound):
        run("CALL sys.reset_consumer('t', 'a1', 9)")
    run("CALL sys.clear_consumers(table => 't', includingConsumers => 'a.*', "
        "excludingConsumers => 'a1')")  # fmt: skip
    assert [each.consumer_id for each in table.consumers()] == ["a1", "b"]
    run("CALL sys.reset_consumer(table => 't', consumerId => 'b')")
    run("CALL sys.clear_consumers('t')")
    assert table.consumers() == []


# Objects -------------------------------------------------------------------------------------


def test_a_views_dialects_change(run: Run, context: SqlContext) -> None:
    views = context.catalog.catalog.views
    name = Identifier("db", "v")
    views.create(name, ViewSchema(columns_from_arrow(pa.schema([("a", pa.int32())])), "SELECT 1"))
    assert run("CALL sys.alter_view_dialect('v', 'add', 'flink', 'SELECT 2')") == DONE
    assert run("CALL sys.alter_view_dialect(view=>'v', action=>'add', query=>'SELECT 3')") == DONE
    assert run("CALL sys.alter_view_dialect('v', 'update', 'flink', 'SELECT 4')") == DONE
    assert views.get(name).schema.dialects == {"flink": "SELECT 4", "spark": "SELECT 3"}
    assert run("CALL sys.alter_view_dialect('v', 'drop', 'flink')") == DONE
    assert views.get(name).schema.dialects == {"spark": "SELECT 3"}
    for text in ("'v', 'swap'", "'v', 'add'", "'v', 'drop', 'spark', 'x'"):
        with pytest.raises(Invalid):
            run(f"CALL sys.alter_view_dialect({text})")


def test_functions_are_kept_for_other_engines(run: Run, context: SqlContext) -> None:
    parameters = json.dumps([{"id": 0, "name": "length", "type": "INT"}])
    result = json.dumps([{"id": 0, "name": "area", "type": "BIGINT"}])
    assert run(
        f"CALL sys.create_function(`function` => 'area', inputParams => '{parameters}', "
        f"returnParams => '{result}', deterministic => false, options => 'k1=v1,k2=v2')"
    ) == DONE  # fmt: skip
    change = {
        "action": "addDefinition",
        "name": "spark",
        "definition": {"type": "lambda", "definition": "(Integer a) -> a", "language": "JAVA"},
    }
    assert run(f"CALL sys.alter_function('db.area', '{json.dumps(change)}')") == DONE
    spec = context.catalog.catalog.functions.get(Identifier("db", "area")).spec
    assert list(spec.definitions) == ["spark"]
    assert (spec.is_deterministic, spec.options) == (False, {"k1": "v1", "k2": "v2"})
    assert run("SHOW USER FUNCTIONS LIKE 'a*'") == [("db.area",)]
    with pytest.raises(Invalid, match="argument 'change'"):
        run("CALL sys.alter_function('area', '{}')")
    with pytest.raises(Invalid, match="argument 'inputParams'"):
        run("CALL sys.create_function('f', 'x', '[]')")
    assert run("CALL sys.drop_function('area')") == DONE
    assert run("SHOW USER FUNCTIONS") == []


def test_a_table_is_copied(run: Run, context: SqlContext, table: Table) -> None:
    assert run("CALL sys.copy(source_table => 't', target_table => 'u')") == DONE
    assert context.catalog.table("db.u").scan().count() == 6


@pytest.mark.spark
def test_a_table_is_copied_into_another(lake: SparkLake) -> None:
    lake.sql("USE db")

    def content(name: str) -> list[tuple[object, ...]]:
        return rows(lake.sql(f"SELECT * FROM {name}"))

    lake.sql(
        "CREATE TABLE s (k INT, c CHAR(3), p STRING, h INT) PARTITIONED BY (p, h) "
        "TBLPROPERTIES ('primary-key' = 'k,p,h', 'bucket' = '1')"
    )
    lake.sql("INSERT INTO s VALUES (1, 'a', 'x', 5), (2, 'b', 'y', 0), (3, NULL, 'z', 7)")
    lake.sql("CALL sys.copy('s', 'chosen', \"P = 'x' AND h > 4\")")
    assert content("chosen") == [(1, "a  ", "x", 5)]
    assert lake.catalog.table("db.chosen").schema.primary_keys == ("k", "p", "h")
    lake.sql("CREATE TABLE wide LIKE s")
    lake.sql("ALTER TABLE wide ADD COLUMN more INT")
    lake.sql("INSERT INTO wide VALUES (4, 'c', 'x', 5, 1), (5, 'd', 'x', 6, 1)")
    lake.sql("CALL sys.copy(source_table => 's', target_table => 'wide')")
    assert content("wide") == [
        (1, "a  ", "x", 5, None), (2, "b  ", "y", 0, None), (3, None, "z", 7, None),
        (5, "d  ", "x", 6, 1),
    ]  # fmt: skip
    latest_of_wide = latest(lake.catalog.table("db.wide"))
    lake.sql("CREATE TABLE plain (k INT, c CHAR(3), p STRING, h INT)")
    lake.sql("CREATE TABLE narrow (k INT, p STRING, h INT) PARTITIONED BY (p, h)")
    lake.sql("CREATE TABLE filled LIKE s")
    lake.sql("ALTER TABLE filled ALTER COLUMN c SET DEFAULT 'z'")
    for source, target, where, message in (
        ("s", "new", "k = 1", "where is about partition columns"),
        ("s", "plain", "p = 'x'", "has not the same primary key"),
        ("plain", "narrow", "", "has not the same partition columns"),
        ("chosen", "filled", "", "nulls of column 'c' would become its default"),
        ("wide", "s", "", "has not a column more of type INT"),
    ):
        with pytest.raises((Invalid, Unsupported), match=message):
            lake.sql(f'CALL sys.copy("{source}", "{target}", "{where}")')
    assert latest(lake.catalog.table("db.wide")) == latest_of_wide


def test_tables_without_snapshots_are_refused(run: Run) -> None:
    run("CREATE TABLE f (id INT, p INT) USING csv PARTITIONED BY (p)")
    for call in (
        "expire_tags('f')", "rescale('f')", "mark_partition_done('f', 'p=1')", "purge_files('f')",
        "expire_snapshots('f')", "remove_orphan_files('f')", "copy('f', 'g')", "compact('f')",
    ):  # fmt: skip
        with pytest.raises(Unsupported, match=r"db\.f is of type format-table: it has no snapsh"):
            run(f"CALL sys.{call}")
    assert run("CALL sys.repair('db.f')") == DONE


def test_rescale_says_how_postponed_rows_get_other_buckets(run: Run) -> None:
    run("CREATE TABLE late (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2')")
    with pytest.raises(Unsupported, match=r"postpone\.default-bucket-num"):
        run("CALL sys.rescale('late', 3)")


def test_repair_finds_nothing_where_nothing_is_wrong(run: Run, table: Table) -> None:
    assert run("CALL sys.repair('db.t, db, main.`db`.t')") == DONE
    assert run("CALL sys.repair('')") == DONE
    with pytest.raises(NotFound):
        run("CALL sys.repair('none')")


def test_every_procedure_has_a_summary_and_columns() -> None:
    for procedure in PROCEDURES.values():
        assert procedure.summary.endswith(".")
        assert procedure.columns
        kinds = [parameter.is_required for parameter in procedure.parameters]
        assert kinds == sorted(kinds, reverse=True), procedure.name
    assert not set(PROCEDURES) & set(LEFT_OUT)
