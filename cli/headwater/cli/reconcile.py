"""`headwater reconcile`: make the catalog's database and storage agree."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connection import Address, on_address
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.catalog.model.identifier import Identifier
    from headwater.catalog.model.reconcile import Watch

__all__ = ["reconcile"]

_DIFFERENT = 3


@on_address
def reconcile(
    address: Address,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATABASE[.TABLE]]", help="The database or table; all, if left out."
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make them agree; else only say how.")
    ] = False,
    accept_losses: Annotated[
        bool,
        typer.Option(
            "--accept-losses",
            help="Give up what storage has lost: go back to the latest snapshot that is whole, "
            "and drop tables without files.",
        ),
    ] = False,
    moved_from: Annotated[
        str | None,
        typer.Option(
            metavar="LOCATION",
            help="The warehouse's files were moved, or copied, from here to where it is now. Stop "
            "all servers on the database first.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the catalog's database with storage, as after the restore of a backup.

    What storage has and the catalog does not know is taken over; what storage lost is written
    again, or given up if you say so. Writers that do not ask the catalog must have stopped.

    The exit code is 0 if both agree, or do now; 3 if they differ; 1 if they cannot be compared.
    """
    if moved_from is not None and not _is_moved(address, moved_from, apply, as_json):
        raise typer.Exit(_DIFFERENT)
    with address.open() as lake:
        watch = None if as_json else _progress()
        found = lake.reconcile(name, apply=apply, accept_losses=accept_losses, watch=watch)
        if watch is not None:
            print("\r\x1b[K", end="", file=sys.stderr)
    done = "done" if apply else "would be done"
    rows = [(str(each.table), each.what, each.step.value, done) for each in found.changes]
    rows += [
        (str(each.table), each.what, each.step.value, f"refused: {each.refused}")
        for each in found.refused
    ]
    if rows or as_json:
        print_rows(["table", "what", "step", "result"], rows, as_json=as_json)
    else:
        print("the catalog and storage agree")
    if found.refused or (found.changes and not apply):
        raise typer.Exit(_DIFFERENT)


def _is_moved(address: Address, moved_from: str, apply: bool, as_json: bool) -> bool:
    """Move the places that the database knows; False when they would have to be moved."""
    from headwater.client.moved_warehouse import move_warehouse

    count = move_warehouse(
        address.catalog,
        moved_from=moved_from,
        warehouse=address.warehouse,
        location=address.location,
        apply=apply,
    )
    if count and not as_json:
        verb = "were moved" if apply else "would be moved, and then compared with their files"
        print(f"{count} databases and tables {verb}")
    return apply or not count


def _progress() -> Watch | None:
    """Show the table that is compared, on a terminal."""
    if not sys.stderr.isatty():
        return None
    count = 0

    def show(table: Identifier) -> None:
        nonlocal count
        count += 1
        print(f"\r\x1b[K{count} {table}", end="", file=sys.stderr, flush=True)

    return show
