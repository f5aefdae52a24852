"""`headwater fsck`: check a table to its last file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connection import on_lake

if TYPE_CHECKING:
    from headwater.client import Lake
    from headwater.storage.maintenance.damage import TableCheck

__all__ = ["fsck"]

_DAMAGED = 3
_DOUBTFUL = 4


@on_lake
def fsck(
    lake: Lake,
    name: Annotated[str, typer.Argument(metavar="DATABASE.TABLE", help="The table.")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every value of every data file, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check all that the snapshots, tags and changelogs of a table name, in all of its branches.

    Nothing is changed. The exit code is 0 if all is whole, 3 if something is damaged or missing,
    4 if nothing is but there are warnings, and 1 if the table cannot be checked.
    """
    check = lake.table(name).check_files(deep=deep)
    if as_json:
        print(json.dumps(_document(check)))
    else:
        for damage in check.damages:
            print(f"{damage.needed_by}: {damage.problem}")
        if check.damage_count > len(check.damages):
            print(f"… and {check.damage_count - len(check.damages)} more")
        for warning in check.warnings:
            print(f"warning: {warning}")
        for note in check.notes:
            print(f"note: {note}")
        print(_summary(check))
    if not check.is_whole:
        raise typer.Exit(_DAMAGED)
    if check.warnings:
        raise typer.Exit(_DOUBTFUL)


def _summary(check: TableCheck) -> str:
    looked_at = (
        f"{check.snapshots} snapshots, {check.tags} tags, {check.changelogs} changelogs, "
        f"{check.schemas} schemas, {check.manifests} manifests, {check.data_files} data files with "
        f"{check.rows} rows, {check.index_files} index files"
    )
    orphans = "orphans are not known"
    if check.orphans is not None:
        orphans = f"{check.orphans} orphans of {check.orphan_bytes} bytes"
    unread = f"; {check.unread} files of kinds that are not read" if check.unread else ""
    unread += f"; warnings: {len(check.warnings)}" if check.warnings else ""
    unread += (
        "" if check.feed_was_read else "; tags and consumers not compared with the change feed"
    )
    state = "whole" if check.is_whole else f"{check.damage_count} damaged"
    return f"{state}: {looked_at}; {orphans}{unread}"


def _document(check: TableCheck) -> dict[str, object]:
    counts = {key: value for key, value in vars(check).items() if key != "damages"}
    damages = [
        {"neededBy": damage.needed_by, "problem": damage.problem} for damage in check.damages
    ]
    return {"whole": check.is_whole, **counts, "damages": damages}
