"""The files that a table's snapshots, tags and changelogs name, looked at once each.

Lists and manifests are read and compared with the sizes and counts that were written down, and each
file they name is looked at: its size, its row count, its indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.blob_file import BLOB_SUFFIX, check_blobs
from headwater.storage.formats.blob_references import REFERENCES_SUFFIX, parsed_references
from headwater.storage.formats.registry import format_of_file
from headwater.storage.formats.system_columns import data_file_fields
from headwater.storage.index.deletion_files import read_deletion_vectors
from headwater.storage.index.file_index.check import check_bodies, check_values
from headwater.storage.index.file_index.data_file import file_indexes_of, index_files
from headwater.storage.index.hash_index import read_hash_index
from headwater.storage.index.index_file import IndexManifestEntry, index_file_path
from headwater.storage.index.manifest import read_index_manifest
from headwater.storage.maintenance.bucket_indexes import (
    has_hash_indexes,
    index_problems,
    indexed_partitions,
)
from headwater.storage.maintenance.damage import MOST_DAMAGES, Damage, Root, TableCheck
from headwater.storage.maintenance.listed_sizes import ListedSizes
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import ManifestFile, read_manifest, read_manifest_list
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.managed_blobs import pack_path, valued_rows
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.table_statistics import read_statistics
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, Json

__all__ = ["NamedFiles"]

_WAITING = 64
_BATCH_ROWS = 65536


class NamedFiles:
    """Looks at files, and keeps what it found.

    Args:
        storage: The table.
        deep: Read all data, and not only what each file says of itself.
        pool: Reads data files.
    """

    def __init__(self, storage: TableStorage, deep: bool, pool: ThreadPoolExecutor) -> None:
        self.found = TableCheck()
        self.sizes = ListedSizes(storage.files)
        self._deep = deep
        self._pool = pool
        self._seen: set[str] = set()
        self._waiting: list[tuple[Root, Future[int]]] = []

    def finish(self) -> None:
        """Wait for the data files that are being read."""
        self._take_answers(0)

    def damage(self, root: Root, problem: str) -> None:
        """Keep a damage."""
        self.found.damage_count += 1
        if len(self.found.damages) < MOST_DAMAGES:
            self.found.damages.append(Damage(root.name, problem, root.path))

    def attempt(self, root: Root, work: Callable[[], object]) -> None:
        """Do work of which an error is a damage."""
        try:
            work()
        except CorruptData as error:
            self.damage(root, error.message)
        except Unsupported:
            self.found.unread += 1

    # Metadata ---------------------------------------------------------------------------------

    def lists(
        self, storage: TableStorage, root: Root, snapshot: Snapshot, *, with_changelog: bool
    ) -> None:
        """Read a snapshot's manifest lists and manifests, each once; raises CorruptData."""
        names: list[tuple[str | None, Json]] = [
            (snapshot.base_manifest_list, snapshot.document.get("baseManifestListSize")),
            (snapshot.delta_manifest_list, snapshot.document.get("deltaManifestListSize")),
        ]
        if with_changelog:
            size = snapshot.document.get("changelogManifestListSize")
            names.append((snapshot.changelog_manifest_list, size))
        for name, size in names:
            if name is None or not self._is_new(storage.layout.manifest(name)):
                continue
            self.found.manifests += 1
            known = size if isinstance(size, int) else None
            for manifest in read_manifest_list(storage, name, size=known):
                self._manifest(storage, root, manifest)

    def _manifest(self, storage: TableStorage, root: Root, manifest: ManifestFile) -> None:
        if not self._is_new(storage.layout.manifest(manifest.file_name)):
            return
        self.found.manifests += 1
        self.attempt(root, partial(read_manifest, storage, manifest.file_name, expected=manifest))

    def indexes(self, storage: TableStorage, root: Root, snapshot: Snapshot) -> None:
        """Look at a snapshot's statistics and index files; raises CorruptData."""
        if snapshot.statistics is not None and self._is_new(
            storage.layout.statistics(snapshot.statistics)
        ):
            self.attempt(root, partial(read_statistics, storage, snapshot))
        name = snapshot.index_manifest
        if name is None or not self._is_new(storage.layout.manifest(name)):
            return
        self.found.manifests += 1
        for entry in read_index_manifest(storage, name):
            path = index_file_path(storage, entry.partition, entry.bucket, entry.index_file)
            if self._is_new(path):
                self.found.index_files += 1
                self.attempt(root, partial(self._index_file, storage, root, entry, path))

    def _index_file(
        self, storage: TableStorage, root: Root, entry: IndexManifestEntry, path: str
    ) -> None:
        if not self._is_there(root, path, entry.index_file.file_size):
            return
        match entry.index_file.index_type:
            case "DELETION_VECTORS":
                read_deletion_vectors(storage, entry.partition, entry.bucket, entry.index_file)
            case "HASH":
                read_hash_index(storage, entry)
            case _:
                self.found.unread += 1

    # Data -------------------------------------------------------------------------------------

    def added(self, storage: TableStorage, root: Root, manifest_list: str) -> None:
        """Look at the files that a manifest list adds; raises CorruptData."""
        for manifest in read_manifest_list(storage, manifest_list):
            entries = read_manifest(storage, manifest.file_name, expected=manifest)
            self.entries(storage, root, entries)

    def entries(self, storage: TableStorage, root: Root, entries: Iterable[ManifestEntry]) -> None:
        """Look at the files that entries add."""
        for entry in entries:
            if entry.kind is FileKind.DELETE:
                continue
            directory = bucket_directory(storage, entry.partition, entry.bucket)
            path, *belonging = entry.file.paths(directory)
            # The same file is committed again when it gets other indexes.
            indexes = f"{path}\0{index_files(entry.file)}{entry.file.embedded_file_index!r}"
            is_new_file, are_new_indexes = self._is_new(path), self._is_new(indexes)
            if not (is_new_file or are_new_indexes):
                continue
            self.found.data_files += is_new_file
            is_there = not is_new_file or self._is_there(root, path, entry.file.file_size)
            for other in filter(self._is_new, belonging):
                is_there = self._is_there(root, other, None) and is_there
                if is_there and other.endswith(REFERENCES_SUFFIX):
                    self.attempt(root, partial(self._packs, storage, root, other))
            if is_there:
                if is_new_file:
                    self._submit(root, partial(_read_file, storage, entry, path, self._deep))
                self._submit(root, partial(_check_indexes, storage, entry, path, self._deep))

    def _submit(self, root: Root, work: Callable[[], int]) -> None:
        self._waiting.append((root, self._pool.submit(work)))
        self._take_answers(_WAITING)

    def bucket_indexes(self, storage: TableStorage, root: Root, snapshot: Snapshot) -> None:
        """Compare hash indexes with the keys of their buckets, in a deep check."""
        if not self._deep or not has_hash_indexes(storage.schema):
            return
        try:
            partitions = indexed_partitions(storage, snapshot)
        except CorruptData:
            return  # reported when the snapshot was read
        for partition in partitions:
            # A data file that cannot be read was reported with its snapshot.
            with suppress(CorruptData):
                for problem in index_problems(storage, partition):
                    self.damage(root, problem)

    def _packs(self, storage: TableStorage, root: Root, path: str) -> None:
        """Look for the packs of BLOBs that a data file's rows refer to."""
        for uri in parsed_references(storage.files.read(path), path):
            pack = pack_path(storage, uri)
            if pack is not None and self._is_new(pack):
                self._is_there(root, pack, None)

    def _take_answers(self, most_waiting: int) -> None:
        while len(self._waiting) > most_waiting:
            root, answer = self._waiting.pop(0)
            self.attempt(root, partial(self._count, answer))

    def _count(self, answer: Future[int]) -> None:
        self.found.rows += answer.result()

    def _is_new(self, path: str) -> bool:
        if path in self._seen:
            return False
        self._seen.add(path)
        return True

    def _is_there(self, root: Root, path: str, expected: int | None) -> bool:
        size = self.sizes.size(path)
        if size is None:
            self.damage(root, f"{path} does not exist")
        elif expected is not None and size != expected:
            self.damage(root, f"{path} has {size} bytes where {expected} were written")
        else:
            return True
        return False


def _read_file(storage: TableStorage, entry: ManifestEntry, path: str, deep: bool) -> int:
    """The rows of a data file, all of whose pages are read if `deep`.

    Raises:
        CorruptData: It cannot be read, or has other rows than its manifest entry.
        Unsupported: Headwater does not read such a file.
    """
    file = entry.file
    if path.endswith(BLOB_SUFFIX):
        return check_blobs(storage.files, path, file.file_size, file.row_count, deep=deep)
    schema = storage.schema_by_id(file.schema_id)
    reader = format_of_file(path).reader(
        storage.files, path, row_count=file.row_count, options=schema.table_options
    )
    fields: tuple[DataField, ...] = ()
    if deep:
        reader.check()
        thin = schema.table_options.thin_mode
        fields = data_file_fields(schema, thin=thin, tracked=file.stores_row_ids)
    if file.write_cols is not None:
        fields = tuple(each for each in fields if each.name in file.write_cols)
    blobs = managed_blob_columns(schema)
    read = reader.batches(fields)
    if deep and blobs:
        read = valued_rows(storage, read, blobs)
    rows = sum(int(batch.num_rows) for batch in read)
    if rows != file.row_count:
        raise CorruptData(f"{path} has {rows} rows where {file.row_count} were written")
    return rows


def _check_indexes(storage: TableStorage, entry: ManifestEntry, path: str, deep: bool) -> int:
    """Check the indexes of a data file, and compare them with its rows if `deep`; 0.

    Raises:
        CorruptData: They are missing, damaged, or not those of the file.
    """
    file = entry.file
    container = file_indexes_of(storage.files, file, path)
    if container is None:
        return 0
    schema = storage.schema_by_id(file.schema_id)
    if not deep:
        check_bodies(container, schema, file.row_count)
        return 0
    directory = bucket_directory(storage, entry.partition, entry.bucket)
    values = partition_values(storage, entry.partition)
    reader = BucketFiles(storage.at_schema(file.schema_id), directory, values)

    def rows(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return reader.open(file, partial=True).rows(columns, None, _BATCH_ROWS)

    check_values(container, schema, file.row_count, rows)
    return 0
