"""Headwater's side: reads log files, see `benchmarks.engine.answers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from benchmarks.engine.answers import answer_requests
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
        (batch,) = _batches(path)
        rows = batch.rows
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


if __name__ == "__main__":
    answer_requests({"frame": frame, "decode": decode, "export": export})
