"""The names of all files that a table's snapshots, tags and changelogs refer to.

Each manifest list, manifest and index manifest is read once, however many snapshots name it, and
no more is held of them than their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.index.manifest import read_index_manifest
from headwater.storage.maintenance.reachable import branch_names
from headwater.storage.manifest.file_names import FileNames
from headwater.storage.manifest.manifest import ManifestFile, read_manifest_list
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["CHANGELOGS", "SNAPSHOTS", "references"]

SNAPSHOTS, CHANGELOGS = "snapshot", "changelog"
_TAGS = "tag"
_AT_ONCE = 8
_ROOTS_AT_ONCE = 256
# The names in a large manifest take some MB.
_FILES_AT_ONCE = 32

_Item = TypeVar("_Item")
_Read = TypeVar("_Read")


def references(
    storage: TableStorage,
    latest: Callable[[], Mapping[str, Snapshot]],
    version: Callable[[], int],
) -> Generator[str, None, int]:
    """The names of the files that any snapshot, tag or changelog of any branch refers to.

    Args:
        storage: The table.
        latest: Gives the latest snapshots as the catalog has them, by their branches.
        version: Gives the version of the table's references.

    Returns:
        The names, in no order, and some of them more than once. They are all of them only when no
        error comes at the end. The generator returns the version that they are complete for.

    Raises:
        CorruptData: A snapshot, tag, changelog, manifest or index manifest is missing or cannot be
            read.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        known = _References(storage, pool)
        is_first = True
        while True:
            # The last look must see nothing new from its beginning to its end: a fast-forward or a
            # tag may have moved what was read to a place that had been looked at before.
            before = version()
            yield from known.names(latest())
            if not (is_first or known.is_new) and version() == before:
                known.check_gone(latest())
                return before
            is_first = False


@dataclass(frozen=True)
class _Root:
    """A file that says what is needed: a snapshot, a tag or a changelog.

    Attributes:
        path: Its URI.
        kind: The kind of files.
        text: Its content.
        is_first: Whether it is a snapshot with which a history begins.
    """

    path: str
    kind: str
    text: str
    is_first: bool = False

    @property
    def digest(self) -> bytes:
        """A digest that differs from those of other roots, and of what was there before."""
        return hashlib.blake2b(f"{self.path} {self.text}".encode(), digest_size=16).digest()

    def snapshot(self) -> Snapshot:
        """The snapshot that it holds; raises CorruptData."""
        return Snapshot.from_json(self.text, self.path)

    def lists(self) -> list[str]:
        """The manifest lists that it names."""
        snapshot = self.snapshot()
        names = (
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
        )
        return [name for name in names if name is not None]

    def needed(self) -> tuple[list[str], str | None]:
        """The manifest lists and the index manifest that it cannot do without.

        A changelog outlives what its snapshot held, and neither a tag nor a history that begins
        with one keeps changelogs.
        """
        if self.kind == CHANGELOGS:
            return [], None
        snapshot = self.snapshot()
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        changelog = snapshot.changelog_manifest_list
        if self.kind == SNAPSHOTS and not self.is_first and changelog is not None:
            lists.append(changelog)
        return lists, snapshot.index_manifest


class _References:
    """The references of a table that have been read so far.

    Attributes:
        is_new: Whether the last look at the table read a root that none before had, or missed one
            that went after it was listed.
    """

    def __init__(self, storage: TableStorage, pool: ThreadPoolExecutor) -> None:
        self.is_new = True
        self._storage = storage
        self._pool = pool
        self._file_names = FileNames(storage)
        self._roots_read: set[bytes] = set()
        self._read: set[str] = set()
        # What did not exist when it was to be read.
        self._gone: dict[str, CorruptData] = {}

    def names(self, latest: Mapping[str, Snapshot]) -> Iterator[str]:
        """The names in the snapshots, tags and changelogs that were not there before."""
        self.is_new = False
        for roots in _in_groups(self._roots(latest), _ROOTS_AT_ONCE):
            new = [root for root in roots if root.digest not in self._roots_read]
            if new:
                self.is_new = True
                self._roots_read.update(root.digest for root in new)
                yield from self._named_by(new)

    def _roots(self, latest: Mapping[str, Snapshot]) -> Iterator[_Root]:
        """Every snapshot, tag and changelog of every branch.

        Raises:
            CorruptData: A branch has no schema, or its latest snapshot no file.
        """
        storage = self._storage
        branches = {
            MAIN_BRANCH,
            storage.layout.branch,
            *branch_names(storage.files, storage.layout.location),
        }
        for branch in sorted(branches | latest.keys()):
            layout = replace(storage.layout, branch=branch)
            if not storage.files.list(layout.schema_directory):
                raise CorruptData(
                    f"table {storage.name}: branch '{branch}' has no schema in "
                    f"{layout.schema_directory}, so it is not known what it needs; restore or drop "
                    "it"
                )
            # Snapshots before tags: an expired snapshot with a tag was tagged before it expired.
            for kind in (SNAPSHOTS, _TAGS, CHANGELOGS):
                yield from self._listed(layout, kind)
            last = latest.get(branch)
            if last is not None and not storage.files.exists(layout.snapshot(last.id)):
                raise CorruptData(
                    f"table {storage.name}: {layout.snapshot(last.id)} does not exist, the latest "
                    f"snapshot of branch '{branch}'; if the table was not rolled back just now, "
                    "something else deleted it"
                )

    def _listed(self, layout: TableLayout, kind: str) -> Iterator[_Root]:
        numbers: dict[str, int] = {}
        for status in self._storage.files.list(f"{layout.branch_location}/{kind}"):
            name = status.name.removeprefix(f"{kind}-")
            if name != status.name and (kind == _TAGS or name.isdecimal()):
                numbers[status.path] = 0 if kind == _TAGS else int(name)
        first = min(numbers.values(), default=0) if kind == SNAPSHOTS else 0
        for group in _in_groups(numbers, _ROOTS_AT_ONCE):
            for path, text in zip(group, self._pool.map(self._text, group), strict=True):
                if text is None:
                    self.is_new = True
                else:
                    yield _Root(path, kind, text, numbers[path] == first)

    def _text(self, path: str) -> str | None:
        """A root's content; None when it went since the listing."""
        try:
            return self._storage.files.read(path).decode()
        except NotFound:
            return None
        except UnicodeDecodeError as error:
            raise CorruptData(f"{path} is not text: {error}") from error

    def _named_by(self, roots: Iterable[_Root]) -> Iterator[str]:
        """The names of the files that roots refer to."""
        lists: set[str] = set()
        indexes: set[str] = set()
        for root in roots:
            lists.update(root.lists())
            snapshot = root.snapshot()
            if snapshot.index_manifest is not None:
                indexes.add(snapshot.index_manifest)
            if snapshot.statistics is not None:
                yield snapshot.statistics
        yield from lists | indexes
        yield from self._read_once(_by_itself(indexes), self._index_names)
        manifests: dict[str, ManifestFile] = {}
        for manifest in self._read_once(_by_itself(lists), self._file_names.new_manifests):
            manifests[manifest.file_name] = manifest
        yield from manifests
        yield from self._read_once(manifests, self._file_names.new_data_files)

    def _read_once(
        self, items: Mapping[str, _Item], read: Callable[[_Item], list[_Read]]
    ) -> Iterator[_Read]:
        """The contents of those of some files, by their names, that have not been read yet."""

        def attempt(item: _Item) -> list[_Read] | CorruptData:
            try:
                return read(item)
            except CorruptData as error:
                if not isinstance(error.__cause__, NotFound):
                    raise
                return error

        new = [name for name in items if name not in self._read]
        for names in _in_groups(new, _FILES_AT_ONCE):
            self._read.update(names)
            every = self._pool.map(attempt, [items[name] for name in names])
            for name, result in zip(names, every, strict=True):
                if isinstance(result, CorruptData):
                    self._gone[name] = result
                else:
                    yield from result

    def _index_names(self, name: str) -> list[str]:
        return [entry.index_file.file_name for entry in read_index_manifest(self._storage, name)]

    # What is gone ---------------------------------------------------------------------------

    def check_gone(self, latest: Mapping[str, Snapshot]) -> None:
        """Raise CorruptData if a file that did not exist is needed by what is there still."""
        if self._gone:
            for roots in _in_groups(self._roots(latest), _ROOTS_AT_ONCE):
                for _ in self._pool.map(self._check, roots):
                    pass

    def _check(self, root: _Root) -> None:
        lists, index = root.needed()
        for name in [*lists, *([] if index is None else [index])]:
            self._refuse_if_gone(root, name)
        for name in lists:
            try:
                files = read_manifest_list(self._storage, name)
            except CorruptData as error:
                if not isinstance(error.__cause__, NotFound):
                    raise
                self._gone[name] = error
                self._refuse_if_gone(root, name)
            else:
                for file in files:
                    self._refuse_if_gone(root, file.file_name)

    def _refuse_if_gone(self, root: _Root, name: str) -> None:
        error = self._gone.get(name)
        files = self._storage.files
        if error is not None and files.exists(root.path):
            raise CorruptData(
                f"{error.message}. {root.path} is there and needs it, so nothing was deleted; "
                "restore the file, or expire or delete what needs it"
            ) from error


def _by_itself(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}


def _in_groups(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    left = iter(items)
    while group := list(islice(left, size)):
        yield group
