"""`headwater table`: what a catalog holds, on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.identifier import Identifier
from headwater.cli.connection import (
    DEFAULT_CATALOG,
    CatalogOption,
    LocationOption,
    TableName,
    TokenOption,
    WarehouseOption,
    open_lake,
)
from headwater.cli.output import AsJson, Cell, print_rows, time_text

if TYPE_CHECKING:
    from headwater.catalog.protocol import SnapshotInfo

__all__ = ["app"]

app = typer.Typer(help="The tables of a catalog.", no_args_is_help=True)

ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's id.")]


@app.command("list")
def list_tables(
    database: Annotated[
        str | None, typer.Argument(metavar="[DATABASE]", help="Only this database's tables.")
    ] = None,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List the tables of a catalog."""
    with open_lake(catalog, warehouse, token, location) as lake:
        databases = [database] if database is not None else lake.list_databases()
        rows = [[name, table] for name in databases for table in lake.list_tables(name)]
    print_rows(["database", "table"], rows, as_json=as_json)


@app.command()
def show(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a table's columns, keys and options, and what its latest snapshot holds."""
    identifier = Identifier.parse(name)
    with open_lake(catalog, warehouse, token, location) as lake:
        info = lake.catalog.get_table(identifier)
        latest = lake.catalog.latest_snapshot(identifier)
    schema = info.schema
    rows: list[Sequence[Cell]] = [
        ("table", str(info.identifier)),
        ("id", info.id),
        ("path", info.path),
        ("comment", schema.comment),
        ("schema", schema.id),
        ("primary key", ", ".join(schema.primary_keys) or None),
        ("partitioned by", ", ".join(schema.partition_keys) or None),
        *_sizes(latest),
        *((f"column {field.name}", str(field.type)) for field in schema.fields),
        *((f"option {key}", value) for key, value in sorted(schema.options.items())),
    ]
    print_rows(["property", "value"], rows, as_json=as_json)


def _sizes(latest: SnapshotInfo | None) -> list[Sequence[Cell]]:
    if latest is None:
        return [("snapshot", None)]
    return [
        ("snapshot", latest.snapshot.id),
        ("committed at", time_text(latest.snapshot.time_millis)),
        ("records", latest.record_count),
        ("files", latest.file_count),
        ("bytes", latest.file_size_in_bytes),
    ]


@app.command()
def snapshots(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List a table's snapshots, the newest first."""
    with open_lake(catalog, warehouse, token, location) as lake:
        found = lake.catalog.list_snapshots(Identifier.parse(name), max_results=limit).items
    print_rows(
        ["snapshot", "kind", "committed at", "schema", "records", "change", "commit user"],
        [
            (
                snapshot.id,
                str(snapshot.commit_kind),
                time_text(snapshot.time_millis),
                snapshot.schema_id,
                snapshot.total_record_count,
                snapshot.delta_record_count,
                snapshot.commit_user,
            )
            for snapshot in list(found)[:limit]
        ],
        as_json=as_json,
    )


@app.command()
def consumers(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List a table's consumers: where each goes on, and how far it lags behind.

    The lag is in snapshots, in rows of them yet to be read, and in milliseconds since the oldest
    of them was committed.
    """
    with open_lake(catalog, warehouse, token, location) as lake:
        rows = [
            (
                consumer.consumer_id,
                consumer.next_snapshot,
                None if consumer.lag is None else consumer.lag.snapshots,
                None if consumer.lag is None else consumer.lag.records,
                None if consumer.lag is None else consumer.lag.millis,
                time_text(consumer.updated_at),
            )
            for consumer in lake.table(name).consumers()
        ]
    print_rows(
        ["consumer", "next snapshot", "lag", "lag records", "lag ms", "moved at"],
        rows,
        as_json=as_json,
    )


@app.command("reset-consumer")
def reset_consumer(
    name: TableName,
    consumer: ConsumerId,
    next_snapshot: Annotated[
        int, typer.Argument(metavar="SNAPSHOT", min=1, help="The snapshot to go on with.")
    ],
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Move a consumer to a snapshot, making the consumer if need be."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.table(name).consumer(consumer).reset(next_snapshot)


@app.command("delete-consumer")
def delete_consumer(
    name: TableName,
    consumer: ConsumerId,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Forget a consumer's position; nothing happens when there is none."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.table(name).consumer(consumer).delete()


@app.command()
def partitions(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List a table's partitions and what each holds."""
    with open_lake(catalog, warehouse, token, location) as lake:
        rows = [
            (
                partition.name,
                _measured(partition.record_count),
                _measured(partition.file_count),
                _measured(partition.file_size_in_bytes),
                time_text(_measured(partition.last_file_creation_time)),
                partition.is_done,
            )
            for partition in lake.table(name).partitions()
        ]
    print_rows(
        ["partition", "records", "files", "bytes", "newest file", "done"], rows, as_json=as_json
    )


def _measured(number: int) -> int | None:
    return None if number < 0 else number


@app.command()
def files(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List the data files of a table's latest snapshot."""
    with open_lake(catalog, warehouse, token, location) as lake:
        rows = [
            (
                file.partition,
                file.bucket,
                file.level,
                file.row_count,
                file.file_size,
                file.schema_id,
                file.name,
            )
            for file in lake.table(name).files()
        ]
    print_rows(
        ["partition", "bucket", "level", "rows", "bytes", "schema", "file"], rows, as_json=as_json
    )
