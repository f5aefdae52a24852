"""The rows of snapshots that expired long ago: deleted, so that a database does not grow for ever.

Engines expire a snapshot by deleting its file, and tell nobody. Its row is still of use for a
while: a commit that is sent once more is known by it, and so is the last commit of a job that was
stopped. It is deleted when no file of it was found and it had been in the history for the whole
retention. For that the latest snapshot of a branch is noted, and looked at again when the retention
has passed: what came before it is older still, whatever the clocks of those who committed it say.

These rows stay, however old:

- the last commit in a page of each user who numbers commits, for
  `headwater.catalog.sql.history.snapshot_reads.SnapshotReads.commits_of`;
- what a tag names, which may be rolled back to or begin a branch;
- what another branch has too, by which the two are compared.

So the rows up to `BranchRow.forgotten_snapshot_id` have gaps: nobody may add up what they changed.
A history that was taken over from storage, or from another branch that had expired in part, has
such gaps, too.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Row, delete, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, DatabaseRow, SnapshotRow, TableRow
from headwater.catalog.sql.history.branch_history import common_snapshots
from headwater.catalog.sql.outbox.mirror_files import numbered_files
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.lookup import find_snapshot_document, lock_branch
from headwater.storage.commit.own_history import BATCH_IDENTIFIER
from headwater.storage.errors import HeadwaterError
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.changelog import changelog_file_ids
from headwater.storage.snapshot.tag import list_tag_files

__all__ = ["ExpiredHistory"]

_LOG = logging.getLogger(__name__)

# Rows of a transaction, which holds the branch's lock.
_PAGE = 500
# Pages of one call, so that others of a sweep have their turn.
_PAGES_AT_ONCE = 100
_BRANCHES_AT_ONCE = 100


@dataclass(frozen=True)
class _Aging:
    """A branch whose noted snapshot is old enough."""

    table_id: str
    layout: TableLayout
    snapshot_id: int
    digest: str


class ExpiredHistory:
    """Deletes the rows of snapshots of one warehouse that expired long ago.

    Any number of processes may do so at the same time.

    Args:
        context: The warehouse, its database and its storage.
        retention_millis: The time for which the row of a snapshot is kept at the least, in
            milliseconds; None is for ever.
    """

    def __init__(self, context: CatalogContext, retention_millis: int | None) -> None:
        self._context = context
        self._sql = context.database
        self._retention_millis = retention_millis

    def forget(self) -> int:
        """Delete rows that are due, in small transactions, and no more than a sweep has time for.

        A branch that cannot be looked at now is left for the next time.

        Returns:
            The number of rows.

        Raises:
            Unavailable: The database did not answer.
        """
        if self._retention_millis is None:
            return 0
        until = self._sql.certain_now_millis() - self._retention_millis
        forgotten = 0
        pages = _PAGES_AT_ONCE
        for row in self._due(until):
            layout = TableLayout(row.path, row.branch)
            try:
                if row.aging_since:
                    aging = _Aging(row.table_id, layout, row.aging_snapshot_id, row.aging_digest)
                    rows, pages = self._forget(aging, pages)
                    forgotten += rows
                if not pages:
                    break
                self._note(row.table_id, row.branch)
            except HeadwaterError as error:
                _LOG.warning(
                    "%s: rows of expired snapshots stay: %s", layout.branch_location, error
                )
        return forgotten

    def _due(self, until: int) -> Sequence[Row[str, str, str, int, str, int]]:
        """The branches with snapshots whose note is old, or that have none yet."""
        with self._sql.read() as connection:
            return connection.execute(
                select(
                    BranchRow.table_id,
                    BranchRow.branch,
                    TableRow.path,
                    BranchRow.aging_snapshot_id,
                    BranchRow.aging_digest,
                    BranchRow.aging_since,
                )
                .join(TableRow, TableRow.id == BranchRow.table_id)
                .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
                .where(
                    DatabaseRow.warehouse == self._context.warehouse,
                    BranchRow.snapshot_id > 0,
                    BranchRow.aging_since <= until,
                )
                .order_by(BranchRow.aging_since, BranchRow.table_id, BranchRow.branch)
                .limit(_BRANCHES_AT_ONCE)
            ).all()

    def _note(self, table_id: str, branch: str) -> None:
        """Note a branch's latest snapshot, to be looked at when the retention has passed."""
        here = (BranchRow.table_id == table_id, BranchRow.branch == branch)

        def work(connection: Connection) -> None:
            lock_branch(connection, table_id, branch)
            latest = connection.execute(
                select(BranchRow.snapshot_id).where(*here)
            ).scalar_one_or_none()
            digest = None if latest is None else _digest(connection, table_id, branch, latest)
            if digest is None:
                return  # dropped, or begun anew
            now = self._sql.safe_now_millis(connection)
            connection.execute(
                update(BranchRow)
                .where(*here)
                .values(aging_snapshot_id=latest, aging_digest=digest, aging_since=now)
            )

        self._sql.write(work)

    def _forget(self, aging: _Aging, pages: int) -> tuple[int, int]:
        """Delete a branch's old rows; how many, and the pages that are left for other branches."""
        files, layout = self._context.files, aging.layout
        ids = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
        if not ids:
            return 0, pages  # a restore may be under way
        # A changelog may outlive its snapshot, and consumers read it.
        earliest = min([ids[0], *changelog_file_ids(files, layout)])
        last = min(aging.snapshot_id, earliest - 1)
        kept = {tag.snapshot.id for tag in list_tag_files(files, layout)}
        kept |= self._shared(aging, last)
        forgotten = 0
        after: int | None = 0
        while after is not None and pages:
            work = partial(_forget_page, aging=aging, after=after, last=last, kept=kept)
            deleted, after = self._sql.write(work)
            forgotten += deleted
            pages -= 1
        return forgotten, pages

    def _shared(self, aging: _Aging, last: int) -> set[int]:
        """The snapshots up to one that another branch of the table has, too."""
        branch = aging.layout.branch
        shared: set[int] = set()
        with self._sql.read() as connection:
            others = connection.execute(
                select(BranchRow.branch).where(
                    BranchRow.table_id == aging.table_id, BranchRow.branch != branch
                )
            ).scalars()
            # One at a time: their rows are found by the whole key.
            for other in others.all():
                shared.update(common_snapshots(connection, aging.table_id, branch, other, last))
        return shared


def _forget_page(
    connection: Connection, aging: _Aging, after: int, last: int, kept: Collection[int]
) -> tuple[int, int | None]:
    """Delete what may go of the next rows; how many went, and the last id that was looked at.

    The id is None when there are no more.
    """
    table_id, branch = aging.table_id, aging.layout.branch
    lock_branch(connection, table_id, branch)
    latest = connection.execute(
        select(BranchRow.snapshot_id).where(
            BranchRow.table_id == table_id, BranchRow.branch == branch
        )
    ).scalar_one_or_none()
    if latest is None or _digest(connection, table_id, branch, aging.snapshot_id) != aging.digest:
        return 0, None  # dropped or rolled back: there may be young rows under old numbers
    key = (SnapshotRow.table_id, SnapshotRow.branch, SnapshotRow.snapshot_id)
    columns = select(
        SnapshotRow.snapshot_id, SnapshotRow.commit_user, SnapshotRow.commit_identifier
    )
    rows = connection.execute(
        along(columns, *key)
        .where(
            SnapshotRow.table_id == table_id,
            SnapshotRow.branch == branch,
            SnapshotRow.snapshot_id > after,
            SnapshotRow.snapshot_id <= last,
        )
        .order_by(SnapshotRow.snapshot_id)
        .limit(_PAGE)
    ).all()
    if not rows:
        return 0, None
    last_of_user = {
        row.commit_user: row.snapshot_id
        for row in rows
        if row.commit_identifier != BATCH_IDENTIFIER
    }
    staying = {latest, *kept, *last_of_user.values()}
    going = [row.snapshot_id for row in rows if row.snapshot_id not in staying]
    connection.execute(
        delete(SnapshotRow).where(
            SnapshotRow.table_id == table_id,
            SnapshotRow.branch == branch,
            SnapshotRow.snapshot_id.in_(going),
        )
    )
    seen: int = rows[-1].snapshot_id
    connection.execute(
        update(BranchRow)
        .where(
            BranchRow.table_id == table_id,
            BranchRow.branch == branch,
            BranchRow.forgotten_snapshot_id < seen,
        )
        .values(forgotten_snapshot_id=seen)
    )
    return len(going), seen if len(rows) == _PAGE else None


def _digest(connection: Connection, table_id: str, branch: str, snapshot_id: int) -> str | None:
    """A snapshot's digest, which others of its number do not have; None when there is none."""
    document = find_snapshot_document(connection, table_id, branch, snapshot_id)
    if document is None:
        return None
    return hashlib.blake2b(document.encode(), digest_size=16).hexdigest()
