"""`headwater table` where it changes something, and `headwater database`."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.client import Lake, connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., str]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as opened:
        opened.create_database("sales")
        yield opened


@pytest.fixture
def run(headwater: Headwater, lake: Lake, tmp_path: Path) -> Run:
    """Runs a command; what it prints, or with `code` what it says is wrong."""

    def command(*arguments: str, code: int = 0) -> str:
        done = headwater(*arguments, HEADWATER_CATALOG=str(tmp_path / "lake"))
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return command


ORDERS = (
    *("--column", "order_id BIGINT NOT NULL", "--column", "dt STRING NOT NULL COMMENT 'it''s'"),
    *("--column", "place ROW<zip INT, tags ARRAY<STRING NOT NULL>>"),
    *("--column", "`a b` MAP<STRING, DECIMAL(10, 2)> NOT NULL"),
    *("--primary-key", "dt", "--primary-key", "order_id", "--partition-by", "dt"),
)
BUCKETS = ("--option", "bucket=2")


def columns(lake: Lake, name: str) -> dict[str, str]:
    return {field.name: str(field.type) for field in lake.table(name).schema.fields}


def test_a_table_is_created_as_described(run: Run, lake: Lake) -> None:
    said = run("table", "create", "sales.orders", *ORDERS, *BUCKETS, "--comment", "c")
    assert said == "table sales.orders is there\n"
    schema = lake.table("sales.orders").schema
    assert columns(lake, "sales.orders") == {
        "order_id": "BIGINT NOT NULL",
        "dt": "STRING NOT NULL",
        "place": "ROW<`zip` INT, `tags` ARRAY<STRING NOT NULL>>",
        "a b": "MAP<STRING, DECIMAL(10, 2)> NOT NULL",
    }
    assert [field.description for field in schema.fields] == [None, "it's", None, None]
    assert (schema.primary_keys, schema.partition_keys) == (("dt", "order_id"), ("dt",))
    assert (schema.options["bucket"], schema.comment) == ("2", "c")
    run("table", "alter", "sales.orders", "--column-comment", "a b=two", "--default", "dt=x'y")
    shown = run("table", "show", "sales.orders")
    assert "column dt\tSTRING NOT NULL DEFAULT 'x''y' COMMENT 'it''s'\n" in shown
    assert "column a b\tMAP<STRING, DECIMAL(10, 2)> NOT NULL COMMENT 'two'\n" in shown
    assert "sales.orders" in run("table", "create", "sales.orders", *ORDERS, *BUCKETS, code=1)
    run("table", "create", "sales.orders", *ORDERS, *BUCKETS, "--if-not-exists")


def test_a_table_for_another_engine_is_created_when_that_is_said(run: Run, lake: Lake) -> None:
    wanted = ("table", "create", "sales.wide", "--column", "n INT", "--primary-key", "n",
              "--option", "metadata.iceberg.storage=table-location")  # fmt: skip
    assert "--for-another-engine" in run(*wanted, code=1)
    assert not lake.table_exists("sales.wide")
    run(*wanted, "--for-another-engine")
    assert lake.table("sales.wide").schema.primary_keys == ("n",)


def test_a_table_is_replaced_for_another_engine_when_that_is_said(run: Run, lake: Lake) -> None:
    run("table", "create", "sales.log", "--column", "n INT")
    wanted = ("table", "replace", "sales.log", "--column", "n INT", "--primary-key", "n",
              "--option", "metadata.iceberg.storage=table-location")  # fmt: skip
    assert "--for-another-engine" in run(*wanted, code=1)
    assert lake.table("sales.log").schema.primary_keys == ()
    run(*wanted, "--for-another-engine")
    assert lake.table("sales.log").schema.primary_keys == ("n",)


def test_every_kind_of_change_in_one(run: Run, lake: Lake) -> None:
    run("table", "create", "sales.orders", *ORDERS, "--comment", "old", "--for-another-engine")
    before = lake.table("sales.orders").schema
    said = run(
        *("table", "alter", "sales.orders", "--rename-column", "`a b`=amounts"),
        *("--nullable", "amounts", "--change-type", "place.zip BIGINT"),
        *("--add-column", "price INT NOT NULL COMMENT 'net'", "--add-column", "place.city STRING"),
        *("--nullable", "price", "--default", "price=7", "--move", "price after order_id"),
        *("--column-comment", "dt=day", "--option", "snapshot.num-retained.min=2"),
        *("--comment", "new"),
        code=1,
    )
    assert "price" in said  # A column that is added may hold null.
    assert lake.table("sales.orders").schema == before
    said = run(
        *("table", "alter", "sales.orders", "--rename-column", "`a b`=amounts"),
        *("--nullable", "amounts", "--change-type", "place.zip BIGINT"),
        *("--add-column", "price INT COMMENT 'net'", "--add-column", "place.city STRING"),
        *("--default", "price=7", "--move", "price after order_id"),
        *("--column-comment", "dt=day", "--option", "snapshot.num-retained.min=2"),
        *("--comment", "new"),
    )
    assert said == "table sales.orders is at schema 1\n"
    after = lake.table("sales.orders").schema
    assert columns(lake, "sales.orders") == {
        "order_id": "BIGINT NOT NULL",
        "price": "INT",
        "dt": "STRING NOT NULL",
        "place": "ROW<`zip` BIGINT, `tags` ARRAY<STRING NOT NULL>, `city` STRING>",
        "amounts": "MAP<STRING, DECIMAL(10, 2)>",
    }
    assert after.field_by_name["amounts"].id == before.field_by_name["a b"].id
    price, day = after.field_by_name["price"], after.field_by_name["dt"]
    assert (price.description, price.default_value, day.description) == ("net", "7", "day")
    assert (after.comment, after.options["snapshot.num-retained.min"]) == ("new", "2")
    run(
        *("table", "alter", "sales.orders", "--drop-primary-key", "--drop-default", "price"),
        *("--drop-column", "amounts", "--unset", "snapshot.num-retained.min", "--comment", ""),
        *("--column-comment", "dt=", "--move", "price LAST"),
    )
    left = lake.table("sales.orders").schema
    assert list(columns(lake, "sales.orders")) == ["order_id", "dt", "place", "price"]
    assert (left.primary_keys, left.comment) == ((), None)
    assert left.field_by_name["price"].default_value is None
    assert left.field_by_name["dt"].description is None
    assert "snapshot.num-retained.min" not in left.options


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["create", "sales.t", "--column", "price"], 1, "'NAME TYPE'"),
        (["create", "sales.t", "--column", "price ARRAY<INT, INT>"], 1, "not a data type"),
        (["create", "sales.t", "--column", "price MONEY"], 1, "MONEY"),
        (["create", "sales.t", "--column", "a INT", "--option", "x"], 2, "KEY=VALUE"),
        (["alter", "sales.t"], 2, "say what to change"),
        (["alter", "sales.t", "--move", "a beside b"], 1, "is not a move"),
        (["alter", "sales.t", "--drop-column", "a..b"], 1, "is not a column"),
        (["rollback", "sales.t"], 2, "--snapshot or --tag"),
        (["rollback", "sales.t", "--snapshot", "1", "--tag", "x"], 2, "--snapshot or --tag"),
        (["show"], 2, "name the table"),
        (["drop", "sales.t"], 1, "sales.t"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], code: int, says: str) -> None:
    assert says in run("table", *arguments, code=code)


def test_a_table_is_rolled_back(run: Run, lake: Lake) -> None:
    run("table", "create", "sales.log", "--column", "n BIGINT")
    log = lake.table("sales.log")
    for number in (1, 2, 3):
        log.write({"n": [number]})
    log.create_tag("first", snapshot_id=1)
    said = run("table", "rollback", "sales.log", "--snapshot", "2", "--from-snapshot", "7", code=1)
    assert "is not 7" in said
    run("table", "rollback", "sales.log", "--snapshot", "2", "--from-snapshot", "3")
    assert sorted(log.scan().to_arrow()["n"].to_pylist()) == [1, 2]
    run("table", "rollback", "sales.log", "--tag", "first")
    assert log.scan().to_arrow()["n"].to_pylist() == [1]
    run("table", "alter", "sales.log", "--add-column", "m INT")
    run("table", "rollback-schema", "sales.log", "0")
    assert list(columns(lake, "sales.log")) == ["n"]


def test_a_table_is_replaced_renamed_registered_and_dropped(
    run: Run, lake: Lake, tmp_path: Path
) -> None:
    run("table", "create", "sales.log", "--column", "n BIGINT")
    log = lake.table("sales.log")
    log.write({"n": [1]})
    run("table", "rename", "sales.log", "sales.history")
    run("table", "replace", "sales.history", "--column", "m STRING")
    history = lake.table("sales.history")
    assert (history.info.id, columns(lake, "sales.history")) == (log.info.id, {"m": "STRING"})
    assert history.scan().count() == 0
    with connect(tmp_path / "other") as other:
        other.create_database("archive")
        old = other.create_table("archive.old", pa.schema([("n", pa.int64())]))
        for number in (1, 2):
            old.write({"n": [number]})
    run("table", "register", "sales.old", old.info.path)
    assert lake.table("sales.old").info.is_external
    shown = run("table", "show", "sales.old").splitlines()
    assert "external\tyes" in shown
    assert [line for line in shown if line.startswith(("column", "snapshot"))] == [
        "column n\tBIGINT"
    ]
    listed = run("table", "snapshots", "sales.old", "--limit", "1").splitlines()
    assert [line.split("\t")[0] for line in listed] == ["snapshot", "2"]
    run("table", "drop", "sales.old")
    run("table", "drop", "sales.old", "--if-exists")
    assert lake.list_tables("sales") == ["history"]


def test_databases(run: Run, lake: Lake) -> None:
    run("database", "create", "nyc", "--option", "comment=New York")
    assert "nyc" in run("database", "create", "nyc", code=1)
    run("database", "create", "nyc", "--if-not-exists")
    assert run("database", "list", "--pattern", "n%") == "database\nnyc\n"
    run("database", "alter", "nyc", "--option", "a=b", "--unset", "comment")
    shown = dict(line.split("\t") for line in run("database", "show", "nyc").splitlines())
    assert (shown["option a"], shown["protected"]) == ("b", "no")
    assert "option comment" not in shown
    run("table", "create", "nyc.flights", "--column", "n INT")
    assert "nyc.flights" in run("database", "drop", "nyc", code=1)
    run("database", "drop", "nyc", "--cascade")
    assert lake.list_databases() == ["sales"]
    run("database", "drop", "nyc", "--if-exists")
    assert "nyc" in run("database", "drop", "nyc", code=1)


def test_a_database_with_a_view_alone_is_not_dropped_by_the_way(run: Run, lake: Lake) -> None:
    run("view", "create", "sales.v", "SELECT 1 AS n", "--column", "n INT")
    assert "sales.v" in run("database", "drop", "sales", code=1)
    assert lake.catalog.views.get(Identifier("sales", "v")).schema.query == "SELECT 1 AS n"


def test_partitions(run: Run, lake: Lake) -> None:
    run(
        *("table", "create", "sales.days", "--column", "dt DATE", "--column", "k STRING"),
        *("--column", "n INT", "--partition-by", "dt", "--partition-by", "k"),
        *("--option", "metastore.partitioned-table=true"),
    )

    def listed(*options: str) -> dict[str, str]:
        lines = run("partition", "list", "sales.days", *options).splitlines()[1:]
        return {line.split("\t")[0]: line.split("\t")[-1] for line in lines}

    run("partition", "create", "sales.days", "dt=20454/k=a", '{"dt": "20455", "k": "x/y"}')
    assert "dt=20454/k=a" in run("partition", "create", "sales.days", "dt=20454/k=a", code=1)
    said = run("partition", "create", "sales.days", "dt=20454/k=a", "--if-not-exists")
    assert said == "0 of 1 partitions of sales.days are new\n"
    run("partition", "mark-done", "sales.days", "dt=20454/k=a")
    assert listed() == {"dt=20454/k=a": "yes", "dt=20455/k=x/y": "no"}
    assert listed("--pattern", "%k=a") == {"dt=20454/k=a": "yes"}
    run("partition", "forget", "sales.days", '{"dt": "20455", "k": "x/y"}')
    said = run("partition", "forget", "sales.days", '{"dt": "20455", "k": "x/y"}', code=1)
    assert "k=x/y" in said
    assert listed() == {"dt=20454/k=a": "yes"}
    for wrong in ("dt", "dt=1/dt=2", '{"dt": 1}'):
        assert "is not a partition" in run("partition", "forget", "sales.days", wrong, code=1)


def test_dropping_a_partition_deletes_its_rows(run: Run, lake: Lake) -> None:
    run(
        *("table", "create", "sales.days", "--column", "dt DATE", "--column", "k STRING"),
        *("--column", "n INT", "--partition-by", "dt", "--partition-by", "k"),
    )
    table = lake.table("sales.days")
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2026, 1, 3)]
    table.write({"dt": days, "k": ["a", "b", "a", "a"], "n": [1, 2, 3, 4]})
    said = run("partition", "drop", "sales.days", "dt=2026-01-01", "dt=2026-01-02/k=a")
    assert said == "snapshot 2 of sales.days is without them\n"
    assert table.scan().to_arrow()["n"].to_pylist() == [4]
    assert "is not a partition column" in run("partition", "drop", "sales.days", "n=4", code=1)
    assert "not a value" in run("partition", "drop", "sales.days", "dt=soon", code=1)
