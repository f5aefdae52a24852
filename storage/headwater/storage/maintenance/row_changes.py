"""Change rows where they stand: take away those that match, and add their new versions.

In an append table the rows that match are marked by deletion vectors, or their files are written
again without them; their new versions go to new files. In a primary-key table the new versions are
upserts where these take the place of what is stored; else files are written again (`key_rewrite`).
The rows are read in this process, a batch at a time.

Source: ``UpdatePaimonTableCommand.scala``, ``MergeIntoPaimonTable.scala``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.commit.vector_messages import released_vectors
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.maintenance.carried_blobs import carried, carried_columns, shown_columns
from headwater.storage.maintenance.column_changes import ColumnChange
from headwater.storage.maintenance.key_rewrite import plan_key_rewrite, rewrite_keys
from headwater.storage.maintenance.matched_rows import RowMatcher
from headwater.storage.maintenance.taken_rows import TakenRows, messages_of_taken
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.rules import MergeRules
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.read.split import read_split
from headwater.storage.rows.ingest import coerce
from headwater.storage.rows.kinds import RowKind
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.schema.system_fields import ROW_ID_FIELD
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.postponed import BucketsOfPartitions
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.cross_partition_writer import CrossPartitionWriter
from headwater.storage.write.new_writer import new_writer
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["LosingRows", "change_rows", "moved_rows_writer"]

_BATCH_ROWS = 65536


class LosingRows(Exception):
    """New versions of rows would lose against the stored ones by ``sequence.field``."""


def change_rows(
    storage: TableStorage,
    snapshot: Snapshot | None,
    matcher: RowMatcher,
    *,
    rewrites: bool = False,
) -> list[CommitMessage]:
    """Write what changes the rows of a snapshot.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
        matcher: Says which rows change.
        rewrites: In a primary-key table, write the files of the rows that match again.

    Returns:
        Messages to be committed together; none when nothing changes.

    Raises:
        LosingRows: Nothing was written; it takes `rewrites`.
        Invalid: New rows do not fit the table.
        CorruptData: A file is missing or damaged; the message names it.
        Unsupported: The table's options forbid it.
    """
    writer = _new_writer(storage, BucketStates(storage, snapshot))
    taken: list[CommitMessage] = []
    try:
        with writer, ExitStack() as opened:
            moved: TableWriter | None = None
            if storage.schema.table_options.tracks_rows:
                moved = opened.enter_context(moved_rows_writer(storage, snapshot))
            if snapshot is not None:
                if rewrites:
                    elsewhere = writer if isinstance(writer, CrossPartitionWriter) else None
                    for task in plan_key_rewrite(storage, snapshot, matcher.predicate):
                        message = rewrite_keys(storage, task, matcher, elsewhere)
                        taken += [] if message is None else [message]
                    taken += released_vectors(storage, snapshot, taken)
                    splits: Sequence[Split] = ()
                else:
                    plan = plan_snapshot(
                        storage, snapshot, predicate=matcher.predicate, with_level_zero=True
                    )
                    splits = plan.splits
                if storage.schema.table_options.evolves_columns:
                    taken += ColumnChange(storage, snapshot, matcher).messages(splits)
                elif storage.schema.primary_keys:
                    _upsert(storage, splits, matcher, writer)
                else:
                    change = _AppendChange(storage, snapshot, matcher, writer, moved)
                    taken += change.messages(splits)
            rest = matcher.rest()
            if rest is not None and rest.num_rows:
                writer.write(rest)
            kept = [] if moved is None else moved.finish()
            return [*taken, *kept, *writer.finish()]
    except BaseException:
        for message in taken:
            delete_message_files(storage, message)
        raise


def moved_rows_writer(storage: TableStorage, snapshot: Snapshot | None) -> TableWriter:
    """A writer of new versions of rows of a row-tracking table, which keep their ids.

    Args:
        storage: The table.
        snapshot: The snapshot that the rows were read in.
    """
    return TableWriter(
        storage,
        max_sequence_numbers={},
        checked_snapshot=SnapshotIdentity.of(snapshot),
        keeps_row_ids=True,
    )


def _new_writer(storage: TableStorage, states: BucketStates) -> TableWriter:
    """A writer of new versions of rows, which are part of the table at once."""
    if storage.schema.table_options.bucket != POSTPONE_BUCKET:
        return new_writer(storage, states)
    return TableWriter(
        storage,
        max_sequence_numbers=states,
        checked_snapshot=SnapshotIdentity.of(states.snapshot),
        assigner=BucketsOfPartitions(storage, states, infers=True),
    )


def _upsert(
    storage: TableStorage, splits: Sequence[Split], matcher: RowMatcher, writer: TableWriter
) -> None:
    rules = MergeRules.of(storage.schema)
    predicate = matcher.predicate
    shown = shown_columns(storage.schema, predicate)
    kept = carried_columns(storage.schema, matcher.changed)
    for split in splits:
        for batch in read_split(
            storage, split, predicate=predicate, blob_places=True, batch_rows=_BATCH_ROWS
        ):
            matched = matcher.match(batch.select(shown))
            if not len(matched.taken):
                continue
            kind, rows = RowKind.UPDATE_AFTER, matched.added
            if rows is None:
                kind, rows = RowKind.DELETE, batch.take(pa.array(matched.taken))
            elif _any_loses(storage, rules, batch.take(pa.array(matched.taken)), rows):
                raise LosingRows
            else:
                rows = carried(rows, batch, matched.taken, kept)
            kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows)
            # What is taken back is what is there.
            is_gone = kind is RowKind.DELETE
            writer.write(rows, kinds, keeps_nulls=is_gone, stored_blobs=kept)


def _any_loses(
    storage: TableStorage, rules: MergeRules, old: pa.RecordBatch, new: pa.Table
) -> bool:
    """Whether a new version is older than its row by ``sequence.field``."""
    if all(
        pa.chunked_array([old.column(name)]).equals(new.column(name))
        for name in rules.sequence_fields
    ):
        return False
    fields = storage.schema.columns(rules.sequence_fields)
    some = replace(storage.schema, fields=fields, primary_keys=(), partition_keys=())
    fitting = coerce(
        new.select(rules.sequence_fields), some, storage.name, storage.runtime.time_zone
    )
    ages = rules.sequence_order.encode(
        [
            pa.concat_arrays([old.column(name), *fitting.column(name).chunks])
            for name in rules.sequence_fields
        ]
    )
    return bool(np.any(np.less(ages[old.num_rows :], ages[: old.num_rows])))


@dataclass
class _AppendChange:
    """Takes rows out of the files of an append table.

    New versions of rows go to `moved` if the table has row tracking, else to `writer`.
    """

    storage: TableStorage
    snapshot: Snapshot
    matcher: RowMatcher
    writer: TableWriter
    moved: TableWriter | None
    buckets: dict[tuple[bytes, int], TakenRows] = field(default_factory=dict)

    def messages(self, splits: Sequence[Split]) -> list[CommitMessage]:
        """The messages that take away the rows that match; their new versions are written."""
        storage = self.storage
        try:
            for split in splits:
                files = BucketFiles(
                    storage, split.directory, split.partition_values, split.deletion_files
                )
                for file in split.files:
                    self._take(split, file, files.open(file))
        except BaseException:
            for change in self.buckets.values():
                delete_message_files(storage, change.message(self.snapshot.identity))
            raise
        return messages_of_taken(storage, self.snapshot, self.buckets.values())

    def _take(self, split: Split, file: DataFile, opened: DataFileReader) -> None:
        """Take the rows that match out of one file."""
        storage = self.storage
        columns = storage.schema.moved_columns
        before = opened.deletion_vector
        positions: list[npt.NDArray[np.int64]] = []
        for start, batch in opened.positions(columns, self.matcher.predicate, _BATCH_ROWS):
            live = before.kept(start, start + batch.num_rows)
            rows = batch.filter(pa.array(live))
            matched = self.matcher.match(rows)
            if not len(matched.taken):
                continue
            positions.append(np.flatnonzero(live)[matched.taken] + start)
            if matched.added is not None:
                self._write(rows, matched.taken, matched.added)
        if not positions:
            return
        bucket = self.buckets.setdefault((split.partition, split.bucket), TakenRows.of(split))
        bucket.take(storage, file, opened, DeletionVector.from_positions(np.concatenate(positions)))

    def _write(self, rows: pa.RecordBatch, taken: npt.NDArray[np.int64], added: pa.Table) -> None:
        if self.moved is None:
            self.writer.write(added)
            return
        ids = rows.column(ROW_ID_FIELD.name).take(pa.array(taken))
        self.moved.write(added.select(list(self.storage.schema.field_by_name)), row_ids=ids)
