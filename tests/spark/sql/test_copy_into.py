"""COPY INTO: files into tables, each once, and rows into files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from tests.spark.conftest import Rows, rows

from headwater.spark import SparkLake
from headwater.spark.sql.copy_into.load_history import LoadHistory
from headwater.spark.sql.copy_into.source_files import list_files
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, OutcomeUnknown, Unsupported

pytestmark = pytest.mark.spark

MODES = pytest.mark.modes
CSV = "FILE_FORMAT = (TYPE = CSV)"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """An empty directory for files."""
    place = tmp_path / "inbox"
    place.mkdir()
    return place


@pytest.fixture
def table(lake: SparkLake) -> SparkLake:
    """A lake with the empty table ``db.t``."""
    lake.sql("CREATE TABLE db.t (id INT, name STRING, n DECIMAL(5, 2) DEFAULT 7.50, d DATE)")
    lake.sql("USE db")
    return lake


def copied(lake: SparkLake, text: str) -> Rows:
    """The answer of a statement."""
    return [tuple(row) for row in lake.sql(text).collect()]


def content(lake: SparkLake) -> list[tuple[object, ...]]:
    found = [(row[0], row[1], row[2] and str(row[2]), row[3] and str(row[3])) for row in
             rows(lake.table("db.t"))]  # fmt: skip
    return sorted(found, key=repr)


@MODES
def test_files_are_loaded_once(table: SparkLake, inbox: Path) -> None:
    (inbox / "b.csv").write_text("1,one,1.5,2026-01-01\n2,,2,\n")
    (inbox / "a.csv").write_text('3,"th,ree",,\n')
    (inbox / "_SUCCESS").touch()
    (inbox / "below").mkdir()
    (inbox / "below" / "c.csv").write_text("9,nine,9,\n")
    text = f"COPY INTO t FROM '{inbox}' {CSV}"
    frame = table.sql(text)
    assert frame.columns == [
        "file_name", "status", "rows_loaded", "rows_parsed", "errors_seen", "first_error"
    ]  # fmt: skip
    assert [tuple(row) for row in frame.collect()] == [
        ("a.csv", "LOADED", 1, 1, 0, None),
        ("b.csv", "LOADED", 2, 2, 0, None),
    ]
    loaded = [
        (1, "one", "1.50", "2026-01-01"),
        (2, None, "2.00", None),
        (3, "th,ree", "7.50", None),
    ]
    assert content(table) == loaded
    assert [each.id for each in table.catalog.table("db.t").snapshots()] == [1]
    (inbox / "a.csv").write_text("4,four,4,\n5,five,5,\n")
    assert copied(table, text) == [
        ("a.csv", "LOADED", 2, 2, 0, None),
        ("b.csv", "SKIPPED", 0, 0, 0, None),
    ]
    assert [row[0] for row in content(table)] == [1, 2, 3, 4, 5]
    assert copied(table, f"{text} FILES = ('b.csv') FORCE = TRUE")[0][1:3] == ("LOADED", 2)
    assert [row[0] for row in content(table)] == [1, 1, 2, 2, 3, 4, 5]


@MODES
def test_rows_that_do_not_fit_are_left_out_with_their_files_or_alone(
    table: SparkLake, inbox: Path
) -> None:
    (inbox / "good.csv").write_text("1,a,1,\n")
    (inbox / "bad.csv").write_text("2,b,2,\nthree,c,3,\n4,d\n5,e,5,,\n6,f,1000,\n7,g,,2026-13-01\n")
    text = f"COPY INTO t FROM '{inbox}' {CSV}"
    with pytest.raises(Invalid, match=r"5 of 6 rows of the file 'bad.csv'.*SKIP_FILE"):
        table.sql(text)
    assert table.catalog.table("db.t").latest_snapshot() is None
    bad, good = copied(table, f"{text} ON_ERROR = SKIP_FILE")
    assert bad[:5] == ("bad.csv", "LOAD_FAILED", 0, 6, 5)
    assert good == ("good.csv", "LOADED", 1, 1, 0, None)
    (again, skipped) = copied(table, f"{text} ON_ERROR = CONTINUE")
    assert again[:5] == ("bad.csv", "PARTIALLY_LOADED", 1, 6, 5)
    assert skipped[1] == "SKIPPED"
    assert [row[0] for row in content(table)] == [1, 2]
    (inbox / "worse.csv").write_text("x,a,1,\n")
    worse = f"COPY INTO t FROM '{inbox}' {CSV} FILES = ('worse.csv') ON_ERROR = CONTINUE"
    assert copied(table, worse) == [
        ("worse.csv", "LOAD_FAILED", 0, 1, 1, "column 'id': 'x' is no INT")
    ]
    assert copied(table, worse)[0][1] == "LOAD_FAILED"


@MODES
def test_text_that_is_too_long_is_an_error_of_its_row(lake: SparkLake, inbox: Path) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE bounded (id INT, c CHAR(3), v VARCHAR(3))")
    (inbox / "a.csv").write_text('1,ab,"abc  "\n2,abcd,a\n3,a,abcd\n')
    (answer,) = copied(lake, f"COPY INTO bounded FROM '{inbox}' {CSV} ON_ERROR = CONTINUE")
    assert answer[1:] == ("PARTIALLY_LOADED", 1, 3, 2, "column 'c': 'abcd' is no CHAR(3)")
    assert rows(lake.table("db.bounded")) == [(1, "ab ", "abc")]


@MODES
def test_rows_without_fields_are_noticed_where_all_columns_are_text(
    lake: SparkLake, inbox: Path
) -> None:
    lake.sql("CREATE TABLE db.s (a STRING, b STRING)")
    (inbox / "a.csv").write_text("1,2\n3\n4,5,6\n7,\n")
    answer = copied(lake, f"COPY INTO db.s FROM '{inbox}' {CSV} ON_ERROR = CONTINUE")
    assert answer[0][:5] == ("a.csv", "PARTIALLY_LOADED", 2, 4, 2)
    assert rows(lake.table("db.s")) == [("1", "2"), ("7", None)]
    (inbox / "a.json").write_text('{"a": 8}\n{"a": 9\n')
    text = f"COPY INTO db.s FROM '{inbox}/a.json' FILE_FORMAT = (TYPE = JSON)"
    answer = copied(lake, f"{text} ON_ERROR = CONTINUE")
    assert answer[0][:5] == ("a.json", "PARTIALLY_LOADED", 1, 2, 1)


@MODES
def test_the_options_of_csv_files_are_followed(table: SparkLake, inbox: Path) -> None:
    (inbox / "a.txt").write_text("id|name\n1|'o|ne'\n2|-\n3|\n4|''\n")
    options = "TYPE = csv, FIELD_DELIMITER = '|', SKIP_HEADER = 1, QUOTE = '\\''"
    source = f"'{inbox}/a.txt' FILE_FORMAT = ({options}, {{}}) FORCE = TRUE"
    text = f"COPY INTO t (id, NAME) FROM {source}"
    table.sql(text.format("NULL_IF = ('-', 'NULL')"))
    assert [row[:3] for row in content(table)] == [
        (1, "o|ne", "7.50"), (2, None, "7.50"), (3, None, "7.50"), (4, "", "7.50")
    ]  # fmt: skip
    table.sql("TRUNCATE TABLE t")
    table.sql(text.format("EMPTY_FIELD_AS_NULL = TRUE"))
    assert [row[1] for row in content(table)] == ["o|ne", "-", None, None]
    (inbox / "b.csv.gz").write_bytes(gzip.compress(b"5,five,5,\n"))
    zipped = f"COPY INTO t FROM '{inbox}' FILE_FORMAT = (TYPE = CSV, COMPRESSION = GZIP)"
    assert copied(table, f"{zipped} PATTERN = '.*[.]gz'")[0][:2] == ("b.csv.gz", "LOADED")
    (inbox / "c.txt").write_text("6,six,6,\n")
    with pytest.raises(Invalid, match=r"'c.txt' is not one of COMPRESSION = GZIP"):
        table.sql(zipped)


@MODES
def test_json_is_matched_by_name(lake: SparkLake, inbox: Path) -> None:
    lake.sql(
        "CREATE TABLE db.j (id INT, tags ARRAY<STRING>, s STRUCT<a: INT, b: STRING>, t STRING)"
    )
    lines = [
        {"s": {"b": "x", "a": 1}, "id": 1, "other": 5, "tags": ["p", "q"], "t": {"k": 1}},
        {"id": "2", "t": "NULL"},
    ]
    (inbox / "a.json").write_text("\n".join(map(json.dumps, lines)))
    options = "FILE_FORMAT = (TYPE = JSON, NULL_IF = ('NULL')) FORCE = TRUE"
    text = f"COPY INTO db.j FROM '{inbox}' {options}"
    assert copied(lake, text)[0][1:3] == ("LOADED", 2)
    assert rows(lake.table("db.j")) == [
        (1, ["p", "q"], (1, "x"), '{"k": 1}'),
        (2, None, None, None),
    ]
    (inbox / "a.json").write_text('{"id": 1\n{"id": 2}\n{"id": 3, "s": {"a": "no"}}\n')
    assert copied(lake, f"{text} ON_ERROR = CONTINUE")[0][:5] == (
        "a.json", "PARTIALLY_LOADED", 1, 3, 2
    )  # fmt: skip
    (inbox / "a.json").write_text(json.dumps(lines, indent=2))
    many = text.replace("TYPE = JSON", "TYPE = JSON, MULTI_LINE = TRUE")
    assert copied(lake, many)[0][1:3] == ("LOADED", 2)


@MODES
def test_parquet_is_matched_by_name_and_no_value_is_lost(table: SparkLake, inbox: Path) -> None:
    spark = table.spark

    def put(frame: DataFrame, name: str) -> None:
        (file,) = list_files_of(table, frame, inbox.parent / name)
        Path(file.removeprefix("file:")).rename(inbox / name)

    put(spark.sql("SELECT 'x' AS NAME, 5000000000 AS id, 1 AS other"), "a.parquet")
    text = f"COPY INTO t FROM '{inbox}' FILE_FORMAT = (TYPE = PARQUET)"
    with pytest.raises(Invalid, match="'5000000000' is no INT"):
        table.sql(text)
    put(spark.sql("SELECT '12' AS n, 2 AS id"), "b.parquet")
    assert copied(table, f"{text} FILES = ('b.parquet')")[0][1] == "LOADED"
    put(spark.sql("SELECT 3L AS id, DATE'2026-01-01' AS d"), "a.parquet")
    assert copied(table, f"{text} FILES = ('a.parquet')")[0][1] == "LOADED"
    assert content(table) == [(2, None, "12.00", None), (3, None, "7.50", "2026-01-01")]
    put(spark.sql("SELECT 1 AS other"), "c.parquet")
    with pytest.raises(Invalid, match="none of its columns id, name, n, d; theirs are other"):
        table.sql(f"{text} FILES = ('c.parquet')")


def list_files_of(lake: SparkLake, frame: DataFrame, place: Path) -> list[str]:
    frame.coalesce(1).write.parquet(str(place), mode="overwrite")
    return [file.path for file in list_files(lake.spark, str(place))]


@MODES
def test_a_load_that_ended_after_its_commit_is_found(
    table: SparkLake, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inbox / "a.csv").write_text("1,a,1,\n")
    text = f"COPY INTO t FROM '{inbox}' {CSV}"

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(LoadHistory, "finish", killed)
        with pytest.raises(Killed):
            table.sql(text)
    assert copied(table, text) == [("a.csv", "SKIPPED", 0, 0, 0, None)]
    (inbox / "b.csv").write_text("2,b,2,\n")
    with monkeypatch.context() as patched:
        patched.setattr("headwater.spark.sql.copy_into.copy_into.insert_numbered", killed)
        with pytest.raises(Killed):
            table.sql(text)
    assert [row[1] for row in copied(table, text)] == ["LOADED", "SKIPPED"]
    assert [row[0] for row in content(table)] == [1, 2]
    with monkeypatch.context() as patched:
        patched.setattr(LoadHistory, "finish", killed)
        with pytest.raises(Killed):
            table.sql(f"{text} FORCE = TRUE")
    table.sql("INSERT INTO t (id) VALUES (3)")
    table.catalog.table("db.t").expire_snapshots(retain_min=1, retain_max=1)
    with pytest.raises(OutcomeUnknown, match=r"copy-into/pending/load-3-.* names the files"):
        table.sql(text)


@MODES
@pytest.mark.parametrize("keyed", [True, False])
def test_of_two_loads_at_once_one_starts_over(
    lake: SparkLake, inbox: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    options = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')" if keyed else ""
    lake.sql(f"CREATE TABLE db.c (id INT, v STRING) {options}")
    (inbox / "a.csv").write_text("1,a\n")
    text = f"COPY INTO db.c FROM '{inbox}' {CSV}"
    begin: Callable[..., object] = LoadHistory.begin
    other: list[Rows] = []

    def with_another(*arguments: object) -> object:
        monkeypatch.setattr(LoadHistory, "begin", begin)
        load = begin(*arguments)
        other.append(copied(lake, text))
        return load

    monkeypatch.setattr(LoadHistory, "begin", with_another)
    assert copied(lake, text) == [("a.csv", "SKIPPED", 0, 0, 0, None)]
    assert other == [[("a.csv", "LOADED", 1, 1, 0, None)]]
    assert rows(lake.table("db.c")) == [(1, "a")]


@MODES
def test_rows_are_written_to_files_and_loaded_again(table: SparkLake, tmp_path: Path) -> None:
    table.sql(
        "INSERT INTO t VALUES (1, 'a,\"b', 1.25, DATE'2026-01-01'), (2, '', 3, NULL), "
        "(3, NULL, 2, NULL)"
    )
    before = content(table)
    for kind in ("CSV", "JSON", "PARQUET"):
        place = tmp_path / kind
        frame = table.sql(f"COPY INTO '{place}' FROM t FILE_FORMAT = (TYPE = {kind})")
        (row,) = frame.collect()
        assert dict(frame.dtypes) == {
            "output_path": "string", "file_count": "int", "rows_written": "bigint"
        }  # fmt: skip
        assert tuple(row) == (str(place), len(list(place.glob("part-*"))), 3)
        table.sql("TRUNCATE TABLE t")
        loaded = table.sql(f"COPY INTO t FROM '{place}' FILE_FORMAT = (TYPE = {kind})")
        assert sum(each["rows_loaded"] for each in loaded.collect()) == 3
        assert content(table) == before
    with pytest.raises(AlreadyExists, match="OVERWRITE = TRUE"):
        table.sql(f"COPY INTO '{place}' FROM t FILE_FORMAT = (TYPE = CSV)")
    query = "(SELECT id FROM t WHERE id IN (1, 2) AND n > (SELECT min(n) FROM t))"
    options = "FILE_FORMAT = (TYPE = CSV, HEADER = TRUE, COMPRESSION = GZIP) OVERWRITE = TRUE"
    assert copied(table, f"COPY INTO '{place}' FROM {query} {options}")[0][2] == 1
    written = [gzip.decompress(file.read_bytes()) for file in place.glob("part-*.csv.gz")]
    assert b"id\n2\n" in written


@MODES
def test_what_is_not_understood_is_refused_by_name(table: SparkLake, inbox: Path) -> None:
    (inbox / "a.csv").write_text("1,a,1,\n")
    (inbox / "a[1].csv").write_text("1,a,1,\n")
    lake_place = Path(table.catalog.table("db.t").storage.layout.location.removeprefix("file://"))
    refused = {
        f"t FROM '{inbox}'": (Invalid, "FILE_FORMAT"),
        f"t FROM '{inbox}' FILEFORMAT = CSV": (Invalid, "FILE_FORMAT = .TYPE"),
        f"t FROM '{inbox}' FILE_FORMAT = (SKIP_HEADER = 1)": (Invalid, "says no TYPE"),
        f"t FROM '{inbox}' FILE_FORMAT = (TYPE = ORC)": (Unsupported, "not ORC"),
        f"t FROM '{inbox}' FILE_FORMAT = (TYPE = CSV, MODE = 'x')": (Unsupported, "MODE is no"),
        f"t FROM '{inbox}' FILE_FORMAT = (TYPE = CSV, TYPE = CSV)": (Invalid, "TYPE stands twice"),
        f"t FROM '{inbox}' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 2)": (Invalid, "not '2'"),
        f"t FROM '{inbox}' {CSV} ON_ERROR = 'SKIP_FILE_3'": (Invalid, "a name"),
        f"t FROM '{inbox}' {CSV} ON_ERROR = SKIP_FILE_3": (Unsupported, "not SKIP_FILE_3"),
        f"t FROM '{inbox}' {CSV} PURGE = TRUE": (Invalid, "'PURGE = TRUE' where PATTERN, FILES"),
        f"t FROM '{inbox}' {CSV} FORCE = TRUE FORCE = TRUE": (Invalid, "FORCE stands twice"),
        f"t FROM '{inbox}' {CSV} PATTERN = '('": (Invalid, "no regular expression"),
        f"t FROM '{inbox}' {CSV} FILES = ('z.csv')": (NotFound, "'z.csv'"),
        f"t FROM '{inbox}' {CSV}": (Invalid, "pattern of paths"),
        f"t FROM '{inbox}/nowhere' {CSV}": (NotFound, "does not exist"),
        f"t FROM 'inbox' {CSV}": (Invalid, "neither an absolute path"),
        f"t FROM '{inbox}/*.csv' {CSV}": (Invalid, "PATTERN = "),
        f"t (id, ID) FROM '{inbox}' {CSV}": (Invalid, "named twice"),
        f"t (w) FROM '{inbox}' {CSV}": (NotFound, "'w' does not exist"),
        f"'{inbox}/out' FROM t FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)":
            (Unsupported, "SKIP_HEADER is no option of CSV files that are written"),
        f"'{inbox}/out' FROM () {CSV}": (Invalid, "needs a query"),
        f"'{inbox}/out' FROM (DROP TABLE t) {CSV}": (Invalid, "a query is expected"),
        f"'{inbox}/out' FROM t {CSV} SINGLE = TRUE": (Invalid, "the end of the statement"),
        f"'{lake_place.parent}' FROM t {CSV} OVERWRITE = TRUE": (Invalid, "there is a table in"),
    }  # fmt: skip
    for text, (kind, message) in refused.items():
        with pytest.raises(kind, match=message):
            table.sql(f"COPY INTO {text}")
    table.sql("CREATE TABLE b (x BINARY)")
    with pytest.raises(Unsupported, match="column 'x': CSV files have no values"):
        table.sql(f"COPY INTO b FROM '{inbox}' {CSV}")
    assert table.catalog.table("db.t").latest_snapshot() is None
