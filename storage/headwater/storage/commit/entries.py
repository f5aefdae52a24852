"""The parts of a commit: manifest entries, and the partitions that an overwrite replaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.manifest.data_file import FileKind, ManifestEntry, epoch_millis
from headwater.storage.manifest.key_range import key_range
from headwater.storage.predicate.filter import (
    Predicate,
    columns_of,
    filter_rows,
    to_expression,
    to_sql,
)
from headwater.storage.rows.by_bucket import by_bucket
from headwater.storage.rows.partition import (
    check_unambiguous,
    partition_spec,
    partition_values,
    static_partition,
)
from headwater.storage.table_storage import PartitionStatistics, TableStorage
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.padded_text import padded_value
from headwater.storage.types.values import StorageValue
from headwater.storage.write.table_writer import CommitMessage

__all__ = [
    "PartitionFilter",
    "append_entries",
    "changelog_entries",
    "compact_entries",
    "partition_statistics",
    "record_count",
    "upgraded",
]

# No column's name begins so.
_ROW = "_KEY_partition"


@dataclass(frozen=True)
class PartitionFilter:
    """Some of a table's partitions: given ones, or those with given values, or all; it pickles.

    Attributes:
        storage: The table.
        partitions: Serialised partitions; None when `values` decide.
        values: Storage values by partition column; every partition must have one of them. The
            empty mapping alone is every partition.
        condition: A condition on the partition columns that they fulfil besides.
        named: `values` as the caller gave them.
    """

    storage: TableStorage
    partitions: Collection[bytes] | None = None
    values: tuple[Mapping[str, StorageValue], ...] = ({},)
    condition: Predicate | None = None
    named: tuple[Mapping[str, object], ...] = ()

    @staticmethod
    def whole_table(storage: TableStorage) -> PartitionFilter:
        """Every partition."""
        return PartitionFilter(storage)

    @staticmethod
    def static(storage: TableStorage, *partitions: Mapping[str, object]) -> PartitionFilter:
        """Partitions given by some or all of their columns; raises Invalid for other columns."""
        return PartitionFilter(
            storage,
            None,
            tuple(static_partition(storage, each) for each in partitions),
            named=partitions,
        )

    @staticmethod
    def asked_for(
        storage: TableStorage, partition: Mapping[str, object] | None, where: Predicate | None
    ) -> PartitionFilter:
        """Partitions with some values, or those that fulfil a condition; without either, all.

        Raises:
            Invalid: Both are given, or they are not about partition columns.
        """
        if partition and where is not None:
            raise Invalid("choose partitions by their values or by a condition, not by both")
        if where is not None:
            return PartitionFilter.where(storage, where)
        return PartitionFilter.static(storage, partition or {})

    @staticmethod
    def from_messages(storage: TableStorage, messages: Sequence[CommitMessage]) -> PartitionFilter:
        """The partitions that messages lie in."""
        return PartitionFilter(storage, frozenset(message.partition for message in messages))

    @property
    def is_whole(self) -> bool:
        """Whether it is certainly every partition."""
        if self.partitions is not None or self.condition is not None:
            return False
        return any(not wanted for wanted in self.values)

    @staticmethod
    def where(storage: TableStorage, condition: Predicate) -> PartitionFilter:
        """Partitions for which a condition is true; raises Invalid if it asks for other columns."""
        keys = storage.schema.partition_keys
        others = sorted(columns_of(condition).difference(keys))
        if others:
            raise Invalid(
                f"table {storage.name}: '{others[0]}' is not a partition column; a condition that "
                f"chooses partitions asks for {', '.join(keys) or '(none)'}"
            )
        return PartitionFilter(storage, condition=condition)

    def chosen(self, partitions: Iterable[bytes]) -> frozenset[bytes]:
        """Those of some serialised partitions that are among them.

        Raises:
            Invalid: A name is ambiguous, see `check_unambiguous`.
        """
        partitions = list(partitions)
        for names in self.named:
            present = (partition_values(self.storage, each) for each in partitions)
            check_unambiguous(self.storage, names, present)
        chosen = [each for each in dict.fromkeys(partitions) if self._has_values(each)]
        if self.condition is None or not chosen:
            return frozenset(chosen)
        fields = self.storage.schema.partition_fields
        values = zip(*(partition_values(self.storage, each) for each in chosen), strict=True)
        columns = [
            pa.array(column, to_arrow(field.type))
            for field, column in zip(fields, values, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(
            [*columns, pa.array(chosen, pa.binary())], [*(field.name for field in fields), _ROW]
        )
        keep = to_expression(self.condition, self.storage.schema)
        return frozenset(filter_rows(rows, keep).column(_ROW).to_pylist())

    def includes(self, partition: bytes) -> bool:
        """Whether a serialised partition is among them."""
        return partition in self.chosen([partition])

    def _has_values(self, partition: bytes) -> bool:
        if self.partitions is not None:
            return partition in self.partitions
        own = {
            field.name: padded_value(value, field.type)
            for field, value in zip(
                self.storage.schema.partition_fields,
                partition_values(self.storage, partition),
                strict=True,
            )
        }
        return any(
            # As parts of a partition, NaN is itself.
            all(
                own[name] == value or (own[name] != own[name] and value != value)
                for name, value in wanted.items()
            )
            for wanted in self.values
        )

    def __str__(self) -> str:
        if self.partitions is not None:
            return f"{len(self.partitions)} partitions"
        if self.condition is not None:
            return f"partitions where {to_sql(self.condition, self.storage.schema)}"
        texts = [", ".join(f"{k}={v!r}" for k, v in each.items()) for each in self.values]
        return " or ".join(f"partition {text}" if text else "the table" for text in texts)


def _entries(
    kind: FileKind, messages: Sequence[CommitMessage], attribute: str
) -> list[ManifestEntry]:
    return [
        ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file)
        for message in messages
        for file in getattr(message, attribute)
    ]


def append_entries(messages: Sequence[CommitMessage]) -> list[ManifestEntry]:
    """The new files."""
    return _entries(FileKind.ADD, messages, "new_files")


def changelog_entries(messages: Sequence[CommitMessage]) -> list[ManifestEntry]:
    """The changelog files."""
    return _entries(FileKind.ADD, messages, "changelog_files")


def compact_entries(messages: Sequence[CommitMessage]) -> list[ManifestEntry]:
    """The files that compactions took away, then those that they made."""
    return [
        *_entries(FileKind.DELETE, messages, "compact_before"),
        *_entries(FileKind.ADD, messages, "compact_after"),
    ]


def record_count(entries: Sequence[ManifestEntry]) -> int:
    """Rows added less rows taken away, before merging."""
    return sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in entries
    )


def upgraded(storage: TableStorage, entries: list[ManifestEntry]) -> list[ManifestEntry]:
    """The files of an overwrite on the highest level, for each bucket where they are one run.

    Readers then need no merge. Files with retracting rows stay on level 0, where a merge drops
    those rows; so do those that a compaction is to sort by other columns than the key. Source:
    ``FileStoreCommitImpl.tryUpgrade``.
    """
    options = storage.schema.table_options
    if (
        not storage.schema.primary_keys
        or not options.overwrite_upgrade
        or options.overrides_key_order
    ):
        return entries
    result: list[ManifestEntry] = []
    for group in by_bucket(entries).values():
        ranges = sorted(key_range(storage, e.file) for e in group)
        one_run = all(one[1] < other[0] for one, other in pairwise(ranges))
        waits = group[0].bucket == POSTPONE_BUCKET
        if waits or not one_run or any(e.file.level or e.file.delete_row_count for e in group):
            result += group
            continue
        result += [
            ManifestEntry(
                e.kind, e.partition, e.bucket, e.total_buckets,
                e.file.at_level(options.highest_level),
            )
            for e in group
        ]  # fmt: skip
    return result


def partition_statistics(
    storage: TableStorage, entries: Sequence[ManifestEntry]
) -> list[PartitionStatistics]:
    """The changes of a commit, counted by partition (``PartitionEntry.java``)."""
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.partition, []).append(entry)
    result: list[PartitionStatistics] = []
    for partition, group in groups.items():
        signs = [1 if entry.kind is FileKind.ADD else -1 for entry in group]
        times = [e.file.creation_time for e in group if e.file.creation_time is not None]
        result.append(
            PartitionStatistics(
                spec=dict(partition_spec(storage, partition)),
                record_count=record_count(group),
                file_size_in_bytes=sum(
                    sign * e.file.file_size for sign, e in zip(signs, group, strict=True)
                ),
                file_count=sum(signs),
                last_file_creation_time=epoch_millis(max(times)) if times else 0,
                total_buckets=group[-1].total_buckets,
            )
        )
    return result
