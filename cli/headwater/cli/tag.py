"""`headwater tag`: the tags of a table, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.table.display import time_text
from headwater.cli.arguments import TableName, duration
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="The tags of a table or a branch.", no_args_is_help=True)

TagName = Annotated[str, typer.Argument(metavar="TAG", help="The tag.")]


@app.command("list")
@on_lake
def list_tags(
    lake: Lake,
    table: TableName,
    as_json: AsJson = False,
) -> None:
    """List a table's tags, their snapshots and when they expire."""
    rows = [
        (
            tag.name,
            tag.snapshot.id,
            time_text(tag.created_at),
            None
            if tag.created_at is None or tag.retained_millis is None
            else time_text(tag.created_at + tag.retained_millis),
        )
        for tag in lake.table(str(table)).tags()
    ]
    print_rows(["tag", "snapshot", "created at", "expires at"], rows, as_json=as_json)


@app.command()
@on_lake
def create(
    lake: Lake,
    table: TableName,
    tag: TagName,
    snapshot: Annotated[
        int | None, typer.Option(min=1, help="The snapshot; by default the latest.")
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Its retention, such as '7 d'; by default the table's tag.default-time-retained.",
        ),
    ] = None,
) -> None:
    """Create a tag: a name for a snapshot, which expiry then keeps."""
    retained = None if retain is None else duration(retain, "--retain")
    lake.table(str(table)).create_tag(tag, snapshot, retained=retained)
    print(f"tag '{tag}' of {table} is created")


@app.command()
@on_lake
def delete(
    lake: Lake,
    table: TableName,
    tag: TagName,
) -> None:
    """Delete a tag, and the files that it alone kept."""
    lake.table(str(table)).delete_tag(tag)
    print(f"tag '{tag}' of {table} is deleted")


@app.command()
@on_lake
def expire(
    lake: Lake,
    table: TableName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the tags without deleting them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the tags that have expired, and list them."""
    rows = [(tag,) for tag in lake.table(str(table)).expire_tags(dry_run=dry_run)]
    print_rows(["tag"], rows, as_json=as_json)
