"""`headwater branch`: the branches of a table, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.branches import branch_of
from headwater.cli.arguments import TableName
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="The branches of a table.", no_args_is_help=True)

BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch.")]


@app.command("list")
@on_lake
def list_branches(
    lake: Lake,
    table: TableName,
    as_json: AsJson = False,
) -> None:
    """List a table's branches with their latest snapshots and schemas."""
    rows: list[tuple[str, int | None, int, str]] = []
    for branch in lake.catalog.branches.list(table):
        identifier = branch_of(table, branch)
        latest = lake.catalog.snapshots.latest(identifier)
        rows.append(
            (
                branch,
                None if latest is None else latest.snapshot.id,
                lake.catalog.tables.get(identifier).schema.id,
                str(identifier),
            )
        )
    print_rows(["branch", "snapshot", "schema", "table"], rows, as_json=as_json)


@app.command()
@on_lake
def create(
    lake: Lake,
    table: TableName,
    branch: BranchName,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Start from this tag.")] = None,
    snapshot: Annotated[int | None, typer.Option(min=1, help="Start from this snapshot.")] = None,
) -> None:
    """Create a branch with the table's schema, empty or starting from a tag or a snapshot."""
    lake.catalog.branches.create(table, branch, from_tag=tag, from_snapshot=snapshot)
    print(f"branch {branch_of(table, branch)} is created")


@app.command()
@on_lake
def rename(
    lake: Lake,
    table: TableName,
    branch: BranchName,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.")],
) -> None:
    """Rename a branch."""
    lake.catalog.branches.rename(table, branch, new_name)
    print(f"branch {branch_of(table, branch)} is now {branch_of(table, new_name)}")


@app.command()
@on_lake
def forward(
    lake: Lake,
    table: TableName,
    branch: BranchName,
) -> None:
    """Fast-forward a table to a branch; the table's own later snapshots are discarded."""
    lake.catalog.branches.fast_forward(table, branch)
    print(f"table {table} is what {branch_of(table, branch)} is")


@app.command()
@on_lake
def drop(
    lake: Lake,
    table: TableName,
    branch: BranchName,
) -> None:
    """Drop a branch; data files stay until they expire."""
    lake.catalog.branches.drop(table, branch)
    print(f"branch {branch_of(table, branch)} is dropped")
