"""Reading snapshots: the database knows them, storage says which of them still exist.

Other engines expire snapshots by deleting their files, so a snapshot is shown only while its
file is there; and only once it is there, so decisions that storage has yet to follow are settled
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import bindparam, func, select

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.snapshots import SnapshotInfo
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import SnapshotRow
from headwater.catalog.sql.database.prepared import Prepared
from headwater.catalog.sql.history.branch_history import forgotten_up_to
from headwater.catalog.sql.outbox.mirror_files import PlaceTaken, numbered_files
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.lookup import TableRecord, find_snapshot_document, read_table
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.commit.own_history import BATCH_IDENTIFIER
from headwater.storage.errors import Conflict, CorruptData, Invalid, NotFound, ResourceType
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import list_tag_files, read_tag_file
from headwater.storage.table_storage import RememberedCommits

__all__ = [
    "SnapshotReads",
    "readable_table",
    "settled_table",
    "snapshot_not_found",
]

_EARLIEST = "EARLIEST"
_LATEST = "LATEST"
_KEYS_IN_ONE_QUERY = 500
_LATEST_ATTEMPTS = 10
_SETTLE_ATTEMPTS = 3


def settled_table(context: CatalogContext, outbox: Outbox, identifier: Identifier) -> TableRecord:
    """A managed table as it is, or was just before, with files that agree.

    Raises:
        NotFound: There is no such table.
        Unsupported: It is external.
        Conflict: Something else wrote to its directory, and is in the way of a decision.
    """
    try:
        return _settled(context, outbox, identifier)
    except PlaceTaken as error:
        raise Conflict(f"table {identifier}: {error.message}") from error


def readable_table(context: CatalogContext, outbox: Outbox, identifier: Identifier) -> TableRecord:
    """As `settled_table`, to be read alone.

    While something else is in the way of a snapshot's file, it is the table as the snapshot before
    left it: that is what other engines find on storage, too.
    """
    for _ in range(_SETTLE_ATTEMPTS):
        try:
            return _settled(context, outbox, identifier)
        except PlaceTaken as error:
            record = read_table(context, identifier)
            stuck = outbox.stuck_snapshot(record.id, record.branch)
            if stuck is not None:
                # Nothing is decided about a branch on top of a decision that is stuck.
                return replace(record, snapshot_id=stuck - 1, is_pending=False)
            problem = error
    raise problem


def _settled(context: CatalogContext, outbox: Outbox, identifier: Identifier) -> TableRecord:
    for _ in range(_SETTLE_ATTEMPTS):
        record = read_table(context, identifier)
        record.require_snapshots()
        if not record.is_pending:
            return record
        outbox.settle(record.id, record.branch)
    # Others keep committing. What was read last is settled by now, and was the truth then.
    return replace(record, is_pending=False)


def snapshot_not_found(identifier: Identifier, version: str) -> NotFound:
    """The error about a snapshot that does not exist."""
    return NotFound(
        f"table {identifier} has no snapshot {version}: it expired or was never made",
        resource_type=ResourceType.SNAPSHOT,
        resource_name=version,
    )


# The digits of a long.
_MAX_NUMBER_DIGITS = 19

# Each write asks several times.
_FINDING = Prepared(
    select(
        SnapshotRow.document,
        SnapshotRow.record_count,
        SnapshotRow.file_size_in_bytes,
        SnapshotRow.file_count,
        SnapshotRow.last_file_creation_time,
    ).where(
        SnapshotRow.table_id == bindparam("table_id"),
        SnapshotRow.branch == bindparam("branch"),
        SnapshotRow.snapshot_id == bindparam("snapshot_id"),
    )
)


class SnapshotReads:
    """Reads the snapshots of one warehouse's tables.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Settles open decisions before anything is shown.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox
        self._files = context.files

    def latest(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot, whose file is on storage."""
        for _ in range(_LATEST_ATTEMPTS):
            record = readable_table(self._context, self._outbox, identifier)
            if record.snapshot_id == 0:
                return None
            info = self._info(record)
            if info is not None:
                return info
            # Rolled back between the two look-ups: look again.
        raise CorruptData(
            f"table {identifier}: the catalog's database has no snapshot {record.snapshot_id}, "
            "though it is the latest"
        )

    def _info(self, record: TableRecord) -> SnapshotInfo | None:
        with self._context.database.read() as connection:
            row = _FINDING.run(
                connection,
                table_id=record.id,
                branch=record.branch,
                snapshot_id=record.snapshot_id,
            ).one_or_none()
        if row is None:
            return None
        where = f"snapshot {record.snapshot_id} of {record.identifier}"
        return SnapshotInfo(
            Snapshot.from_json(row.document, where),
            row.record_count,
            row.file_size_in_bytes,
            row.file_count,
            row.last_file_creation_time,
        )

    def get(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id, ``EARLIEST``, ``LATEST`` or tag name; NotFound (SNAPSHOT)."""
        record = readable_table(self._context, self._outbox, identifier)
        if version.isascii() and version.isdigit():
            snapshot = self.by_id(record, _number(version, "snapshot id"))
        elif version == _LATEST:
            snapshot = self.by_id(record, record.snapshot_id)
        elif version == _EARLIEST:
            ids = self.existing(record)
            snapshot = self.by_id(record, ids[0]) if ids else None
        else:
            tag = None
            if version and "/" not in version:
                tag = read_tag_file(self._files, record.layout, version)
            snapshot = None if tag is None else tag.snapshot
        if snapshot is None:
            raise snapshot_not_found(identifier, version)
        return snapshot

    def by_id(self, record: TableRecord, snapshot_id: int) -> Snapshot | None:
        """A snapshot that exists: it is in the history and its file is on storage."""
        if not 0 < snapshot_id <= record.snapshot_id:
            return None
        if not self._files.exists(record.layout.snapshot(snapshot_id)):
            return None
        return self._documents(record, [snapshot_id]).get(snapshot_id)

    def was_taken(self, identifier: Identifier, snapshot: Snapshot) -> bool | None:
        """Whether a snapshot is in the history, expired or not; see `Snapshots.was_taken`."""
        record = settled_table(self._context, self._outbox, identifier)
        with self._context.database.read() as connection:
            document = find_snapshot_document(connection, record.id, record.branch, snapshot.id)
        if document is not None:
            where = f"snapshot {snapshot.id} of {identifier}"
            return snapshot.is_same_commit(Snapshot.from_json(document, where))
        if record.snapshot_id < snapshot.id:
            return None
        raise snapshot_not_found(identifier, str(snapshot.id))

    def commits_of(self, identifier: Identifier, commit_user: str) -> RememberedCommits:
        """A user's commits in the table's history, expired or not."""
        record = readable_table(self._context, self._outbox, identifier)
        here = (SnapshotRow.table_id == record.id, SnapshotRow.branch == record.branch)
        key = (SnapshotRow.table_id, SnapshotRow.branch, SnapshotRow.snapshot_id)
        own = along(select(SnapshotRow.commit_identifier, SnapshotRow.snapshot_id), *key)
        own = own.where(*here, SnapshotRow.commit_user == commit_user)
        own = own.order_by(SnapshotRow.snapshot_id.desc()).limit(1)
        is_numbered = SnapshotRow.commit_identifier != BATCH_IDENTIFIER
        extent = select(
            func.min(SnapshotRow.snapshot_id),
            func.max(SnapshotRow.snapshot_id),
            func.count(SnapshotRow.snapshot_id),
        ).where(*here)
        is_unnumbered = False
        with self._context.database.read() as connection:
            last = connection.execute(own.where(is_numbered)).one_or_none()
            if last is None:
                is_unnumbered = connection.execute(own.where(~is_numbered)).first() is not None
            else:
                extent = extent.where(SnapshotRow.snapshot_id >= last.snapshot_id)
            forgotten = forgotten_up_to(connection, record.id, record.branch)
            extent = extent.where(SnapshotRow.snapshot_id > forgotten)
            first, latest, count = connection.execute(extent).one()
        # When a later snapshot was taken over alone, those before it are missing. A user's last
        # commit is known, however long ago it was forgotten what came between.
        is_dense = count > 0 and latest - first + 1 == count
        return RememberedCommits(
            None if last is None else last.commit_identifier,
            is_unnumbered,
            first if is_dense else None,
        )

    def kept(self, record: TableRecord, snapshot_id: int) -> Snapshot | None:
        """A snapshot that exists, or an expired one that a tag keeps."""
        snapshot = self.by_id(record, snapshot_id)
        if snapshot is not None or not 0 < snapshot_id <= record.snapshot_id:
            return snapshot
        # AbstractFileStoreTable.java
        tags = list_tag_files(self._files, record.layout)
        return next((tag.snapshot for tag in tags if tag.snapshot.id == snapshot_id), None)

    def list(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Snapshot]:
        """The snapshots that exist, newest first; the token is the page's last id."""
        check_page(max_results)
        record = readable_table(self._context, self._outbox, identifier)
        ids = self.existing(record)[::-1]
        if page_token:
            before = _number(page_token, "page token of a list of snapshots")
            ids = [i for i in ids if i < before]
        page = ids if max_results is None else ids[:max_results]
        documents = self._documents(record, page)
        items = tuple(documents[i] for i in page if i in documents)
        return Page(items, str(page[-1]) if len(page) < len(ids) else None)

    def existing(self, record: TableRecord) -> Sequence[int]:
        """The ids of the snapshots that exist, ascending; CorruptData if the latest does not."""
        for _ in range(_LATEST_ATTEMPTS):
            statuses = self._files.list(record.layout.snapshot_directory)
            ids = [i for i in numbered_files(statuses, "snapshot-") if 0 < i <= record.snapshot_id]
            if record.snapshot_id == 0 or (ids and ids[-1] == record.snapshot_id):
                return ids
            now = readable_table(self._context, self._outbox, record.identifier)
            if now == record:
                break
            # Rolled back, forwarded or dropped between the two look-ups: look again.
            record = now
        raise CorruptData(
            f"table {record.identifier}: {record.layout.snapshot(record.snapshot_id)}, its "
            "latest snapshot, is missing on storage; restore the file"
        )

    def _documents(self, record: TableRecord, ids: Sequence[int]) -> Mapping[int, Snapshot]:
        """The snapshots with those ids; what the database does not know comes from its file."""
        documents: dict[int, Snapshot] = {}
        with self._context.database.read() as connection:
            for start in range(0, len(ids), _KEYS_IN_ONE_QUERY):
                rows = connection.execute(
                    select(SnapshotRow.snapshot_id, SnapshotRow.document).where(
                        SnapshotRow.table_id == record.id,
                        SnapshotRow.branch == record.branch,
                        SnapshotRow.snapshot_id.in_(ids[start : start + _KEYS_IN_ONE_QUERY]),
                    )
                )
                for snapshot_id, document in rows:
                    where = f"snapshot {snapshot_id} of {record.identifier}"
                    documents[snapshot_id] = Snapshot.from_json(document, where)
        for snapshot_id in ids:
            if snapshot_id not in documents:
                path = record.layout.snapshot(snapshot_id)
                try:
                    documents[snapshot_id] = Snapshot.from_json(self._files.read(path), path)
                except NotFound:
                    continue  # expired since we looked
        return documents


def _number(text: str, noun: str) -> int:
    # By its length first: Python reads no number of thousands of digits.
    if len(text) > _MAX_NUMBER_DIGITS or not (text.isascii() and text.isdigit()):
        shown = text if len(text) <= _MAX_NUMBER_DIGITS else f"{text[:_MAX_NUMBER_DIGITS]}…"
        raise Invalid(f"'{shown}' is not a {noun}")
    return int(text)
