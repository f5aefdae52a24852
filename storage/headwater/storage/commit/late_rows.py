"""Sequence numbers of rows that are committed after rows which were written later.

A writer takes its sequence numbers when it begins. Rows that another commit added to the bucket
since then may have the same or greater ones, and would win over rows that are committed after
them, although streams give those last. Such rows are written again with greater numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import HeadwaterError
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.manifest.data_file import DataFile, FileKind, ManifestEntry
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import max_sequence_numbers
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter

__all__ = ["LateRows"]

_BATCH_ROWS = 65536
# Numbers left out, so that commits which come in between while rows are written again do not make
# it necessary once more.
_SLACK = 1 << 20


@dataclass
class LateRows:
    """The files of one commit, written again where their rows must be newer.

    Attributes:
        storage: The table, which has a primary key.
        written: Files that this wrote.
        replaced: Files that others took the place of.
    """

    storage: TableStorage
    written: list[ManifestEntry] = field(default_factory=list)
    replaced: list[ManifestEntry] = field(default_factory=list)

    def renumbered(
        self, added: Sequence[ManifestEntry], others: Iterable[ManifestEntry]
    ) -> list[ManifestEntry]:
        """The files of a commit with sequence numbers beyond those of other commits.

        Args:
            added: The files, all of them new.
            others: Files that other commits added to the same partitions since the writer looked.
        """
        latest = max_sequence_numbers(others)
        first: dict[tuple[bytes, int], int] = {}
        for entry in added:
            bucket = (entry.partition, entry.bucket)
            number = entry.file.min_sequence_number
            first[bucket] = min(first.get(bucket, number), number)
        result: list[ManifestEntry] = []
        for entry in added:
            bucket = (entry.partition, entry.bucket)
            # Rows that wait for a compaction have no numbers yet.
            if entry.bucket == POSTPONE_BUCKET or latest.get(bucket, -1) < first[bucket]:
                result.append(entry)
                continue
            shift = latest[bucket] + 1 + _SLACK - first[bucket]
            again = [replace(entry, file=file) for file in self._shifted(entry, shift)]
            self.written += again
            self.replaced.append(entry)
            result += again
        return result

    def delete_written(self) -> None:
        """Delete the files that this wrote, of a commit that certainly did not happen."""
        _delete(self.storage, self.written)

    def delete_replaced(self) -> None:
        """Delete the files that others took the place of, of a commit that did happen."""
        _delete(self.storage, self.replaced)

    def _shifted(self, entry: ManifestEntry, shift: int) -> list[DataFile]:
        """A file's rows with greater sequence numbers."""
        storage = self.storage
        directory = bucket_directory(storage, entry.partition, entry.bucket)
        files = BucketFiles(storage, directory, partition_values(storage, entry.partition))
        columns = [item.name for item in storage.schema.fields]
        names = [*columns, KIND_FIELD.name, SEQUENCE_FIELD.name]
        writer = DataFileWriter(storage, entry.partition, entry.bucket, level=entry.file.level)
        try:
            for batch in files.open(entry.file).rows(names, None, _BATCH_ROWS):
                numbers = pc.add(batch.column(SEQUENCE_FIELD.name), shift)
                kept = batch.columns[:-1]
                writer.write(pa.table([*kept, numbers], names=names))
            return writer.finish()
        except BaseException:
            writer.abort()
            raise


def _delete(storage: TableStorage, entries: Iterable[ManifestEntry]) -> None:
    for entry in entries:
        assert entry.kind is FileKind.ADD
        directory = bucket_directory(storage, entry.partition, entry.bucket)
        for path in entry.file.paths(directory):
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                storage.files.delete(path)
