"""Orphan files: what lies in a table's directories, and nothing refers to any more.

A writer that was killed, an expiry that was killed, or a tag that was deleted by its name alone
leave such files. One goes when it is old enough for whoever wrote it to have committed it, and no
snapshot, tag or changelog of any branch names it. What cannot be read stops everything.

Source: ``OrphanFilesClean.java``, ``LocalOrphanFilesClean.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from headwater.storage.capabilities import Operation
from headwater.storage.errors import CorruptData, Invalid, NotFound, Unsupported
from headwater.storage.files.access import FileStatus
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.formats.avro_container import read_avro
from headwater.storage.maintenance.reachable import branch_names
from headwater.storage.manifest.manifest import ManifestFile, read_file_names, read_manifest_list
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["OrphanFiles", "find_orphan_files"]

_AT_ONCE = 8
_METADATA = ("manifest", "index", "statistics")
_SNAPSHOTS, _TAGS, _CHANGELOGS = "snapshot", "tag", "changelog"
_HINTS = ("EARLIEST", "LATEST")
# ManagedBlobReferenceFile.java: packs that belong to no single table file.
_BLOB_PACK = ".managed.blob"


@dataclass(frozen=True)
class OrphanFiles:
    """The files that a cleaning deleted, or would delete.

    Attributes:
        dry_run: Whether nothing was deleted.
        files: The files, by their paths.
    """

    dry_run: bool
    files: tuple[FileStatus, ...] = ()

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(file.size for file in self.files)


def find_orphan_files(
    storage: TableStorage, latest: Mapping[str, Snapshot], *, older_than_millis: int
) -> list[FileStatus]:
    """The files of a table, whatever its branch, that nothing refers to, by their paths.

    Args:
        storage: The table.
        latest: The latest snapshots as the catalog has them, by their branches.
        older_than_millis: Files changed within this time are left out: somebody may be about to
            commit them.

    Raises:
        Invalid: The time is negative.
        CorruptData: A snapshot, tag, changelog or manifest is missing or cannot be read, so that it
            is not known what is needed.
        Unsupported: The table's files are not Paimon's, or where its data lies is not known here.
    """
    _check(storage, older_than_millis)
    oldest = storage.runtime.now_millis() - older_than_millis
    # First what may go, then what is needed: what is written meanwhile is too young to go.
    orphans, leftovers = _candidates(storage, oldest)
    if orphans:
        _spare_the_needed(storage, latest, orphans)
    found = [*leftovers, *(file for files in orphans.values() for file in files)]
    return sorted(found, key=lambda file: file.path)


def _check(storage: TableStorage, older_than_millis: int) -> None:
    if older_than_millis < 0:
        raise Invalid(
            "files that are yet to be written cannot be orphans: give a time of 0 or more"
        )
    options = storage.schema.options
    kind = table_type(options)
    if not kind.has_snapshots:
        raise Unsupported(f"table {storage.name} is of type {kind}: every file there is its data")
    storage.refuse(Operation.REMOVE_ORPHANS)


def _candidates(
    storage: TableStorage, oldest: int
) -> tuple[dict[str, list[FileStatus]], list[FileStatus]]:
    """Old files that others may name, by their names; and those that nobody can name."""
    by_name: dict[str, list[FileStatus]] = {}
    leftovers: list[FileStatus] = []
    prefix = storage.layout.location + "/"
    for file in storage.files.walk(storage.layout.location, unfinished=True):
        if file.modified_millis >= oldest or not file.path.startswith(prefix):
            continue
        *folders, name = file.path.removeprefix(prefix).split("/")
        if _holds_named(folders, len(storage.schema.partition_keys)):
            if not name.endswith(_BLOB_PACK):
                by_name.setdefault(name, []).append(file)
        elif _is_leftover(folders, name):
            leftovers.append(file)
    return by_name, leftovers


def _holds_named(folders: Sequence[str], partition_keys: int) -> bool:
    """True if a directory is one for manifests, indexes, statistics or data."""
    if len(folders) == 1 and folders[0] in _METADATA:
        return True
    return (
        len(folders) == partition_keys + 1
        and all("=" in folder for folder in folders[:-1])
        and folders[-1].startswith("bucket-")
    )


def _is_leftover(folders: Sequence[str], name: str) -> bool:
    """True if it lies among snapshots or changelogs, and is none."""
    if len(folders) == 3 and folders[0] == "branch" and folders[1].startswith("branch-"):
        folders = folders[2:]
    return (
        len(folders) == 1
        and folders[0] in (_SNAPSHOTS, _CHANGELOGS)
        and not name.startswith(f"{folders[0]}-")
        and name not in _HINTS
    )


def _spare_the_needed(
    storage: TableStorage, latest: Mapping[str, Snapshot], orphans: dict[str, list[FileStatus]]
) -> None:
    """Take out of the orphans what anything refers to."""
    seen: set[str] = set()
    read: set[str] = set()
    # Twice at least, until nothing is new: a fast-forward or a tag may have brought to another
    # place what had been looked for there before.
    is_first = True
    while (roots := [root for root in _roots(storage, latest) if root.key not in seen]) or is_first:
        is_first = False
        seen.update(root.key for root in roots)
        manifests: dict[str, _Manifest] = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for names, lists in pool.map(lambda root: _named_by(storage, root), roots):
                for name in names:
                    orphans.pop(name, None)
                for file, needed_by in lists:
                    if file.file_name not in read:
                        found = manifests.setdefault(file.file_name, _Manifest(file))
                        found.needed_by.update(needed_by)
            for name in manifests:
                orphans.pop(name, None)
            every = pool.map(lambda one: _data_names(storage, one), manifests.values())
            for name, data in zip(manifests, every, strict=True):
                if data is not None:
                    read.add(name)
                    for each in data:
                        orphans.pop(each, None)


# What is needed -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Root:
    """A file that says what is needed: a snapshot, a tag or a changelog.

    Attributes:
        path: Its URI.
        kind: Which of them.
        text: Its content.
    """

    path: str
    kind: str
    text: str

    @property
    def key(self) -> str:
        """Tells it from others, and from what was there before."""
        return f"{self.path} {self.text}"

    def may_lack(self, *, changelog: bool) -> bool:
        """True if a file that it names may be gone while it is there itself.

        A changelog outlives what its snapshot held, and a tag does not keep changelogs.
        """
        return self.kind == _CHANGELOGS or (self.kind == _TAGS and changelog)


@dataclass(frozen=True)
class _Manifest:
    """A manifest.

    Attributes:
        file: What manifest lists say of it.
        needed_by: The URIs of those that cannot do without it.
    """

    file: ManifestFile
    needed_by: set[str] = field(default_factory=set)


def _roots(storage: TableStorage, latest: Mapping[str, Snapshot]) -> list[_Root]:
    """Every snapshot, tag and changelog of every branch.

    Raises:
        CorruptData: A branch has no schema, or its latest snapshot no file.
    """
    found: list[_Root] = []
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
                f"{layout.schema_directory}, so it is not known what it needs; restore or drop it"
            )
        # Snapshots before tags: whoever expires one that is tagged made the tag before.
        for kind in (_SNAPSHOTS, _TAGS, _CHANGELOGS):
            found += _listed(storage, layout, kind)
        last = latest.get(branch)
        if last is not None and not storage.files.exists(layout.snapshot(last.id)):
            raise CorruptData(
                f"table {storage.name}: {layout.snapshot(last.id)} does not exist, the latest "
                f"snapshot of branch '{branch}'; if the table was not rolled back just now, "
                "something else deleted it"
            )
    return found


def _listed(storage: TableStorage, layout: TableLayout, kind: str) -> Iterator[_Root]:
    for status in storage.files.list(f"{layout.branch_location}/{kind}"):
        name = status.name.removeprefix(f"{kind}-")
        if name == status.name or not (kind == _TAGS or name.isdecimal()):
            continue
        try:
            text = storage.files.read(status.path).decode()
        except NotFound:
            continue  # it expired since the listing
        except UnicodeDecodeError as error:
            raise CorruptData(f"{status.path} is not text: {error}") from error
        yield _Root(status.path, kind, text)


def _named_by(
    storage: TableStorage, root: _Root
) -> tuple[list[str], list[tuple[ManifestFile, Sequence[str]]]]:
    """Names of the files that a root refers to, and its manifests with who cannot lack them."""
    snapshot = Snapshot.from_json(root.text, root.path)
    names: list[str] = []
    manifests: list[tuple[ManifestFile, Sequence[str]]] = []
    for name, is_changelog in (
        (snapshot.base_manifest_list, False),
        (snapshot.delta_manifest_list, False),
        (snapshot.changelog_manifest_list, True),
    ):
        if name is None:
            continue
        names.append(name)
        needed_by = () if root.may_lack(changelog=is_changelog) else (root.path,)
        try:
            files = read_manifest_list(storage, name)
        except CorruptData as error:
            _refuse_unless_gone(storage, needed_by, error)
            continue
        manifests += [(file, needed_by) for file in files]
    if snapshot.statistics is not None:
        names.append(snapshot.statistics)
    if snapshot.index_manifest is not None:
        names += [snapshot.index_manifest, *_index_names(storage, snapshot.index_manifest, root)]
    return names, manifests


def _index_names(storage: TableStorage, name: str, root: _Root) -> list[str]:
    path = storage.layout.manifest(name)
    try:
        records = read_avro(storage.files.read(path), path)
    except NotFound as error:
        missing = CorruptData(f"table {storage.name}: index manifest {path} does not exist")
        missing.__cause__ = error
        _refuse_unless_gone(
            storage, () if root.may_lack(changelog=False) else (root.path,), missing
        )
        return []
    names = [record.get("_FILE_NAME") for record in records]
    if not all(isinstance(each, str) for each in names):
        raise CorruptData(f"{path} has an entry without '_FILE_NAME'")
    return [str(each) for each in names]


def _data_names(storage: TableStorage, manifest: _Manifest) -> list[str] | None:
    """Names of the files that a manifest adds or deletes; None when it is gone, as it may be."""
    try:
        return read_file_names(storage, manifest.file)
    except CorruptData as error:
        _refuse_unless_gone(storage, manifest.needed_by, error)
        return None


def _refuse_unless_gone(
    storage: TableStorage, needed_by: Iterable[str], error: CorruptData
) -> None:
    """Go on where a file is missing and nobody needs it any more; raises the error otherwise."""
    if not isinstance(error.__cause__, NotFound):
        raise error
    for path in needed_by:
        if storage.files.exists(path):
            raise CorruptData(
                f"{error.message}. {path} is there and needs it, so nothing was deleted; if an "
                "expiry of snapshots was stopped, let it expire them again"
            ) from error
