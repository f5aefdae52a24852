"""Tables with data evolution, and files of some columns as other engines write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from tests.interrupted import Racing

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.change import update_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import live_entries
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

Rows = list[dict[str, object]]
SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def make(lake: Lake, **options: str) -> Table:
    return lake.create_table("db.t", SCHEMA, options={**OPTIONS, **options})


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": list(ids), "a": [i * 10 for i in ids], "b": [f"b{i}" for i in ids]}, schema=SCHEMA
    )


def column_file(table: Table, start: int, columns: pa.Table) -> DataFile:
    """A file of some columns of the rows from an id on, as other engines write it."""
    storage = table.storage
    fields = storage.schema.columns(columns.column_names)
    some = replace(storage, schema=replace(storage.schema, fields=fields))
    writer = DataFileWriter(some, EMPTY_ROW, 0)
    writer.write(columns.cast(pa.schema([some.schema.arrow.field(f.name) for f in fields])))
    (file,) = writer.finish()
    names = tuple(columns.column_names)
    known = names if file.value_stats_cols is None else file.value_stats_cols
    return replace(file, first_row_id=start, write_cols=names, value_stats_cols=known)


def commit(table: Table, *files: DataFile, **message: object) -> None:
    made = CommitMessage(EMPTY_ROW, 0, -1, new_files=files, **message)  # type: ignore[arg-type]
    TableCommit(table.storage, table.pointer, "user").commit([made])


def update(table: Table, start: int, **columns: Sequence[object]) -> None:
    """Give columns of the rows from an id on new values."""
    commit(table, column_file(table, start, pa.table(columns)))


def found(table: Table, columns: Sequence[str] | None = None, where: str | None = None) -> Rows:
    result: Rows = table.scan(columns, where).to_arrow().to_pylist()
    return result


def path_of(table: Table, file: DataFile) -> Path:
    return Path(f"{table.storage.layout.location}/bucket-0/{file.file_name}".split("://")[-1])


def files_of(table: Table) -> list[DataFile]:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return [entry.file for entry in live_entries(table.storage, snapshot)]


def racing_update(table: Table, before: Callable[[], object], **changes: object) -> Racing:
    racing = Racing(table.pointer, before)
    update_table(table.storage, racing, LocalExecutor(), changes, None)
    return racing


def streamed_ids(table: Table) -> list[list[dict[str, object]]]:
    """The ids of the rows of each plan of a stream."""
    if table.latest_snapshot() is None:
        return []
    told = table.changes(0, columns=["_ROW_ID"], skip_overwrites=True, row_kinds=False)
    return [told.to_arrow().to_pylist()]
