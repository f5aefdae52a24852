"""Reads that run ahead of who takes their batches: order, bounds, errors and an early end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect
from headwater.storage.errors import CorruptData
from headwater.storage.files.local import local_path
from headwater.storage.read.prefetch import BatchRead, prefetched

SIZE = 80


def batch(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"v": pa.array([number] * 10, pa.int64())})


def numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    return (one.column(0)[0].as_py() for one in batches)


@dataclass
class Source:
    """Reads of numbered batches, and how many of them were made, and closed."""

    made: int = 0
    ended: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, first: int, count: int, error: Exception | None = None) -> BatchRead:
        return partial(self._read, first, count, error)

    def _read(self, first: int, count: int, error: Exception | None) -> Generator[pa.RecordBatch]:
        try:
            for number in range(first, first + count):
                with self._lock:
                    self.made += 1
                yield batch(number)
            if error is not None:
                raise error
        finally:
            with self._lock:
                self.ended += 1


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    # Those of other tests may be on their way out.
    before = set(threading.enumerate())
    yield
    made = set(threading.enumerate()) - before
    assert not [one.name for one in made if one.name.startswith("headwater-read")]


@pytest.mark.parametrize("most_bytes", [None, 1, 5 * SIZE])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches_come_in_the_order_of_the_reads(threads: int, most_bytes: int | None) -> None:
    source = Source()
    counts = [3, 0, 7, 1, 0, 0, 12, 2]
    firsts = [sum(counts[:at]) for at in range(len(counts))]
    reads = (source.read(*one) for one in zip(firsts, counts, strict=True))
    found = list(numbers(prefetched(reads, threads=threads, most_bytes=most_bytes)))
    assert found == list(range(sum(counts)))
    assert source.ended == len(counts)


def test_what_waits_to_be_taken_is_bounded() -> None:
    source = Source()
    reads = (source.read(first, 10) for first in range(0, 400, 10))
    for taken, _ in enumerate(prefetched(reads, threads=3, most_bytes=6 * SIZE), 1):
        # Six wait, one more may go past the bound to be given next, and each thread makes one.
        assert source.made - taken <= 6 + 1 + 3
    assert source.made == 400


def test_a_failed_read_raises_after_the_batches_before_it() -> None:
    source = Source()
    reads = [source.read(0, 5), source.read(5, 3, CorruptData("bad")), source.read(8, 5)]
    batches = numbers(prefetched(iter(reads), threads=2, most_bytes=None))
    assert [next(batches) for _ in range(8)] == list(range(8))
    with pytest.raises(CorruptData, match="bad"):
        next(batches)


def test_a_read_that_cannot_be_made_raises_in_its_turn() -> None:
    source = Source()

    def reads() -> Iterator[BatchRead]:
        yield source.read(0, 5)
        raise CorruptData("no such file")

    batches = numbers(prefetched(reads(), threads=2, most_bytes=None))
    assert [next(batches) for _ in range(5)] == list(range(5))
    with pytest.raises(CorruptData, match="no such file"):
        next(batches)


def test_closing_early_ends_the_reads() -> None:
    source = Source()
    reads = (source.read(first, 1000) for first in range(0, 100_000, 1000))
    batches = prefetched(reads, threads=2, most_bytes=4 * SIZE)
    next(batches)
    batches.close()
    assert source.made < 20
    assert 1 <= source.ended <= 2


# Of tables --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of 40 files in 4 buckets, each of several row groups and parts."""
    monkeypatch.setattr("headwater.storage.formats.parquet_writer._ROW_GROUP_ROWS", 50)
    monkeypatch.setattr("headwater.storage.read.raw_rows._PART_BYTES", 500)
    lake = connect(str(tmp_path))
    lake.create_database("db")
    columns = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = lake.create_table(
        "db.t",
        columns,
        primary_keys=["id"],
        options={"bucket": "4", "deletion-vectors.enabled": "true", "write-buffer-size": "16 kb"},
    )
    for start in (0, 300):
        ids = list(range(start, 2000 + start))
        table.write(pa.table({"id": ids, "v": [f"{start} of {one}" for one in ids]}, columns))
    return tmp_path


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)


@pytest.mark.usefixtures("two_threads")
def test_every_way_of_reading_gives_the_same_rows_in_one_order(folder: Path) -> None:
    scan = connect(str(folder)).table("db.t").scan()
    whole = scan.to_arrow()
    expected = {one: f"{0 if one < 300 else 300} of {one}" for one in range(2300)}
    assert dict(zip(*whole.to_pydict().values(), strict=True)) == expected
    assert len(whole) == len(expected) == scan.count()
    one_by_one = [batch for split in scan.splits for batch in scan.read_split(split)]
    for batches in (scan.to_batches(batch_rows=100), scan.to_reader(), one_by_one):
        assert pa.Table.from_batches(batches) == whole
    assert pa.RecordBatchReader.from_stream(scan).read_all() == whole
    some = connect(str(folder)).table("db.t").scan(where="id >= 1000 AND id < 1020")
    assert sorted(some.to_arrow()["id"].to_pylist()) == list(range(1000, 1020))


@pytest.mark.usefixtures("two_threads")
def test_a_damaged_file_is_named_to_who_reads(folder: Path) -> None:
    scan = connect(str(folder)).table("db.t").scan()
    split = scan.splits[-1]
    damaged = Path(local_path(f"{split.directory}/{split.files[-1].file_name}"))
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    with pytest.raises(CorruptData, match=damaged.name):
        scan.to_arrow()
    with pytest.raises(CorruptData, match=damaged.name):
        list(scan.to_batches(batch_rows=10))


_ABANDONED = """
import sys
import pyarrow as pa
from headwater.client import connect

pa.set_cpu_count(2)
batches = connect(sys.argv[1]).table("db.t").scan().to_batches(batch_rows=10)
print(next(batches).num_rows)
"""


@pytest.mark.modes
def test_a_process_ends_with_a_read_that_nobody_closed(folder: Path) -> None:
    run = [sys.executable, "-c", _ABANDONED, str(folder)]
    answer = subprocess.run(run, check=True, capture_output=True, text=True, timeout=300)
    assert int(answer.stdout) > 0
    assert answer.stderr == ""
