"""The writer of tables whose keys may be in any partition: dynamic buckets, and a primary key that
lacks a partition column.

Rows are gathered up to ``write-buffer-size``. If these are all, the table is searched for their
keys and they are written. If there are more, rows and then the keys of the table go to temporary
files by ranges of their hashes, and some ranges are matched and written at a time: each row and
each key is read and written once more, however many there are, and memory stays bounded.

What a key's partition was holds for the snapshot that was searched. The commit is refused when
another changed rows since: else both might give the key a partition of its own.

Source: ``GlobalIndexAssigner.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.options import MergeEngine
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.predicate.tree import Constant
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.rows.distribute import Codes, Numbers, distribute, partition_codes
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.partition import partition_values
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import to_arrow
from headwater.storage.write.assign.assigner import OneBucket
from headwater.storage.write.assign.filling import classes_of, fill_buckets
from headwater.storage.write.assign.hash_spill import HASH_RANGES, HashSpill
from headwater.storage.write.assign.key_places import (
    KeyPlaces,
    Keys,
    encode_keys,
    keys_between,
    read_keys,
)
from headwater.storage.write.assign.moves import Moves, moves_of
from headwater.storage.write.bucket_state import BucketStates, describe_partition
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["CrossPartitionWriter", "Overwritten"]

# Keys of the table on their way to a temporary file.
_KEY, _HASH, _PLACE = "key", "hash", "place"


class Overwritten:
    """The partitions that an overwrite replaces.

    Args:
        includes: Says of a serialised partition whether it is among them; None for those that
            there are rows for.
    """

    def __init__(self, includes: Callable[[bytes], bool] | None = None) -> None:
        self._includes = includes
        self.own: set[bytes] = set()
        """The partitions of the rows so far."""

    def take_note(self, storage: TableStorage, rows: pa.Table) -> None:
        """Take note of rows that come in the place of others.

        Raises:
            Invalid: They lie outside the partitions.
        """
        partitions, _ = partition_codes(rows, storage.schema.partition_fields)
        self.own.update(partitions)
        for partition in partitions:
            if not self.includes(partition):
                raise Invalid(
                    f"table {storage.name}: rows lie in {describe_partition(storage, partition)}, "
                    "outside of what is to be overwritten"
                )

    def includes(self, partition: bytes) -> bool:
        """True if a partition is replaced, as far as is known."""
        return partition in self.own if self._includes is None else self._includes(partition)

    def unwritten(self, written: Iterable[bytes]) -> set[bytes]:
        """Partitions that are replaced for their rows, though all of these went elsewhere."""
        return self.own - set(written) if self._includes is None else set()


class CrossPartitionWriter(TableWriter):
    """Writes rows to the partitions where their keys are, or moves the keys.

    Args:
        storage: The table.
        states: The buckets that rows are added to; None when all rows of the table are replaced.
        first: Added to the sequence numbers, so that writers that share a bucket share none.
        overwritten: The partitions that are replaced; None if rows are added.

    Raises:
        Unsupported: As `TableWriter`.
    """

    def __init__(
        self,
        storage: TableStorage,
        states: BucketStates | None,
        *,
        first: int = 0,
        overwritten: Overwritten | None = None,
    ) -> None:
        self._states = states
        self._base = None if states is None else states.snapshot
        self._replaced = overwritten
        super().__init__(
            storage,
            max_sequence_numbers=lambda partition, bucket: first + self._last(partition, bucket),
            checked_snapshot=None if states is None else SnapshotIdentity.of(self._base),
            assigner=OneBucket(0, -1),
        )
        self._spills = ExitStack()
        self._spilled: HashSpill | None = None
        self._gone: list[pa.Table] = []
        self._gone_bytes = 0
        self._spilled_gone: HashSpill | None = None
        self._numbers: dict[Bucket, int] = {}
        self._counts: dict[bytes, dict[int, int]] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete what was written when an exception ends the block, and temporary files always."""
        super().__exit__(kind, error, trace)
        self._spills.close()

    def abort(self) -> None:
        """Delete every file written; the writer takes no more rows."""
        super().abort()
        self._spills.close()

    def forget(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Take the keys of some rows for new ones: the same commit takes those rows away.

        Args:
            rows: Rows of the table, with the columns of the primary key.
        """
        keys = encode_keys(self._storage, rows)
        self._gone.append(pa.table({_KEY: keys.rows, _HASH: keys.hashes}))
        self._gone_bytes += self._gone[-1].nbytes
        if self._gone_bytes >= self._limit:
            self._spill_gone()

    def finish(self) -> list[CommitMessage]:
        """As `TableWriter.finish`; every row is written now.

        Raises:
            CorruptData: A key is in several partitions of the table, or a file is damaged.
        """
        if not self._closed:
            try:
                self._write_held()
            except BaseException:
                self.abort()
                raise
        messages = super().finish()
        self._spills.close()
        if self._replaced is not None:
            written = {message.partition for message in messages}
            messages += [
                CommitMessage(each, 0, -1) for each in sorted(self._replaced.unwritten(written))
            ]
        return messages

    def _message(self, bucket: Bucket) -> CommitMessage:
        return replace(
            super()._message(bucket),
            searched_snapshot=self._checked,
            is_beside=self._replaced is not None and not self._replaced.includes(bucket[0]),
        )

    def _last(self, partition: bytes, bucket: int) -> int:
        """The greatest sequence number of a bucket."""
        if self._states is None or self._is_replaced(partition):
            return -1
        return self._states(partition, bucket)

    def _is_replaced(self, partition: bytes) -> bool:
        return self._replaced is not None and self._replaced.includes(partition)

    # Holding -----------------------------------------------------------------------------------

    def _add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        if self._replaced is not None:
            self._replaced.take_note(self._storage, rows)
        row_bytes = rows.nbytes / rows.num_rows
        while rows.num_rows:
            room = max(1, int((self._limit - self._buffered_bytes) / max(row_bytes, 1)))
            part, rows = rows.slice(0, room), rows.slice(room)
            self._buffer.append(part)
            self._buffered_bytes += int(part.num_rows * row_bytes) + 1
            if self._buffered_bytes >= self._limit:
                if self._spilled is None:
                    self._spilled = HashSpill(self._folder())
                self._spill(self._spilled)

    def _folder(self) -> Path:
        return Path(self._spills.enter_context(TemporaryDirectory(prefix="headwater-")))

    def _spill(self, spilled: HashSpill) -> None:
        held = self._take_held()
        spilled.add(held, encode_keys(self._storage, held).hashes)

    def _spill_gone(self) -> HashSpill:
        if self._spilled_gone is None:
            self._spilled_gone = HashSpill(self._folder())
        if self._gone:
            held = self._take_gone()
            self._spilled_gone.add(held, held.column(_HASH).to_numpy())
        return self._spilled_gone

    def _take_gone(self) -> pa.Table:
        none = pa.schema([(_KEY, pa.large_binary()), (_HASH, pa.int32())]).empty_table()
        held = pa.concat_tables([none, *self._gone]).combine_chunks()
        self._gone.clear()
        self._gone_bytes = 0
        return held

    def _take_held(self) -> pa.Table:
        held = pa.concat_tables(self._buffer).combine_chunks()
        self._buffer.clear()
        self._buffered_bytes = 0
        return held

    # Writing -----------------------------------------------------------------------------------

    def _write_held(self) -> None:
        if self._spilled is None and self._spilled_gone is None:
            if self._buffer:
                held = self._take_held()
                self._write_rows(held, self._search(held), self._take_gone().column(_KEY))
            return
        if self._spilled is None:
            if not self._buffer:
                return
            self._spilled = HashSpill(self._folder())
        if self._buffer:
            self._spill(self._spilled)
        gone = self._spill_gone()
        known = HashSpill(self._folder())
        self._spill_known(known)
        for first, end in _groups(self._spilled, self._limit):
            rows = pa.Table.from_batches(self._spilled.read(first, end)).combine_chunks()
            keys = [batch.column(_KEY) for batch in gone.read(first, end)]
            self._write_rows(
                rows,
                _spilled_keys(known, first, end),
                pa.chunked_array(keys, pa.large_binary()),
            )

    def _search(self, rows: pa.Table) -> Iterator[tuple[Keys, int]]:
        """The keys of the table among which those of some rows are."""
        between = keys_between(self._storage, rows)
        for found in read_keys(self._storage, self._base, between, self._is_replaced):
            yield found.keys, self._number(found.bucket)

    def _spill_known(self, known: HashSpill) -> None:
        """Write all keys of the table to a temporary file, as they are too many for memory."""
        waiting: list[pa.Table] = []
        size = 0
        for found in read_keys(self._storage, self._base, Constant(True), self._is_replaced):
            place = pa.repeat(pa.scalar(self._number(found.bucket), pa.int32()), len(found.keys))
            hashes = pa.array(found.keys.hashes)
            waiting.append(pa.table({_KEY: found.keys.rows, _HASH: hashes, _PLACE: place}))
            size += waiting[-1].nbytes
            if size >= self._limit:
                _spill_keys(known, waiting)
                size = 0
        _spill_keys(known, waiting)

    def _number(self, bucket: Bucket) -> int:
        return self._numbers.setdefault(bucket, len(self._numbers))

    def _write_rows(
        self,
        rows: pa.Table,
        present: Iterable[tuple[Keys, int | npt.NDArray[np.int32]]],
        gone: pa.ChunkedArray,
    ) -> None:
        """Write all rows of some keys, given the table's keys, and those among them that go."""
        keys = encode_keys(self._storage, rows)
        encoded = keys.rows.dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        hashes = np.empty(len(encoded.dictionary), np.int32)
        hashes[codes] = keys.hashes
        wanted = Keys(encoded.dictionary, hashes)
        del keys, encoded
        search = KeyPlaces(self._storage, wanted)
        for found, place in present:
            search.offer(found, place)
        places = search.places()
        if len(gone):
            is_gone = pc.is_in(wanted.rows, value_set=gone.combine_chunks())
            places[is_gone.to_numpy(zero_copy_only=False)] = -1
        partitions, own = partition_codes(rows, self._storage.schema.partition_fields)
        buckets = list(self._numbers)
        numbers = {partition: number for number, partition in enumerate(partitions)}
        for place in np.unique(places[places >= 0]).tolist():
            numbers.setdefault(buckets[place][0], len(numbers))
        # One more for -1, which is the last.
        home_of = np.array([*(numbers.get(each, -1) for each, _ in buckets), -1], np.int64)
        homes = home_of[places]
        moves = moves_of(self._options.merge_engine, codes, own, homes)
        if not len(moves.rows):
            return
        self._load_counts(list(numbers))
        if self._options.merge_engine is MergeEngine.DEDUPLICATE:
            last = homes.copy()
            last[codes] = own
            self._leave(buckets, places[(homes >= 0) & (last != homes)])
        assigned = self._assign(list(numbers), codes[moves.rows], moves, hashes, places, homes)
        self._write_placed(self._moved(rows, own, list(numbers), moves), assigned)

    def _load_counts(self, partitions: list[bytes]) -> None:
        """The keys of each bucket at most: versions of a row that are not merged count each."""
        new = [each for each in partitions if each not in self._counts]
        kept = [each for each in new if not self._is_replaced(each)]
        self._counts |= {each: {} for each in new}
        if self._states is not None:
            self._states.load(kept)
            for each in kept:
                self._counts[each] = dict(self._states.partitions[each].row_counts)

    def _leave(self, buckets: list[Bucket], places: npt.NDArray[np.int32]) -> None:
        """Make room in the buckets that keys leave (``BucketAssigner.decrement``)."""
        for place, count in zip(*np.unique(places, return_counts=True), strict=True):
            partition, bucket = buckets[int(place)]
            counts = self._counts[partition]
            counts[bucket] = max(0, counts.get(bucket, 0) - int(count))

    def _assign(
        self,
        partitions: list[bytes],
        codes: Codes,
        moves: Moves,
        hashes: npt.NDArray[np.int32],
        places: npt.NDArray[np.int32],
        homes: Codes,
    ) -> Numbers:
        """The bucket of each row to write; a key has one in each partition."""
        own = np.array([*(bucket for _, bucket in self._numbers), -1], np.int32)
        result = own[places[codes]]
        is_new = moves.partitions != homes[codes]
        if not is_new.any():
            return result
        pairs = codes[is_new] * len(partitions) + moves.partitions[is_new]
        distinct, first, back = np.unique(pairs, return_index=True, return_inverse=True)
        # In the order of the rows: the first keys fill the first buckets.
        arrived = np.argsort(first, kind="stable")
        keys, of = np.divmod(distinct[arrived], len(partitions))
        classes = classes_of(AssignmentOptions(self._storage.schema.options))
        buckets = np.empty(len(distinct), np.int32)
        for number in np.unique(of).tolist():
            chosen = np.flatnonzero(of == number)
            own_hashes = hashes[keys[chosen]]
            buckets[arrived[chosen]] = fill_buckets(
                self._storage,
                self._counts[partitions[number]],
                np.abs(np.fmod(own_hashes, np.int32(classes))),
                own_hashes,
            )
        result[is_new] = buckets[back]
        return result

    def _moved(self, rows: pa.Table, own: Codes, partitions: list[bytes], moves: Moves) -> pa.Table:
        """The rows to write, with the partitions and kinds that they have then."""
        if len(moves.rows) != rows.num_rows or moves.retracts.any():
            rows = rows.take(pa.array(moves.rows))
        elsewhere = moves.partitions != own[moves.rows]
        if not elsewhere.any():
            return rows
        values = zip(*(partition_values(self._storage, each) for each in partitions), strict=True)
        for item, column in zip(self._storage.schema.partition_fields, values, strict=True):
            at = rows.column_names.index(item.name)
            there = pa.array(column, to_arrow(item.type)).take(pa.array(moves.partitions))
            new = pc.if_else(pa.array(elsewhere), there, rows.column(at))
            rows = rows.set_column(at, rows.schema.field(at), new)
        at = rows.column_names.index(KIND_FIELD.name)
        deletes = pa.scalar(int(RowKind.DELETE), pa.int8())
        kinds = pc.if_else(pa.array(moves.retracts), deletes, rows.column(at))
        return rows.set_column(at, rows.schema.field(at), kinds)

    def _write_placed(self, rows: pa.Table, buckets: Numbers) -> None:
        start = 0
        # More than one batch only if their text is too large for Arrow to hold in one.
        for batch in rows.combine_chunks().to_batches():
            own = _Placed(buckets[start : start + batch.num_rows])
            start += batch.num_rows
            groups = distribute(self._storage, pa.Table.from_batches([batch]), own)
            for number in groups.numbers:
                self._write_bucket(groups.bucket(number), groups.rows(number))


@dataclass(frozen=True)
class _Placed:
    """The buckets of rows, which are known."""

    buckets: Numbers

    def __call__(self, partitions: Sequence[bytes], codes: Codes, rows: pa.Table) -> Numbers:
        return self.buckets


def _groups(spilled: HashSpill, limit: int) -> Iterator[tuple[int, int]]:
    """Ranges of hashes, as many together as memory is meant for."""
    first, size = 0, 0
    for number, own in enumerate(spilled.sizes.tolist()):
        if size and size + own > limit:
            yield first, number
            first, size = number, 0
        size += own
    if size:
        yield first, HASH_RANGES


def _spill_keys(known: HashSpill, waiting: list[pa.Table]) -> None:
    if waiting:
        held = pa.concat_tables(waiting).combine_chunks()
        waiting.clear()
        known.add(held, held.column(_HASH).to_numpy())


def _spilled_keys(
    known: HashSpill, first: int, end: int
) -> Iterator[tuple[Keys, npt.NDArray[np.int32]]]:
    for batch in known.read(first, end):
        yield (
            Keys(batch.column(_KEY), batch.column(_HASH).to_numpy()),
            batch.column(_PLACE).to_numpy(),
        )
