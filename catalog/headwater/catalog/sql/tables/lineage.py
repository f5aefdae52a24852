"""The history that storage has, held against the one that the database knows.

Numbers alone say nothing: a table that was rolled back, and committed to, has other snapshots under
the numbers of those that went. Their data files are still there, so that they look whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.queries.lookup import TableRecord, find_snapshot_document
from headwater.catalog.table.display import time_text
from headwater.storage.errors import NotFound
from headwater.storage.maintenance.reachable import delta_entries
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["builds_on", "fork_sentence", "named_snapshot", "two_histories"]


def two_histories(context: CatalogContext, record: TableRecord, there: Sequence[int]) -> str | None:
    """The sentence about a branch whose files are of another history than the database's.

    Args:
        context: The database and storage.
        record: The branch.
        there: The snapshots that storage has, ascending; those beyond the latest are not compared.

    Returns:
        The sentence; None if the snapshots that both have are the same.
    """
    last: tuple[Snapshot, Snapshot] | None = None
    first = 0
    for number in reversed([each for each in there if each <= record.snapshot_id]):
        known, found = _known(context, record, number), _found(context, record, number)
        if known is None or found is None:
            continue
        if json.loads(known.to_json()) == json.loads(found.to_json()):
            break
        first, last = number, last or (known, found)
    return None if last is None else fork_sentence(*last, first)


def fork_sentence(ours: Snapshot, theirs: Snapshot, first: int) -> str:
    """The sentence about two histories.

    Args:
        ours: A snapshot of the catalog's.
        theirs: The one that storage has in its place.
        first: The number of the first one that differs.
    """
    return (
        f"there are two histories: the catalog has {named_snapshot(ours)}, and storage has "
        f"{named_snapshot(theirs)}; neither is chosen. To keep the catalog's, move the files of "
        f"snapshot {first} and later ones away; to keep the other, register its files as a table "
        "of its own"
    )


def builds_on(storage: TableStorage, later: Snapshot, known: Snapshot) -> bool:
    """True if a snapshot's base is what another one holds; False also where that is not known.

    Raises:
        CorruptData: A manifest is malformed, or one of those that `known` names is missing.
    """
    base = delta_entries(storage, later.base_manifest_list)
    if base is None:
        return False
    left = set()
    for entry in base:
        if entry.kind is FileKind.ADD:
            left.add(entry.identity)
        else:
            left.discard(entry.identity)
    return left == {entry.identity for entry in live_entries(storage, known, anew=True)}


def named_snapshot(snapshot: Snapshot) -> str:
    """A snapshot, as messages name it."""
    moment = time_text(snapshot.time_millis)
    return f"snapshot {snapshot.id} (uuid {snapshot.uuid}, of {moment}, by {snapshot.commit_user})"


def _known(context: CatalogContext, record: TableRecord, number: int) -> Snapshot | None:
    with context.database.read() as connection:
        document = find_snapshot_document(connection, record.id, record.branch, number)
    if document is None:
        return None
    return Snapshot.from_json(document, f"snapshot {number} of {record.identifier}")


def _found(context: CatalogContext, record: TableRecord, number: int) -> Snapshot | None:
    path = record.layout.snapshot(number)
    try:
        return Snapshot.from_json(context.files.read(path), path)
    except NotFound:
        return None  # it expires meanwhile
