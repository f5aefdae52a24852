"""Statements that create, show, describe and drop tables."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.spark.sql.conftest import Run

from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.column_types import read_type, short_type_text, type_text
from headwater.spark.sql.statement import split_statements
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, Unsupported
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
)

ORDERS = """
CREATE TABLE orders (
    dt STRING NOT NULL COMMENT 'the day',
    order_id BIGINT,
    amount DECIMAL(10, 2) DEFAULT 0.00,
    tags ARRAY<STRING> DEFAULT ARRAY('a', 'b'),
    buyer STRUCT<name: STRING COMMENT 'in full', age INT>
) USING paimon
PARTITIONED BY (DT)
COMMENT 'what was ordered'
TBLPROPERTIES ('primary-key' = 'dt,order_id', bucket = 2)
"""


def test_a_table_is_created_as_it_is_written(run: Run, context: SqlContext) -> None:
    run(ORDERS)
    schema = context.catalog.table("db.orders").schema
    assert [str(field.type) for field in schema.fields] == [
        "STRING NOT NULL",
        "BIGINT NOT NULL",
        "DECIMAL(10, 2)",
        "ARRAY<STRING>",
        "ROW<`name` STRING, `age` INT>",
    ]
    assert schema.primary_keys == ("dt", "order_id")
    assert schema.partition_keys == ("dt",)
    assert schema.options == {"bucket": "2"}
    assert schema.comment == "what was ordered"
    assert [field.default_value for field in schema.fields] == [
        None,
        None,
        "0.00",
        "ARRAY('a', 'b')",
        None,
    ]
    with pytest.raises(AlreadyExists, match="orders"):
        run(ORDERS)
    run("CREATE TABLE IF NOT EXISTS orders (a INT)")
    assert context.catalog.table("db.orders").schema == schema


def test_columns_are_of_the_types_that_options_name(run: Run, context: SqlContext) -> None:
    run(
        "CREATE TABLE t (id INT, picture BINARY NOT NULL COMMENT 'p', e ARRAY<FLOAT>, v BLOB) "
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
        "'blob-field' = 'picture, v', 'vector-field' = 'e', 'field.e.vector-dim' = '3')"
    )
    schema = context.catalog.table("db.t").schema
    types = [str(field.type) for field in schema.fields]
    assert types == ["INT", "BLOB NOT NULL", "VECTOR<FLOAT, 3>", "BLOB"]
    assert schema.column("picture").description == "p"
    assert schema.options["field.e.vector-dim"] == "3"


def test_a_table_is_described(run: Run, context: SqlContext) -> None:
    run(ORDERS)
    columns = [
        ("dt", "string", "the day"),
        ("order_id", "bigint", None),
        ("amount", "decimal(10,2)", None),
        ("tags", "array<string>", None),
        ("buyer", "struct<name:string,age:int>", None),
    ]
    partition = [
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("dt", "string", "the day"),
    ]
    assert run("DESCRIBE orders") == columns + partition
    extended = run("DESC TABLE EXTENDED db.orders")
    assert extended[: len(columns) + len(partition)] == columns + partition
    properties = "[bucket=2,comment=what was ordered,partition=dt,primary-key=dt,order_id]"
    for row in [
        ("amount", "decimal(10,2)", "0.00"),
        ("Name", "db.orders", ""),
        ("Type", "MANAGED", ""),
        ("Comment", "what was ordered", ""),
        ("Location", context.catalog.table("db.orders").info.path, ""),
        ("Provider", "paimon", ""),
        ("Table Properties", properties, ""),
    ]:
        assert row in extended
    assert run("DESCRIBE orders buyer.NAME") == [
        ("col_name", "buyer.name"),
        ("data_type", "string"),
        ("comment", "in full"),
    ]
    assert run("DESCRIBE `orders$tags`")[0] == ("tag_name", "string", None)
    assert run("SHOW COLUMNS IN orders FROM db")[:2] == [("dt",), ("order_id",)]
    assert run("SHOW TBLPROPERTIES orders")[0] == ("bucket", "2")
    assert run("SHOW TBLPROPERTIES orders ('bucket')") == [("bucket", "2")]
    assert "does not have property" in str(run("SHOW TBLPROPERTIES orders ('x.y')"))
    ((_, name, _, information),) = run("SHOW TABLE EXTENDED LIKE 'ord*'")
    assert name == "orders"
    assert " |-- order_id: bigint (nullable = false)\n" in str(information)
    assert "Partition Columns: [dt]" in str(information)


def test_tables_are_listed(run: Run) -> None:
    run("CREATE DATABASE other")
    run("CREATE TABLE a1 (id INT)")
    run("CREATE TABLE a2 (id INT)")
    run("CREATE TABLE other.b (id INT)")
    assert run("SHOW TABLES") == [("db", "a1", False), ("db", "a2", False)]
    assert run("SHOW TABLES LIKE '*2'") == [("db", "a2", False)]
    assert run("SHOW TABLES IN other 'B'") == [("other", "b", False)]
    assert run("SHOW TABLES IN sys LIKE 't*'") == [("sys", "tables", False)]
    assert run("SHOW USER FUNCTIONS IN sys LIKE 'm*'") == [("sys.max_pt",)]
    assert ("snapshot_id",) in run("SHOW COLUMNS IN a1$snapshots")
    with pytest.raises(Unsupported, match="no properties"):
        run("SHOW TBLPROPERTIES a1$snapshots")
    with pytest.raises(Invalid, match="pattern"):
        run("SHOW TABLES LIKE '('")
    with pytest.raises(NotFound, match="none"):
        run("SHOW TABLES FROM none")


def test_an_object_table_has_its_own_columns(run: Run) -> None:
    run("CREATE TABLE o TBLPROPERTIES ('type' = 'object-table')")
    columns = [(name,) for name in ("path", "name", "length", "mtime", "atime", "owner")]
    assert run("SHOW COLUMNS IN o") == columns
    with pytest.raises(Invalid, match="cannot have keys or partitions"):
        run("CREATE TABLE p PARTITIONED BY (dt) TBLPROPERTIES ('type' = 'object-table')")
    with pytest.raises(Unsupported, match="of type object-table"):
        run("CALL sys.compact('o')")


def test_partitions_are_listed_and_emptied(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE t (id INT) PARTITIONED BY (dt DATE, hh INT)")
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "dt": pa.array([0, 1, 1], pa.int32()).cast(pa.date32()),
            "hh": pa.array([5, 6, None], pa.int32()),
        }
    )
    table = context.catalog.table("db.t")
    table.write(rows)
    last = "dt=1970-01-02/hh=null"
    assert run("SHOW PARTITIONS t") == [
        ("dt=1970-01-01/hh=5",),
        ("dt=1970-01-02/hh=6",),
        (last,),
    ]
    assert run("SHOW PARTITIONS t PARTITION (HH = 06)") == [("dt=1970-01-02/hh=6",)]
    assert run("SHOW PARTITIONS t PARTITION (dt = DATE '1970-01-02', hh)") == [
        ("dt=1970-01-02/hh=6",),
        (last,),
    ]
    with pytest.raises(NotFound, match="column 'id' does not exist; the columns are dt, hh"):
        run("SHOW PARTITIONS t PARTITION (dt, id)")
    ((_, _, _, text),) = run("SHOW TABLE EXTENDED LIKE 't' PARTITION (dt='1970-01-01', hh=5)")
    assert "Partition Statistics: 1 rows" in str(text)
    assert "recordCount=1}" in str(text)
    described = run("DESC FORMATTED t PARTITION (dt = DATE '1970-01-01', HH = 5)")
    assert ("Partition Statistics", "1 rows, ") in [(a, str(b)[:8]) for a, b, *_ in described]
    assert run("DESCRIBE t PARTITION (dt='1970-01-01', hh=5)") == run("DESCRIBE t")
    with pytest.raises(NotFound, match="name all of its columns, dt, hh"):
        run("DESCRIBE t PARTITION (dt = '1970-01-01')")
    run("TRUNCATE TABLE t PARTITION (dt='1970-01-02', hh=NULL)")
    assert table.scan().to_arrow().column("id").to_pylist() == [1, 2]
    run("TRUNCATE TABLE t")
    assert table.scan().count() == 0
    run("CREATE TABLE plain (id INT)")
    with pytest.raises(Invalid, match="has no partitions"):
        run("SHOW PARTITIONS plain")
    with pytest.raises(Invalid, match=r"db\.plain has no partitions: leave PARTITION out"):
        run("SHOW TABLE EXTENDED LIKE 'plain' PARTITION (dt = 'a')")
    with pytest.raises(Invalid, match=r"db\.plain\$files has no partitions"):
        run("DESCRIBE plain$files PARTITION (dt = 'a')")


def test_partitions_of_local_times_are_shown_as_in_queries(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE t (id INT, at TIMESTAMP_NTZ) PARTITIONED BY (at)")
    at = [1_000_000, 1_230_000, None]
    rows = {"id": pa.array([1, 2, 3], pa.int32()), "at": pa.array(at, pa.timestamp("us"))}
    context.catalog.table("db.t").write(pa.table(rows))
    assert set(run("SHOW PARTITIONS t")) == {
        ("at=1970-01-01 00%3A00%3A01",),
        ("at=1970-01-01 00%3A00%3A01.23",),
        ("at=null",),
    }


def test_a_dropped_table_can_be_restored(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE t (id INT)")
    table_id = context.catalog.table("db.t").info.id
    run("DROP TABLE t")
    assert [row[:3] for row in run("SHOW TABLES DROPPED IN db")] == [("db", "t", table_id)]
    run("CREATE TABLE t (other INT)")
    with pytest.raises(AlreadyExists):
        run("UNDROP TABLE t")
    run("UNDROP TABLE t AS was")
    assert context.catalog.table("db.was").info.id == table_id
    run("DROP TABLE was PURGE")
    assert run("SHOW TABLES DROPPED") == []
    with pytest.raises(NotFound, match="SHOW TABLES DROPPED"):
        run("UNDROP TABLE was")
    run("DROP TABLE IF EXISTS was PURGE")
    run("DROP TABLE IF EXISTS nowhere.was")
    with pytest.raises(NotFound):
        run("DROP TABLE was")
    run("DROP TABLE t")
    run("CREATE TABLE t (last INT)")
    run("DROP TABLE t")
    run("UNDROP TABLE t")
    assert run("SHOW COLUMNS IN t") == [("last",)]
    run("DROP TABLE t PURGE")
    (row,) = run("SHOW TABLES DROPPED")
    run(f"UNDROP TABLE WITH ID '{row[2]}'")
    assert run("SHOW COLUMNS IN t") == [("other",)]


def test_a_table_like_another_has_its_columns_and_no_rows(run: Run, context: SqlContext) -> None:
    run(ORDERS)
    run("CREATE TABLE same LIKE orders")
    run("CREATE TABLE wider LIKE orders TBLPROPERTIES (bucket = 4, 'file.format' = 'orc')")
    run("CREATE TABLE files LIKE orders USING csv")
    source = context.catalog.table("db.orders").schema.to_schema()
    assert context.catalog.table("db.same").schema.to_schema() == source
    wider = context.catalog.table("db.wider").schema
    assert wider.options == {"bucket": "4", "file.format": "orc"}
    assert wider.primary_keys == source.primary_keys
    files = context.catalog.table("db.files").schema
    assert files.options == {"type": "format-table", "file.format": "csv"}
    assert (files.primary_keys, files.partition_keys) == ((), ("dt",))


def test_properties_of_the_user_s_own_are_kept_and_shown(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE t (id INT) TBLPROPERTIES ('team.owner' = 'ann', 'cost.center' = 7)")
    assert ("team.owner", "ann") in run("SHOW TBLPROPERTIES t")
    assert run("SHOW TBLPROPERTIES t ('cost.center')") == [("cost.center", "7")]
    described = {row[0]: str(row[1]) for row in run("DESCRIBE EXTENDED t")}
    assert "team.owner=ann" in described["Table Properties"]
    ((statement,),) = run("SHOW CREATE TABLE t")
    assert "'team.owner' = 'ann'" in str(statement)
    run("CREATE TABLE files (id INT) USING csv TBLPROPERTIES ('team.owner' = 'ann', lineSep = ';')")
    assert ("team.owner", "ann") in run("SHOW TBLPROPERTIES files")
    run("ALTER TABLE t SET TBLPROPERTIES ('team.owner' = 'bob')")
    run("ALTER TABLE t UNSET TBLPROPERTIES ('cost.center')")
    run("CREATE TABLE like_t LIKE t TBLPROPERTIES ('team.more' = 'x')")
    table = context.catalog.table("db.t")
    table.write({"id": [1]})
    context.catalog.clone_table(table, "db.cloned")
    run("ALTER TABLE t RENAME TO moved")
    for name, more in (("moved", {}), ("cloned", {}), ("like_t", {"team.more": "x"})):
        options = context.catalog.table(f"db.{name}").schema.options
        assert options == {"team.owner": "bob", **more}, name
    run("DROP TABLE files PURGE")
    run(str(statement))
    assert run("SHOW CREATE TABLE t") == [(statement,)]


def test_a_table_is_replaced(run: Run, context: SqlContext) -> None:
    with pytest.raises(NotFound):
        run("REPLACE TABLE t (id INT)")
    run("CREATE OR REPLACE TABLE t (id INT)")
    table = context.catalog.table("db.t")
    table.write({"id": [1]})
    run("CREATE OR REPLACE TABLE t (name STRING) COMMENT 'new'")
    assert table.refresh().schema.comment == "new"
    assert table.scan().to_arrow().column_names == ["name"]
    assert table.scan(snapshot_id=1).to_arrow().to_pydict() == {"id": [1]}
    assert context.catalog.table("db.t").info.id == table.info.id


def test_a_table_is_analysed(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE t (id INT, name STRING)")
    table = context.catalog.table("db.t")
    table.write({"id": [1, 2, 2], "name": ["a", None, "b"]})
    run("REFRESH TABLE t")
    run("ANALYZE TABLE t COMPUTE STATISTICS")
    (found,) = table.inspect.statistics().to_pylist()
    assert (found["mergedRecordCount"], found["colstat"]) == (3, "{ }")
    run("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS ID")
    (found,) = table.inspect.statistics().to_pylist()
    assert '"id"' in found["colstat"]
    assert '"name"' not in found["colstat"]
    run("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")
    (found,) = table.inspect.statistics().to_pylist()
    assert '"name"' in found["colstat"]
    run("ANALYZE TABLE t COMPUTE STATISTICS NOSCAN")
    (statistics,) = table.inspect.statistics().to_pylist()
    size = sum(file["file_size_in_bytes"] for file in table.inspect.files().to_pylist())
    told = statistics["mergedRecordCount"], statistics["mergedRecordSize"], statistics["colstat"]
    assert told == (3, size, "{ }")
    for text, error in {
        "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN FOR ALL COLUMNS": Invalid,
        "ANALYZE TABLE t PARTITION (a = 1) COMPUTE STATISTICS": Unsupported,
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS none": NotFound,
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS": Invalid,
        "MSCK REPAIR TABLE t": Unsupported,
        "REFRESH TABLE none": NotFound,
    }.items():
        with pytest.raises(error):
            run(text)
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.id == 5


def test_rows_that_may_be_merged_are_not_counted_without_a_scan(
    run: Run, context: SqlContext
) -> None:
    for name, option in (("k", "'primary-key' = 'id', 'bucket' = '1'"),
                         ("v", "'deletion-vectors.enabled' = 'true'")):  # fmt: skip
        run(f"CREATE TABLE {name} (id INT) TBLPROPERTIES ({option})")
        context.catalog.table(f"db.{name}").write({"id": [1]})
        run(f"ANALYZE TABLE {name} COMPUTE STATISTICS NOSCAN")
        (statistics,) = context.catalog.table(f"db.{name}").inspect.statistics().to_pylist()
        assert statistics["mergedRecordCount"] is None
        assert statistics["mergedRecordSize"] > 0


def test_the_tables_of_a_database_are_analysed(
    run: Run, context: SqlContext, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        run(f"CREATE TABLE {name} (id INT)")
        context.catalog.table(f"db.{name}").write({"id": [1, 2]})
    run("CREATE TABLE f (id INT) USING csv")
    run("CREATE DATABASE other")
    run("CREATE TABLE other.c (id INT)")
    context.catalog.table("other.c").write({"id": [1]})
    run("ANALYZE TABLES IN db COMPUTE STATISTICS")
    counts = {
        name: [row["mergedRecordCount"] for row in table.inspect.statistics().to_pylist()]
        for name in ("db.a", "db.b", "other.c")
        for table in [context.catalog.table(name)]
    }
    assert counts == {"db.a": [2], "db.b": [2], "other.c": []}
    assert "table db.f is left out" in caplog.text
    run("USE other")
    run("ANALYZE TABLES COMPUTE STATISTICS NOSCAN")
    assert context.catalog.table("other.c").inspect.statistics().num_rows == 1
    for text, error in {
        "ANALYZE TABLES IN none COMPUTE STATISTICS": NotFound,
        "ANALYZE TABLES COMPUTE STATISTICS FOR ALL COLUMNS": Invalid,
    }.items():
        with pytest.raises(error):
            run(text)


def test_procedures_are_listed_and_described(run: Run) -> None:
    listed = run("SHOW PROCEDURES")
    assert ("main", ["sys"], "sys", "compact") in listed
    assert run("SHOW PROCEDURES IN sys") == listed
    assert run("SHOW PROCEDURES FROM db") == []
    assert run("DESCRIBE PROCEDURE sys.rollback_to_timestamp") == [
        ("Procedure:   rollback_to_timestamp",),
        (
            "Description: Make the snapshot of a point in time the latest; milliseconds since the "
            "epoch.",
        ),
        ("Parameters:  IN table     STRING",),
        ("             IN timestamp BIGINT",),
    ]
    assert run("DESC PROCEDURE sys.create_tag")[4] == (
        "             IN snapshot      BIGINT DEFAULT NULL",
    )
    with pytest.raises(Unsupported, match="unknown procedure"):
        run("DESCRIBE PROCEDURE sys.none")
    run("CREATE TABLE procedure (id INT)")
    assert run("DESCRIBE PROCEDURE") == [("id", "int", None)]


def test_show_names_the_warehouse_and_refuses_others(run: Run) -> None:
    assert run("SHOW DATABASES IN main LIKE 'd*'") == run("SHOW NAMESPACES FROM main") == [("db",)]
    run("CREATE TABLE t (id INT)")
    for text, error, message in (
        ("SHOW DATABASES IN other", Invalid, "leave IN other out"),
        ("SHOW CREATE TABLE t AS SERDE", Unsupported, "db.t is not a table of Hive"),
        ("SHOW LOCKS", Unsupported, "'SHOW LOCKS'"),
    ):
        with pytest.raises(error, match=message):
            run(text)


def test_a_table_outside_the_warehouse_stays_when_it_is_dropped(
    run: Run, context: SqlContext, tmp_path: Path
) -> None:
    place = tmp_path / "outside"
    with pytest.raises(Invalid, match="needs a LOCATION"):
        run("CREATE EXTERNAL TABLE t (id INT)")
    run(f"CREATE EXTERNAL TABLE t (id INT) LOCATION '{place}'")
    context.catalog.table("db.t").write({"id": [7]})
    assert ("Type", "EXTERNAL", "") in run("DESCRIBE EXTENDED t")
    ((statement,),) = run("SHOW CREATE TABLE t")
    run("DROP TABLE t")
    run(str(statement))
    assert context.catalog.table("db.t").scan().to_arrow().to_pydict() == {"id": [7]}
    run("DROP TABLE t")
    run(f"CREATE TABLE again LOCATION '{place}'")
    assert run("SHOW COLUMNS IN again") == [("id",)]


def test_tables_of_files_alone_are_kept_for_those_who_read_them(run: Run) -> None:
    run("CREATE TABLE f (id INT, name STRING) USING csv OPTIONS ('csv.field-delimiter' = ';')")
    ((statement,),) = run("SHOW CREATE TABLE f")
    assert "USING csv\nTBLPROPERTIES (\n  'csv.field-delimiter' = ';')" in str(statement)
    assert ("Provider", "csv", "") in run("DESCRIBE EXTENDED f")
    run("DROP TABLE f PURGE")
    run(str(statement))
    assert run("SHOW CREATE TABLE f") == [(statement,)]


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("(id INT) TBLPROPERTIES ('bucktes' = '1')", Invalid, "did you mean 'bucket'"),
    ("(id INT) TBLPROPERTIES (owner = 'ann')", Invalid, "'owner' .* such as 'team.owner'"),
    ("(id INT) TBLPROPERTIES ('snapshots.x' = 1)", Invalid, "'snapshots.x' is not an option"),
    ("(id INT) TBLPROPERTIES (a = 1, a = 2)", Invalid, "twice"),
    ("(id INT) OPTIONS (bucket = 1) TBLPROPERTIES (bucket = 2)", Invalid, "given twice"),
    ("(id INT) USING delta", Unsupported, "USING delta"),
    ("(id INT) USING csv TBLPROPERTIES ('file.format' = 'orc')", Invalid, "USING csv stands"),
    ("(id INT) PARTITIONED BY (days(id))", Unsupported, "by columns"),
    ("(id INT) PARTITIONED BY (x)", NotFound, "column 'x' does not exist"),
    ("(id INT) PARTITIONED BY (id, x INT)", Invalid, "for all of its columns or for none"),
    ("(id INT) CLUSTERED BY (id) INTO 4 BUCKETS", Unsupported, "bucket-key"),
    ("(id INT) COMMENT 'a' COMMENT 'b'", Invalid, "COMMENT stands twice"),
    ("(id INT, PRIMARY KEY (id))", Unsupported, "primary-key"),
    ("(id INT PRIMARY KEY)", Unsupported, "primary-key"),
    ("(id INT GENERATED ALWAYS AS IDENTITY)", Unsupported, "generated"),
    ("(id INT NOT NULL NOT NULL)", Invalid, "NOT NULL twice"),
    ("(id INT DEFAULT 'x')", Invalid, "no value of INT"),
    ("(id INT, ID INT)", Invalid, "two columns 'id'"),
    ("(id STRING DEFAULT concat('a', 'b'))", Unsupported, "constant"),
    ("(id STRING DEFAULT 'a' || 'b')", Unsupported, "constant"),
    ("(id INT DEFAULT)", Invalid, "a default"),
    ("(id WIBBLE)", Invalid, "'WIBBLE\\)' where a type"),
    ("(id VARCHAR)", Invalid, "needs a length"),
    ("(id DECIMAL(50, 2))", Invalid, "between 1 and 38"),
    ("(id INT) IN PIECES", Invalid, "USING, PARTITIONED BY"),
    ("()", Invalid, "at least one column"),
    (
        "(id INT) TBLPROPERTIES ('file.format' = 'csv')",
        Unsupported,
        "for that engine anyway, call SparkLake.create_table with for_another_engine=True",
    ),
    ("USING paimon", Invalid, "needs columns"),
]


def test_what_is_not_understood_creates_nothing(run: Run) -> None:
    for text, error, message in REFUSED:
        with pytest.raises(error, match=message):
            run(f"CREATE TABLE t {text}")
        assert run("SHOW TABLES") == []


@pytest.mark.parametrize(
    "written",
    [
        "INT",
        "TIMESTAMP",
        "TIMESTAMP_NTZ(9)",
        "BINARY",
        "BINARY(4)",
        "CHAR(3)",
        "STRUCT<a: INT NOT NULL COMMENT 'x', `b c`: ARRAY<DECIMAL(10, 2) NOT NULL>>",
        "MAP<STRING, MAP<INT, VARIANT NOT NULL>>",
        "MULTISET<DATE>",
        "VECTOR<FLOAT NOT NULL, 768>",
        "BLOB",
    ],
)
def test_types_are_written_as_they_are_read(written: str) -> None:
    assert type_text(_type(written)) == written


def test_a_default_that_is_bare_text_is_shown_as_a_string(run: Run, context: SqlContext) -> None:
    text = AtomicType(Root.VARCHAR, length=9)
    schema = Schema((DataField(0, "a", text, None, "b, it's"), DataField(1, "c", text, None, "7")))
    context.catalog.create_table("db.t", schema)
    ((statement,),) = run("SHOW CREATE TABLE t")
    run("DROP TABLE t PURGE")
    run(str(statement))
    fields = context.catalog.table("db.t").schema.fields
    assert [field.default_value for field in fields] == ["'b, it's'", "7"]


def test_other_names_of_types_are_sparks() -> None:
    texts = "LONG, dec(4), timestamp_ltz, time(6), struct<a bigint, b:real>"
    shown = [short_type_text(_type(text)) for text in texts.split(", ", 4)]
    assert shown == [
        "bigint",
        "decimal(4,0)",
        "timestamp",
        "time(3)",
        "struct<a:bigint,b:float>",
    ]


def _type(text: str) -> DataType:
    (statement,) = split_statements(text)
    data_type = read_type(statement)
    statement.end()
    return data_type


NAMES = st.text("ab_ `.'-\\,ORDERü$1(", min_size=1, max_size=6).filter(
    lambda name: bool(name.strip()) and not name.startswith("_KEY_")
)
TEXTS = st.text("ab'\\\n\t\"%_;-- \0ü,)", max_size=8)
ATOMS = st.one_of(
    st.sampled_from([Root.BOOLEAN, Root.INT, Root.BIGINT, Root.DOUBLE, Root.DATE]).map(AtomicType),
    st.integers(1, 38).map(lambda digits: AtomicType(Root.DECIMAL, precision=digits, scale=1)),
    st.sampled_from([Root.TIMESTAMP, Root.TIMESTAMP_LTZ]).flatmap(
        lambda root: st.integers(0, 9).map(lambda p: AtomicType(root, precision=p))
    ),
    st.sampled_from([Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY]).flatmap(
        lambda root: st.sampled_from([1, 7, MAX_LENGTH]).map(lambda n: AtomicType(root, length=n))
    ),
    st.integers(0, 3).map(lambda digits: AtomicType(Root.TIME, precision=digits)),
)


def _nullable(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    def either(data_type: DataType) -> st.SearchStrategy[DataType]:
        return st.booleans().map(lambda nullable: _with(data_type, nullable))

    return types.flatmap(either)


def _with(data_type: DataType, nullable: bool) -> DataType:
    return replace(data_type, nullable=nullable)


TYPES: st.SearchStrategy[DataType] = st.recursive(
    _nullable(ATOMS | st.just(VariantType())),
    lambda inner: _nullable(
        st.one_of(
            inner.map(ArrayType),
            inner.filter(lambda t: not isinstance(t, VariantType)).map(MultisetType),
            st.tuples(_nullable(ATOMS), inner).map(lambda pair: MapType(*pair)),
            st.lists(st.tuples(NAMES, inner, st.none() | TEXTS), min_size=1, max_size=3,
                     unique_by=lambda field: field[0]).map(
                lambda fields: RowType(tuple(DataField(-1, *field) for field in fields))
            ),
        )
    ),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.modes
@given(
    columns=st.lists(
        st.tuples(NAMES, TYPES, st.none() | TEXTS), min_size=1, max_size=4,
        unique_by=lambda column: column[0].lower(),
    ),
    comment=st.none() | TEXTS,
    default=st.none() | TEXTS,
)  # fmt: skip
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_shown_statement_creates_the_same_table(
    run: Run,
    context: SqlContext,
    columns: list[tuple[str, DataType, str | None]],
    comment: str | None,
    default: str | None,
) -> None:
    fields = [DataField(-1, *column) for column in columns]
    fields.append(
        DataField(-1, "with default", AtomicType(Root.VARCHAR, length=9), None,
                  None if default is None else f"'{default}'")
    )  # fmt: skip
    options = {"file.format": "parquet", "write-only": "true"}
    wanted = Schema(tuple(fields), (), (), options, comment)
    context.catalog.create_table("db.t", wanted)
    ((statement,),) = run("SHOW CREATE TABLE t")
    made = context.catalog.table("db.t").schema.to_schema()
    run("DROP TABLE t PURGE")
    run(str(statement))
    assert context.catalog.table("db.t").schema.to_schema() == made
    run("DROP TABLE t PURGE")
