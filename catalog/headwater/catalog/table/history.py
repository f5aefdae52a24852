"""A table's history: snapshots, tags, consumers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from headwater.catalog.model.access import ALL_OF_IT, TableAccess
from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.consumers import ConsumerInfo
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.model.tags import TagInfo
from headwater.catalog.table.consumer import Consumer
from headwater.catalog.table.display import Display
from headwater.catalog.table.pointer import CatalogPointer
from headwater.catalog.table.snapshots import Snapshots
from headwater.storage.capabilities import QUERY_AUTH
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.files.withheld import WithheldFiles
from headwater.storage.jobs.expire import delete_tag_data
from headwater.storage.jobs.tags import tell_of_tag
from headwater.storage.maintenance.partition_done import delete_success_file
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import SchemaChange, check_changes
from headwater.storage.schema.given import given_options
from headwater.storage.schema.option_changes import check_laid_over
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.files import FileSnapshotPointer, snapshot_file_ids
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import expired_tags
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = ["TableHistory", "millis_of"]

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WATERMARK = "watermark-"
# Java's smallest long, which is no watermark.
_NO_WATERMARK = -(2**63)


@checks_arguments
class TableHistory:
    """A table's present and past; `headwater.catalog.table.table.Table` adds reading and writing.

    Args:
        catalog: The catalog that keeps the table.
        info: The table as the catalog has it.
        runtime: Clock and names.
        options: Table options that this handle alone lays over the table's own.
    """

    def __init__(
        self,
        catalog: Catalog,
        info: TableInfo,
        runtime: Runtime = SYSTEM_RUNTIME,
        *,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._catalog = catalog
        self._info = info
        self._runtime = runtime
        self._overlay = dict(options or {})
        self._storage = self._make_storage()

    def _make_storage(self) -> TableStorage:
        check_laid_over(self._info.schema, self._overlay)
        self._access = self._asked()
        self._files: FileAccess
        if self._access.reader is not None:
            self._files = WithheldFiles(str(self._info.identifier))
        else:
            self._files = self._catalog.table_files(self._info)
        return TableStorage(
            str(self._info.identifier),
            TableLayout(self._info.path.rstrip("/"), self._info.identifier.branch),
            self._files,
            self._info.schema.with_options(self._overlay),
            self._runtime,
            sees_all=self._access.reader is None,
        )

    def _asked(self) -> TableAccess:
        """The part of the table that the catalog shows this program."""
        asks = self._info.schema.options.get(QUERY_AUTH, "").strip().lower() == "true"
        # A branch may be older than the option, and the policies are those of the table.
        if not asks and self._info.identifier.branch == MAIN_BRANCH:
            return ALL_OF_IT
        return self._catalog.policies.access(self._info.identifier)

    def refuse_restricted(self, what: str) -> None:
        """Refuse what would show more than the policies let this program see.

        Args:
            what: The thing refused, as a part of the message.

        Raises:
            Forbidden: Policies restrict what is seen of the table.
        """
        if isinstance(self._files, WithheldFiles):
            self._files.refuse(what)

    def __repr__(self) -> str:
        return str(self._display())

    def _repr_html_(self) -> str:
        """The form that notebooks show."""
        return self._display().html()

    def _display(self) -> Display:
        schema = self.schema
        properties = {
            "primary key": ", ".join(schema.primary_keys),
            "partitioned by": ", ".join(schema.partition_keys),
            "options": Display.options(schema.options),
            "comment": schema.comment or "",
        }
        columns = [(field.name, field.type, field.description or "") for field in schema.fields]
        return Display(f"Table {self.name}", properties, ("column", "type", "comment"), columns)

    # What it is -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """``database.table``."""
        return str(self._info.identifier)

    @property
    def identifier(self) -> Identifier:
        """The name's parts."""
        return self._info.identifier

    @property
    def info(self) -> TableInfo:
        """The table as the catalog has it."""
        return self._info

    @property
    def catalog(self) -> Catalog:
        """The catalog that keeps the table."""
        return self._catalog

    @property
    def schema(self) -> TableSchema:
        """Its columns, keys and options."""
        return self._storage.schema

    @property
    def storage(self) -> TableStorage:
        """The table as storage functions take it; pickles without a connection to the catalog."""
        return self._storage

    @property
    def pointer(self) -> SnapshotPointer:
        """The authority on the latest snapshot: the catalog, or an external table's own files."""
        if self._info.is_external:
            return FileSnapshotPointer(self._files, self._storage.layout)
        return CatalogPointer(self._catalog, self._info.identifier, self._info.id)

    def refresh(self) -> Self:
        """Take over what the catalog now says of the table; the handle itself.

        Raises:
            NotFound: The table was dropped.
        """
        self._info = self._catalog.tables.get(self._info.identifier)
        self._storage = self._make_storage()
        return self

    def with_options(self, options: Mapping[str, str]) -> Self:
        """Another handle with table options laid over; the table itself keeps its own.

        Raises:
            Invalid: An option is one that only the table can have, or no text.
        """
        return type(self)(
            self._catalog,
            self._info,
            self._runtime,
            options={**self._overlay, **given_options(options)},
        )

    def alter(self, *changes: SchemaChange) -> Self:
        """Apply changes to the schema, all or none; the handle itself, refreshed.

        Changes that leave the schema as it is make no new version of it.

        Raises:
            AlreadyExists, Invalid, NotFound: As `Tables.alter`.
        """
        check_changes(self.name, changes)
        self._catalog.tables.alter(self._info.identifier, changes)
        return self.refresh()

    # Snapshots and tags -----------------------------------------------------------------------

    def latest_snapshot(self) -> Snapshot | None:
        """The latest snapshot; None for a table without snapshots."""
        return self.pointer.latest()

    def snapshots(self) -> Snapshots:
        """The snapshots that still exist, newest first."""
        if self._info.is_external:
            ids = snapshot_file_ids(self._files, self._storage.layout)
            return Snapshots(self._storage.snapshot(number) for number in reversed(ids))
        return Snapshots(
            all_pages(lambda token: self._catalog.snapshots.list(self.identifier, page_token=token))
        )

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot; NotFound (SNAPSHOT)."""
        if self._info.is_external:
            return self._storage.snapshot(snapshot_id)
        return self._catalog.snapshots.get(self.identifier, str(snapshot_id))

    def snapshot_at(self, timestamp: int | datetime | str) -> Snapshot:
        """The latest snapshot that was committed at or before a moment.

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
        found = self.snapshot(ids[0])
        if found.time_millis > moment:
            raise missing
        # Times follow ids, and ids have no gaps.
        low, high = found.id, latest.id
        while high - low > 1:
            middle = self.snapshot((low + high) // 2)
            if middle.time_millis <= moment:
                low, found = middle.id, middle
            else:
                high = middle.id
        return found

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
                found = self.snapshot(before).watermark
                if found is not None:
                    return found
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
        return self.refresh()

    def tags(self) -> list[TagInfo]:
        """The tags, by name."""
        names = all_pages(lambda token: self._catalog.tags.list(self.identifier, page_token=token))
        found: list[TagInfo] = []
        for name in names:
            # One deleted since the listing is no longer a tag.
            with suppress(NotFound):
                found.append(self.tag(name))
        return found

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
            retained: The time for which the tag is kept; None takes the table's
                ``tag.default-time-retained``, without which it is kept for ever.

        Raises:
            AlreadyExists: There is a tag of that name.
            NotFound: There is no such snapshot.
        """
        millis = None if retained is None else retained // timedelta(milliseconds=1)
        self._catalog.tags.create(self.identifier, name, snapshot_id, retained_millis=millis)
        tell_of_tag(self._storage, name)

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that it alone kept.

        Raises:
            NotFound: There is no such tag.
        """
        tagged = self.tag(name).snapshot
        self._catalog.tags.delete(self.identifier, name)
        delete_success_file(self._files, self._storage.layout.tag_success_file(name))
        delete_tag_data(self._storage, tagged, self.pointer.latest())

    def expire_tags(
        self, *, older_than: datetime | None = None, dry_run: bool = False
    ) -> list[str]:
        """Delete the tags whose time is over, and the files that they alone kept.

        Args:
            older_than: Tags made before this moment go, too, whatever their retention.
            dry_run: Only say which would go.

        Returns:
            The names of the tags that went (``TagTimeExpire.java``).

        Raises:
            Invalid: The moment has no time zone.
        """
        before = None if older_than is None else millis_of(older_than)
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
            NotFound: There is no such tag or snapshot.
            Invalid: It cannot be the name of a branch, or both are given.
        """
        self._catalog.branches.create(
            self.identifier, name, from_tag=tag, from_snapshot=snapshot_id
        )
        return self.branch(name)

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
        return self.refresh()

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
    """A moment as milliseconds since the epoch; raises Invalid for one without a time zone."""
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
