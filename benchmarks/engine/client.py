"""Headwater's side, see `answers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

# Arrow imports it, where it is installed, with the first array that it makes of something else. The
# other clients do so before their time begins.
import pandas  # noqa: F401
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

from benchmarks.engine.answers import answer_requests
from headwater.catalog.table.table import Table
from headwater.client import connect

TABLE = "bench.orders"


def _table(request: Mapping[str, object]) -> Table:
    return connect(str(request["folder"])).table(TABLE)


def _reader(path: object) -> pa.RecordBatchReader:
    """The rows of an Arrow file, read batch by batch."""
    file = pa.ipc.open_file(pa.OSFile(str(path)))
    return pa.RecordBatchReader.from_batches(
        file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
    )


def create(request: Mapping[str, object]) -> Callable[[], int]:
    """A table for the rows of a file."""
    lake = connect(str(request["folder"]))
    lake.create_database("bench")
    schema, keys, options = _reader(request["data"]).schema, request["keys"], request["options"]
    assert isinstance(keys, list)
    assert isinstance(options, dict)

    def work() -> int:
        lake.create_table(TABLE, schema, primary_keys=keys, options=options)
        return 0

    return work


def write(request: Mapping[str, object]) -> Callable[[], int]:
    """Rows of a file, from memory."""
    table = _table(request)
    rows = pa.ipc.open_file(pa.memory_map(str(request["data"]))).read_all()

    def work() -> int:
        table.write(rows)
        return 0

    return work


def stream_in(request: Mapping[str, object]) -> Callable[[], int]:
    """Rows of a file, batch by batch."""
    table, rows = _table(request), _reader(request["data"])

    def work() -> int:
        table.write(rows)
        return 0

    return work


def scan(request: Mapping[str, object]) -> Callable[[], int]:
    """All rows at once."""
    table = _table(request)
    return lambda: table.scan().to_arrow().num_rows


def stream_out(request: Mapping[str, object]) -> Callable[[], int]:
    """All rows, batch by batch."""
    table = _table(request)
    return lambda: sum(batch.num_rows for batch in table.scan().to_batches())


def compact(request: Mapping[str, object]) -> Callable[[], int]:
    """A full compaction."""
    table = _table(request)

    def work() -> int:
        table.compact()
        return 0

    return work


def expire(request: Mapping[str, object]) -> Callable[[], int]:
    """Nothing but the latest snapshot stays."""
    table = _table(request)

    def work() -> int:
        table.expire_snapshots(retain_max=1, retain_min=1)
        return 0

    return work


def _parquet(request: Mapping[str, object]) -> list[str]:
    return sorted(map(str, Path(str(request["folder"])).rglob("bucket-*/data-*.parquet")))


def polars_scan(request: Mapping[str, object]) -> Callable[[], int]:
    """The Parquet files of a compacted table, by Polars."""
    files = _parquet(request)
    # The key columns stand there twice; a reader needs them once.
    columns = [name for name in pl.read_parquet_schema(files[0]) if not name.startswith("_")]
    return lambda: pl.read_parquet(files, columns=columns).height


def parquet_scan(request: Mapping[str, object]) -> Callable[[], int]:
    """The same by Arrow, which is what decodes them for Headwater: all rows as one table."""
    files = _parquet(request)
    columns = _columns(files)
    return lambda: pq.read_table(files, columns=columns).num_rows


def parquet_stream(request: Mapping[str, object]) -> Callable[[], int]:
    """The same, batch by batch."""
    files = _parquet(request)
    columns = _columns(files)
    rows = dataset(files)
    return lambda: sum(batch.num_rows for batch in rows.to_batches(columns=columns))


def _columns(files: list[str]) -> list[str]:
    return [name for name in pq.read_schema(files[0]).names if not name.startswith("_")]


def polars_copy(request: Mapping[str, object]) -> Callable[[], int]:
    """The Parquet files of a compacted table, read and written by Polars."""
    files = _parquet(request)
    target = Path(str(request["folder"])) / "copy.parquet"

    def work() -> int:
        frame = pl.read_parquet(files)
        frame.write_parquet(target, compression="zstd", compression_level=1)
        return frame.height

    return work


STEPS = {
    step.__name__: step
    for step in (
        create,
        write,
        stream_in,
        scan,
        stream_out,
        compact,
        expire,
        polars_scan,
        parquet_scan,
        parquet_stream,
        polars_copy,
    )
}


if __name__ == "__main__":
    answer_requests(STEPS)
