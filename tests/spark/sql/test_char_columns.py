"""CHAR and VARCHAR give what tables of Spark's own give, whatever engine wrote the values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows

from headwater.client import connect as connect_embedded
from headwater.spark import SparkLake, connect
from headwater.spark.char_types import stored_batch
from headwater.storage.errors import Invalid
from headwater.storage.files.local import local_path
from headwater.storage.read.split import read_split
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

COLUMNS = (
    "id INT, c CHAR(5), v VARCHAR(5), s STRING, a ARRAY<CHAR(3)>, m MAP<CHAR(2), CHAR(3)>, "
    "r STRUCT<x: CHAR(4), y: INT>"
)
VALUES = """
    (1, 'ab', 'ab', 'ab', array('x'), map('k', 'y'), named_struct('x', 'q', 'y', 1)),
    (2, 'abc  ', 'abc  ', 'abc  ', array('xyz', NULL), map('k', NULL), NULL),
    (3, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, 'abcde   ', 'abcde   ', 'abcde', NULL, NULL, NULL),
    (5, '', '', '', array(), map(), named_struct('x', NULL, 'y', 2))
"""
BASIC = (
    "SELECT * FROM {0}",
    "SELECT id, c AS d FROM {0} WHERE c = 'ab'",
    "SELECT l.id, r.id AS other FROM {0} l JOIN {0} r ON l.c = r.c",
    "SELECT concat(c, '|') AS e, count(*) FROM {0} GROUP BY c",
)
OTHERS = (
    "SELECT id FROM (SELECT id, c AS d FROM {0}) WHERE d IN ('ab', 'abc') OR d = ''",
    "SELECT id FROM {0} WHERE NOT (c = 'ab') AND c > 'ab' AND c <= 'abcde'",
    "SELECT id FROM {0} WHERE c = v OR c = s",
    "SELECT id, length(c), length(v) FROM {0} WHERE c LIKE 'ab%'",
    "SELECT id FROM {0} WHERE c LIKE 'ab' OR r.x = 'q' OR array_contains(a, 'x')",
    "SELECT id FROM {0} WHERE startswith(c, 'ab ')",
)
# A key and a partition column of CHAR, none of them filled up.
FOREIGN = [(1, "ab", "p", 0), (2, "ab ", "p", 0), (3, "ab   ", "q", 0), (4, "b", "q ", 0)]
READ = [(id, c.ljust(5), p.ljust(3), n) for id, c, p, n in FOREIGN]


@pytest.fixture(scope="module")
def chars(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkLake]:
    """The same values in the lake's table ``t`` and in Spark's table ``plain_chars``."""
    lake = connect(spark, tmp_path_factory.mktemp("chars"))
    lake.catalog.create_database("db")
    lake.sql("USE db")
    spark.sql(f"CREATE TABLE plain_chars ({COLUMNS}) USING parquet")
    spark.sql(f"INSERT INTO plain_chars VALUES {VALUES}")
    lake.sql(f"CREATE TABLE t ({COLUMNS})")
    lake.sql(f"INSERT INTO t VALUES {VALUES}")
    yield lake
    spark.sql("DROP TABLE plain_chars")


def foreign(
    lake: SparkLake,
    folder: Path,
    name: str,
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] = {},
) -> None:
    """A table with rows of another engine, to which the columns of CHAR were plain text."""
    other = connect_embedded(folder)
    other.create_database("db")
    columns = pa.schema(
        [("id", pa.int32()), ("c", pa.string()), ("p", pa.string()), ("n", pa.int32())]
    )
    table = other.create_table(
        f"db.{name}",
        columns,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options=options,
    )
    for row in FOREIGN:
        id, c, p, n = row
        table.write(
            {"id": pa.array([id], pa.int32()), "c": [c], "p": [p], "n": pa.array([n], pa.int32())}
        )
    location = local_path(table.storage.layout.location)
    path = Path(location, "schema", "schema-0")
    document = json.loads(path.read_text())
    for field in document["fields"]:
        length = {"c": 5, "p": 3}.get(field["name"])
        field["type"] = field["type"].replace("STRING", f"CHAR({length})")
    path.write_text(json.dumps(document))
    lake.catalog.register_table(f"db.{name}", location)


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


@pytest.mark.spark
@pytest.mark.parametrize("queries", [BASIC, pytest.param(OTHERS, marks=pytest.mark.modes)])
def test_values_are_filled_up_as_in_tables_of_sparks(
    chars: SparkLake, queries: Sequence[str]
) -> None:
    for query in queries:
        wanted = rows(chars.spark.sql(query.format("plain_chars")))
        assert rows(chars.sql(query.format("t"))) == wanted, query
    stored = chars.catalog.table("db.t").scan().to_arrow().sort_by("id")
    assert stored["c"].to_pylist() == ["ab   ", "abc  ", None, "abcde", "     "]
    assert stored["v"].to_pylist() == ["ab", "abc  ", None, "abcde", ""]
    assert stored["a"].to_pylist()[:2] == [["x  "], ["xyz", None]]


@pytest.mark.spark
@pytest.mark.modes
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.readSideCharPadding", "false"),
        ("spark.sql.legacy.charVarcharAsString", "true"),
    ],
)
def test_the_sessions_settings_hold(chars: SparkLake, key: str, value: str) -> None:
    with setting(chars.spark, key, value):
        for query in (*BASIC, *OTHERS):
            wanted = rows(chars.spark.sql(query.format("plain_chars")))
            assert rows(chars.sql(query.format("t"))) == wanted, query


@pytest.mark.modes
@pytest.mark.spark
def test_longer_values_are_refused_but_for_spaces(chars: SparkLake) -> None:
    chars.sql("CREATE TABLE bounded (id INT, c CHAR(3), v VARCHAR(3))")
    chars.sql("INSERT INTO bounded VALUES (1, 'abc  ', 'abc  '), (2, 'a', 'a   ')")
    longer = (
        "INSERT INTO bounded VALUES (3, 'abcd', 'a')",
        "UPDATE bounded SET v = 'abcd' WHERE id = 1",
        "MERGE INTO bounded t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET c = 'abcd'",
    )
    for statement in longer:
        with pytest.raises(Invalid, match=r"column '[cv]' is (VAR)?CHAR\(3\)"):
            chars.sql(statement)
    of_source = frame(chars, "(3, 'abcd', 'a')", "id, c, v").write.format("headwater")
    with pytest.raises(PySparkException, match=r"column 'c' is CHAR\(3\)"):
        of_source.mode("append").save("db.bounded")
    frame(chars, "(3, 'ab', 'ab   ')", "id, c, v").write.format("headwater").mode("append").save(
        "db.bounded"
    )
    chars.write(frame(chars, "(4, 'd  ', 'd')", "id, c, v"), "db.bounded")
    wanted = [(1, "abc", "abc"), (2, "a  ", "a  "), (3, "ab ", "ab "), (4, "d  ", "d")]
    assert rows(chars.sql("SELECT * FROM bounded")) == wanted
    assert sorted(map(tuple, stored(chars, "bounded"))) == wanted


def frame(lake: SparkLake, values: str, names: str) -> DataFrame:
    return lake.spark.sql(f"SELECT * FROM VALUES {values} AS s({names})")


def stored(lake: SparkLake, name: str) -> list[tuple[object, ...]]:
    """A table's rows as its files have them."""
    scan = lake.catalog.table(f"db.{name}").scan()
    batches = (batch for split in scan.splits for batch in read_split(scan.storage, split))
    result = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(result, key=repr)


@pytest.mark.modes
@pytest.mark.spark
def test_values_of_other_engines_are_filled_up_when_they_are_read(
    chars: SparkLake, tmp_path: Path
) -> None:
    foreign(chars, tmp_path, "others", partition_keys=["p"])
    assert rows(chars.sql("SELECT * FROM others")) == READ
    assert rows(chars.table("db.others")) == READ
    assert rows(chars.spark.read.format("headwater").load("db.others")) == READ
    assert rows(chars.sql("SELECT id FROM others WHERE c = 'ab'")) == [(1,), (2,), (3,)]
    assert rows(chars.table("db.others", where="c = 'ab' AND p = 'p'").select("id")) == [(1,), (2,)]
    named = chars.spark.read.format("headwater").load("db.others").where("c = 'ab' AND p = 'p'")
    assert rows(named.select("id")) == [(1,), (2,)]
    # Files of other values are not read.
    chars.sql("SELECT n FROM others WHERE c = 'b' AND p = 'q'")
    (read,) = chars.last_query
    assert (read.files, read.files_of_table) == (1, 4)
    chars.sql("SELECT n FROM others WHERE c >= 'b'")
    (read,) = chars.last_query
    assert (read.files, read.files_of_table) == (1, 4)


@pytest.mark.modes
@pytest.mark.spark
def test_rows_of_other_engines_change_under_their_keys(chars: SparkLake, tmp_path: Path) -> None:
    foreign(chars, tmp_path, "keyed", primary_keys=["c", "id"], options={"bucket": "2"})
    chars.sql("UPDATE keyed SET n = n + 1, p = 'z' WHERE c = 'ab' AND id < 3")
    chars.sql(
        "MERGE INTO keyed t USING (SELECT * FROM VALUES (3, 'ab', 'new', 9), (4, 'b', 'new', 9), "
        "(5, 'b', 'new', 9) AS s(id, c, p, n)) s ON t.id = s.id AND t.c = rpad(s.c, 5, ' ') "
        "WHEN MATCHED AND t.c = 'b' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert stored(chars, "keyed") == [
        (1, "ab", "z  ", 1), (2, "ab ", "z  ", 1), (3, "ab   ", "new", 9), (5, "b    ", "new", 9),
    ]  # fmt: skip
    # Columns that are named are equal as the table's are.
    merge = chars.merge("db.keyed", frame(chars, "(1, 'ab')", "id, c"), ["c", "id"])
    assert merge.when_matched_update({"n": "7"}).execute().updated == 1
    chars.delete("db.keyed", "c = 'ab' AND id = 1")
    chars.delete("db.keyed", keys=frame(chars, "(2, 'ab'), (5, 'b')", "id, c"))
    assert stored(chars, "keyed") == [(3, "ab   ", "new", 9)]


@pytest.mark.spark
@pytest.mark.modes
def test_keys_of_orc_files_are_found_again(chars: SparkLake) -> None:
    # They keep no spaces at the end of CHAR.
    chars.sql(
        "CREATE TABLE orc (c CHAR(5), n INT) TBLPROPERTIES "
        "('primary-key' = 'c', 'bucket' = '7', 'file.format' = 'orc')"
    )
    chars.sql("INSERT INTO orc VALUES ('ab', 1), ('b  ', 1), ('', 1)")
    chars.sql("UPDATE orc SET n = 2 WHERE c = 'ab'")
    chars.sql("INSERT INTO orc VALUES ('b', 3)")
    chars.delete("db.orc", keys=frame(chars, "('')", "c"))
    assert rows(chars.sql("SELECT * FROM orc")) == [("ab   ", 2), ("b    ", 3)]


@pytest.mark.spark
@pytest.mark.modes
def test_partitions_are_named_by_values_that_are_filled_up(
    chars: SparkLake, tmp_path: Path
) -> None:
    foreign(chars, tmp_path, "parts", partition_keys=["p"])
    chars.sql("INSERT OVERWRITE parts PARTITION (p = 'x') SELECT 7, 'new', 7")
    chars.sql("INSERT INTO parts REPLACE WHERE p = 'q' SELECT 8, 'new', 'q', 8")
    changed = [*READ[:2], (7, "new  ", "x  ", 7), (8, "new  ", "q  ", 8)]
    assert rows(chars.sql("SELECT * FROM parts")) == changed
    replaced = frame(chars, "(9, 'new', 'p', 9)", "id, c, p, n")
    chars.write(replaced, "db.parts", "overwrite", replace_where="p IN ('p', 'x')")
    chars.sql("ALTER TABLE parts DROP PARTITION (p = 'q')")
    assert rows(chars.sql("SELECT * FROM parts")) == [(9, "new  ", "p  ", 9)]


@pytest.mark.spark
@pytest.mark.modes
def test_a_table_of_a_query_has_its_types(chars: SparkLake) -> None:
    chars.sql("CREATE TABLE made AS SELECT id, c, v, c AS d, upper(c) AS u, a, r FROM t")
    types = {row[0]: row[1] for row in chars.sql("DESCRIBE made").collect()}
    assert types == {
        "id": "int", "c": "char(5)", "v": "varchar(5)", "d": "char(5)", "u": "string",
        "a": "array<char(3)>", "r": "struct<x:char(4),y:int>",
    }  # fmt: skip
    chars.create_table("db.alike", chars.table("db.t").schema)
    alike = {row[0]: row[1] for row in chars.sql("DESCRIBE alike").collect()}
    assert (alike["c"], alike["v"], alike["s"]) == ("char(5)", "varchar(5)", "string")


FIELD = DataField(0, "c", AtomicType(Root.CHAR, length=4))


def test_batches_are_filled_up_and_cut() -> None:
    fields = [FIELD, DataField(1, "v", AtomicType(Root.VARCHAR, length=2))]
    given = {"c": ["a", "abcd  ", "abcde", None, "é"], "v": ["a", "ab ", "abc", None, "é  "]}
    schema = TableSchema(0, tuple(fields), 2, (), (), {}, None, 0)
    stored = stored_batch(pa.record_batch(given), schema)
    assert stored.to_pydict() == {
        "c": ["a   ", "abcd", "abcde", None, "é   "], "v": ["a", "ab", "abc", None, "é "],
    }  # fmt: skip
