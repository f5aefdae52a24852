"""pypaimon-rust's side, run by the interpreter of its environment: as `client`, without memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog


def _table(request: dict[str, Any]) -> Any:
    return PaimonCatalog({"warehouse": request["warehouse"]}).get_table("bench.orders")


def write(request: dict[str, Any]) -> Callable[[], int]:
    builder = _table(request).new_batch_write_builder()
    rows = pa.ipc.open_file(pa.memory_map(request["data"])).read_all()

    def work() -> int:
        writer, committer = builder.new_write(), builder.new_commit()
        for batch in rows.to_batches():
            writer.write_arrow(batch)
        committer.commit(writer.prepare_commit())
        writer.close()
        return int(rows.num_rows)

    return work


def scan(request: dict[str, Any]) -> Callable[[], int]:
    builder = _table(request).new_read_builder()

    def work() -> int:
        splits = builder.new_scan().plan().splits()
        return sum(batch.num_rows for batch in builder.new_read().read(splits))

    return work


def plan(request: dict[str, Any]) -> Callable[[], int]:
    builder = _table(request).new_read_builder()
    return lambda: len(builder.new_scan().plan().splits())


def main() -> None:
    request = json.load(sys.stdin)
    work = {"write": write, "scan": scan, "plan": plan}[request["step"]](request)
    start, started = time.perf_counter(), time.process_time()
    rows = work()
    seconds, busy = time.perf_counter() - start, time.process_time() - started
    print(json.dumps({"seconds": seconds, "processor": busy, "rows": rows, "bytes": 0}))


if __name__ == "__main__":
    main()
