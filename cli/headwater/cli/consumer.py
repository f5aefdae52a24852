"""`headwater consumer`: the saved positions in a table's history, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.table.display import time_text
from headwater.cli.arguments import TableName
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(
    help="The consumers of a table: saved positions in its history.", no_args_is_help=True
)

ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's id.")]
Force = Annotated[
    bool, typer.Option("--force", help="Even while a reader uses it, which then fails.")
]


@app.command("list")
@on_lake
def list_consumers(lake: Lake, table: TableName, as_json: AsJson = False) -> None:
    """List a table's consumers, their positions and how far they lag behind.

    The lag is in snapshots, in rows of them yet to be read, and in milliseconds since the oldest
    of them was committed. A consumer is rolled back if a snapshot that it has consumed is gone by
    a rollback: reset it. In its full read, its reader has yet to read all rows that it begins with.
    """
    rows = [
        (
            consumer.consumer_id,
            consumer.next_snapshot,
            None if consumer.lag is None else consumer.lag.snapshots,
            None if consumer.lag is None else consumer.lag.records,
            None if consumer.lag is None else consumer.lag.millis,
            consumer.is_rolled_back,
            consumer.full_read,
            time_text(consumer.updated_at),
        )
        for consumer in lake.table(str(table)).consumers()
    ]
    print_rows(
        [
            "consumer",
            "next snapshot",
            "lag",
            "lag records",
            "lag ms",
            "rolled back",
            "full read",
            "moved at",
        ],
        rows,
        as_json=as_json,
    )


@app.command()
@on_lake
def reset(
    lake: Lake,
    table: TableName,
    consumer: ConsumerId,
    next_snapshot: Annotated[
        int, typer.Argument(metavar="SNAPSHOT", min=1, help="The next snapshot to read.")
    ],
    force: Force = False,
) -> None:
    """Move a consumer to a snapshot; create it if it does not exist."""
    lake.table(str(table)).consumer(consumer).reset(next_snapshot, force=force)
    print(f"consumer '{consumer}' of {table} goes on with snapshot {next_snapshot}")


@app.command()
@on_lake
def delete(lake: Lake, table: TableName, consumer: ConsumerId, force: Force = False) -> None:
    """Delete a consumer; nothing happens if it does not exist."""
    lake.table(str(table)).consumer(consumer).delete(force=force)
    print(f"consumer '{consumer}' of {table} is deleted")
