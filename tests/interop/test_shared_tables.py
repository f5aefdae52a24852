"""Tables shared with pypaimon and pypaimon-rust through one server: values are equal both ways."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import polars.testing
import pyarrow as pa
import pytest

from headwater.client.lake import Lake
from headwater.storage.schema.change import AddColumn, RenameColumn
from headwater.storage.types.data_type import parse_type

from .conftest import Client
from .java_client import JavaClient

AnyClient = Client | JavaClient

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.string(), nullable=False),
        ("amount", pa.int32()),
        ("price", pa.decimal128(12, 2)),
        ("note", pa.string()),
        ("placed", pa.timestamp("us")),
        ("born", pa.date32()),
        ("ratio", pa.float64()),
        ("paid", pa.bool_()),
    ]
)
KEYS = {"primary_keys": ["day", "id"], "partition_keys": ["day"], "options": {"bucket": "3"}}


def orders(ids: range, version: int = 0) -> pa.Table:
    moment = dt.datetime(2026, 3, 1, 10, 0, 0, 123456)
    rows = [
        {
            "id": i,
            "day": f"2026-03-{1 + i % 3:02d}",
            "amount": None if i % 7 == 0 else i * 10 + version,
            "price": None if i % 11 == 0 else Decimal(i * 100 + version) / 100,
            "note": None if i % 5 == 0 else f"note {i} v{version} ünïcode " + "x" * (i % 20),
            "placed": moment + dt.timedelta(hours=i),
            "born": dt.date(1970, 1, 1) + dt.timedelta(days=i * 37 - 500),
            "ratio": i / 3 + version,
            "paid": bool(i % 2) if i % 4 else None,
        }
        for i in ids
    ]
    return pa.Table.from_pylist(rows, schema=ORDERS)


def same(left: pa.Table, right: pa.Table, by: list[str] | None = None) -> None:
    """Equal rows, whatever their order."""
    names = left.column_names
    assert sorted(right.column_names) == sorted(names)
    order = by or ["day", "id"]
    a = pl.DataFrame(left).sort(order)
    b = pl.DataFrame(right.select(names)).sort(order)
    polars.testing.assert_frame_equal(b, a, check_dtypes=False)


def expected(*tables: pa.Table) -> pa.Table:
    """The newest row of each key: later tables win."""
    frames = pl.concat([pl.DataFrame(table) for table in tables])
    return frames.unique(["day", "id"], keep="last").to_arrow()


def create(lake: Lake, client: AnyClient, name: str, maker: str, **keys: object) -> str:
    table = f"interop.{name}_{client.label}_{maker}"
    lake.drop_table(table, ignore_if_not_exists=True)
    if maker == "client" and client.name == "pypaimon-rust":
        assert isinstance(client, Client)
        client.sql(rust_ddl(table, keys))
    elif maker == "client":
        client.create(table, ORDERS, **keys)  # type: ignore[arg-type]
    else:
        lake.create_table(table, ORDERS, **keys)  # type: ignore[arg-type]
    return table


def rust_ddl(table: str, keys: dict[str, object]) -> str:
    columns = (
        "id BIGINT NOT NULL, day STRING NOT NULL, amount INT, price DECIMAL(12, 2), note STRING, "
        "placed TIMESTAMP(6), born DATE, ratio DOUBLE, paid BOOLEAN"
    )
    primary = keys.get("primary_keys") or []
    partition = keys.get("partition_keys") or []
    options = keys.get("options") or {}
    assert isinstance(primary, list)
    assert isinstance(partition, list)
    assert isinstance(options, dict)
    if primary:
        columns += f", PRIMARY KEY ({', '.join(primary)})"
    statement = f"CREATE TABLE paimon.{table} ({columns})"
    if partition:
        statement += f" PARTITIONED BY ({', '.join(partition)})"
    if options:
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        statement += f" WITH ({pairs})"
    return statement


@pytest.mark.parametrize("maker", ["client", "headwater"])
def test_primary_key_tables_are_shared(lake: Lake, client: AnyClient, maker: str) -> None:
    name = create(lake, client, "pk", maker, **KEYS)
    table = lake.table(name)
    first, second, third = orders(range(200)), orders(range(100, 300), 1), orders(range(50, 250), 2)
    client.write(name, first)
    same(first, table.scan().to_arrow())
    table.write(second)
    same(expected(first, second), client.read(name))
    client.write(name, third)
    all_rows = expected(first, second, third)
    same(all_rows, table.scan().to_arrow())
    same(all_rows, client.read(name))
    # Keys hash to the same buckets: a fourth version of every key leaves one row of each.
    fourth = orders(range(300), 3)
    table.write(fourth)
    same(fourth, client.read(name))


def test_deletes_by_headwater_are_seen(lake: Lake, client: AnyClient) -> None:
    name = create(lake, client, "deletes", "headwater", **KEYS)
    table = lake.table(name)
    rows = orders(range(100))
    table.write(rows)
    table.delete("id >= 20 AND id < 60")
    left = rows.filter(pa.compute.invert(pa.compute.is_in(rows["id"], pa.array(range(20, 60)))))
    same(left, client.read(name))
    table.compact()
    same(left, client.read(name))
    client.write(name, orders(range(20, 30), 5))
    same(expected(left, orders(range(20, 30), 5)), table.scan().to_arrow())


def test_deletes_by_clients_are_seen(lake: Lake, client: AnyClient) -> None:
    # Both delete by a column that names each row's kind; pypaimon then counts no deleted rows.
    name = f"interop.kinds_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("kind", pa.string())])
    options = {"bucket": "2", "rowkind.field": "kind"}
    lake.create_table(name, schema, primary_keys=["k"], options=options)

    def rows(keys: range, kind: str) -> pa.Table:
        values = {"k": list(keys), "v": [k * 2 for k in keys], "kind": [kind] * len(keys)}
        return pa.table(values, schema=schema)

    client.write(name, rows(range(50), "+I"))
    client.write(name, rows(range(10, 30), "-D"))
    table = lake.table(name)
    left = [*range(10), *range(30, 50)]
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == left
    table.compact()
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == left
    assert sorted(client.read(name)["k"].to_pylist()) == left
    client.write(name, rows(range(20, 25), "+I"))
    table.write(rows(range(5), "-D"))
    left = sorted({*left, *range(20, 25)} - {*range(5)})
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == left
    assert sorted(client.read(name)["k"].to_pylist()) == left


@pytest.mark.interop
def test_deletes_from_append_tables_are_seen(lake: Lake, rust: Client) -> None:
    name = create(lake, rust, "append_deletes", "headwater", partition_keys=["day"])
    table = lake.table(name)
    table.write(orders(range(100)))
    rust.sql(f"DELETE FROM paimon.{name} WHERE id < 30")
    same(orders(range(30, 100)), table.scan().to_arrow())
    table.delete("id >= 80")
    same(orders(range(30, 80)), table.scan().to_arrow())
    same(orders(range(30, 80)), rust.read(name))


@pytest.mark.parametrize("maker", ["client", "headwater"])
@pytest.mark.parametrize("bucketed", [False, True])
def test_append_tables_are_shared(
    lake: Lake, client: AnyClient, maker: str, bucketed: bool
) -> None:
    options = {"bucket": "2", "bucket-key": "id"} if bucketed else {}
    kind = "buckets" if bucketed else "plain"
    name = create(lake, client, f"append_{kind}", maker, partition_keys=["day"], options=options)
    table = lake.table(name)
    first, second, third = orders(range(100)), orders(range(100, 150)), orders(range(150, 200))
    client.write(name, first)
    table.write(second)
    client.write(name, third)
    everything = pa.concat_tables([first, second, third])
    same(everything, table.scan().to_arrow())
    same(everything, client.read(name))
    table.compact()
    same(everything, client.read(name))
    same(everything, table.scan().to_arrow())


def test_compacted_tables_are_read_and_written_on(lake: Lake, client: AnyClient) -> None:
    name = create(lake, client, "compacted", "headwater", **KEYS)
    table = lake.table(name)
    table.write(orders(range(200)))
    table.write(orders(range(50, 150), 1))
    table.compact()
    before = expected(orders(range(200)), orders(range(50, 150), 1))
    same(before, client.read(name))
    client.write(name, orders(range(100, 250), 2))
    after = expected(before.cast(ORDERS), orders(range(100, 250), 2))
    same(after, table.scan().to_arrow())
    same(after, client.read(name))


def test_projection_by_clients(lake: Lake, client: AnyClient) -> None:
    name = create(lake, client, "projected", "headwater", **KEYS)
    lake.table(name).write(orders(range(60)))
    got = client.read(name, ["note", "id", "day"])
    same(orders(range(60)).select(["note", "id", "day"]), got)


def test_evolved_schemas_are_shared(lake: Lake, client: AnyClient) -> None:
    name = create(lake, client, "evolved", "headwater", **KEYS)
    table = lake.table(name)
    table.write(orders(range(50)))
    table.alter(AddColumn(("extra",), parse_type("BIGINT")), RenameColumn(("note",), "remark"))
    old = orders(range(50)).append_column("extra", pa.nulls(50, pa.int64()))
    old = old.rename_columns({"note": "remark"})
    same(old, client.read(name))
    new = orders(range(50, 80)).append_column("extra", pa.array(range(30), pa.int64()))
    new = new.rename_columns({"note": "remark"})
    client.write(name, new)
    same(pa.concat_tables([old, new]), table.refresh().scan().to_arrow())
    same(pa.concat_tables([old, new]), client.read(name))


@pytest.mark.interop
def test_many_types_in_keys_and_values(lake: Lake, pypaimon: Client, rust: Client) -> None:
    schema = pa.schema(
        [
            pa.field("k1", pa.string(), False),
            pa.field("k2", pa.decimal128(10, 3), False),
            pa.field("k3", pa.timestamp("ms"), False),
            pa.field("k4", pa.date32(), False),
            pa.field("k5", pa.int16(), False),
            ("tiny", pa.int8()),
            ("real", pa.float32()),
            ("blob", pa.binary()),
            ("big", pa.decimal128(30, 5)),
            ("zoned", pa.timestamp("us", tz="UTC")),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ]
    )
    name = "interop.types"
    lake.drop_table(name, ignore_if_not_exists=True)
    keys = ["k1", "k2", "k3", "k4", "k5"]
    lake.create_table(name, schema, primary_keys=keys, options={"bucket": "4"})
    rows = [
        {
            "k1": "key" * (i % 9),
            "k2": Decimal(i * 7 - 50) / 1000,
            "k3": dt.datetime(2026, 1, 1) + dt.timedelta(milliseconds=i * 1234567),
            "k4": dt.date(2026, 1, 1) - dt.timedelta(days=i * 100),
            "k5": i - 30,
            "tiny": i - 60,
            "real": i / 4,
            "blob": bytes([i]) * (i % 12),
            "big": Decimal(i) * Decimal(10) ** 12,
            "zoned": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=i),
            "tags": None if i % 6 == 0 else [f"t{n}" for n in range(i % 4)],
            "place": {"city": f"c{i}", "zip": i},
        }
        for i in range(100)
    ]
    data = pa.Table.from_pylist(rows, schema=schema)
    table = lake.table(name)
    table.write(data)
    for client in (pypaimon, rust):
        same(data, client.read(name), keys)
        client.write(name, data)  # the same keys again: other buckets would double them
        same(data, table.scan().to_arrow(), keys)
        same(data, client.read(name), keys)
