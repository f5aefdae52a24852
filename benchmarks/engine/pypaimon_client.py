"""pypaimon's side, run by the interpreter of its environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory

from benchmarks.engine.answers import answer_requests


def _table(request: dict[str, Any]) -> Any:
    return CatalogFactory.create({"warehouse": request["warehouse"]}).get_table("bench.orders")


def write(request: dict[str, Any]) -> Callable[[], int]:
    builder = _table(request).new_batch_write_builder()
    rows = pa.ipc.open_file(pa.memory_map(request["data"])).read_all()

    def work() -> int:
        writer, committer = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        committer.commit(writer.prepare_commit())
        writer.close()
        committer.close()
        return int(rows.num_rows)

    return work


def scan(request: dict[str, Any]) -> Callable[[], int]:
    builder = _table(request).new_read_builder()

    def work() -> int:
        splits = builder.new_scan().plan().splits()
        return int(builder.new_read().to_arrow(splits).num_rows)

    return work


if __name__ == "__main__":
    answer_requests({"write": write, "scan": scan})
