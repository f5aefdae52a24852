"""Memory of merges and compactions of buckets that are many times the budget.

Each runs in a process of its own, which tells its peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.processes import run_function

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.types.arrow_numbers import arrow_values

pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20
BUDGET = 8
# Most of it are the pages, row groups and codecs of Parquet; a changelog is one more file.
ALLOWED = BUDGET + 250
ROWS = 200_000
WIDTH = 400
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
TEXT_SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("note", pa.string())])
# Mebibytes; each is held, copied and written as what it is, not as many times as there are rows.
LONG = 4


def _rows(seed: int, count: int) -> Iterator[pa.RecordBatch]:
    numbers = np.random.default_rng(seed)
    for start in range(0, count, 10_000):
        ids = np.arange(start, start + 10_000) * 7919 % ROWS
        # Another text in each row, yet small files: mapped ones count as the process's memory.
        letters = np.full((10_000, WIDTH), ord("x"), np.uint8)
        letters[:, :8] = numbers.integers(97, 123, (10_000, 8), np.uint8)
        ends = np.arange(0, 10_001, dtype=np.int32) * WIDTH
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
        notes = pa.Array.from_buffers(pa.string(), 10_000, buffers)
        yield pa.RecordBatch.from_arrays([arrow_values(ids), notes], schema=SCHEMA)


def _write(table: Table) -> None:
    for seed, count in enumerate([ROWS, ROWS // 10]):
        table.write(pa.RecordBatchReader.from_batches(SCHEMA, _rows(seed, count)))


def _peak(folder: str, work: Callable[[Table], None]) -> None:
    with connect(folder) as lake:
        table = lake.table("db.t")
        before = _memory("VmRSS")
        work(table)
        print((_memory("VmHWM") - before) // MEBIBYTE)


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def _scan(table: Table) -> None:
    assert sum(batch.num_rows for batch in table.scan().to_batches()) == ROWS


def _compact(table: Table) -> None:
    assert table.compact() is not None


def _measured(folder: Path, work: Callable[[Table], None]) -> int:
    done = run_function(_peak, str(folder), work, folder=folder, variables={})
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_memory_follows_the_budget(tmp_path: Path, producer: str) -> None:
    options = {
        "bucket": "1",
        "write-only": "true",
        "write-buffer-size": f"{BUDGET} mb",
        "changelog-producer": producer,
    }
    with connect(tmp_path) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", SCHEMA, primary_keys=["id"], options=options)
        _write(table)
    peaks = {work.__name__: _measured(tmp_path, work) for work in (_scan, _compact)}
    with connect(tmp_path) as lake:
        table = lake.table("db.t")
        assert table.scan().count() == ROWS
        # Changes of rows that are there: looked up, when that is how they are told.
        table.write(pa.RecordBatchReader.from_batches(SCHEMA, _rows(9, ROWS)))
    peaks["again"] = _measured(tmp_path, _compact)
    assert {name: peak for name, peak in peaks.items() if peak > ALLOWED} == {}


def test_one_long_key_and_value_do_not_multiply_memory(tmp_path: Path) -> None:
    with connect(tmp_path) as lake:
        lake.create_database("db")
        options = {"bucket": "1", "write-only": "true", "write-buffer-size": f"{BUDGET} mb"}
        table = lake.create_table("db.t", TEXT_SCHEMA, primary_keys=["id"], options=options)
        ids = [f"{number:07}" for number in range(ROWS)]
        ids[ROWS // 2] += "x" * LONG * MEBIBYTE
        notes = ["short"] * ROWS
        notes[ROWS // 3] = "y" * LONG * MEBIBYTE
        rows = pa.table([ids, notes], schema=TEXT_SCHEMA)
        table.write(rows)
        table.write(rows.slice(ROWS // 4, ROWS // 2))
    peaks = {work.__name__: _measured(tmp_path, work) for work in (_scan, _compact)}
    assert {name: peak for name, peak in peaks.items() if peak > ALLOWED} == {}
