"""A table's history: snapshots, tags, branches, consumers."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.consumers import ConsumerInfo
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.tags import TagInfo
from headwater.catalog.table.consumer import Consumer
from headwater.catalog.table.handle import TableHandle
from headwater.catalog.table.presence import follow_up
from headwater.catalog.table.snapshots import Snapshots
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.jobs.deletion import delete_tag
from headwater.storage.jobs.tags import tell_of_tag
from headwater.storage.snapshot.files import snapshot_file_ids
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import expired_tags

__all__ = ["TableHistory", "millis_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WATERMARK = "watermark-"
# Java's smallest long, which is not a watermark.
_NO_WATERMARK = -(2**63)


@checks_arguments
class TableHistory(TableHandle):
    """A table's history; `headwater.catalog.table.table.Table` adds reading and writing."""

    # Snapshots and tags -----------------------------------------------------------------------

    def latest_snapshot(self) -> Snapshot | None:
        """The latest snapshot; None for a table without snapshots."""
        return self.pointer.latest()

    def snapshots(self) -> Snapshots:
        """The snapshots that still exist, newest first."""
        if self._info.is_external:
            self.require_present()
            ids = snapshot_file_ids(self._files, self._storage.layout)
            return Snapshots(self._storage.snapshot(number) for number in reversed(ids))
        return Snapshots(
            all_pages(lambda token: self._catalog.snapshots.list(self.identifier, page_token=token))
        )

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot; NotFound (SNAPSHOT)."""
        if self._info.is_external:
            self.require_present()
            return self._storage.snapshot(snapshot_id)
        return self._catalog.snapshots.get(self.identifier, str(snapshot_id))

    def snapshot_at(self, timestamp: int | datetime | str) -> Snapshot:
        """The latest snapshot that was committed at or before a timestamp.

        Args:
            timestamp: Milliseconds since the epoch, a ``datetime`` with a time zone, or ISO 8601
                text with one.

        Raises:
            NotFound: The table had no snapshot then, or it has expired.
            Invalid: The time zone is missing, or the text is not a time.
        """
        moment = millis_of(timestamp)
        latest = self.pointer.latest()
        missing = NotFound(
            f"table {self.name} has no snapshot from before {timestamp}: there was none, or it "
            "has expired",
            resource_type=ResourceType.SNAPSHOT,
            resource_name=str(timestamp),
        )
        if latest is None:
            raise missing
        if latest.time_millis <= moment:
            return latest
        ids = snapshot_file_ids(self._files, self._storage.layout)
        if not ids:
            raise missing
        last = self.snapshot(ids[0])
        if last.time_millis > moment:
            raise missing
        # Times follow ids, and ids have no gaps.
        high = latest.id
        while high - last.id > 1:
            middle = self.snapshot((last.id + high) // 2)
            if middle.time_millis <= moment:
                last = middle
            else:
                high = middle.id
        return last

    def snapshot_at_watermark(self, watermark: int) -> Snapshot:
        """The first snapshot whose event-time watermark has come to a time.

        Args:
            watermark: Milliseconds since the epoch.

        Raises:
            NotFound: No snapshot has come to it.
        """
        latest = self.pointer.latest()
        ids = snapshot_file_ids(self._files, self._storage.layout)
        ids = [number for number in ids if latest is not None and number <= latest.id]

        def reached(number: int) -> int:
            # Some writers leave it out; it never goes back.
            for before in reversed([one for one in ids if one <= number]):
                watermark_at = self.snapshot(before).watermark
                if watermark_at is not None:
                    return watermark_at
            return _NO_WATERMARK

        at = bisect_left(ids, watermark, key=reached)
        if at == len(ids):
            raise NotFound(
                f"table {self.name} has no snapshot with a watermark of {watermark} or later",
                resource_type=ResourceType.SNAPSHOT,
                resource_name=str(watermark),
            )
        return self.snapshot(ids[at])

    def snapshot_version(self, version: str) -> Snapshot:
        """The snapshot that a version names: a tag, ``watermark-<millis>`` or a snapshot's id.

        A tag of that name goes before the others (``TimeTravelUtil.java``).

        Raises:
            NotFound: Nothing has that name.
        """
        try:
            return self.tag(version).snapshot
        except NotFound as error:
            if error.resource_type is not ResourceType.TAG:
                raise
        mark = version.removeprefix(_WATERMARK)
        if version.startswith(_WATERMARK) and mark.removeprefix("-").isdecimal():
            return self.snapshot_at_watermark(int(mark))
        if version.isdecimal():
            return self.snapshot(int(version))
        raise NotFound(
            f"table {self.name}: '{version}' is neither a tag nor a snapshot's id, nor "
            f"{_WATERMARK}<milliseconds>",
            resource_type=ResourceType.TAG,
            resource_name=version,
        )

    def rollback(self, *, snapshot_id: int | None = None, tag: str | None = None) -> None:
        """Make an earlier snapshot the latest; later snapshots and their tags go away.

        Raises:
            NotFound: There is no such snapshot or tag.
            Invalid: Neither or both are given.
        """
        if (snapshot_id is None) == (tag is None):
            raise Invalid("give one of snapshot_id and tag")
        if snapshot_id is not None:
            self._catalog.snapshots.rollback_to_snapshot(self.identifier, snapshot_id)
        elif tag is not None:
            self._catalog.snapshots.rollback_to_tag(self.identifier, tag)

    def rollback_schema(self, schema_id: int) -> Self:
        """Make an earlier schema the latest; the handle itself, refreshed.

        Raises:
            Invalid: There is no such schema.
            Conflict: A snapshot, tag or changelog still refers to a later one.
        """
        self._catalog.snapshots.rollback_schema(self.identifier, schema_id)
        return self._refreshed()

    def tags(self) -> list[TagInfo]:
        """The tags, by name."""
        names = all_pages(lambda token: self._catalog.tags.list(self.identifier, page_token=token))
        tags: list[TagInfo] = []
        for name in names:
            # One deleted since the listing is no longer a tag.
            with suppress(NotFound):
                tags.append(self.tag(name))
        return tags

    def tag(self, name: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        return self._catalog.tags.get(self.identifier, name)

    def create_tag(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        retained: timedelta | None = None,
    ) -> None:
        """Name a snapshot, so that expiry keeps what it needs to be read.

        Args:
            name: The tag.
            snapshot_id: The snapshot; None names the latest.
            retained: How long the tag is kept; None takes the table's
                ``tag.default-time-retained``, without which it is kept for ever.

        Raises:
            AlreadyExists: There is a tag of that name.
            NotFound: There is no such snapshot.
        """
        millis = None if retained is None else retained // timedelta(milliseconds=1)
        self._catalog.tags.create(self.identifier, name, snapshot_id, retained_millis=millis)
        with follow_up(self._storage):
            tell_of_tag(self._storage, name)

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that it alone kept.

        Raises:
            NotFound: There is no such tag.
            Conflict: Others kept changing the table's tags, branches or consumers.
        """
        self.tag(name)
        if not delete_tag(self._storage, self.pointer, self.references, name):
            self.tag(name)  # another deleted it meanwhile, which this reports

    def expire_tags(
        self, *, older_than: datetime | None = None, dry_run: bool = False
    ) -> list[str]:
        """Delete the tags whose time is over, and the files that they alone kept.

        Args:
            older_than: Tags made before this timestamp go, too, whatever their retention.
            dry_run: Only say which would go.

        Returns:
            The names of the tags that went (``TagTimeExpire.java``).

        Raises:
            Invalid: The timestamp has no time zone.
        """
        before = None if older_than is None else millis_of(older_than)
        self.require_present()
        gone: list[str] = []
        for name in expired_tags(self._storage, before):
            if not dry_run:
                try:
                    self.delete_tag(name)
                except NotFound:
                    continue  # somebody else deleted it
            gone.append(name)
        return gone

    # Branches ---------------------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of the branches, without ``main``."""
        return list(self._catalog.branches.list(self.identifier))

    def branch(self, name: str) -> Self:
        """A handle of a branch, for reading and writing it as a table of its own.

        Raises:
            NotFound: There is no such branch.
        """
        info = self._catalog.tables.get(branch_of(self.identifier, name))
        return type(self)(self._catalog, info, self._runtime, options=self._overlay)

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot_id: int | None = None
    ) -> Self:
        """Begin a branch, and a handle of it.

        Args:
            name: The branch.
            tag: Begin with what this tag names; it keeps the files for every engine.
            snapshot_id: Begin with this snapshot. With neither, the branch begins empty.

        Raises:
            AlreadyExists: There is a branch of that name.
            NotFound: There is no such tag or snapshot, or the table was dropped before the branch
                or, as the message then says, right after it.
            Invalid: It cannot be the name of a branch, or both are given.
        """
        self._catalog.branches.create(
            self.identifier, name, from_tag=tag, from_snapshot=snapshot_id
        )
        try:
            return self.branch(name)
        except NotFound as error:
            raise NotFound(
                f"branch '{name}' of table {self.name} was created, and is gone: the branch or the "
                "table was dropped or renamed since",
                resource_type=error.resource_type,
                resource_name=error.resource_name,
            ) from error

    def rename_branch(self, name: str, new_name: str) -> None:
        """Give a branch another name; AlreadyExists, NotFound, Invalid."""
        self._catalog.branches.rename(self.identifier, name, new_name)

    def fast_forward(self, name: str) -> Self:
        """Make the table hold what a branch holds; the handle itself, refreshed.

        What both have in common stays; the snapshots and tags after it go away. A branch without
        a snapshot changes nothing.

        Raises:
            NotFound: There is no such branch.
        """
        self._catalog.branches.fast_forward(self.identifier, name)
        return self._refreshed()

    def drop_branch(self, name: str) -> None:
        """Drop a branch; NotFound, or Invalid when the table's options refer to it."""
        self._catalog.branches.drop(self.identifier, name)

    # Consumers --------------------------------------------------------------------------------

    def consumer(self, consumer_id: str) -> Consumer:
        """A consumer, with a saved position or without."""
        return Consumer(
            self.catalog, self.identifier, self.pointer, consumer_id, self.storage.runtime
        )

    def consumers(self) -> list[ConsumerInfo]:
        """The saved positions, by consumer id."""
        return all_pages(
            lambda token: self._catalog.consumers.list(self.identifier, page_token=token)
        )


def millis_of(timestamp: int | datetime | str) -> int:
    """A timestamp as milliseconds since the epoch; raises Invalid for one without a time zone."""
    if isinstance(timestamp, int):
        return timestamp
    moment = timestamp
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise Invalid(f"'{timestamp}' is not a time such as 2026-01-31T12:00:00Z") from None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise Invalid(f"{timestamp} has no time zone; write 2026-01-31T12:00:00Z for UTC")
    return (moment - _EPOCH) // timedelta(milliseconds=1)
