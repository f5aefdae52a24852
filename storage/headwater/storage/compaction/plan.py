"""The work of a compaction: for each bucket the files to be rewritten together.

A full compaction makes each bucket of a primary-key table one sorted run on the highest level, and
puts all neighbouring small files of an append table together. The one that is due merges no more
than keeps the number of runs, or of small files, small. Source: ``MergeTreeCompactManager.java``,
``BucketedAppendCompactManager.java``, ``AppendCompactCoordinator.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.storage.capabilities import Operation
from headwater.storage.compaction.joined import joined_work
from headwater.storage.compaction.key_clustering import clustered_work
from headwater.storage.compaction.levels import Levels
from headwater.storage.compaction.record_expiry import RecordExpiry
from headwater.storage.compaction.universal import (
    CompactionUnit,
    full_compaction,
    pick_compaction,
)
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import DeletionFile, deletion_files_by_bucket
from headwater.storage.index.index_file import DELETION_VECTORS, IndexManifestEntry
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.rules import MergeRules
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.by_bucket import by_bucket
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries
from headwater.storage.scan.sections import lacks_vectors, pack_in_order
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.file_encoding import refuse_formats

__all__ = ["CompactionTask", "plan_compaction"]


@dataclass(frozen=True)
class CompactionTask:
    """Files of one bucket to be rewritten together; it pickles.

    Attributes:
        base: The snapshot it was planned in.
        partition: Serialised partition values.
        bucket: The bucket's number.
        total_buckets: Buckets of the partition.
        unit: The files, and what becomes of them.
        deletion_files: The places of the files' deletion vectors, by the names of the files.
        tells_lookups: False if a lookup writes no changelog.
        indexes: The bucket's index files of deletion vectors.
    """

    base: SnapshotIdentity
    partition: bytes
    bucket: int
    total_buckets: int
    unit: CompactionUnit
    deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict, hash=False)
    tells_lookups: bool = True
    indexes: tuple[IndexManifestEntry, ...] = field(default=(), hash=False)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files to be rewritten."""
        return self.unit.files

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def plan_compaction(
    storage: TableStorage,
    snapshot: Snapshot,
    *,
    full: bool = True,
    partitions: Collection[bytes] | None = None,
    buckets: Collection[tuple[bytes, int]] | None = None,
    least_runs: int = 0,
    tells_lookups: bool = True,
) -> list[CompactionTask]:
    """Plan a compaction.

    Args:
        storage: The table.
        snapshot: The snapshot to be compacted.
        full: Compact all there is; else only what is due.
        partitions: Only these, serialised.
        buckets: Only these.
        least_runs: Only buckets with as many sorted runs.
        tells_lookups: False if a lookup writes no changelog.

    Raises:
        Unsupported: The table cannot be written or compacted.
        Invalid: An option that says when to compact is none.
    """
    storage.refuse(Operation.WRITE | Operation.COMPACT)
    refuse_formats(storage.schema)
    options = CompactionOptions(storage.schema.options)
    keyed = bool(storage.schema.primary_keys)
    if keyed and options.highest_level < 1:
        raise Invalid(f"option 'num-levels' must be at least 2, not {options.highest_level + 1}")
    if buckets is not None:
        partitions = {partition for partition, _ in buckets}
    found = by_bucket(live_entries(storage, snapshot, partitions=partitions))
    indexes = by_bucket(
        index
        for index in index_entries(storage, snapshot)
        if index.index_file.index_type == DELETION_VECTORS
    )
    tasks: list[CompactionTask] = []
    for (partition, number), entries in found.items():
        if number == POSTPONE_BUCKET:
            continue  # `plan_postponed` is for these
        if buckets is not None and (partition, number) not in buckets:
            continue
        files = [entry.file for entry in entries]
        if len(Levels.of(files, 1).runs) < least_runs:
            continue
        own = tuple(indexes.get((partition, number), ()))
        places = deletion_files_by_bucket(storage, own, [(partition, number)])
        deleted = places.get((partition, number), {})
        units: Iterator[CompactionUnit]
        if storage.schema.table_options.evolves_columns:
            where = bucket_directory(storage, partition, number)
            groups = joined_work(storage, options, where, files) if full else iter(())
            units = (CompactionUnit(0, tuple(group)) for group in groups)
        elif options.overrides_key_order and keyed:
            found_unit = clustered_work(storage, files, deleted, full=full)
            units = iter(() if found_unit is None else (found_unit,))
        elif keyed:
            units = _keyed_work(storage, partition, number, files, deleted, full=full)
        else:
            groups = _append_work(options, files, deleted) if full else _append_due(options, files)
            units = (CompactionUnit(0, tuple(group)) for group in groups)
        tasks += [
            CompactionTask(
                snapshot.identity,
                partition,
                number,
                entries[0].total_buckets,
                unit,
                deleted,
                tells_lookups,
                own,
            )
            for unit in units
        ]
    return tasks


def _keyed_work(
    storage: TableStorage,
    partition: bytes,
    bucket: int,
    files: list[DataFile],
    deleted: Mapping[str, DeletionFile],
    *,
    full: bool,
) -> Iterator[CompactionUnit]:
    options = CompactionOptions(storage.schema.options)
    levels = Levels.of(files, options.highest_level)
    if full:
        small = [file for file in files if file.file_size < options.small_file_size(True)]
        expiry = RecordExpiry.of(storage)
        expired = expiry is not None and any(map(expiry.has_expired, files))
        below = any(file.level != levels.highest for file in files)
        marked = any(file.file_name in deleted for file in files)
        if expired or below or marked or len(small) > 1 or options.rewrites_all_files:
            yield replace(full_compaction(levels), drops_vectors=True)
        return
    runtime = storage.runtime
    unit = pick_compaction(levels, options, runtime.now_millis(), runtime.time_zone())
    if unit is None:
        return
    if options.deletion_vectors_enabled and lacks_vectors(storage, files):
        yield full_compaction(levels)
        return
    engine = MergeRules.of(storage.schema).engine
    if unit.older and not (options.needs_lookup or engine.merges_retractions_partially):
        opened = BucketFiles(
            storage,
            bucket_directory(storage, partition, bucket),
            partition_values(storage, partition),
            deleted,
        )
        # Rows that retract must meet those that they take something back from.
        if any(opened.open(file).may_delete for file in unit.files):
            unit = full_compaction(levels)
    yield unit


def _append_work(
    options: CompactionOptions, files: Sequence[DataFile], deleted: Mapping[str, DeletionFile]
) -> Iterator[Sequence[DataFile]]:
    """Runs of small files; rows keep their order, which counts in a bucketed table.

    A file of which many rows are deleted counts as small, and a small one of which any are is
    rewritten even by itself.
    """
    target = options.target_file_size(False)
    if options.rewrites_all_files:
        yield from pack_in_order(_in_order(files), lambda one: one.file_size, target)
        return
    shrinking = {file.file_name for file in files if _has_shrunk(options, file, deleted)}
    for run in _small_neighbours(options, files, shrinking):
        for group in pack_in_order(run, lambda one: one.file_size, target):
            if len(group) > 1 or group[0].file_name in deleted:
                yield group


def _has_shrunk(
    options: CompactionOptions, file: DataFile, deleted: Mapping[str, DeletionFile]
) -> bool:
    """True if more than ``compaction.delete-ratio-threshold`` of a file's rows are deleted."""
    place = deleted.get(file.file_name)
    if place is None:
        return False
    if place.cardinality is None:
        return True
    return place.cardinality > options.delete_ratio_threshold * file.row_count


def _append_due(
    options: CompactionOptions, files: Sequence[DataFile]
) -> Iterator[Sequence[DataFile]]:
    """The newest of neighbouring small files, once there are enough.

    A file joins those after it unless it is much greater than they are together, so that a row is
    rewritten a few times and not with each file that comes. (Paimon rewrites whatever is small.)
    Tables without buckets are left alone, as by Paimon's writers.
    """
    if options.bucket < 1:
        return
    for run in _small_neighbours(options, files):
        size = count = 0
        for file in reversed(run):
            if count and file.file_size > 2 * size:
                break
            size += file.file_size
            count += 1
        if count >= options.append_file_trigger:
            target = options.target_file_size(False)
            for group in pack_in_order(run[-count:], lambda one: one.file_size, target):
                if len(group) > 1:
                    yield group


def _small_neighbours(
    options: CompactionOptions, files: Sequence[DataFile], shrunk: Collection[str] = ()
) -> Iterator[Sequence[DataFile]]:
    least = options.small_file_size(False)
    ordered = _in_order(files)
    if options.bucket < 1:
        # Without buckets no order is promised, so large files may be stepped over.
        ordered = [one for one in ordered if one.file_size < least or one.file_name in shrunk]
    run: list[DataFile] = []
    for file in ordered:
        if file.file_size < least or file.file_name in shrunk:
            run.append(file)
            continue
        yield run
        run = []
    yield run


def _in_order(files: Sequence[DataFile]) -> list[DataFile]:
    """Files of an append table in the order of their rows."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.creation_time or 0))
