"""``ALTER TABLE``: properties, names, columns, partitions."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.sql.conftest import Run

from headwater.client import connect
from headwater.spark.sql.context import SqlContext
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, Unsupported
from headwater.storage.files.local import local_path


@pytest.fixture
def table(run: Run) -> str:
    """A table with columns of each kind."""
    run(
        "CREATE TABLE t (id BIGINT NOT NULL, a INT, s STRUCT<x: INT, y: STRING>, "
        "l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>, dt STRING) "
        "PARTITIONED BY (dt) TBLPROPERTIES ('file.format' = 'parquet')"
    )
    return "db.t"


def columns(context: SqlContext, name: str = "db.t") -> list[str]:
    schema = context.catalog.table(name).schema
    return [f"{field.name} {field.type}" for field in schema.fields]


def test_properties_are_set_and_unset_as_one_version(
    run: Run, context: SqlContext, table: str
) -> None:
    run("ALTER TABLE t SET TBLPROPERTIES ('write-only' = true, comment = 'c', 'file.format'='orc')")
    schema = context.catalog.table(table).schema
    assert (schema.id, schema.comment) == (1, "c")
    assert schema.options == {"write-only": "true", "file.format": "orc"}
    run("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('write-only', 'comment', 'none')")
    schema = context.catalog.table(table).schema
    assert (schema.id, schema.comment, schema.options) == (2, None, {"file.format": "orc"})
    run("ALTER TABLE t SET TBLPROPERTIES ('write-only' 'true', comment 'c', file.format 'orc')")
    schema = context.catalog.table(table).schema
    assert (schema.comment, schema.options) == ("c", {"file.format": "orc", "write-only": "true"})
    run("COMMENT ON TABLE t IS 'again'")
    assert context.catalog.table(table).schema.comment == "again"
    with pytest.raises(Invalid, match="did you mean 'write-only'"):
        run("ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '1 mb', 'writeonly' = 'true')")
    with pytest.raises(Invalid, match=r"'tags.owner' is not an option .* such as 'team\.owner'"):
        run("ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '1 mb', 'tags.owner' = 'ann')")
    assert "write-buffer-size" not in context.catalog.table(table).schema.options


def test_a_table_is_renamed(run: Run, context: SqlContext, table: str) -> None:
    run("CREATE DATABASE other")
    run("ALTER TABLE db.t RENAME TO u")
    run("ALTER TABLE u RENAME TO other.v")
    assert context.catalog.list_tables("other") == ["v"]
    context.database = "other"
    run("CREATE TABLE db.w (id INT)")
    run("ALTER TABLE db.w RENAME TO x")
    assert context.catalog.list_tables("db") == ["x"]


@pytest.mark.usefixtures("table")
def test_columns_are_added_where_they_are_wanted(run: Run, context: SqlContext) -> None:
    run(
        "ALTER TABLE t ADD COLUMNS (b INT COMMENT 'new' FIRST, c DATE AFTER A, d INT AFTER b, "
        "s.z DOUBLE AFTER x, l.element.y INT, M.value.y INT FIRST)"
    )
    assert context.catalog.table("db.t").schema.id == 1
    assert columns(context) == [
        "b INT",
        "d INT",
        "id BIGINT NOT NULL",
        "a INT",
        "c DATE",
        "s ROW<`x` INT, `z` DOUBLE, `y` STRING>",
        "l ARRAY<ROW<`x` INT, `y` INT>>",
        "m MAP<STRING NOT NULL, ROW<`y` INT, `x` INT>>",
        "dt STRING",
    ]
    assert context.catalog.table("db.t").schema.column("b").description == "new"
    run("ALTER TABLE t ADD COLUMN e STRING")
    assert columns(context)[-1] == "e STRING"


@pytest.mark.usefixtures("table")
def test_columns_are_renamed_and_dropped(run: Run, context: SqlContext) -> None:
    run("ALTER TABLE t RENAME COLUMN A TO B")
    run("ALTER TABLE t RENAME COLUMN B TO b")
    run("ALTER TABLE t RENAME COLUMN l.element.x TO z")
    run("ALTER TABLE t DROP COLUMNS (b, s.x)")
    run("ALTER TABLE t DROP COLUMN IF EXISTS none, m")
    assert columns(context) == [
        "id BIGINT NOT NULL",
        "s ROW<`y` STRING>",
        "l ARRAY<ROW<`z` INT>>",
        "dt STRING",
    ]
    run("ALTER TABLE t DROP COLUMN IF EXISTS none")
    assert context.catalog.table("db.t").schema.id == 5


@pytest.mark.usefixtures("table")
def test_columns_change_as_in_hive(run: Run, context: SqlContext) -> None:
    run("ALTER TABLE t CHANGE COLUMN a b BIGINT COMMENT 'x' FIRST")
    run("ALTER TABLE t CHANGE ID id DECIMAL(20, 0) AFTER b")
    run("ALTER TABLE t CHANGE COLUMN s.x x BIGINT")
    run("ALTER TABLE t CHANGE COLUMN l.element.x z INT")
    run("ALTER TABLE t CHANGE COLUMN b COMMENT 'y', dt AFTER b")
    run("COMMENT ON COLUMN t.DT IS 'z'")
    run("ALTER TABLE t ALTER COLUMN l.element COMMENT 'of all', m.value.x COMMENT 'inner'")
    run("ALTER TABLE t CHANGE COLUMN m.value COMMENT 'of values'")
    schema = context.catalog.table("db.t").schema
    assert (schema.id, schema.column("b").description) == (8, "y")
    assert [schema.column(name).description for name in ("dt", "l", "m")] == [
        "z",
        "of all",
        "of values",
    ]
    with pytest.raises(Invalid, match=r"write table\.column"):
        run("COMMENT ON COLUMN dt IS 'z'")
    assert columns(context) == [
        "b BIGINT",
        "dt STRING",
        "id DECIMAL(20, 0) NOT NULL",
        "s ROW<`x` BIGINT, `y` STRING>",
        "l ARRAY<ROW<`z` INT>>",
        "m MAP<STRING NOT NULL, ROW<`x` INT>>",
    ]


@pytest.mark.usefixtures("table")
def test_columns_change(run: Run, context: SqlContext) -> None:
    run("ALTER TABLE t ALTER COLUMN id TYPE DECIMAL(20, 0), a COMMENT 'x', dt FIRST")
    run("ALTER TABLE t ALTER COLUMN a AFTER m, s.x TYPE BIGINT")
    run("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
    run("ALTER TABLE t ALTER a SET DEFAULT 7")
    run("ALTER TABLE t ALTER COLUMN l SET DEFAULT ARRAY(STRUCT(1))")
    schema = context.catalog.table("db.t").schema
    assert schema.id == 5
    assert columns(context) == [
        "dt STRING",
        "id DECIMAL(20, 0)",
        "s ROW<`x` BIGINT, `y` STRING>",
        "l ARRAY<ROW<`x` INT>>",
        "m MAP<STRING NOT NULL, ROW<`x` INT>>",
        "a INT",
    ]
    assert schema.column("a").description == "x"
    assert schema.column("a").default_value == "7"
    assert schema.column("l").default_value == "ARRAY(STRUCT(1))"
    run("ALTER TABLE t ALTER COLUMN a DROP DEFAULT")
    run("ALTER TABLE t SET TBLPROPERTIES ('alter-column-null-to-not-null.disabled' = 'false')")
    run("ALTER TABLE t ALTER COLUMN a SET NOT NULL")
    assert context.catalog.table("db.t").schema.column("a").default_value is None
    assert columns(context)[-1] == "a INT NOT NULL"


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("ADD COLUMN A INT", AlreadyExists, "'A' exists"),
    ("ADD COLUMNS (b INT, B INT)", AlreadyExists, "'B' exists"),
    ("ADD COLUMN s.X INT", AlreadyExists, "'X' exists"),
    ("ADD COLUMNS (l.element.b INT, l.element.B INT)", AlreadyExists, "'B' exists"),
    ("ADD COLUMN b STRUCT<x: INT, X: INT>", Invalid, "two columns 'x' in 'b'"),
    ("RENAME COLUMN a TO ID", AlreadyExists, "'ID' exists"),
    ("RENAME COLUMN s.x TO Y", AlreadyExists, "'Y' exists"),
    ("ALTER COLUMN m.value SET DEFAULT 7", Unsupported, "only whole columns have one"),
    ("ALTER COLUMN s.x SET DEFAULT 7", Unsupported, "'s.x' takes no default"),
    ("ADD COLUMN b INT DEFAULT 5", Unsupported, "SET DEFAULT"),
    ("ADD COLUMNS (b INT, c INT AFTER none)", NotFound, "none"),
    ("DROP COLUMNS (a, none)", NotFound, "none"),
    ("ALTER COLUMN a TYPE STRING, none TYPE INT", NotFound, "none"),
    ("ALTER COLUMN a", Invalid, "TYPE, COMMENT, FIRST"),
    ("ALTER COLUMN a SET DEFAULT 'x'", Invalid, "no value of INT"),
    ("ALTER COLUMN a SET DEFAULT 1 + 1", Unsupported, "constant"),
    ("ALTER COLUMN s.x FIRST", Unsupported, "whole columns"),
    ("RENAME COLUMN a TO b c", Invalid, "end of the statement"),
    ("CHANGE COLUMN a ID INT", AlreadyExists, "'ID' exists"),
    ("CHANGE COLUMN a b INT NOT NULL", Invalid, "'NOT NULL'"),
    ("CHANGE COLUMN s.x x INT FIRST", Unsupported, "whole columns"),
    ("REPLACE COLUMNS (a INT)", Unsupported, "ADD, DROP"),
    ("SET LOCATION '/x'", Unsupported, "stays"),
    ("PARTITION (dt = '1') RENAME TO PARTITION (dt = '2')", Unsupported, "drop this one"),
    ("EXPLODE", Invalid, "RENAME COLUMN"),
]


@pytest.mark.usefixtures("table")
def test_what_is_not_understood_changes_nothing(run: Run, context: SqlContext) -> None:
    for text, error, message in REFUSED:
        with pytest.raises(error, match=message):
            run(f"ALTER TABLE t {text}")
        assert context.catalog.table("db.t").schema.id == 0


def test_partitions_are_dropped_as_one_commit(run: Run, context: SqlContext) -> None:
    run("CREATE TABLE p (id INT) PARTITIONED BY (d DATE, h INT)")
    table = context.catalog.table("db.p")
    days = pa.array([0, 0, 1, 2], pa.int32()).cast(pa.date32())
    table.write(
        pa.table(
            {
                "id": pa.array([1, 2, 3, 4], pa.int32()),
                "d": days,
                "h": pa.array([1, 2, 1, 1], pa.int32()),
            }
        )
    )
    with pytest.raises(NotFound, match="has no partition"):
        run("ALTER TABLE p DROP PARTITION (d = '1970-01-01', h = 2), PARTITION (h = 9)")
    assert table.scan().count() == 4
    run(
        "ALTER TABLE p DROP IF EXISTS PARTITION (d = '1970-01-01', h = 2), PARTITION (h = 9), "
        "PARTITION (d = '1970-01-03')"
    )
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 3]
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.id == 2
    with pytest.raises(Unsupported, match="metastore"):
        run("ALTER TABLE p ADD PARTITION (d = '1970-01-01', h = 2)")


@pytest.mark.parametrize("kept", ["false", "true"])
def test_an_empty_text_is_another_partition_than_null(
    run: Run, context: SqlContext, kept: str
) -> None:
    run(
        "CREATE TABLE p (id INT) PARTITIONED BY (d STRING) "
        f"TBLPROPERTIES ('metastore.partitioned-table' = '{kept}')"
    )
    table = context.catalog.table("db.p")
    for value in ("", None, "x"):
        table.write(
            pa.table({"id": pa.array([1], pa.int32()), "d": pa.array([value], pa.string())})
        )

    def left() -> set[object]:
        return set(table.scan().to_arrow().column("d").to_pylist())

    assert set(run("SHOW PARTITIONS p")) == {("d=",), ("d=null",), ("d=x",)}
    assert run("SHOW PARTITIONS p PARTITION (d = '')") == [("d=",)]
    assert sum(found.record_count for found in table.partitions()) == 3
    run("ALTER TABLE p DROP PARTITION (d = '')")
    assert left() == {"x", None}
    assert set(run("SHOW PARTITIONS p")) == {("d=null",), ("d=x",)}
    with pytest.raises(NotFound, match="has no partition"):
        run("ALTER TABLE p DROP PARTITION (d = '')")
    run("ALTER TABLE p DROP PARTITION (d = NULL)")
    assert left() == {"x"}


def test_a_partition_with_the_name_of_the_null_partition_is_named_by_nothing(
    run: Run, context: SqlContext, tmp_path: Path
) -> None:
    """Only another engine writes such rows."""
    name, option = "__DEFAULT_PARTITION__", "partition.default-name"
    other = connect(tmp_path / "other")
    other.create_database("db")
    columns = pa.schema([("id", pa.int32()), ("d", pa.string())])
    made = other.create_table("db.p", columns, partition_keys=["d"], options={option: "other"})
    made.write({"id": pa.array([1], pa.int32()), "d": [name]})
    location = local_path(made.storage.layout.location)
    schema = Path(location, "schema", "schema-0")
    schema.write_text(schema.read_text().replace(option, "k"))
    context.catalog.register_table("db.p", location)
    for statement in (
        f"ALTER TABLE p DROP PARTITION (d = '{name}')",
        f"TRUNCATE TABLE p PARTITION (d = '{name}')",
    ):
        with pytest.raises(Invalid, match="is ambiguous for partition column 'd'"):
            run(statement)
    table = context.catalog.table("db.p")
    table.write({"id": pa.array([2], pa.int32()), "d": pa.array([None], pa.string())})
    run("ALTER TABLE p DROP PARTITION (d = NULL)")
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "d": name}]


def test_partitions_are_named_by_columns_that_are_theirs(run: Run) -> None:
    run("CREATE TABLE p (id INT) PARTITIONED BY (d STRING)")
    run("CREATE TABLE plain (id INT, d STRING)")
    for statement in (
        "ALTER TABLE {} DROP PARTITION ({})",
        "ALTER TABLE {} DROP IF EXISTS PARTITION ({})",
        "TRUNCATE TABLE {} PARTITION ({})",
    ):
        with pytest.raises(Invalid, match=r"db\.plain has no partitions"):
            run(statement.format("plain", "d = 'x'"))
        with pytest.raises(Invalid, match="a column twice"):
            run(statement.format("p", "d = 'x', D = 'y'"))


def test_partitions_that_the_catalog_keeps_come_and_go(run: Run, context: SqlContext) -> None:
    run(
        "CREATE TABLE p (id INT) PARTITIONED BY (d DATE, h INT) "
        "TBLPROPERTIES ('metastore.partitioned-table' = 'true')"
    )
    run("ALTER TABLE p ADD PARTITION (d = '1970-01-01', h = 2) PARTITION (d = '1970-01-01', h = 3)")
    with pytest.raises(AlreadyExists):
        run("ALTER TABLE p ADD PARTITION (D = '1970-01-01', h = 2)")
    run("ALTER TABLE p ADD IF NOT EXISTS PARTITION (d = '1970-01-01', h = 2)")
    with pytest.raises(Invalid, match="name the partition's 'h'"):
        run("ALTER TABLE p ADD PARTITION (d = '1970-01-01')")
    assert run("SHOW PARTITIONS p") == [("d=1970-01-01/h=2",), ("d=1970-01-01/h=3",)]
    run("ALTER TABLE p DROP PARTITION (h = 2)")
    assert run("SHOW PARTITIONS p") == [("d=1970-01-01/h=3",)]
