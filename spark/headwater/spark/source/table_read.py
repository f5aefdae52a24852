"""The reading of one table of a query: the part of it that is needed, by the readers that can."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.catalog.table.scan import Rows
from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns, stored_condition
from headwater.spark.names import quoted
from headwater.spark.projection import projected
from headwater.spark.source.division import Division, file_path
from headwater.spark.source.format_table import format_frame
from headwater.spark.source.read_counter import Measured, ReadCounter
from headwater.spark.source.scan_metrics import FileRows, Runs
from headwater.spark.source.table_frame import frame_of_division
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.predicate.filter import And, Predicate, columns_of
from headwater.storage.read.row_group_count import RowGroupCount, count_row_groups
from headwater.storage.scan.split import Split

__all__ = ["Relation", "TableRead", "char_columns", "read_frame"]


@dataclass
class Relation:
    """One table of the catalog as a query reads it.

    Attributes:
        name: ``database.table``.
        schema: Its columns, as Spark has them.
        rows: The rows to be planned and read; None for metadata.
        content: Metadata that is read already; None for rows.
        format_table: A format table, whose files Spark reads without a plan of ours.
        metadata: Its metadata columns, which come last in `schema`.
        cached: The rows as ``CACHE TABLE`` keeps them; None where they are read.
    """

    name: str
    schema: st.StructType
    rows: Rows | None = None
    content: pa.Table | None = None
    format_table: Table | None = None
    metadata: tuple[str, ...] = ()
    cached: DataFrame | None = None


@dataclass(frozen=True)
class TableRead:
    """One place of a query where a table is read, and how little of the table that takes.

    Attributes:
        table: ``database.table``.
        snapshot_id: The snapshot; None for changes, metadata and tables without any.
        columns: The columns that are read.
        where: The condition by which files and their parts are left out; None for none. Spark
            applies the query's own conditions in any case.
        relation: The table.
        rows: The part of its rows.
        division: The files that Spark's own scan reads, and those that Python workers read.
        counter: Counts what Python workers read; None over Spark Connect.
        runs: The query, which may be run; None over Spark Connect.
    """

    table: str
    snapshot_id: int | None
    columns: tuple[str, ...]
    where: str | None
    relation: Relation = field(repr=False)
    rows: Rows | None = field(default=None, repr=False)
    division: Division = field(default_factory=lambda: Division((), ()), repr=False)
    counter: ReadCounter | None = field(default=None, repr=False)
    runs: Runs | None = field(default=None, repr=False)

    @property
    def files(self) -> int:
        """Data files to be read."""
        return _files(self._splits)

    @property
    def bytes(self) -> int:
        """Their size; of Parquet and ORC files, only the columns are read."""
        return _bytes(self._splits)

    @property
    def row_count(self) -> int:
        """Rows in these files; merging and filters leave fewer."""
        return _rows(self._splits)

    @property
    def files_of_table(self) -> int:
        """Data files of the whole table at that snapshot; planned when first asked for."""
        return _files(self._whole)

    @property
    def bytes_of_table(self) -> int:
        """Their size."""
        return _bytes(self._whole)

    @property
    def row_count_of_table(self) -> int:
        """Rows in all files of the table at that snapshot."""
        return _rows(self._whole)

    @property
    def native_files(self) -> int:
        """Those of `files` that Spark's own Parquet scan reads; Python workers read the others."""
        return _files(self.division.by_spark)

    def measured(self, frame: DataFrame | None = None) -> Measured | None:
        """The files, bytes and rows that were read when the query ran.

        A file that several tasks or runs read counts once, and a task that a LIMIT ends early
        tells nothing. Spark's own Parquet scan tells only of the frame that was run itself: by
        `collect`, `toPandas`, `toArrow` or `toLocalIterator`. `show`, `count`, writes and the like
        run another frame; make that frame, run it so, and name it here.

        Args:
            frame: A frame made of the query's, which was run; the query's own unless given.

        Returns:
            None where it is not known: the frame was not run, a server reads the rows, the rows
            are metadata, or the session is Spark Connect's.
        """
        if self.rows is None or self.rows.is_served or self.counter is None or self.runs is None:
            return None
        by_workers = self.counter.measured() or Measured()
        if not self.native_files:
            return by_workers if by_workers.files or not self.files else None
        by_spark = self.runs.measured(self._native_rows, frame)
        return None if by_spark is None else by_workers + by_spark

    def row_groups(self, most_files: int) -> RowGroupCount:
        """The row groups that readers take of the first so many of `files`; reads their footers.

        Those are left out by their statistics; indexes of files may leave out more.
        """
        if self.rows is None:
            return RowGroupCount()
        return count_row_groups(
            self.rows.storage, self._splits, self.rows.predicate, most_files=most_files
        )

    @property
    def _native_rows(self) -> dict[str, FileRows]:
        """The rows of the files that Spark's own scan reads, by their names."""
        result: dict[str, FileRows] = {}
        for split in self.division.by_spark:
            for file in split.files:
                live = self.division.live_rows.get(file_path(split, file))
                count = file.row_count if live is None else live.count
                result[file.file_name] = FileRows(file.row_count, count)
        return result

    @property
    def _splits(self) -> tuple[Split, ...]:
        if self.rows is not None and self.rows.is_served:
            # The files of what a server reads are not told.
            return ()
        return (*self.division.by_spark, *self.division.python)

    @cached_property
    def _whole(self) -> tuple[Split, ...]:
        rows = self.relation.rows
        return () if rows is None or rows.is_served else rows.narrowed(None, None).splits


def read_frame(
    session: CatalogSession, read: TableRead, scans: list[DataFrame] | None = None
) -> DataFrame:
    """A table with all its columns, of which those that are not needed are null.

    The query's text is read again with them: ``*`` and the like must mean the same.

    Args:
        session: The catalog's.
        read: The part that is needed.
        scans: As `frame_of_division` takes them.
    """
    spark, schema = session.spark, read.relation.schema
    if read.relation.cached is not None:
        return read.relation.cached
    if read.relation.format_table is not None:
        return format_frame(session, read.relation.format_table)
    if read.rows is None:
        content = read.relation.content
        assert content is not None
        arrow = spark_arrow_schema(schema)
        batches = [conform(batch, arrow) for batch in content.combine_chunks().to_batches()]
        if not batches:
            return spark.createDataFrame([], schema)
        return spark.createDataFrame(type(content).from_batches(batches, arrow))
    part = st.StructType([each for each in schema.fields if each.name in read.columns])
    counter = None if read.counter is None else read.counter.told
    frame = frame_of_division(session, read.rows, read.division, part, counter=counter, scans=scans)
    chars = char_columns(spark, read.relation)
    told = _conditions_on(read.rows.predicate, chars.lengths.keys() & set(read.columns))
    if told is not None:
        # Those of the query are on values that are filled up, which no scan can skip rows by.
        frame = frame.where(stored_condition(told, read.rows.storage.schema))
    if len(part) < len(schema):
        frame = projected(
            frame,
            [
                (field.name, quoted(field.name) if field.name in read.columns else field.dataType)
                for field in schema.fields
            ],
        )
    return chars.read(frame)


def _conditions_on(predicate: Predicate | None, columns: Collection[str]) -> Predicate | None:
    """The part of a condition that is about some columns alone; None if it has no such part."""
    if predicate is None or not columns:
        return None
    parts = predicate.operands if isinstance(predicate, And) else (predicate,)
    told = tuple(each for each in parts if columns_of(each) and columns_of(each) <= set(columns))
    return And(told) if told else None


def char_columns(spark: SparkSession, relation: Relation) -> CharColumns:
    """The columns of CHAR and VARCHAR of a table that is read."""
    if relation.rows is None:
        return CharColumns()
    return CharColumns.from_session(spark, relation.rows.storage.schema.fields).within(
        relation.schema
    )


def _files(splits: tuple[Split, ...]) -> int:
    return sum(len(split.files) + len(split.postponed) for split in splits)


def _rows(splits: tuple[Split, ...]) -> int:
    return sum(split.row_count for split in splits)


def _bytes(splits: tuple[Split, ...]) -> int:
    return sum(file.file_size for split in splits for file in (*split.files, *split.postponed))
