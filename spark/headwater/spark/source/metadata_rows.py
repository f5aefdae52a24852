"""Rows with where they lie: Paimon's hidden columns ``__paimon_file_path`` and so on.

Source: ``PaimonMetadataColumn.scala``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property, partial

import pyarrow as pa
import pyspark.sql.types as st

from headwater.catalog.table.branch_scan import BranchScan
from headwater.catalog.table.scan import BATCH_ROWS, Rows
from headwater.spark.types import spark_schema
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.location import shown_location
from headwater.storage.predicate.filter import ColumnRange, Predicate, may_match
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN, positioned_rows
from headwater.storage.read.prefetch import BatchRead
from headwater.storage.scan.split import Split
from headwater.storage.schema.system_fields import METADATA_PREFIX
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, to_arrow
from headwater.storage.types.values import arrow_scalar

__all__ = [
    "BUCKET_SCHEMA",
    "METADATA_COLUMNS",
    "MetadataRows",
    "asks_for_metadata",
    "metadata_schema",
]

_FILE_PATH = f"{METADATA_PREFIX}file_path"
_ROW_INDEX = f"{METADATA_PREFIX}row_index"
_PARTITION = f"{METADATA_PREFIX}partition"
_BUCKET = f"{METADATA_PREFIX}bucket"
_OF_FILES = (_FILE_PATH, _ROW_INDEX)
METADATA_COLUMNS = (*_OF_FILES, _PARTITION, _BUCKET)
"""The names of the metadata columns."""
BUCKET_SCHEMA = TableSchema(
    0, (DataField(0, _BUCKET, AtomicType(Root.INT)),), 0, (), (), {}, None, 0
)
"""The schema of conditions on buckets."""


def asks_for_metadata(columns: Sequence[str] | None, schema: TableSchema) -> bool:
    """Whether columns that are named are not all the table's own."""
    named = [] if columns is None else columns
    return any(
        name.startswith(METADATA_PREFIX) and name not in schema.field_by_name for name in named
    )


def metadata_schema(columns: Sequence[str], storage: TableStorage) -> st.StructType:
    """The Spark schema of a table's own columns and metadata columns.

    Raises:
        NotFound: A column does not exist.
        Invalid: The table has no partitions that it could tell of.
        Unsupported: A row of the table may lie in several files, and one is asked for.
    """
    return st.StructType([_field(name, storage) for name in columns])


def _field(name: str, storage: TableStorage) -> st.StructField:
    schema = storage.schema
    if name in schema.field_by_name or name not in METADATA_COLUMNS:
        return spark_schema(schema.columns([name])).fields[0]
    if name in _OF_FILES and schema.table_options.evolves_columns:
        raise Unsupported(
            f"table {storage.name}: with data evolution a row may lie in several files, and {name} "
            "is of one; name _ROW_ID instead"
        )
    if name != _PARTITION:
        data_type = {_FILE_PATH: st.StringType(), _ROW_INDEX: st.LongType()}.get(name)
        return st.StructField(name, data_type or st.IntegerType())
    if not schema.partition_keys:
        raise Invalid(f"table {storage.name} has no partitions: leave {_PARTITION} out")
    return st.StructField(name, spark_schema(schema.partition_fields))


class MetadataRows(Rows):
    """Rows of a table with metadata columns among their own.

    Args:
        rows: The rows; their predicate is taken.
        columns: The columns, metadata columns included, in this order.
        of_buckets: A condition on `BUCKET_SCHEMA`: only rows of buckets for which it may be true.

    Attributes:
        names: `columns`.
        rows: The rows without metadata columns.
        of_buckets: `of_buckets`.

    Raises:
        NotFound: A column does not exist.
        Unsupported: The rows are of several branches, or read by a server.
    """

    def __init__(
        self, rows: Rows, columns: Sequence[str], of_buckets: Predicate | None = None
    ) -> None:
        if rows.is_served or isinstance(rows, BranchScan):
            whose = "a server reads them" if rows.is_served else "they are of two branches"
            raise Unsupported(
                f"table {rows.storage.name}: where its rows lie is not told, as {whose}; leave the "
                f"columns {METADATA_PREFIX}… out"
            )
        schema = rows.storage.schema
        own = [
            name for name in columns if name in schema.field_by_name or name not in METADATA_COLUMNS
        ]
        # A batch without columns would not tell how many rows it has.
        self._own = own or [schema.fields[0].name]
        self.rows = rows.narrowed(self._own, rows.predicate)
        super().__init__(rows.storage, self._own, rows.predicate)
        self.names = tuple(columns)
        self.columns = self.names
        self.of_buckets = of_buckets

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> MetadataRows:
        """The same rows, with these columns and by this predicate."""
        names = self.names if columns is None else columns
        return MetadataRows(self.rows.narrowed(self._own, predicate), names, self.of_buckets)

    @property
    def partition_fields(self) -> Mapping[str, str]:
        """The partition columns by their names in `columns`, where dots part names."""
        keys = self.storage.schema.partition_keys if _PARTITION in self.names else ()
        return {f"{_PARTITION}.{key}": key for key in keys}

    def in_buckets(self, condition: Predicate | None) -> MetadataRows:
        """The rows of buckets for which a condition on `BUCKET_SCHEMA` may be true."""
        return MetadataRows(self.rows, self.names, condition)

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The splits to be read.

        Raises:
            Unsupported: A file is asked for, and rows are merged from several.
        """
        wanted = self.of_buckets
        result = tuple(
            split
            for split in self.rows.splits
            if wanted is None or may_match(wanted, _bucket_range(split.bucket))
        )
        asked = next((name for name in self.names if name in _OF_FILES), None)
        if asked is None or not self.storage.schema.primary_keys:
            return result
        for split in result:
            if split.streaming or not split.is_raw:
                raise Unsupported(
                    f"table {self.storage.name}: {asked} is of rows that stand in one file each, "
                    f"and those in {split.directory} are merged as they are read: "
                    "compact the table, or give it 'deletion-vectors.enabled' = 'true'"
                )
        return result

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The rows of one split, in one part."""
        yield partial(self._read, split, batch_rows)

    def _read(self, split: Split, batch_rows: int) -> Generator[pa.RecordBatch]:
        names = self.names
        if any(name in _OF_FILES for name in names):
            rows = positioned_rows(self.storage, split, self._own, self.predicate, batch_rows)
        else:
            rows = self.rows.read_split(split, batch_rows=batch_rows)
        directory = shown_location(split.directory)
        paths = {
            file.file_name: file.external_path or f"{directory}/{file.file_name}"
            for file in split.files
        }
        for batch in rows:
            columns = [self._column(name, batch, split, paths) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=list(names))

    def _column(
        self, name: str, batch: pa.RecordBatch, split: Split, paths: dict[str, str]
    ) -> pa.Array:
        if name in self.storage.schema.moved_columns:
            return batch.column(name)
        count = batch.num_rows
        if name == _ROW_INDEX:
            return batch.column(POSITION_COLUMN)
        if name == _FILE_PATH:
            files = batch.column(FILE_COLUMN).dictionary_encode()
            whole = [paths[each] for each in files.dictionary.to_pylist()]
            return pa.array(whole, pa.string()).take(files.indices)
        if name == _BUCKET:
            return pa.repeat(pa.scalar(split.bucket, pa.int32()), count)
        fields = self.storage.schema.partition_fields
        values = [
            pa.repeat(arrow_scalar(value, field.type), count).cast(to_arrow(field.type))
            for field, value in zip(fields, split.partition_values, strict=True)
        ]
        return pa.StructArray.from_arrays(values, names=[field.name for field in fields])


def _bucket_range(bucket: int) -> Mapping[str, ColumnRange]:
    return {_BUCKET: ColumnRange(bucket, bucket, null_count=0)}
