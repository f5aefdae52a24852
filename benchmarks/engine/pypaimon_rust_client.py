"""pypaimon-rust's side, run by the interpreter of its environment: as `client`, without memory."""

from __future__ import annotations

import json
import resource
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
    for line in sys.stdin:
        request = json.loads(line)
        work = {"write": write, "scan": scan, "plan": plan}[request["step"]](request)
        used = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        rows = work()
        seconds = time.perf_counter() - start
        done = resource.getrusage(resource.RUSAGE_SELF)
        answer = {
            "seconds": seconds,
            "user": done.ru_utime - used.ru_utime,
            "system": done.ru_stime - used.ru_stime,
            "rows": rows,
            "bytes": 0,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
