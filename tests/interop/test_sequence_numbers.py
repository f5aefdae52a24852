"""Tables whose rows are ordered by snapshots, or whose snapshots tell the greatest sequence number,
shared with Paimon's Java library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.write.table_writer import TableWriter

from .conftest import TOKEN, Service
from .java_steps import JavaSteps

pytestmark = pytest.mark.interop_java

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("a", pa.int64()), ("b", pa.int64())])


@pytest.fixture
def java(
    service: Service, java_gateways: Callable[[str], JavaGateway], tmp_path: Path
) -> JavaSteps:
    """The release that knows both options."""
    return JavaSteps(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)


def rows(*each: tuple[int, int | None, int | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("kab", row, strict=True)) for row in each], SCHEMA)


def write_late(table: Table, data: pa.Table, before_commit: Callable[[], object]) -> None:
    """One commit of rows that were written before something else was done."""
    with TableWriter(
        table.storage,
        max_sequence_numbers=lambda partition, bucket: -1,
        checked_snapshot=SnapshotIdentity.of(table.latest_snapshot()),
    ) as writer:
        writer.write(data)
        messages = writer.finish()
    before_commit()
    TableCommit(table.storage, table.pointer, "late").commit(messages)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "partial-update"},
        {"merge-engine": "first-row"},
        {"deletion-vectors.enabled": "true"},
        {"changelog-producer": "lookup"},
        {"file.format": "orc"},
        {"file.format": "avro"},
    ],
    ids=lambda options: "-".join(options.values()) or "plain",
)
def test_rows_of_later_snapshots_win_whoever_wrote_them(
    lake: Lake, java: JavaSteps, options: Mapping[str, str]
) -> None:
    name = "interop.ordered_by_snapshots"
    lake.drop_table(name, ignore_if_not_exists=True)
    ordered = {"bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"}
    table = lake.create_table(name, SCHEMA, primary_keys=["k"], options={**ordered, **options})

    def found() -> list[dict[str, object]]:
        ours = table.refresh().scan().to_arrow().sort_by("k")
        assert ours.to_pylist() == java.read(name).sort_by("k").to_pylist()
        return list(ours.to_pylist())

    def both_write_late(version: int) -> None:
        # The rows between have greater numbers than those of the same keys that are committed late.
        between = rows((7, version, None), (8, version, 1), (9, version, 2), (3, version, None))
        late = rows((3, version + 1, None), (version, version, version))
        java.write(name, late, before_commit=lambda: table.write(between))
        found()
        between = rows((7, None, 3), (8, version + 2, 4), (9, version + 2, None), (1, None, 5))
        late = rows((1, None, version + 3), (2, version + 3, version))
        write_late(table.refresh(), late, lambda: java.write(name, between))
        found()

    both_write_late(10)
    table.refresh().compact()
    newest = found()
    both_write_late(20)
    java.compact_all(name)
    found()
    both_write_late(30)
    table.refresh().compact()
    java.compact_all(name)
    last = {row["k"]: (row["a"], row["b"]) for row in found()}
    match options.get("merge-engine"):
        case "first-row":
            assert (last[1], last[3]) == ((None, 5), (10, None))
            assert newest == [row for row in found() if row["k"] not in (20, 30)]
        case "partial-update":
            assert [last[key] for key in (1, 2, 3, 7)] == [
                (None, 33),
                (33, 30),
                (31, None),
                (30, 3),
            ]
        case _:
            assert [last[key] for key in (1, 2, 3, 7)] == [
                (None, 33),
                (33, 30),
                (31, None),
                (None, 3),
            ]
    if options.get("changelog-producer"):
        ours = table.refresh().changes(0).to_arrow().to_pylist()
        theirs = pa.concat_tables(java.changes(name)).to_pylist()
        assert sorted(map(str, ours)) == sorted(map(str, theirs))


def test_snapshots_of_both_tell_the_greatest_number(lake: Lake, java: JavaSteps) -> None:
    name = "interop.told_numbers"
    lake.drop_table(name, ignore_if_not_exists=True)
    options = {"bucket": "1", "write.sequence-number-init-mode": "snapshot", "write-only": "true"}
    table = lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)

    def told() -> int:
        snapshot = table.refresh().latest_snapshot()
        assert snapshot is not None
        properties = snapshot.document["properties"]
        assert isinstance(properties, dict)
        return int(str(properties["sequence.generation.max-sequence-number"]))

    def newest() -> list[object]:
        ours = table.refresh().scan().to_arrow().sort_by("k").to_pylist()
        assert ours == java.read(name).sort_by("k").to_pylist()
        return [row["a"] for row in ours]

    table.write(rows((1, 1, 1), (2, 1, 1), (3, 1, 1)))
    assert told() == 2
    java.write(name, rows((1, 2, 2), (2, 2, 2)))
    assert (told(), newest()) == (4, [2, 2, 1])
    table.refresh().write(rows((2, 3, 3)))
    assert (told(), newest()) == (5, [2, 3, 1])
    table.refresh().compact()
    java.write(name, rows((3, 4, 4)))
    assert (told(), newest()) == (6, [2, 3, 4])
    java.compact_all(name)
    assert told() == 6
    table.refresh().write(rows((1, 5, 5)))
    assert (told(), newest()) == (7, [5, 3, 4])
