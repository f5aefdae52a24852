"""Drives pypaimon, in an environment of its own, by requests as `requests_on_stdin` has them.

Rows travel as Arrow IPC files, whose paths the request names.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
from pypaimon import CatalogFactory, Schema
from pypaimon.consumer.consumer import Consumer
from pypaimon.consumer.consumer_manager import ConsumerManager
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange
from requests_on_stdin import serve


def open_catalog(request: dict[str, Any]) -> Any:
    """Over REST, or, where a folder is named, a catalog that is nothing but files."""
    if request.get("folder"):
        return CatalogFactory.create({"warehouse": request["folder"]})
    return CatalogFactory.create(
        {
            "metastore": "rest",
            "uri": request["uri"],
            "warehouse": request["warehouse"],
            "token.provider": "bear",
            "token": request["token"],
        }
    )


def create(request: dict[str, Any]) -> dict[str, Any]:
    catalog = open_catalog(request)
    catalog.create_database(request["table"].split(".")[0], True)
    arrow = feather.read_table(request["schema"]).schema
    schema = Schema.from_pyarrow_schema(
        arrow,
        partition_keys=request["partition_keys"],
        primary_keys=request["primary_keys"],
        options=request["options"],
    )
    catalog.create_table(request["table"], schema, False)
    return {}


def write(request: dict[str, Any]) -> dict[str, Any]:
    table = open_catalog(request).get_table(request["table"])
    builder = table.new_batch_write_builder()
    if request.get("overwrite") is not None:
        builder = builder.overwrite(request["overwrite"])
    writer, committer = builder.new_write(), builder.new_commit()
    data = feather.read_table(request["data"])
    writer.write_arrow(data)
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()
    return {}


def update_columns(request: dict[str, Any]) -> dict[str, Any]:
    """New values of columns, by ``_ROW_ID``."""
    table = open_catalog(request).get_table(request["table"])
    builder = table.new_batch_write_builder()
    data = feather.read_table(request["data"])
    names = [name for name in data.column_names if name != "_ROW_ID"]
    committer = builder.new_commit()
    update = builder.new_update().with_update_type(names)
    committer.commit(update.update_by_arrow_with_row_id(data))
    committer.close()
    return {}


def delete_by_row_id(request: dict[str, Any]) -> dict[str, Any]:
    builder = open_catalog(request).get_table(request["table"]).new_batch_write_builder()
    committer = builder.new_commit()
    committer.commit(builder.new_update().delete_by_row_id(request["ids"]))
    committer.close()
    return {}


def add_column(request: dict[str, Any]) -> dict[str, Any]:
    change = SchemaChange.add_column(request["column"], AtomicType(request["type"]))
    open_catalog(request).alter_table(request["table"], [change], False)
    return {}


def branch(request: dict[str, Any]) -> dict[str, Any]:
    action = getattr(open_catalog(request), request["action"])
    return {"found": action(request["table"], *request["names"])}


def read(request: dict[str, Any]) -> dict[str, Any]:
    table = open_catalog(request).get_table(request["table"])
    if request.get("options"):
        table = table.copy(request["options"])
    builder = table.new_read_builder()
    if request.get("columns"):
        builder = builder.with_projection(request["columns"])
    splits = builder.new_scan().plan().splits()
    arrow = builder.new_read().to_arrow(splits)
    feather.write_feather(arrow, request["out"], compression="uncompressed")
    return {"rows": arrow.num_rows}


def changes(request: dict[str, Any]) -> dict[str, Any]:
    """All changes from the first snapshot on, as a stream gives them."""
    table = open_catalog(request).get_table(request["table"])
    builder = table.new_stream_read_builder().with_include_row_kind(True)
    scan = builder.new_streaming_scan()
    scan.next_snapshot_id = 1
    read, latest = builder.new_read(), table.snapshot_manager().get_latest_snapshot().id
    found: list[Any] = []

    async def follow() -> None:
        plans = scan.stream()
        while scan.next_snapshot_id <= latest:
            # Trailing snapshots without changes are waited for in vain.
            plan = await asyncio.wait_for(anext(plans), request["patience"])
            if plan.splits():
                found.append(read.to_arrow(plan.splits()))

    with suppress(TimeoutError):
        asyncio.run(follow())
    feather.write_feather(pa.concat_tables(found), request["out"], compression="uncompressed")
    return {}


def partitions(request: dict[str, Any]) -> dict[str, Any]:
    catalog = open_catalog(request)
    found: list[Any] = []
    token = None
    while True:
        page = catalog.list_partitions_paged(request["table"], 2, token)
        found += page.elements
        token = page.next_page_token
        if not token:
            break
    return {"partitions": [[partition.spec, partition.record_count] for partition in found]}


def consumers(request: dict[str, Any]) -> dict[str, Any]:
    return {"consumers": consumer_manager(request).consumers()}


def reset_consumer(request: dict[str, Any]) -> dict[str, Any]:
    moved = Consumer(request["next_snapshot"])
    consumer_manager(request).reset_consumer(request["consumer_id"], moved)
    return {}


def consumer_manager(request: dict[str, Any]) -> ConsumerManager:
    table = open_catalog(request).get_table(request["table"])
    return ConsumerManager(table.file_io, table.table_path)


def read_each(request: dict[str, Any]) -> dict[str, Any]:
    """Each column by itself: one that cannot be read says nothing of the others."""
    problems: dict[str, str] = {}
    for at, column in enumerate(request["columns"]):
        try:
            read({**request, "columns": ["k", column], "out": f"{request['out']}-{at}"})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            problems[column] = f"{type(error).__name__}: {error}"
    return {"problems": problems}


COMMANDS = {
    "create": create,
    "write": write,
    "read": read,
    "read_each": read_each,
    "update_columns": update_columns,
    "delete_by_row_id": delete_by_row_id,
    "add_column": add_column,
    "branch": branch,
    "changes": changes,
    "partitions": partitions,
    "consumers": consumers,
    "reset_consumer": reset_consumer,
}

if __name__ == "__main__":
    serve(COMMANDS)
