"""The names in a table's manifests and manifest lists, without reading the same twice.

Merging copies a table's older entries from manifest to manifest, and a list repeats most of the
list before it. As both are written alike, most of their blocks are equal byte for byte, and a block
that was seen before names nothing new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.storage.formats.avro_container import Record, read_blocks
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.manifest.manifest import (
    ManifestFile,
    check_counts,
    manifest_content,
)
from headwater.storage.manifest.records import (
    check_versions,
    converted,
    read_manifest_file,
    read_names,
)
from headwater.storage.table_storage import TableStorage

__all__ = ["FileNames"]

_Line = TypeVar("_Line")


class FileNames:
    """Reads the names in the manifests and manifest lists of a table; for several threads.

    Args:
        storage: The table.
    """

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage
        # Of blocks that were read, by what tells them from others: the entries that add files.
        self._adding: dict[bytes, int] = {}
        self._listed: set[bytes] = set()
        self._manifests: set[object] = set()

    def new_manifests(self, manifest_list: str) -> list[ManifestFile]:
        """The manifests of a list; those that a list before named may be left out.

        Raises:
            CorruptData: The list is missing, truncated or malformed.
            Unsupported: It has a format version of the future.
        """
        path = self._storage.layout.manifest(manifest_list)
        found: list[ManifestFile] = []
        for block in read_blocks(manifest_content(self._storage, manifest_list, None), path):
            digest = block.digest
            if digest not in self._listed:
                records = block.records()
                new = [each for each in records if each.get("_FILE_NAME") not in self._manifests]
                lines = _lines(new, read_manifest_file, path)
                self._manifests.update(line.file_name for line in lines)
                self._listed.add(digest)
                found += lines
        return found

    def new_data_files(self, manifest: ManifestFile) -> list[str]:
        """The names of the files that a manifest adds or deletes, and of those that belong to them.

        Those that a manifest before named may be left out.

        Raises:
            CorruptData: The manifest is missing, truncated or malformed.
            Unsupported: It has a format version of the future.
        """
        path = self._storage.layout.manifest(manifest.file_name)
        data = manifest_content(self._storage, manifest.file_name, manifest.file_size)
        found: list[str] = []
        rows = added = 0
        for block in read_blocks(data, path):
            digest = block.digest
            adding = self._adding.get(digest)
            if adding is None:
                entries = _lines(block.records(), read_names, path)
                adding = sum(kind is FileKind.ADD for kind, _ in entries)
                found += [name for _, names in entries for name in names]
                self._adding[digest] = adding
            rows += block.block.row_count
            added += adding
        check_counts(path, added, rows - added, manifest)
        return found


def _lines(records: list[Record], convert: Callable[[Record], _Line], path: str) -> list[_Line]:
    check_versions(records, path)
    return converted(records, convert, path)
