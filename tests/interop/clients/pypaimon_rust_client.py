"""Drives pypaimon-rust, in an environment of its own, by requests as `requests_on_stdin` has them.

Rows travel as Arrow IPC files, whose paths the request names.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext
from requests_on_stdin import serve


def options(request: dict[str, Any]) -> dict[str, str]:
    return {
        "metastore": "rest",
        "uri": request["uri"],
        "warehouse": request["warehouse"],
        "token.provider": "bear",
        "token": request["token"],
    }


def sql(request: dict[str, Any]) -> dict[str, Any]:
    context = SQLContext()
    context.register_catalog("paimon", options(request))
    batches = []
    for statement in request["statements"]:
        batches = context.sql(statement)
    if request.get("out"):
        table = pa.Table.from_batches(batches)
        feather.write_feather(table, request["out"], compression="uncompressed")
    return {}


def write(request: dict[str, Any]) -> dict[str, Any]:
    table = PaimonCatalog(options(request)).get_table(request["table"])
    builder = table.new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    for batch in feather.read_table(request["data"]).combine_chunks().to_batches():
        writer.write_arrow(batch)
    committer.commit(writer.prepare_commit())
    writer.close()
    return {}


def read(request: dict[str, Any]) -> dict[str, Any]:
    table = PaimonCatalog(options(request)).get_table(request["table"])
    builder = table.new_read_builder(request.get("options") or None)
    if request.get("columns"):
        builder = builder.with_projection(request["columns"])
    splits = builder.new_scan().plan().splits()
    batches = builder.new_read().read(splits)
    arrow = pa.Table.from_batches(batches) if batches else pa.table({})
    feather.write_feather(arrow, request["out"], compression="uncompressed")
    return {"rows": arrow.num_rows}


def read_each(request: dict[str, Any]) -> dict[str, Any]:
    """Each column by itself: one that cannot be read says nothing of the others."""
    problems: dict[str, str] = {}
    for at, column in enumerate(request["columns"]):
        try:
            read({**request, "columns": ["k", column], "out": f"{request['out']}-{at}"})
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            problems[column] = f"{type(error).__name__}: {error}"
    return {"problems": problems}


COMMANDS = {"sql": sql, "write": write, "read": read, "read_each": read_each}

if __name__ == "__main__":
    serve(COMMANDS)
