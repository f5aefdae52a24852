"""Deleting the files that a purged table has outside its directory.

They go only if the place is the table's alone for certain: it was empty when it was claimed, nobody
else claims any of it, and this catalog may work there. Else they stay, and the log says so. The
claim is given back in the same transaction, so that the place can be used again at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from sqlalchemy import delete, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import PlaceRow
from headwater.catalog.sql.outbox.held_files import held_files
from headwater.catalog.sql.queries.claimed_places import Claim, Kind, find_overlap, place_hash
from headwater.storage.files.access import FileAccess
from headwater.storage.files.location import Place

__all__ = ["delete_data_files"]

_LOG = logging.getLogger(__name__)

_FILES_AT_ONCE = 1000


def delete_data_files(
    connection: Connection,
    context: CatalogContext,
    table_id: str,
    place: Place,
    delete_all: Callable[[FileAccess, Sequence[str]], None],
) -> None:
    """Delete what a purged table has at a place, if it is its own, and give the place back.

    Args:
        connection: The transaction.
        context: The warehouse, its database and its storage.
        table_id: The table, which the database knows no more.
        place: The place.
        delete_all: Deletes files by their paths.
    """
    row = PlaceRow
    mine = (row.place_hash == place_hash(place), row.owner == table_id)
    # Where two servers delete the same, the later one waits here, and finds nothing to do. It must
    # not go on when the place is somebody else's.
    found = connection.execute(
        select(row.kind, row.warehouse).where(*mine).with_for_update()
    ).one_or_none()
    if found is None:
        return
    claim = Claim(place, Kind(found.kind), found.warehouse, table_id)
    reason = _reason_to_keep(connection, context, claim)
    if reason is None:
        files = context.files_at(place.uri)
        held = held_files(connection, files)
        for paths in _batches(held, place.uri):
            # These paths alone: the locks may be lost meanwhile, and the place another table's.
            delete_all(files, paths)
        held.delete_tree(place.uri)
    else:
        _LOG.warning(
            "table %s is deleted, but its files at %s are left there: %s",
            table_id,
            place.uri,
            reason,
        )
    connection.execute(delete(row).where(*mine))


def _reason_to_keep(connection: Connection, context: CatalogContext, claim: Claim) -> str | None:
    place = claim.place
    if claim.kind is not Kind.DATA:
        return (
            "when the table named this place, other files were there, another table's might have "
            "been, or the server could not look; delete them by hand if they are the table's alone"
        )
    if not context.is_allowed(place) and not context.place.holds(place):
        return (
            "the place is not below one of the setting external_locations any more; delete them "
            "by hand"
        )
    if Place.of(place.uri) != place:
        return "a symbolic link leads elsewhere from there by now; delete them by hand"
    other = find_overlap(connection, claim)
    if other is not None:
        return f"'{other.owner}' claims {other.place.uri}, too"
    return None


def _batches(files: FileAccess, location: str) -> Iterator[Sequence[str]]:
    paths = (status.path for status in files.walk(location, unfinished=True))
    while batch := list(islice(paths, _FILES_AT_ONCE)):
        yield batch
