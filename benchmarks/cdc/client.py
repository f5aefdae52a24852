"""Headwater's side: reads log files, see `benchmarks.engine.answers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks.engine.answers import answer_requests
from benchmarks.engine.client import TABLE
from headwater.cdc.mysql import (
    EventType,
    PackedRows,
    RowBatch,
    TableShape,
    decode_rows,
    is_rows_event,
    parse_table_map,
    read_log_file,
    table_number,
)
from headwater.cdc.mysql.server import Address
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.postgres.server import Address as PostgresAddress
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.source.source import Source
from headwater.client import connect
from headwater.client.lake import Lake
from headwater.storage.jobs.executor import ParallelExecutor
from headwater.storage.process_memory import keep_objects, keep_released_memory

_TARGET = "followed"
_Rows = dict[int, tuple[TableShape, PackedRows]]


def _rows_events(path: Path) -> _Rows:
    """The undecoded rows of each table."""
    rows: _Rows = {}
    table_map = EventType.TABLE_MAP
    for event in read_log_file(path):
        if event.type is table_map:
            table = parse_table_map(event)
            if table.table_id not in rows:
                rows[table.table_id] = table.shape, PackedRows()
        elif is_rows_event(event):
            rows[table_number(event)][1].add(event)
    return rows


def _batches(path: Path) -> Iterator[RowBatch]:
    for shape, rows in _rows_events(path).values():
        for slab in rows.slabs():
            yield decode_rows(shape, slab)


def frame(request: Mapping[str, object]) -> Callable[[], int]:
    """Cut a log file into events, verify them, and parse what is around their rows."""
    path = Path(str(request["data"]))

    def count() -> int:
        tables = _rows_events(path).values()
        return sum(len(slab.ends) for _, rows in tables for slab in rows.slabs())

    return count


def decode(request: Mapping[str, object]) -> Callable[[], int]:
    """Decode the rows of a log file to Arrow columns."""
    path = Path(str(request["data"]))
    return lambda: sum(batch.rows.num_rows for batch in _batches(path))


def export(request: Mapping[str, object]) -> Callable[[], int]:
    """Write the decoded rows of a log file to an Arrow file, with types that a table has."""
    path, target = Path(str(request["data"])), str(request["target"])

    def work() -> int:
        rows = pa.concat_tables(batch.rows for batch in _batches(path))
        schema = pa.schema(
            [
                field.with_type(pa.int64()) if field.type == pa.uint32() else field
                for field in rows.schema
            ]
        )
        with pa.ipc.new_file(target, schema) as file:
            file.write_table(rows.cast(schema))
        return int(rows.num_rows)

    return work


def _pipeline(request: Mapping[str, object]) -> tuple[Pipeline, Lake]:
    """The pipeline of a folder, with a lake of its own."""
    # As `headwater cdc` does.
    keep_objects()
    keep_released_memory()
    lake = connect(str(request["folder"]))
    cores = request.get("spark_cores")
    executor = None if cores is None else _spark_executor(int(str(cores)))
    settings = PipelineSettings(
        "bench",
        "bench",
        _TARGET,
        (str(request["table"]),),
        table_options={
            "bucket": str(request.get("bucket", "1")),
            "num-sorted-run.compaction-trigger": str(request.get("compaction_trigger", "5")),
        },
        batch_bytes=int(str(request["batch_bytes"])),
    )
    return Pipeline(lake, _opener(request), settings, executor), lake


def _spark_executor(cores: int) -> ParallelExecutor:
    """Spark's tasks, in processes that have begun."""
    from headwater.spark.jobs.executor import SparkExecutor
    from headwater.spark.session import local_session

    executor = SparkExecutor(local_session(cores=cores))
    list(executor.run(_loaded, range(4 * cores)))
    return executor


def _loaded(number: int) -> int:
    """Let the process of a task load what it needs."""
    import headwater.cdc.pipeline.range_tasks  # noqa: F401

    return number


def _opener(request: Mapping[str, object]) -> Callable[[], Source]:
    """What connects to the source; one of PostgreSQL keeps its log for each folder."""
    if "url" in request:
        name = Path(str(request["folder"])).name
        return partial(PostgresSource, PostgresAddress.from_url(str(request["url"])), name)
    return partial(MySQLSource, Address("127.0.0.1", int(str(request["port"])), "root", ""))


def export_lake(request: Mapping[str, object]) -> Callable[[], int]:
    """Write the rows of a followed table to an Arrow file."""
    lake, target = connect(str(request["folder"])), str(request["target"])

    def work() -> int:
        rows = lake.table(f"{_TARGET}.t").scan().to_arrow()
        with pa.ipc.new_file(target, rows.schema) as file:
            file.write_table(rows)
        return int(rows.num_rows)

    return work


def begin(request: Mapping[str, object]) -> Callable[[], int]:
    """Read a table into a new lake."""
    pipeline, lake = _pipeline(request)
    lake.create_database(_TARGET)
    return lambda: _follow(pipeline, lake)


def follow(request: Mapping[str, object]) -> Callable[[], int]:
    """Commit what the source has changed since."""
    pipeline, lake = _pipeline(request)
    return lambda: _follow(pipeline, lake)


def _follow(pipeline: Pipeline, lake: Lake) -> int:
    """The rows that the pipeline has committed; it ends at the end of the log."""
    if not pipeline.run(once=True):
        raise RuntimeError(f"a table is quarantined: {pipeline.progress.read()}")
    lake.close()
    return sum(table.rows for table in pipeline.progress.read().tables.values())


def write_parts(request: Mapping[str, object]) -> Callable[[], int]:
    """Write the rows of a file to a table in several commits."""
    table = connect(str(request["folder"])).table(TABLE)
    rows = pa.ipc.open_file(pa.memory_map(str(request["data"]))).read_all()
    size = -(-rows.num_rows // int(str(request["parts"])))

    def work() -> int:
        for first in range(0, rows.num_rows, size):
            table.write(rows.slice(first, size))
        return int(rows.num_rows)

    return work


if __name__ == "__main__":
    steps = (frame, decode, export, export_lake, begin, follow, write_parts)
    answer_requests({step.__name__: step for step in steps})
