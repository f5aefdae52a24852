"""Where options start a stream, and where they end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid, NotFound
from headwater.storage.jobs.write import WritePlan, write_rows
from headwater.storage.read.split import read_split
from headwater.storage.scan.stream import (
    StreamPosition,
    after,
    bounded_end,
    check_history,
    starting_position,
)
from headwater.storage.scan.stream_batches import plans_before
from headwater.storage.schema.read_start import ReadStart

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

pytestmark = pytest.mark.parametrize("lake", ["embedded"], indirect=True)

COLUMNS = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


@pytest.fixture
def table(lake: Lake, clock: Clock) -> Table:
    """Keys 1 to 4, a commit each, a minute apart; the third is followed by a compaction."""
    made = lake.create_table(
        "sales.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
    )
    for k in (1, 2, 3, 4):
        plan = WritePlan(made.storage).upon(made.pointer.latest())
        commit = TableCommit(made.storage, made.pointer, f"writer-{k}")
        commit.commit(write_rows(plan, {"k": [k], "v": [k]}), watermark=100 * k)
        clock.turn(minutes=1)
        if k == 3:
            made.compact()
            clock.turn(minutes=1)
    return made


def streamed(table: Table, options: dict[str, str], end: StreamPosition | None = None) -> list[int]:
    """The keys that a stream gives until it has caught up."""
    newest = table.pointer.latest()
    assert newest is not None
    start = ReadStart.of(table.with_options(options).schema.options)
    position = starting_position(table.storage, newest, start)
    # As a checkpoint keeps it.
    position = StreamPosition.from_json(position.to_json())
    stop = after(newest) if end is None else end
    found: list[int] = []
    for plan in plans_before(table.storage, position, stop, newest):
        for split in plan.splits:
            for batch in read_split(table.storage, split, columns=["k"]):
                found += batch.column("k").to_pylist()
    return found


def test_options_say_where_a_stream_starts(table: Table) -> None:
    times = {snapshot.id: snapshot.time_millis for snapshot in table.snapshots()}
    for options, expected in (
        ({}, [1, 2, 3, 4]),
        ({"scan.mode": "full"}, [1, 2, 3, 4]),
        ({"scan.mode": "latest"}, []),
        # The rows as the compaction left them, then the commit after it.
        ({"scan.mode": "compacted-full"}, [1, 2, 3, 4]),
        ({"scan.snapshot-id": "3"}, [3, 4]),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, [1, 2, 3, 4]),
        ({"scan.timestamp-millis": str(times[2])}, [2, 3, 4]),
        ({"scan.timestamp-millis": str(times[2] + 1)}, [3, 4]),
        ({"scan.creation-time-millis": str(times[2])}, [2, 3, 4]),
        # The compaction wrote keys 1 to 3 anew.
        ({"scan.file-creation-time-millis": str(times[4] + 1)}, [4]),
        ({"scan.creation-time-millis": "0"}, [1, 2, 3, 4]),
    ):
        assert streamed(table, options) == expected, options


def test_options_of_the_table_count_too(table: Table) -> None:
    assert streamed(table.with_options({"scan.mode": "latest"}), {}) == []


def test_a_stream_ends_before_its_bound(table: Table) -> None:
    newest = table.pointer.latest()
    assert newest is not None
    for bound, expected in ((0, []), (250, [1, 2]), (300, [1, 2, 3]), (400, [1, 2, 3, 4])):
        first, last = StreamPosition(1), after(newest)
        end = bounded_end(table.storage, first, last, newest, bound)
        assert streamed(table, {"scan.snapshot-id": "1"}, end) == expected


def test_a_stream_that_ended_before_its_bound_notices_a_rollback(table: Table) -> None:
    newest = table.pointer.latest()
    end = bounded_end(table.storage, StreamPosition(1), after(newest), newest, 250)
    kept = StreamPosition.from_json(end.to_json())
    table.rollback(snapshot_id=1)
    for k in (7, 8):
        table.write({"k": [k], "v": [k]})
    with pytest.raises(Invalid, match="snapshot 2, which the stream has read, is no longer part"):
        check_history(table.storage, kept, table.pointer.latest())


def test_a_stream_cannot_start_everywhere(table: Table) -> None:
    table.create_tag("v1", 1)
    for options, message in (
        ({"scan.tag-name": "v1"}, "a stream cannot start at scan.tag-name=v1"),
        ({"scan.watermark": "100"}, "a stream cannot start"),
        ({"incremental-between": "1,2"}, "a stream cannot start"),
        ({"scan.snapshot-id": "9"}, "the latest is 5"),
    ):
        with pytest.raises(Invalid, match=message):
            streamed(table, options)
    table.expire_snapshots(retain_max=2, retain_min=1)
    with pytest.raises(NotFound, match="has expired"):
        streamed(table, {"scan.snapshot-id": "1"})
