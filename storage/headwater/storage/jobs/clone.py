"""Copies of a table's snapshot, with all that it needs, to another place.

Data goes first and the snapshot last: what a killed clone leaves is not a table yet.

Source: ``CloneAction.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.storage.errors import CorruptData, NotFound, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.maintenance.reachable import data_paths, index_paths, manifest_names
from headwater.storage.scan.expired_snapshots import naming_expired
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.files import write_earliest_hint, write_latest_hint
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["clone_files"]

_THREADS = 8
_FILES_A_TASK = 20
_CHUNK = 8 * 1024**2
_CHANGELOG = ("changelogManifestList", "changelogManifestListSize", "changelogRecordCount")


def clone_files(
    storage: TableStorage, snapshot: Snapshot | None, files: FileAccess, layout: TableLayout
) -> int:
    """Copy a snapshot's files, and all schemas, to a directory that nobody else writes to.

    Args:
        storage: The table.
        snapshot: The snapshot; None copies the schemas alone.
        files: Access to the other place.
        layout: The other place.

    Returns:
        The number of data and index files copied.

    Raises:
        NotFound: The snapshot expired while it was copied.
        CorruptData: A file of the snapshot is missing, or has another size than its manifest says.
        Unsupported: Some of the table's files lie outside its directory, or its rows tell the
            places of their BLOBs.
    """
    managed = managed_blob_columns(storage.schema)
    if managed and snapshot is not None:
        raise Unsupported(
            f"table {storage.name}: the rows tell of column '{managed[0]}' of type BLOB in which "
            "file of this table each value lies, and so would those of a clone; create the other "
            "table, and write this one's rows to it"
        )
    copied = 0
    if snapshot is not None:
        with naming_expired(storage, snapshot):
            copied = _copy_snapshot(storage, snapshot, files, layout)
    newest = max(storage.schema.id, 0 if snapshot is None else snapshot.schema_id)
    for number in range(newest + 1):
        _copy_schema(storage, number, files, layout)
    if snapshot is not None:
        document = {k: v for k, v in snapshot.document.items() if k not in _CHANGELOG}
        text = Snapshot(document).to_json()
        files.write(layout.snapshot(snapshot.id), text.encode())
        write_earliest_hint(files, layout, snapshot.id)
        write_latest_hint(files, layout, snapshot.id)
    return copied


def _copy_snapshot(
    storage: TableStorage, snapshot: Snapshot, files: FileAccess, layout: TableLayout
) -> int:
    copied = _data(storage, snapshot)
    metadata = [_File(storage.layout.manifest(n)) for n in _manifests(storage, snapshot)]
    if snapshot.statistics is not None:
        metadata.append(_File(storage.layout.statistics(snapshot.statistics)))
    copy = _Copy(storage.files, storage.layout.location, files, layout.location)
    for part in (copied, metadata):
        tasks = [part[at : at + _FILES_A_TASK] for at in range(0, len(part), _FILES_A_TASK)]
        for _ in LocalExecutor(_THREADS).run(copy.run, tasks):
            pass
    return len(copied)


@dataclass(frozen=True)
class _File:
    """A file to be copied.

    Attributes:
        path: Its URI.
        size: Its bytes, where a manifest tells them.
    """

    path: str
    size: int | None = None


def _data(storage: TableStorage, snapshot: Snapshot) -> list[_File]:
    copied: list[_File] = []
    for entry in live_entries(storage, snapshot):
        main, *beside = data_paths(storage, entry)
        copied.append(_File(main, entry.file.file_size))
        copied += [_File(path) for path in beside]
    indexes = index_paths(storage, snapshot)
    if indexes is None:
        raise CorruptData(
            f"table {storage.name}: {storage.layout.manifest(snapshot.index_manifest or '')} does "
            "not exist"
        )
    copied += [_File(path) for path in indexes]
    for file in copied:
        if not file.path.startswith(storage.layout.location + "/"):
            raise Unsupported(
                f"table {storage.name}: {file.path} lies outside the table's directory, which "
                "Headwater does not clone; compact the table into its directory first"
            )
    return copied


def _manifests(storage: TableStorage, snapshot: Snapshot) -> Iterator[str]:
    yield from dict.fromkeys(manifest_names(storage, snapshot, changelog=False))
    if snapshot.index_manifest is not None:
        yield snapshot.index_manifest


@dataclass(frozen=True)
class _Copy:
    """Copies files from one place to another; it pickles."""

    source: FileAccess
    source_location: str
    target: FileAccess
    target_location: str

    def run(self, files: Sequence[_File]) -> int:
        """Copy some files."""
        for file in files:
            self._copy(file)
        return len(files)

    def _copy(self, file: _File) -> None:
        to = self.target_location + file.path.removeprefix(self.source_location)
        size = 0
        try:
            with self.source.open_input(file.path) as source, self.target.open_output(to) as sink:
                while chunk := source.read(_CHUNK):
                    sink.write(chunk)
                    size += len(chunk)
        except NotFound as error:
            raise CorruptData(f"{file.path} does not exist; the snapshot needs it") from error
        if file.size is not None and size != file.size:
            raise CorruptData(f"{file.path} has {size} bytes where its manifest says {file.size}")


def _copy_schema(
    storage: TableStorage, number: int, files: FileAccess, layout: TableLayout
) -> None:
    try:
        text = storage.files.read(storage.layout.schema(number))
    except NotFound:
        return
    schema = TableSchema.from_json(text, storage.layout.schema(number))
    if "path" in schema.options:
        # The place of an external table, which the copy does not lie at.
        options = {key: value for key, value in schema.options.items() if key != "path"}
        text = replace(schema, options=options).to_json().encode()
    files.write(layout.schema(number), text)
