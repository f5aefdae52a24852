"""`headwater repair`: take over what other writers left on storage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson

if TYPE_CHECKING:
    from headwater.catalog.model.repair import RepairFinding
    from headwater.client import Lake

__all__ = ["repair"]


@on_lake
def repair(
    lake: Lake,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATABASE[.TABLE]]", help="The database or table; all, if left out."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be taken over.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take over tables, branches, schemas and snapshots that the catalog does not know.

    They are those of writers that did not ask the catalog, which must have stopped. Nothing on
    storage is changed. The exit code is 1 if something cannot be taken over.
    """
    found = lake.repair(name, dry_run=dry_run)
    if as_json:
        groups = {"adopted": found.adopted, "refused": found.refused}
        print(json.dumps({key: list(map(_document, each)) for key, each in groups.items()}))
    else:
        verb = "would be taken over" if dry_run else "taken over"
        for finding in found.adopted:
            print(f"{verb}: {finding}")
        for finding in found.refused:
            print(f"refused: {finding}")
        if not found.adopted and not found.refused:
            print("the catalog knows all that storage has")
    if found.refused:
        raise typer.Exit(1)


def _document(finding: RepairFinding) -> dict[str, str | None]:
    return {"table": str(finding.table), "what": finding.what, "refused": finding.refused}
