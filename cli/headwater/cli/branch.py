"""`headwater branch`: the branches of a table, on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.catalog.branches import branch_of
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
from headwater.cli.output import AsJson, print_rows

__all__ = ["app"]

app = typer.Typer(help="The branches of a table.", no_args_is_help=True)

BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch.")]


@app.command("list")
def list_branches(
    name: TableName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
    as_json: AsJson = False,
) -> None:
    """List a table's branches, with the snapshot and schema that each has come to."""
    table = Identifier.parse(name)
    with open_lake(catalog, warehouse, token, location) as lake:
        rows: list[tuple[str, int | None, int, str]] = []
        for branch in lake.catalog.branches.list(table):
            identifier = branch_of(table, branch)
            latest = lake.catalog.latest_snapshot(identifier)
            rows.append(
                (
                    branch,
                    None if latest is None else latest.snapshot.id,
                    lake.catalog.get_table(identifier).schema.id,
                    str(identifier),
                )
            )
    print_rows(["branch", "snapshot", "schema", "table"], rows, as_json=as_json)


@app.command()
def create(
    name: TableName,
    branch: BranchName,
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="Begin with what this tag names.")
    ] = None,
    snapshot: Annotated[
        int | None, typer.Option(min=1, help="Begin with this snapshot instead.")
    ] = None,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Begin a branch with the table's schema: empty, or with a tag or a snapshot."""
    table = Identifier.parse(name)
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.catalog.branches.create(table, branch, from_tag=tag, from_snapshot=snapshot)


@app.command()
def rename(
    name: TableName,
    branch: BranchName,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.")],
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Give a branch another name."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.catalog.branches.rename(Identifier.parse(name), branch, new_name)


@app.command()
def forward(
    name: TableName,
    branch: BranchName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Make a table hold what a branch holds; what it has of its own since then goes away."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.catalog.branches.fast_forward(Identifier.parse(name), branch)


@app.command()
def drop(
    name: TableName,
    branch: BranchName,
    catalog: CatalogOption = DEFAULT_CATALOG,
    warehouse: WarehouseOption = None,
    token: TokenOption = None,
    location: LocationOption = None,
) -> None:
    """Drop a branch; data files stay until they expire."""
    with open_lake(catalog, warehouse, token, location) as lake:
        lake.catalog.branches.drop(Identifier.parse(name), branch)
