"""A table checked to its last file: everything that anything of it names is there, and is whole.

The roots are the schemas, snapshots, tags and changelogs of every branch. Of each the lists and
manifests are read and compared with the sizes and counts that were written down, and each file
they name is looked at: its size, its number of rows, its index. Within a history a file
is added once, so that the files of the earliest and those that later ones added are all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise

from headwater.storage.errors import CorruptData, NotFound, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.maintenance.damage import Root, TableCheck
from headwater.storage.maintenance.lost_ends import damaged_hints, late_hint, lost_ends
from headwater.storage.maintenance.named_files import NamedFiles
from headwater.storage.maintenance.orphans import find_orphan_files
from headwater.storage.maintenance.reachable import (
    branch_names,
    data_paths,
    delta_entries,
    produces_changelog,
)
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.changelog import changelog_file_ids, read_changelog_file
from headwater.storage.snapshot.consumer import check_consumer_file, consumer_statuses
from headwater.storage.snapshot.files import read_snapshot_file, snapshot_file_ids
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import read_tag_file, tag_names
from headwater.storage.table_storage import TableStorage

__all__ = ["check_table"]

_AT_ONCE = 4
_ATTEMPTS = 3
_SECONDS_BETWEEN_READS = 0.2
# Younger files may be about to be committed.
_ORPHAN_MILLIS = 24 * 60 * 60 * 1000


def check_table(
    storage: TableStorage,
    latest: Callable[[], Mapping[str, Snapshot]],
    history: Callable[[str], Mapping[int, Snapshot]],
    *,
    deep: bool = False,
) -> TableCheck:
    """Check a table, whatever its branch.

    Others may write to it meanwhile. What expires during the check does not count as damage.

    Args:
        storage: The table.
        latest: Gives the latest snapshots as the catalog has them, by their branches; none where
            the files alone decide.
        history: Gives the snapshots of a branch as the catalog has them, by their ids; none where
            the files alone decide.
        deep: Read all data, and not only what each file says of itself.

    Raises:
        Unsupported: The table has no snapshots.
        Unavailable: Storage does not answer.
    """
    check = TableCheck()
    for _ in range(_ATTEMPTS):
        with ThreadPoolExecutor(_AT_ONCE, "headwater-check") as pool:
            check = _Check(storage, latest, history, deep, pool).run()
        files = storage.files
        gone = [each for each in check.damages if each.root and not files.exists(each.root)]
        if not gone:
            break
        # Whatever led there has expired since; others may need the same files.
        check.damages = [each for each in check.damages if each not in gone]
        check.damage_count -= len(gone)
    try:
        orphans, _ = find_orphan_files(storage, latest, older_than_millis=_ORPHAN_MILLIS)
    except (CorruptData, Unsupported):
        return check
    check.orphans = len(orphans)
    check.orphan_bytes = sum(file.size for file in orphans)
    return check


class _Check:
    def __init__(
        self,
        storage: TableStorage,
        latest: Callable[[], Mapping[str, Snapshot]],
        history: Callable[[str], Mapping[int, Snapshot]],
        deep: bool,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._storage = storage
        self._now = latest
        self._latest = latest()
        self._history = history
        self._known: Mapping[int, Snapshot] = {}
        self._files = NamedFiles(storage, deep, pool)

    def run(self) -> TableCheck:
        """Check all branches."""
        location = self._storage.layout.location
        branches = {MAIN_BRANCH, *self._latest, *branch_names(self._storage.files, location)}
        for name in sorted(branches):
            layout = TableLayout(location, name)
            self._branch(replace(self._storage, layout=layout, _schemas={}))
        self._files.finish()
        return self._files.found

    # Roots ------------------------------------------------------------------------------------

    def _branch(self, storage: TableStorage) -> None:
        layout, files, suffix = storage.layout, storage.files, ""
        if layout.branch != MAIN_BRANCH:
            suffix = f" of branch {layout.branch}"
        self._schemas(storage, suffix)
        self._known = self._history(layout.branch)
        line: list[int] = []
        for number in snapshot_file_ids(files, layout):
            root = Root(f"snapshot {number}{suffix}", layout.snapshot(number))
            self._files.attempt(root, partial(self._snapshot, storage, root, number, line))
        self._pointer(storage, line, suffix)
        for name in tag_names(files, layout):
            root = Root(f"tag {name}{suffix}", layout.tag(name))
            self._files.attempt(root, partial(self._tag, storage, root, name))
        changelogs = changelog_file_ids(files, layout)
        for number in changelogs:
            root = Root(f"changelog {number}{suffix}", layout.changelog(number))
            self._files.attempt(root, partial(self._changelog, storage, root, number))
        # Expiry takes the oldest first.
        self._holes(changelogs, "changelog", suffix, layout.changelog)
        self._files.found.warnings += lost_ends(files, layout)
        self._bucket_indexes(storage, line, suffix)
        self._hints_and_consumers(storage, line, suffix)

    def _bucket_indexes(self, storage: TableStorage, line: Sequence[int], where: str) -> None:
        """Compare hash indexes with the keys of their buckets in the latest snapshot."""
        layout = storage.layout
        latest = self._latest.get(layout.branch)
        with suppress(CorruptData, NotFound, Unsupported):  # reported when it was read
            if latest is None and line:
                latest = storage.snapshot(line[-1])
            if latest is None:
                return
            path = layout.schema(latest.schema_id)
            schema = TableSchema.from_json(storage.files.read(path), path)
            root = Root(f"snapshot {latest.id}{where}", layout.snapshot(latest.id))
            self._files.bucket_indexes(storage.with_schema(schema), root, latest)

    def _hints_and_consumers(self, storage: TableStorage, line: Sequence[int], suffix: str) -> None:
        files, layout, found = storage.files, storage.layout, self._files.found
        for path, problem in damaged_hints(files, layout):
            self._files.damage(Root(f"hint {path.rpartition('/')[2]}{suffix}", path), problem)
        latest = self._latest.get(layout.branch)
        last = line[-1] if latest is None and line else 0 if latest is None else latest.id
        late = late_hint(files, layout, last)
        if late is not None:
            found.notes.append(late)
        for consumer_id, _ in consumer_statuses(files, layout):
            root = Root(f"consumer {consumer_id}{suffix}", layout.consumer(consumer_id))
            self._files.attempt(root, partial(self._consumer, storage, consumer_id, last))

    def _consumer(self, storage: TableStorage, consumer_id: str, latest: int) -> None:
        try:
            consumer = check_consumer_file(storage.files, storage.layout, consumer_id)
        except CorruptData:
            # Engines that write it in place may be about to.
            storage.runtime.sleep(_SECONDS_BETWEEN_READS)
            consumer = check_consumer_file(storage.files, storage.layout, consumer_id)
        if consumer is not None and consumer.next_snapshot > latest + 1:
            now = self._now().get(storage.layout.branch)
            if now is None or consumer.next_snapshot > now.id + 1:
                self._files.found.warnings.append(
                    f"{storage.layout.consumer(consumer_id)} is at snapshot "
                    f"{consumer.next_snapshot}, and the latest is {latest}: its reader would pass "
                    "over the snapshots between them; if the table was not rolled back, the file "
                    "was changed: set it with 'headwater consumer reset'"
                )

    def _schemas(self, storage: TableStorage, suffix: str) -> None:
        layout = storage.layout
        statuses = storage.files.list(layout.schema_directory)
        names = [status.name.removeprefix("schema-") for status in statuses]
        ids = sorted(int(name) for name in names if name.isdecimal())
        if not ids and (layout.branch == MAIN_BRANCH or layout.branch in self._now()):
            root = Root(f"the table{suffix}", "")
            self._files.damage(root, f"{layout.schema_directory} holds no schema")
        for number in ids:
            root = Root(f"schema {number}{suffix}", layout.schema(number))
            self._files.attempt(root, partial(self._schema, storage, root.path, number))

    def _schema(self, storage: TableStorage, path: str, number: int) -> None:
        try:
            schema = TableSchema.from_json(storage.files.read(path), path)
        except NotFound:
            return
        self._files.found.schemas += 1
        if schema.id != number:
            raise CorruptData(f"{path} holds schema {schema.id}, not {number}")

    def _pointer(self, storage: TableStorage, line: Sequence[int], suffix: str) -> None:
        """Compare the catalog's latest snapshot with what is there."""
        latest, layout = self._latest.get(storage.layout.branch), storage.layout
        self._holes(line, "snapshot", suffix, layout.snapshot)
        if latest is None:
            return
        path = layout.snapshot(latest.id)
        root = Root(f"the catalog's latest snapshot{suffix}", self._any_schema(storage) or path)
        later = [number for number in line if number > latest.id]
        try:
            there = Snapshot.from_json(storage.files.read(path), path)
        except NotFound:
            if not self._moved(storage, latest):
                self._files.damage(root, f"{path} does not exist; run 'headwater reconcile'")
            return
        except CorruptData:
            return  # told of already
        if not _is_same(there, latest):
            if self._moved(storage, latest):
                return
            self._files.damage(root, f"{path} is not the catalog's; run 'headwater reconcile'")
        elif later and not self._knows(storage, later[-1]):
            path = layout.snapshot(later[0])
            self._files.damage(root, f"{path} is not known to it; run 'headwater reconcile'")

    def _holes(
        self, line: Sequence[int], kind: str, suffix: str, path: Callable[[int], str]
    ) -> None:
        """Tell of numbers that are missing between others."""
        for before, number in pairwise(line):
            if number != before + 1:
                root = Root(f"{kind} {number}{suffix}", path(number))
                self._files.damage(
                    root, f"{path(number - 1)} does not exist, though earlier ones do"
                )

    def _knows(self, storage: TableStorage, number: int) -> bool:
        """Whether the catalog's latest snapshot has moved on to a number during the check."""
        now = self._now().get(storage.layout.branch)
        return now is not None and now.id >= number

    def _moved(self, storage: TableStorage, latest: Snapshot) -> bool:
        """Whether the catalog has another latest snapshot than when the check began."""
        now = self._now().get(storage.layout.branch)
        return now is None or not now.is_same_commit(latest)

    def _any_schema(self, storage: TableStorage) -> str | None:
        statuses = storage.files.list(storage.layout.schema_directory)
        return next((status.path for status in statuses), None)

    def _snapshot(self, storage: TableStorage, root: Root, number: int, line: list[int]) -> None:
        snapshot = read_snapshot_file(storage.files, storage.layout, number)
        if snapshot is None:
            return  # expired since the listing
        self._files.found.snapshots += 1
        line.append(number)
        known = self._known.get(number)
        if known is not None and not _is_same(snapshot, known):
            # Another one may have come in its place since.
            known = self._history(storage.layout.branch).get(number)
            again = read_snapshot_file(storage.files, storage.layout, number)
            if again is None:
                return
            if known is not None and not _is_same(again, known):
                raise CorruptData(f"{root.path} is not as the catalog has it")
            snapshot = again
        schema = storage.layout.schema(snapshot.schema_id)
        if self._files.sizes.size(schema) is None and not storage.files.exists(schema):
            self._files.damage(root, f"{schema} does not exist")
        is_told = len(line) > 1 or self._is_told(storage, snapshot)
        self._files.lists(storage, root, snapshot, with_changelog=is_told)
        if len(line) == 1:
            self._files.entries(storage, root, live_entries(storage, snapshot, anew=True))
        else:
            self._files.added(storage, root, snapshot.delta_manifest_list)
        if is_told and snapshot.changelog_manifest_list is not None:
            self._files.added(storage, root, snapshot.changelog_manifest_list)
        self._files.indexes(storage, root, snapshot)

    def _is_told(self, storage: TableStorage, first: Snapshot) -> bool:
        """False if the first snapshot of a history has no changelog any more.

        A branch may begin with a tag, which keeps none, and a table may be forwarded to it.
        """
        if first.changelog_manifest_list is None:
            return True
        is_main = storage.layout.branch == MAIN_BRANCH
        entries = delta_entries(storage, first.changelog_manifest_list)
        if entries is None:
            return is_main
        paths = [data_paths(storage, entry)[0] for entry in entries]
        if not paths or any(self._files.sizes.size(path) is not None for path in paths):
            return True
        if is_main:
            self._files.found.warnings.append(
                f"snapshot {first.id}, the earliest, has no changelog files any more, as where a "
                "history begins with a tag; if this one does not, they were lost"
            )
        return False

    def _tag(self, storage: TableStorage, root: Root, name: str) -> None:
        tag = read_tag_file(storage.files, storage.layout, name)
        if tag is None:
            return
        self._files.found.tags += 1
        known, found = self._known.get(tag.snapshot.id), tag.snapshot.document
        if known is not None and known.uuid == tag.snapshot.uuid:
            # Not all engines write the same fields.
            for key, value in known.document.items():
                if found.get(key, value) != value:
                    raise CorruptData(f"{root.path} has another '{key}' than snapshot {known.id}")
        self._files.lists(storage, root, tag.snapshot, with_changelog=False)
        self._files.entries(storage, root, live_entries(storage, tag.snapshot, anew=True))
        self._files.indexes(storage, root, tag.snapshot)

    def _changelog(self, storage: TableStorage, root: Root, number: int) -> None:
        changelog = read_changelog_file(storage.files, storage.layout, number)
        if changelog is None:
            return
        self._files.found.changelogs += 1
        if changelog.changelog_manifest_list is not None:
            self._files.added(storage, root, changelog.changelog_manifest_list)
        elif not produces_changelog(storage) and changelog.commit_kind is CommitKind.APPEND:
            self._files.added(storage, root, changelog.delta_manifest_list)


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    return bool(json.loads(one.to_json()) == json.loads(other.to_json()))
