"""The files of a table with few, told from what was known of it before.

Each commit asks several times what the table holds, and nothing but its own manifest is new. No
manifest ever changes, and none has the name of another: what came before is remembered by names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import read_entries, read_manifest_list
from headwater.storage.manifest.records import ManifestFile
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["entries_of_few", "manifests_of"]

# An entry takes about 2 KiB of memory.
_MOST_ENTRIES = 4096
_STATES = 2


@dataclass(frozen=True)
class _State:
    """The files that are left by manifests, in order.

    Attributes:
        manifests: The names of the manifests.
        live: The entries of the files, by their identities.
    """

    manifests: tuple[str, ...]
    live: Mapping[object, ManifestEntry]


def manifests_of(storage: TableStorage, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, base and delta, in order.

    Raises:
        CorruptData: A manifest list is missing or malformed; the message names it.
    """
    lists = (
        (snapshot.base_manifest_list, "baseManifestListSize"),
        (snapshot.delta_manifest_list, "deltaManifestListSize"),
    )
    found: list[ManifestFile] = []
    for name, size_field in lists:
        size = snapshot.document.get(size_field)
        path = storage.layout.manifest(name)
        known = storage.recent.get(path)
        if not isinstance(known, _List):
            read = read_manifest_list(storage, name, size=size if isinstance(size, int) else None)
            known = _List(tuple(read))
            storage.recent.put(path, known)
        found += known.manifests
    return found


@dataclass(frozen=True)
class _List:
    manifests: tuple[ManifestFile, ...]


def entries_of_few(
    storage: TableStorage, manifests: Sequence[ManifestFile]
) -> list[ManifestEntry] | None:
    """The files that manifests leave, if these have few entries in all.

    Returns:
        None when they are many, or contradict each other.

    Raises:
        CorruptData: A manifest that was not known is missing or malformed; the message names it.
    """
    if sum(each.num_added_files + each.num_deleted_files for each in manifests) > _MOST_ENTRIES:
        return None
    names = tuple(each.file_name for each in manifests)
    key = storage.layout.manifest("live")
    states = storage.recent.get(key)
    known: tuple[_State, ...] = states.states if isinstance(states, _States) else ()
    before = max(
        (state for state in known if names[: len(state.manifests)] == state.manifests),
        key=lambda state: len(state.manifests),
        default=_State((), {}),
    )
    if len(before.manifests) == len(names):
        return list(before.live.values())
    live = dict(before.live)
    if not _apply(read_entries(storage, manifests[len(before.manifests) :]), live):
        return None
    state = _State(names, live)
    storage.recent.put(key, _States((state, *known)[:_STATES]))
    return list(live.values())


@dataclass(frozen=True)
class _States:
    states: tuple[_State, ...]


def _apply(entries: Iterable[ManifestEntry], live: dict[object, ManifestEntry]) -> bool:
    """Add and take away files; False if one is added twice, or taken away that is not there."""
    for entry in entries:
        is_there = entry.identity in live
        if is_there is (entry.kind is FileKind.ADD):
            return False
        if is_there:
            del live[entry.identity]
        else:
            live[entry.identity] = entry
    return True
