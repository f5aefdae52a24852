"""Rows of a table that a server reads, for a reader to whom its files are withheld."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NoReturn

import pyarrow as pa

from headwater.catalog.model.access import ReadKind, ReadRequest, RowReader, RowStream
from headwater.catalog.table.audit_log import AuditLog
from headwater.catalog.table.branch_scan import reads_branches
from headwater.catalog.table.scan import BATCH_ROWS, Changes, Scan
from headwater.storage.errors import Forbidden
from headwater.storage.predicate.filter import Predicate, columns_of, to_sql
from headwater.storage.read.prefetch import BatchRead
from headwater.storage.scan.split import ScanPlan, Split
from headwater.storage.schema.read_start import START_OPTIONS
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "Served",
    "ServedAuditLog",
    "ServedChanges",
    "ServedPart",
    "ServedScan",
    "described",
]


@dataclass(frozen=True)
class ServedPart(Split):
    """A part of the rows that a server reads; it holds no files, and whoever asks is refused.

    Attributes:
        number: The part, from 0.
        count: The number of parts.
    """

    number: int = 0
    count: int = 1

    @property
    def is_counted(self) -> bool:
        """False: only the rows that are shown count, and nobody has counted them."""
        return False

    @property
    def size(self) -> int:
        """Bytes, which are not told."""
        return 0


class _NoFiles(Sequence[NoReturn]):
    """In the place of a part's files: what would read them must not find none."""

    def _refuse(self) -> NoReturn:
        raise Forbidden("these rows are read by the server, and their files are withheld")

    def __len__(self) -> int:
        self._refuse()

    def __getitem__(self, at: object) -> NoReturn:
        self._refuse()

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NoFiles)


@dataclass(frozen=True)
class Served:
    """The way to rows that a server reads; it pickles.

    Attributes:
        reader: Asks the server.
        request: The request, but for columns, condition and part.
    """

    reader: RowReader
    request: ReadRequest

    def parts(self, count: int) -> tuple[ServedPart, ...]:
        """The rows in so many parts, which may be read at the same time."""
        nothing = _NoFiles()
        return tuple(
            ServedPart(b"", (), 0, 1, "", nothing, False, 0, number=number, count=count)
            for number in range(count)
        )

    def of_kind(self, kind: ReadKind) -> Served:
        """The way to another kind of rows of the same snapshot or changes."""
        return replace(self, request=replace(self.request, kind=kind))

    @property
    def is_pinned(self) -> bool:
        """True if every request is about the same rows."""
        return self.request.policies is not None

    def pinned(self, snapshot_id: int, schema_id: int, policies: str) -> Served:
        """The way to the rows of one snapshot by one schema, whatever is committed meanwhile.

        Args:
            snapshot_id: The snapshot.
            schema_id: The schema.
            policies: The fingerprint of the policies; when they change, reading is refused.
        """
        asked = self.request
        pinned = replace(
            asked,
            snapshot_id=snapshot_id,
            schema_id=schema_id,
            policies=policies,
            tag=None,
            timestamp=None,
            watermark=None,
            version=None,
            options={key: each for key, each in asked.options.items() if key not in START_OPTIONS},
        )
        return replace(self, request=pinned)

    def asking(
        self, schema: TableSchema, columns: Sequence[str] | None, predicate: Predicate | None
    ) -> ReadRequest:
        """The request for some columns and by a predicate."""
        where = None if predicate is None else to_sql(predicate, schema)
        named = set() if predicate is None or columns is None else columns_of(predicate)
        return replace(
            self.request,
            columns=None if columns is None else tuple(columns),
            where=where,
            filter_columns=tuple(sorted(named - set(columns or ()))),
        )

    def batches(
        self,
        schema: TableSchema,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        split: Split,
    ) -> Generator[pa.RecordBatch]:
        """The rows of a part."""
        assert isinstance(split, ServedPart)
        request = self.asking(schema, columns, predicate)
        stream = self.reader.read(replace(request, part=split.number, parts=split.count))
        yield from stream.batches


def described(storage: TableStorage, served: Served) -> tuple[TableStorage, RowStream]:
    """The table as of the rows that a request is about, and what the server says of them.

    Raises:
        HeadwaterError: As `RowReader.read`.
    """
    told = served.reader.read(replace(served.request, columns=(), limit=0))
    schema = TableSchema.from_json(told.table_schema, f"the schema of {storage.name}")
    return storage.with_schema(schema.with_options(storage.schema.options)), told


class ServedScan(Scan):
    """The rows of one snapshot as the server shows them to this reader.

    The reader's condition is over the values that are shown.

    Args:
        served: The way to the rows; its request names the snapshot.
        storage: The table, with the schema of the rows.
        snapshot: The snapshot; None for a table, or branch, without snapshots of its own.
        columns, predicate: As for `Scan`.
        parts: The number of parts that may be read at the same time.
    """

    is_served = True

    def __init__(
        self,
        served: Served,
        storage: TableStorage,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        parts: int = 1,
    ) -> None:
        super().__init__(storage, snapshot, columns, predicate)
        self._served = served
        self._parts = parts

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> ServedScan:
        """The rows of the same snapshot, with these columns and by this predicate."""
        served, parts = self._served, self._parts
        return ServedScan(served, self.storage, self.snapshot, columns, predicate, parts)

    def divided(self, parts: int) -> ServedScan:
        """The same rows, to be read in so many parts at the same time.

        Rows of two branches stay together: they are chosen anew by each request.
        """
        served = self._served
        parts = parts if served.is_pinned else 1
        return ServedScan(served, self.storage, self.snapshot, self.columns, self.predicate, parts)

    def read_optimized(self) -> ServedScan:
        """The rows that need no merge."""
        served = self._served.of_kind(ReadKind.READ_OPTIMIZED)
        return ServedScan(
            served, self.storage, self.snapshot, self.columns, self.predicate, self._parts
        )

    def audit_log(self) -> ServedAuditLog:
        """The rows with their kinds, those that retract a key included."""
        return ServedAuditLog(self, self._served.of_kind(ReadKind.AUDIT_LOG))

    @property
    def plan(self) -> ScanPlan | None:
        """Raises Forbidden: the server plans."""
        raise Forbidden(f"table {self.storage.name}: the server plans what you read of it")

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The parts, of which the server reads each for itself."""
        # Without a snapshot of its own a table may still show rows of its other branches.
        if self.snapshot is None and not reads_branches(self.storage):
            return ()
        return self._served.parts(self._parts)

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The rows of one part; the server chooses the size of batches."""
        schema = self.storage.schema
        read = partial(self._served.batches, schema, self.columns, self.predicate, split)
        yield partial(self._with_schema, read)

    def count(self) -> int:
        """The number of rows that are shown; the server reads them."""
        return sum(batch.num_rows for batch in self.narrowed([], self.predicate).to_batches())


class ServedChanges(Changes):
    """Changes, or rows with their kinds, as the server shows them to this reader.

    Args:
        served: The way to the changes.
        storage: The table, with the schema of the changes.
        columns, predicate, row_kinds: As for `Changes`.
        schema: The Arrow schema of the rows, if it is not that of changes.
    """

    is_served = True

    def __init__(
        self,
        served: Served,
        storage: TableStorage,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_kinds: bool = True,
    ) -> None:
        super().__init__(storage, (), columns, predicate, row_kinds=row_kinds)
        self._served = served

    def _origin(self) -> str:
        return "the server"

    def audit_log(self) -> ServedAuditLog:
        """The changes with their kinds first."""
        return ServedAuditLog(self, self._served.of_kind(ReadKind.AUDIT_LOG))

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> ServedChanges:
        """The same changes, with these columns and by this predicate."""
        return ServedChanges(
            self._served, self.storage, columns, predicate, row_kinds=self.row_kinds
        )

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """All changes, in their order."""
        return self._served.parts(1)

    def parts(self, count: int) -> tuple[ServedPart, ...]:
        """Parts of a stream's full read, which have no order and may be read at the same time."""
        return self._served.parts(count)

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The changes; the server chooses the size of batches."""
        schema = self.storage.schema
        read = partial(self._served.batches, schema, self.columns, self.predicate, split)
        yield partial(self._with_schema, read)

    def count(self) -> int:
        """The number of changes that are shown; the server reads them."""
        return sum(batch.num_rows for batch in self.narrowed([], self.predicate).to_batches())


class ServedAuditLog(AuditLog):
    """An audit log as the server shows it to this reader.

    Args:
        rows: The rows, whose splits, columns and predicate are taken.
        served: The way to their audit log.
    """

    is_served = True

    def __init__(self, rows: ServedScan | ServedChanges, served: Served) -> None:
        super().__init__(rows)
        self._rows: ServedScan | ServedChanges = rows
        self._served = served

    def narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None
    ) -> ServedAuditLog:
        """The same rows, with these columns and by this predicate over the table's own."""
        return ServedAuditLog(self._rows.narrowed(self._own(columns), predicate), self._served)

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The rows of one part; the server chooses the size of batches."""
        schema = self.storage.schema
        read = partial(self._served.batches, schema, self.columns, self.predicate, split)
        yield partial(self._with_schema, read)
