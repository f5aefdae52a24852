"""`headwater audit`: who did what to which object; the change feed on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.events import MOST_EVENTS, Event, EventFilter
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.display import time_text
from headwater.catalog.wire.events import EventModel
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, Cell, print_rows
from headwater.storage.runtime import SYSTEM_RUNTIME

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["audit"]

_COLUMNS = (
    "offset", "time", "principal", "address", "warehouse", "type", "object", "outcome", "details",
)  # fmt: skip
_POLL_SECONDS = 1.0


@on_lake
def audit(
    lake: Lake,
    after: Annotated[
        int,
        typer.Option(
            metavar="OFFSET",
            min=0,
            help="Begin after this offset; 0 is the oldest event that is kept.",
        ),
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is done from now on.")
    ] = False,
    database: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only events about this database and what is in it."),
    ] = None,
    table: Annotated[
        Identifier | None,
        typer.Option(
            parser=Identifier.parse,
            metavar="DATABASE.TABLE",
            help="Only events about what had this name.",
        ),
    ] = None,
    object_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Only events about the thing of this id.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this principal did.")
    ] = None,
    all_warehouses: Annotated[
        bool,
        typer.Option(
            "--all-warehouses", help="Of all warehouses, with what was done to tokens and groups."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the change feed: who did what to which object, from where, with which outcome.

    It needs a token that administers the warehouse, or, for all warehouses, one that manages.
    """
    if table is not None:
        if database is not None:
            raise typer.BadParameter("--table names the database already", param_hint="--database")
        database = table.database
    only = EventFilter(database, None if table is None else table.table, object_id, principal)
    pages = _pages(lake, after, only, all_warehouses=all_warehouses, follow=follow)
    if as_json:
        for page in pages:
            for event in page:
                print(json.dumps(_raw(event), ensure_ascii=False))
            # Whoever follows by a pipe wants it now.
            sys.stdout.flush()
    elif follow:
        for page in pages:
            for event in page:
                print("\t".join("-" if cell is None else str(cell) for cell in _cells(event)))
            sys.stdout.flush()
    else:
        rows = (_cells(event) for page in pages for event in page)
        print_rows(_COLUMNS, rows, as_json=False)


def _pages(
    lake: Lake, after: int, only: EventFilter, *, all_warehouses: bool, follow: bool
) -> Iterator[Iterable[Event]]:
    while True:
        page = lake.events(after=after, limit=MOST_EVENTS, only=only, all_warehouses=all_warehouses)
        yield page.events
        after = page.next_after
        if page.is_end:
            if not follow:
                return
            SYSTEM_RUNTIME.sleep(_POLL_SECONDS)


def _raw(event: Event) -> dict[str, object]:
    return EventModel.of(event).model_dump(by_alias=True)


def _cells(event: Event) -> tuple[Cell, ...]:
    details = json.dumps(_raw(event)["details"], ensure_ascii=False) if event.details else None
    return (
        event.offset,
        time_text(event.at),
        event.principal,
        event.address,
        event.warehouse or None,
        event.type.value,
        f"{event.subject.kind.value} {event.subject}",
        event.outcome.value,
        details,
    )
