"""Format tables: directories of files of one format, which Spark reads and writes itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from tests.spark.conftest import Rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.files.local import local_path

pytestmark = pytest.mark.spark

MODES = pytest.mark.modes
FAILED_READ = (PySparkException, Py4JJavaError)
"""Spark's errors of tasks: those that it meets while it plans a sort are wrapped by no other."""
COLUMNS = (
    "i INT, s STRING, d DATE, t TIMESTAMP_NTZ, z TIMESTAMP, n DECIMAL(10, 2), x DOUBLE, y BINARY, "
    "o BOOLEAN, c CHAR(3), v VARCHAR(5)"
)
VALUES = (
    "1, 'x, \"y\"', DATE'2024-01-02', TIMESTAMP_NTZ'2024-01-02 03:04:05.123456', "
    "TIMESTAMP'2024-01-02 03:04:05.123456', 1.25, double('NaN'), X'00ff', true, 'ab', 'cde'"
)


def rows(lake: SparkLake, text: str) -> Rows:
    return [tuple(row) for row in lake.sql(text).collect()]


def content(lake: SparkLake, name: str) -> Rows:
    return rows(lake, f"SELECT * FROM {name} ORDER BY 1")


def partitions(lake: SparkLake, name: str) -> list[str]:
    return [str(row[0]) for row in rows(lake, f"SHOW PARTITIONS {name}")]


def folder(lake: SparkLake, name: str) -> Path:
    return Path(local_path(lake.catalog.table(f"db.{name}").info.path))


def files(lake: SparkLake, name: str) -> list[str]:
    """The directories of a table's files, and what is left of writes that failed."""
    root = folder(lake, name)
    return sorted(str(path.parent.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def used(lake: SparkLake) -> SparkLake:
    lake.sql("USE db")
    return lake


def test_rows_go_to_their_partitions_and_come_back(used: SparkLake) -> None:
    used.sql("CREATE TABLE t (id INT, name STRING) USING csv PARTITIONED BY (ds BIGINT)")
    assert content(used, "t") == []
    assert rows(used, "INSERT INTO t VALUES (1, 'a', 2), (2, NULL, 3), (3, 'x,\"y', NULL)") == [
        (3, 3)
    ]
    used.sql("INSERT INTO t PARTITION (ds = 3) (id) VALUES (4)")
    assert content(used, "t") == [(1, "a", 2), (2, None, 3), (3, 'x,"y', None), (4, None, 3)]
    assert rows(used, "SELECT id FROM t WHERE ds = 3 AND id > 2") == [(4,)]
    assert partitions(used, "t") == ["ds=2", "ds=3", "ds=null"]
    # As Paimon names it, not Spark.
    assert files(used, "t") == ["ds=2", "ds=3", "ds=3", "ds=__DEFAULT_PARTITION__"]
    joined = "SELECT a.id, b.id FROM t a JOIN t b ON a.ds = b.ds WHERE a.id < b.id"
    assert rows(used, joined) == [(2, 4)]
    ((plan,),) = rows(used, "EXPLAIN SELECT id FROM t WHERE ds = 3")
    assert "PartitionFilters: [if ((ds" in str(plan)
    assert re.search(r"columns: id, .*ds \(\d of 3\)\n  files: chosen by Spark", str(plan))
    used.sql("CREATE TABLE days (ds BIGINT, n INT)")
    used.sql("INSERT INTO days VALUES (3, 1)")
    chosen = "EXPLAIN SELECT t.id FROM t JOIN days USING (ds) WHERE days.n = 1"
    assert "dynamicpruning" in str(rows(used, chosen))


def test_an_overwrite_replaces_what_it_names(used: SparkLake) -> None:
    used.sql("CREATE TABLE t (id INT, name STRING) USING json PARTITIONED BY (ds INT, h INT)")
    used.sql("INSERT INTO t VALUES (1, 'a', 1, 1), (2, 'b', 1, 2), (3, 'c', 2, 1)")
    used.sql("INSERT OVERWRITE t PARTITION (ds = 1, h = 2) VALUES (9, 'z')")
    assert [row[0] for row in content(used, "t")] == [1, 3, 9]
    used.sql("INSERT OVERWRITE t PARTITION (ds = 1) VALUES (5, 'e', 7)")
    assert [row[0] for row in content(used, "t")] == [3, 5]
    used.sql("INSERT OVERWRITE t PARTITION (ds = 2, h = 1) SELECT 1, 'none' WHERE false")
    assert [row[0] for row in content(used, "t")] == [5]
    used.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        used.sql("INSERT OVERWRITE t VALUES (6, 'f', 3, 3)")
        used.sql("INSERT OVERWRITE t SELECT * FROM t WHERE false")
        assert [row[0] for row in content(used, "t")] == [5, 6]
    finally:
        used.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    # The rows are read while they are replaced.
    used.sql("INSERT OVERWRITE t SELECT id * 10, name, ds, h FROM t")
    assert [row[0] for row in content(used, "t")] == [50, 60]
    used.sql("INSERT OVERWRITE t SELECT * FROM t WHERE false")
    assert content(used, "t") == []
    used.sql("CREATE TABLE flat (id INT) USING orc")
    used.sql("INSERT INTO flat VALUES (1), (2)")
    used.sql("INSERT OVERWRITE flat SELECT id FROM flat WHERE id = 2")
    assert content(used, "flat") == [(2,)]


def test_a_write_that_fails_changes_nothing(used: SparkLake) -> None:
    used.sql("CREATE TABLE t (id INT NOT NULL, n INT DEFAULT 7) USING parquet")
    used.sql("INSERT INTO t (id) VALUES (1)")
    used.sql("INSERT INTO t VALUES (2, NULL)")
    before = files(used, "t")
    for text, kind, message in (
        ("INSERT OVERWRITE t VALUES (NULL, 1)", PySparkException, "'id' must not be null"),
        ("INSERT INTO t SELECT raise_error('boom'), 1", PySparkException, "boom"),
        ("INSERT INTO t VALUES ('x', 1)", Invalid, "string cannot be stored as int"),
        ("INSERT INTO t REPLACE WHERE id = 1 VALUES (1, 1)", Unsupported, "format-table"),
        ("DELETE FROM t", Unsupported, "format-table"),
        ("UPDATE t SET n = 1", Unsupported, "format-table"),
        ("SELECT * FROM t VERSION AS OF 1", Unsupported, "has no snapshots"),
        ("SELECT * FROM `t$files`", Unsupported, "no snapshots"),
        ("ANALYZE TABLE t COMPUTE STATISTICS", Unsupported, "ANALYZE TABLE is for those that"),
        ("SHOW PARTITIONS t", Invalid, "no partitions"),
    ):
        with pytest.raises(kind, match=message):
            used.sql(text).collect()
    assert content(used, "t") == [(1, 7), (2, 7)]
    assert files(used, "t") == before
    with pytest.raises(PySparkException, match="boom"):
        used.sql("CREATE TABLE made USING csv AS SELECT int(raise_error('boom')) AS a")
    assert not used.catalog.table_exists("db.made")
    used.sql("CREATE TABLE made USING csv PARTITIONED BY (b) AS SELECT 1 AS a, 'x' AS b")
    assert content(used, "made") == [(1, "x")]


@pytest.mark.parametrize("alone", ["false", "true"])
def test_values_with_the_name_of_the_null_partition_are_rejected(
    used: SparkLake, alone: str
) -> None:
    used.sql(
        "CREATE TABLE t (id INT) USING parquet PARTITIONED BY (p STRING, n INT) TBLPROPERTIES "
        f"('format-table.partition-path-only-value' = '{alone}', 'partition.default-name' = '0')"
    )
    used.sql("INSERT INTO t VALUES (1, NULL, 1), (2, 'x', NULL)")
    before = files(used, "t")
    used.sql(
        "CREATE TABLE kept (id INT) USING parquet PARTITIONED BY (p STRING, n INT) "
        "TBLPROPERTIES ('metastore.partitioned-table' = 'true')"
    )
    for values in ("(3, '', 1)", "(3, ' \t', 1)", "(3, '0', 1)", "(3, 'x', 0)"):
        for verb in ("INSERT INTO", "INSERT OVERWRITE"):
            with pytest.raises(PySparkException, match="cannot be a value of partition column"):
                used.sql(f"{verb} t VALUES (2, 'x', 2), {values}")
    for statement in (
        "INSERT OVERWRITE t PARTITION (p = ' ', n = 1) SELECT 1 WHERE false",
        "INSERT INTO t PARTITION (p = '') VALUES (1, 1)",
        "ALTER TABLE kept ADD PARTITION (p = '', n = 1)",
    ):
        with pytest.raises(Invalid, match=r"' ?' cannot be a value of partition column 'p'"):
            used.sql(statement)
    assert files(used, "t") == before
    assert content(used, "t") == [(1, None, 1), (2, "x", None)]
    used.sql("INSERT OVERWRITE t PARTITION (p = '0', n = 1) VALUES (4)")
    assert content(used, "t") == [(2, "x", None), (4, None, 1)]


def test_a_table_is_emptied_and_keeps_its_partitions(used: SparkLake) -> None:
    used.sql("CREATE TABLE t (id INT) USING csv PARTITIONED BY (a INT, b STRING)")
    used.sql("INSERT INTO t VALUES (1, 1, '1'), (2, 2, '1'), (3, 2, '2')")
    used.sql("TRUNCATE TABLE t PARTITION (a = 2, b = '2')")
    assert [row[0] for row in content(used, "t")] == [1, 2]
    with pytest.raises(NotFound, match="no partition a=9/b=9"):
        used.sql("TRUNCATE TABLE t PARTITION (a = 9, b = '9')")
    used.sql("TRUNCATE TABLE t PARTITION (a = 9)")
    used.sql("TRUNCATE TABLE t PARTITION (a = 2)")
    assert [row[0] for row in content(used, "t")] == [1]
    used.sql("TRUNCATE TABLE t")
    assert content(used, "t") == []
    assert partitions(used, "t") == ["a=1/b=1", "a=2/b=1", "a=2/b=2"]
    for text in (
        "ALTER TABLE t ADD PARTITION (a = 1, b = 'x')",
        "ALTER TABLE t DROP PARTITION (a = 1)",
        "MSCK REPAIR TABLE t",
    ):
        with pytest.raises(Unsupported, match="partitions of this format table are its direct"):
            used.sql(text)


def test_partitions_that_the_catalog_keeps(used: SparkLake) -> None:
    used.sql(
        "CREATE TABLE t (id INT) USING csv PARTITIONED BY (p STRING) "
        "TBLPROPERTIES ('metastore.partitioned-table' = 'true')"
    )
    used.sql("ALTER TABLE t ADD PARTITION (p = 'c')")
    used.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    other = folder(used, "t") / "p=z"
    other.mkdir()
    (other / "x.csv").write_text("77\n")
    assert partitions(used, "t") == ["p=a", "p=b", "p=c"]
    assert content(used, "t") == [(1, "a"), (2, "b")]
    assert rows(used, "SELECT sys.max_pt('db.t')") == [("b",)]
    used.sql("INSERT OVERWRITE t VALUES (5, 'd')")
    result = used.catalog.table("db.t").partitions()
    assert [(each.name, each.file_count) for each in result] == [
        ("p=a", 0), ("p=b", 0), ("p=c", 0), ("p=d", 1)
    ]  # fmt: skip
    used.sql("MSCK REPAIR TABLE t")
    assert content(used, "t") == [(5, "d"), (77, "z")]
    used.sql("ALTER TABLE t DROP PARTITION (p = 'd')")
    assert not (folder(used, "t") / "p=d").exists()
    (folder(used, "t") / "p=a").rmdir()
    assert content(used, "t") == [(77, "z")]
    used.sql("REPAIR TABLE t SYNC PARTITIONS")
    assert partitions(used, "t") == ["p=b", "p=c", "p=z"]
    (folder(used, "t") / "p=c").rmdir()
    (folder(used, "t") / "p=y").mkdir()
    used.sql("MSCK REPAIR TABLE t DROP PARTITIONS")
    assert partitions(used, "t") == ["p=b", "p=z"]
    (folder(used, "t") / "p=b").rmdir()
    used.sql("MSCK REPAIR TABLE t ADD PARTITIONS")
    assert partitions(used, "t") == ["p=b", "p=y", "p=z"]
    used.sql("ALTER TABLE t RECOVER PARTITIONS")
    used.sql("TRUNCATE TABLE t")
    assert content(used, "t") == []
    with pytest.raises(Invalid, match="ADD, DROP or SYNC PARTITIONS"):
        used.sql("MSCK REPAIR TABLE t NOW")
    used.sql("CREATE TABLE plain (id INT)")
    with pytest.raises(Unsupported, match="commits tell the catalog of its partitions"):
        used.sql("MSCK REPAIR TABLE plain")


@MODES
def test_directories_of_one_value_are_one_partition(used: SparkLake) -> None:
    used.sql(
        "CREATE TABLE t (id INT) USING csv PARTITIONED BY (m INT) "
        "TBLPROPERTIES ('metastore.partitioned-table' = 'true')"
    )
    used.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    other = folder(used, "t") / "m=01"
    other.mkdir()
    (other / "x.csv").write_text("3\n")
    used.sql("MSCK REPAIR TABLE t")
    assert content(used, "t") == [(1, 1), (2, 2), (3, 1)]
    assert partitions(used, "t") == ["m=1", "m=2"]
    used.sql("INSERT OVERWRITE t PARTITION (m = 1) VALUES (4)")
    assert content(used, "t") == [(2, 2), (4, 1)]
    used.sql("ALTER TABLE t DROP PARTITION (m = 1)")
    assert content(used, "t") == [(2, 2)]
    assert files(used, "t") == ["m=2"]


@MODES
@pytest.mark.parametrize("alone", ["false", "true"])
def test_partitions_are_measured(used: SparkLake, alone: str) -> None:
    used.sql(
        "CREATE TABLE t (id INT) USING parquet PARTITIONED BY (dt STRING, hh INT) TBLPROPERTIES ("
        "'metastore.partitioned-table' = 'true', "
        f"'format-table.partition-path-only-value' = '{alone}')"
    )
    used.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    used.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1), (3, 'a', 2), (4, NULL, 3)")

    def counts() -> dict[str, int]:
        result = used.catalog.table("db.t").partitions()
        assert all(each.file_count > 0 and each.file_size_in_bytes > 0 for each in result)
        return {each.name: each.record_count for each in result}

    null = "dt=__DEFAULT_PARTITION__/hh=3"
    whole = {"dt=a/hh=1": 2, "dt=a/hh=2": 1, null: 1}
    assert counts() == whole
    spec = "dt=a/hh=2" if alone == "false" else "a/2"
    (path,) = (folder(used, "t") / spec).glob("*.parquet")
    for name in ("one", "two"):
        shutil.copy(path, path.parent / f"{name}.parquet")
    used.sql("ALTER TABLE t DROP PARTITION (dt = 'a', hh = 1)")
    used.sql("INSERT INTO t VALUES (5, NULL, 3)")
    used.sql("INSERT OVERWRITE t PARTITION (dt = 'b') SELECT id, 7 FROM VALUES (1), (2) AS v(id)")
    assert counts() == {"dt=a/hh=2": 1, "dt=b/hh=7": 2, null: 2}
    used.sql("ANALYZE TABLE t PARTITION (dt = 'a', hh) COMPUTE STATISTICS NOSCAN")
    assert counts() == {"dt=a/hh=2": 1, "dt=b/hh=7": 2, null: 2}
    assert sum(each.file_count for each in used.catalog.table("db.t").partitions()) > 4
    used.sql("ANALYZE TABLE t PARTITION (DT = 'a', hh = 2) COMPUTE STATISTICS")
    for _ in range(2):
        assert counts() == {"dt=a/hh=2": 3, "dt=b/hh=7": 2, null: 2}
        used.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    used.sql("INSERT OVERWRITE t PARTITION (dt = 'a') VALUES (1, 2)")
    assert counts() == {"dt=a/hh=2": 1, "dt=b/hh=7": 2, null: 2}
    (path.parents[1] / ("hh=9" if alone == "false" else "9")).mkdir()
    used.sql("MSCK REPAIR TABLE t")
    ((*_, told),) = rows(used, "SHOW TABLE EXTENDED LIKE 't' PARTITION (dt = 'a', hh = 9)")
    assert "Partition Statistics: UNKNOWN rows, " in str(told)
    assert "-1" not in str(told)
    with pytest.raises(NotFound, match="no partition with dt = z"):
        used.sql("ANALYZE TABLE t PARTITION (dt = 'z') COMPUTE STATISTICS")
    with pytest.raises(Unsupported, match="not of columns"):
        used.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")
    with pytest.raises(NotFound, match="id"):
        used.sql("ANALYZE TABLE t PARTITION (id = 1) COMPUTE STATISTICS")


def test_directories_named_by_values_alone(used: SparkLake) -> None:
    used.sql(
        "CREATE TABLE t (id INT) USING parquet PARTITIONED BY (p STRING, h INT) "
        "TBLPROPERTIES ('format-table.partition-path-only-value' = 'true')"
    )
    used.sql("INSERT INTO t VALUES (1, 'x y+z%/ü', 1), (2, NULL, 2)")
    assert content(used, "t") == [(1, "x y+z%/ü", 1), (2, None, 2)]
    assert files(used, "t") == ["__DEFAULT_PARTITION__/2", "x y+z%25%2Fü/1"]
    assert rows(used, "SELECT id FROM t WHERE p = 'x y+z%/ü'") == [(1,)]
    used.sql("INSERT OVERWRITE t PARTITION (p = 'x y+z%/ü') VALUES (3, 5)")
    assert content(used, "t") == [(2, None, 2), (3, "x y+z%/ü", 5)]
    for text in ("..", "_x", ".x"):
        with pytest.raises(Invalid, match="no reader would look"):
            used.sql(f"INSERT INTO t VALUES (9, '{text}', 1)")
    assert content(used, "t") == [(2, None, 2), (3, "x y+z%/ü", 5)]
    used.sql("ALTER TABLE t UNSET TBLPROPERTIES ('format-table.partition-path-only-value')")
    used.sql("INSERT INTO t VALUES (9, 'p', 1)")
    used.sql("ALTER TABLE t SET TBLPROPERTIES ('format-table.partition-path-only-value' = 'true')")
    with pytest.raises(Invalid, match="directory 'p=p' names its column"):
        content(used, "t")


@pytest.mark.parametrize(
    "file_format",
    ["csv", *(pytest.param(each, marks=MODES) for each in ("json", "orc", "parquet"))],
)
def test_values_of_every_type(used: SparkLake, file_format: str) -> None:
    columns = COLUMNS
    if file_format == "orc":
        columns = columns.replace("TIMESTAMP_NTZ", "STRING").replace("TIMESTAMP", "STRING")
    used.sql(
        f"CREATE TABLE t ({columns}, p DATE, r TIMESTAMP_NTZ, k STRING) USING {file_format} "
        "PARTITIONED BY (p, r, k)"
    )
    used.sql(f"CREATE TABLE plain ({columns}, p DATE, r TIMESTAMP_NTZ, k STRING)")
    nulls = ", ".join(["NULL"] * 11)
    values = (
        f"({VALUES}, DATE'2024-01-02', TIMESTAMP_NTZ'2024-01-02 03:04:00', 'a/b=c%d e+f'), "
        f"({nulls}, DATE'1969-01-02', TIMESTAMP_NTZ'1960-01-02 03:04:05.5', NULL), "
        f"({nulls}, NULL, TIMESTAMP_NTZ'2024-01-02 03:04:05.000001', '2')"
    )
    for name in ("t", "plain"):
        used.sql(f"INSERT INTO {name} VALUES {values}")
    both = "SELECT *, string(x) AS nan FROM {} ORDER BY r"
    assert [[*row[:6], *row[7:]] for row in rows(used, both.format("t"))] == [
        [*row[:6], *row[7:]] for row in rows(used, both.format("plain"))
    ]
    chosen = "SELECT i FROM t WHERE p = DATE'2024-01-02' AND k = 'a/b=c%d e+f'"
    assert rows(used, chosen) == [(1,)]
    # The names that Paimon gives directories by default.
    assert {each.split("/")[0] for each in files(used, "t")} == {
        "p=-364", "p=19724", "p=__DEFAULT_PARTITION__"
    }  # fmt: skip
    assert {each.split("/")[1] for each in files(used, "t")} == {
        "r=1960-01-02T03%3A04%3A05.500", "r=2024-01-02T03%3A04",
        "r=2024-01-02T03%3A04%3A05.000001",
    }  # fmt: skip


@MODES
@pytest.mark.parametrize("file_format", ["json", "orc", "parquet"])
def test_nested_values(used: SparkLake, file_format: str) -> None:
    used.sql(
        "CREATE TABLE t (a ARRAY<INT>, m MAP<STRING, DOUBLE>, s STRUCT<x: BIGINT, y: BINARY>) "
        f"USING {file_format}"
    )
    used.sql(
        "INSERT INTO t VALUES (array(1, NULL), map('k', 0.5), struct(9, X'00ff')), "
        "(NULL, NULL, NULL)"
    )
    assert rows(used, "SELECT a, m, s.x, hex(s.y) FROM t ORDER BY size(a)") == [
        (None, None, None, None), ([1, None], {"k": 0.5}, 9, "00FF")
    ]  # fmt: skip


@MODES
def test_options_of_text_in_both_of_their_names(used: SparkLake) -> None:
    for number, options in enumerate(
        (
            "'csv.field-delimiter' = ';', 'csv.quote-character' = '%', 'csv.null-literal' = 'nil', "
            "'csv.include-header' = 'true', 'format-table.file.compression' = 'gzip'",
            "'seq' = ';', 'quote' = '%', 'nullvalue' = 'nil', 'header' = 'true', "
            "'compression' = 'gzip'",
        )
    ):
        used.sql(f"CREATE TABLE t{number} (id INT, v STRING) USING csv TBLPROPERTIES ({options})")
        used.sql(
            f"INSERT INTO t{number} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, ''), (2, NULL)"
        )
        assert content(used, f"t{number}") == [(1, ""), (2, None)]
        (path,) = folder(used, f"t{number}").glob("*.csv.gz")
        assert pa.input_stream(str(path)).read() == b"id;v\n1;%%\n2;nil\n"
    used.sql("CREATE TABLE m (id INT, v INT) USING csv")
    used.sql("INSERT INTO m VALUES (1, 1)")
    (folder(used, "m") / "more.csv").write_text("2,x\n")
    assert content(used, "m") == [(1, 1), (2, None)]
    used.sql("ALTER TABLE m SET TBLPROPERTIES ('csv.mode' = 'dropmalformed')")
    assert content(used, "m") == [(1, 1)]
    used.sql("ALTER TABLE m SET TBLPROPERTIES ('csv.mode' = 'some')")
    with pytest.raises(Invalid, match="one of permissive, dropmalformed, failfast"):
        content(used, "m")
    used.sql("CREATE TABLE j (id INT) USING json")
    used.sql("INSERT INTO j VALUES (1)")
    (folder(used, "j") / "more.json").write_text("{\n")
    with pytest.raises(FAILED_READ, match=r"more\.json"):
        content(used, "j")
    # Paimon's own numbers are texts.
    (folder(used, "j") / "paimon.json").write_text('{"id":"2"}\n{"id":"x"}\n')
    lenient = "SELECT * FROM j WITH ('json.ignore-parse-errors' = 'true') ORDER BY id"
    assert rows(used, lenient) == [(1,), (2,)]
    used.sql("CREATE TABLE x (v STRING) USING text TBLPROPERTIES ('text.line-delimiter' = '?')")
    used.sql("INSERT INTO x VALUES ('a'), ('b?c')")
    assert content(used, "x") == [("a",), ("b",), ("c",)]
    for text, message in {
        "(a INT, b INT) USING text": "lines, of one column",
        "(a ARRAY<INT>) USING csv": "'a' is ARRAY<INT>, which Spark's files of csv do not have",
        "(a TIMESTAMP_NTZ) USING orc": "'a' is TIMESTAMP",
        "(a INT) USING csv PARTITIONED BY (p DOUBLE)": "partition column 'p' is DOUBLE",
        "(a INT) USING csv TBLPROPERTIES ('csv.odd' = '1')": "no such setting",
        "(a INT) USING json TBLPROPERTIES ('lineSep' = ';')": "'lineSep': Paimon's readers of json",
        "(a INT) TBLPROPERTIES ('type' = 'format-table', 'file.format' = 'mosaic')": "of format mo",
        "(a INT) USING csv TBLPROPERTIES ('format-table.commit-hive-sync-url' = 'x')": "Hive",
    }.items():
        used.sql(f"CREATE TABLE refused {text}")
        with pytest.raises(Unsupported, match=message):
            used.sql("INSERT INTO refused SELECT * FROM refused").collect()
        used.sql("DROP TABLE refused")


@MODES
def test_files_of_other_writers(used: SparkLake) -> None:
    used.sql("CREATE TABLE t (id BIGINT, x DOUBLE, v STRING) USING parquet PARTITIONED BY (d DATE)")
    root = folder(used, "t")
    for name, ids in {"d=2024-01-02": [1], "d=19725": [3], "_tmp/d=2024-01-09": [4]}.items():
        (root / name).mkdir(parents=True)
        numbers = pa.table({"id": ids, "x": [float("nan")] * len(ids)})
        pq.write_table(numbers, root / name / "data-1.parquet")
    (root / "d=2024-01-02" / "_SUCCESS").write_text("")
    (root / "notes.txt").write_text("no row")
    for name in ("other", "x=1/y=2", "d=2024-01-02/deeper"):
        (root / name).mkdir(parents=True)
        numbers = pa.table({"id": [9 if "deeper" not in name else 2], "x": [float("nan")]})
        pq.write_table(numbers, root / name / "data-1.parquet")
    assert rows(used, "SELECT id, string(d), v FROM t WHERE x > 1 ORDER BY id") == [
        (1, "2024-01-02", None), (2, "2024-01-02", None), (3, "2024-01-03", None)
    ]  # fmt: skip
    used.sql("INSERT OVERWRITE t PARTITION (d = '2024-01-02') VALUES (5, 1, 'v')")
    assert rows(used, "SELECT id FROM t ORDER BY id") == [(3,), (5,)]
    used.sql("ALTER TABLE t SET TBLPROPERTIES ('format-table.implementation' = 'engine')")
    used.sql("INSERT INTO t VALUES (6, 1, 'v', DATE'2024-05-06')")
    assert "d=2024-05-06" in files(used, "t")
    (root / "d=19725" / "data-1.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(FAILED_READ, match=r"data-1\.parquet"):
        content(used, "t")


def test_frames_read_and_write_format_tables(used: SparkLake) -> None:
    used.sql("CREATE TABLE t (id INT, name STRING) USING parquet PARTITIONED BY (p STRING)")
    spark = used.spark
    used.write(spark.sql("SELECT 1 AS ID, 'w' AS P"), "db.t")
    used.write(spark.sql("SELECT 2 AS id, 'u' AS p"), "db.t")
    assert content(used, "t") == [(1, None, "w"), (2, None, "u")]
    assert used.table("db.t", ["p"], "id = 1").collect() == [("w",)]
    assert used.table("db.t", where=sf.col("id") > 1).count() == 1
    assert used.query(lambda t: t.where("id > 1").select("id"), "db.t").collect() == [(2,)]
    used.write(spark.sql("SELECT 3 AS id"), "db.t", "overwrite", partition={"p": "w"})
    used.write(spark.sql("SELECT 4 AS id, 'u' AS p"), "db.t", "overwrite")
    assert content(used, "t") == [(3, None, "w"), (4, None, "u")]
    used.write(spark.sql("SELECT 5 AS id, 'u' AS p"), "db.t", "overwrite", dynamic=False)
    assert content(used, "t") == [(5, None, "u")]
    refused: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (Invalid, "no column 'z'", lambda: used.write(spark.sql("SELECT 1 AS z"), "db.t")),
        (Unsupported, "has no snapshots", lambda: used.table("db.t", tag="x")),
        (
            Unsupported,
            "has no commits",
            lambda: used.write(
                spark.sql("SELECT 1 AS id"), "db.t", "overwrite", replace_where="id = 1"
            ),
        ),
        (
            Unsupported,
            "no snapshots",
            lambda: used.for_batch(1, query="q").write(spark.sql("SELECT 1 AS id"), "db.t"),
        ),
        (Unsupported, "no snapshots", lambda: used.catalog.table("db.t").scan().to_arrow()),
    ]
    for kind, message, work in refused:
        with pytest.raises(kind, match=message):
            work()


def test_an_object_table_tells_of_its_files(used: SparkLake) -> None:
    used.sql("CREATE TABLE o TBLPROPERTIES ('type' = 'object-table')")
    assert content(used, "o") == []
    (folder(used, "o") / "more").mkdir(parents=True)
    (folder(used, "o") / "a.txt").write_text("four")
    (folder(used, "o") / "more" / "b.txt").write_text("x")
    result = "SELECT path, name, length, mtime > 1700000000000, atime, owner FROM o ORDER BY path"
    assert rows(used, result) == [
        ("a.txt", "a.txt", 4, True, 0, None), ("more/b.txt", "b.txt", 1, True, 0, None)
    ]  # fmt: skip
    assert used.table("db.o", ["name"], "length = 1").collect() == [("b.txt",)]
    for text in ("SELECT * FROM o VERSION AS OF 1", "INSERT INTO o SELECT * FROM o"):
        with pytest.raises(Unsupported, match=r"object-table|no snapshots"):
            used.sql(text).collect()
