"""Primary-key tables whose files are sorted by other columns than the key, shared with others."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.index.manifest import index_entries

from .conftest import Client
from .java_client import JavaClient

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False), ("v", pa.int64()), ("t", pa.string()), ("d", pa.int32())]
)
CLUSTERED = {"pk-clustering-override": "true", "bucket": "2"}
MARKED = {**CLUSTERED, "deletion-vectors.enabled": "true"}
FIRST = {**CLUSTERED, "merge-engine": "first-row"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "one column": {**MARKED, "clustering.columns": "v"},
    "two columns": {**MARKED, "clustering.columns": "t,v"},
    "thin": {**MARKED, "clustering.columns": "d", "data-file.thin-mode": "true"},
    "64 bits": {**MARKED, "clustering.columns": "v", "deletion-vectors.bitmap64": "true"},
    "orc": {**MARKED, "clustering.columns": "v,t", "file.format": "orc"},
    "first": {**FIRST, "clustering.columns": "t,d"},
    "first, marked": {**FIRST, "deletion-vectors.enabled": "true", "clustering.columns": "d"},
}


@pytest.fixture(params=["1.4.2", "2.0.0"])
def java_version(request: pytest.FixtureRequest) -> str:
    """The releases that have such tables."""
    version: str = request.param
    return version


class _Expected:
    """The rows of a table that two engines write in turns."""

    def __init__(self, kind: str) -> None:
        self.rows: dict[int, tuple[int | None, str | None, int | None]] = {}
        self._keeps_first = kind.startswith("first")

    def upsert(self, keys: range, version: int) -> pa.Table:
        """Rows of some keys, none of which stays where it was among the clustering columns."""
        written = {
            k: (
                None if k % 17 == version else (k * 7 + version * 31) % 100,
                None if k % 13 == version else f"t{(k + version) % 5}" * ((k + version) % 3),
                (k * version) % 11,
            )
            for k in keys
        }
        self.rows = {**written, **self.rows} if self._keeps_first else {**self.rows, **written}
        columns = zip(*written.values(), strict=True)
        return pa.table([list(keys), *map(list, columns)], schema=SCHEMA)

    def delete(self, keys: range) -> pa.Table:
        for key in keys:
            self.rows.pop(key, None)
        nothing = [None] * len(keys)
        return pa.table([list(keys), nothing, nothing, nothing], schema=SCHEMA)


def values(table: pa.Table) -> dict[int, tuple[object, ...]]:
    rows = table.to_pylist()
    found: dict[int, tuple[object, ...]] = {
        row["k"]: (row["v"], row["t"], row["d"]) for row in rows
    }
    assert len(found) == table.num_rows
    return found


def new_table(lake: Lake, java: JavaClient, options: Mapping[str, str]) -> Table:
    name = f"interop.clustered_{java.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    java.create(name, SCHEMA, ["k"], options=options)
    return lake.table(name)


def marked(table: Table) -> int:
    entries = index_entries(table.storage, table.latest_snapshot())
    return sum(v.cardinality or 0 for e in entries for v in e.index_file.vectors or ())


@pytest.mark.interop_java
@pytest.mark.parametrize("kind", KINDS)
def test_java_and_headwater_write_the_same_clustered_table(
    lake: Lake, uncached_java: JavaClient, kind: str
) -> None:
    java = uncached_java
    if java.name.endswith("1.4.2") and kind == "first":
        pytest.skip("it asks for deletion vectors")
    table = new_table(lake, java, KINDS[kind])
    name, expected = str(table.identifier), _Expected(kind)

    def agree() -> None:
        assert values(table.scan().to_arrow()) == expected.rows
        assert values(java.read(name)) == expected.rows

    # We read what Java sorts and marks.
    java.write(name, expected.upsert(range(200), 1))
    agree()
    java.write(name, expected.upsert(range(50, 120), 2))
    assert kind.startswith("first") or marked(table)
    java.write(name, expected.upsert(range(150, 260), 3))
    agree()
    assert {file.level for file in table.files()} == {1}
    tag, then = "before", dict(expected.rows)
    table.create_tag(tag)
    # Java looks keys up in what we sort, and we in what Java does.
    table.write(expected.upsert(range(20, 80), 4))
    agree()
    java.write(name, expected.upsert(range(10, 40), 5))
    agree()
    table.write(expected.upsert(range(30, 300), 6))
    java.write(name, expected.upsert(range(290, 310), 7))
    table.write(expected.upsert(range(290, 320, 2), 8))
    agree()
    table.compact()
    agree()
    assert not marked(table)
    java.write(name, expected.upsert(range(5), 9))
    for bucket in (0, 1):
        java.compact(name, bucket)
    agree()
    table.overwrite(expected.upsert(range(40), 10))
    expected.rows.clear()
    expected.upsert(range(40), 10)
    agree()
    java.write(name, expected.upsert(range(30, 50), 11))
    agree()
    assert values(table.scan(tag=tag).to_arrow()) == then


@pytest.mark.interop_java
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("first")])
def test_rows_that_java_deletes_are_gone(lake: Lake, uncached_java: JavaClient, kind: str) -> None:
    java = uncached_java
    table = new_table(lake, java, KINDS[kind])
    name, expected = str(table.identifier), _Expected(kind)
    java.write(name, expected.upsert(range(100), 1))
    java.write(name, expected.delete(range(30, 50)), "-D")
    # Java keeps the rows that retract among the others.
    assert sum(file.delete_row_count or 0 for file in table.files()) == 20
    assert values(table.scan().to_arrow()) == expected.rows
    assert table.scan().count() == table.scan(where="k < 100").count() == len(expected.rows)
    table.write(expected.upsert(range(40, 60), 2))
    assert values(table.scan().to_arrow()) == expected.rows
    java.write(name, expected.upsert(range(20, 35), 3))
    assert values(table.scan().to_arrow()) == expected.rows
    # Ours do not outlast a compaction, and no other reader meets them.
    table.compact()
    table.write(expected.delete(range(10, 25)), pa.array(["-D"] * 15))
    table.delete("d = 3")
    expected.rows = {k: row for k, row in expected.rows.items() if row[2] != 3}
    table.update({"d": 77, "v": 1}, where="d = 4")
    expected.rows = {
        k: (1, t, 77) if d == 4 else (v, t, d) for k, (v, t, d) in expected.rows.items()
    }
    assert sum(file.delete_row_count or 0 for file in table.files()) == 0
    assert values(table.scan().to_arrow()) == expected.rows == values(java.read(name))


@pytest.mark.interop_java
def test_conditions_on_clustering_columns_leave_the_same_files_out(
    lake: Lake, uncached_java: JavaClient
) -> None:
    java = uncached_java
    alone = {"num-sorted-run.compaction-trigger": "99", "compaction.size-ratio": "-99"}
    options = {**KINDS["thin"], "bucket": "1", **alone}
    table = new_table(lake, java, options)
    for number in range(4):
        keys = range(number * 10, number * 10 + 10)
        rows = pa.table(
            [list(keys), [0] * 10, ["x"] * 10, [number * 100 + at for at in range(10)]],
            schema=SCHEMA,
        )
        table.write(rows)
    assert len(table.files()) == 4
    files, rows = java.read_where(str(table.identifier), "d", "equal", 203)
    assert (files, rows["k"].to_pylist()) == (1, [23])
    plan = table.scan(where="d = 203").plan
    assert plan is not None
    assert (plan.files_skipped, table.scan(where="d = 203").to_arrow()["k"].to_pylist()) == (
        3,
        [23],
    )
    assert table.scan(where="k = 23").to_arrow()["d"].to_pylist() == [203]
    first = table.inspect.files()["min_key"].to_pylist()
    assert sorted(first) == ["[0]", "[100]", "[200]", "[300]"]


@pytest.mark.interop_java
@pytest.mark.parametrize("producer", ["none", "input"])
def test_streams_tell_the_same_changes(
    lake: Lake, uncached_java: JavaClient, producer: str
) -> None:
    java = uncached_java
    table = new_table(lake, java, {**KINDS["two columns"], "changelog-producer": producer})
    name, expected = str(table.identifier), _Expected("two columns")
    java.write(name, expected.upsert(range(20), 1))
    table.write(expected.upsert(range(10, 30), 2))
    table.write(expected.delete(range(5)), pa.array(["-D"] * 5))
    java.write(name, expected.upsert(range(3, 8), 3))
    ours = table.changes(0).to_arrow()
    theirs = [row for part in java.changes(name) for row in part.to_pylist()]
    columns = [*SCHEMA.names, "_ROW_KIND"]
    assert sorted(repr([row[name] for name in columns]) for row in theirs) == sorted(
        repr([row[name] for name in columns]) for row in ours.to_pylist()
    )
    replayed: dict[int, tuple[object, ...]] = {}
    for row in ours.to_pylist():
        if row["_ROW_KIND"] == "-D":
            replayed.pop(row["k"], None)
        else:
            replayed[row["k"]] = (row["v"], row["t"], row["d"])
    assert replayed == expected.rows == values(table.scan().to_arrow())


@pytest.mark.parametrize("kind", ["two columns", "first"])
@pytest.mark.interop
def test_pypaimon_reads_clustered_tables(lake: Lake, pypaimon: Client, kind: str) -> None:
    _read_by(lake, pypaimon, kind)


@pytest.mark.parametrize("kind", ["two columns", "first"])
@pytest.mark.interop
def test_paimon_rust_reads_clustered_tables(lake: Lake, rust: Client, kind: str) -> None:
    _read_by(lake, rust, kind)


def _read_by(lake: Lake, client: Client, kind: str) -> None:
    name = f"interop.clustered_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    # Files stay as they are: some have rows that are marked.
    options = {**KINDS[kind], "bucket": "1", "compaction.size-ratio": "-99"}
    table = lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)
    expected = _Expected(kind)
    for version in range(1, 4):
        table.write(expected.upsert(range(version * 20, version * 20 + 50), version))
    assert len(table.files()) > 1
    assert values(client.read(name)) == expected.rows
    table.compact()
    assert values(client.read(name)) == expected.rows
