"""Live rows that fulfil a condition, by Spark's own scan of Parquet files, which counts the rows.

The compiled code counts the rows of a task's part of the scan for next to nothing, where Spark's
numbers of rows in files cost more than all else. So which files a part has, and in what order, must
be certain, and nothing may leave out rows before they are counted. The scan is planned by itself,
in a copy of the session that packs files as is said here, and it is looked at before it is used;
the query gets its rows, and no rule of Spark's optimiser can reach the scan from there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from headwater.spark.char_columns import stored_condition
from headwater.spark.counting_session import CountingSession
from headwater.spark.file_frames import parquet_frame
from headwater.spark.names import quoted
from headwater.spark.projection import projected
from headwater.spark.source.division import Division
from headwater.spark.source.live_filter import array_literal
from headwater.spark.source.parquet_scan import (
    ADDED_KINDS,
    FileGroup,
    columns_of_group,
    file_groups,
)
from headwater.spark.source.scan_metrics import scans_of
from headwater.storage.files.local import local_path
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.table_storage import TableStorage

__all__ = ["CountedRows", "counted_rows"]

_COUNT = "headwater row"
_FIRSTS = "headwater first bits"
_BITMAPS = "headwater bits"
_KIND = "headwater kind"
# ``monotonically_increasing_id`` has the number of the part above these bits.
_COUNT_BITS = 33
_BITS = 64
# Several for each core, so that none works on while the others have done.
_PARTS_OF_CORE = 4
_MAX_BYTES_OF_PART = 128 << 20
_MAX_FOOTERS = 4096

# A file in a part of a scan, from its first byte on.
_WHOLE_FILE = re.compile(r"path: \S*/([^\s/]+), range: 0-(\d+),")

_File = tuple[str, DataFile]


@dataclass(frozen=True)
class CountedRows:
    """Rows that Spark's own scan counted.

    Attributes:
        frame: The rows, in the user's session.
        scan: The scan, which has the metrics.
    """

    frame: DataFrame
    scan: DataFrame


def counted_rows(
    spark: SparkSession,
    counting: CountingSession,
    storage: TableStorage,
    division: Division,
    columns: Sequence[str],
    condition: Predicate,
    parallelism: int,
) -> CountedRows | None:
    """The rows of `Division.counted` for which a condition is true.

    Args:
        spark: The session.
        counting: Its copy.
        storage: The table.
        division: With splits to be counted.
        columns: The columns wanted.
        condition: The condition.
        parallelism: The number of tasks that run at once.

    Returns:
        None if Spark would scan the files in another way than rows are counted by.
    """
    groups = file_groups(storage, division.counted, division.live_rows)
    if not all(
        _row_count(path, file.file_size) == file.row_count
        for group in groups
        for path, file in group.files
    ):
        return None
    sizes = [file.file_size for group in groups for _, file in group.files]
    most_bytes = _part_bytes(sizes, parallelism)
    packed = [_packed(group.files, most_bytes) for group in groups]
    wider = _wider(columns, condition)
    jvm: Any = spark._jvm
    with counting.packing(spark, most_bytes) as copy:
        frames = [
            _fulfilling(
                _numbered(spark, counting, copy, storage, group, parts, wider, division.live_rows),
                storage,
                group,
                columns,
                condition,
            )
            for group, parts in zip(groups, packed, strict=True)
        ]
        scan: Any = reduce(DataFrame.unionAll, frames)
        execution = scan._jdf.queryExecution()
        rows = execution.toRdd()
        # Several parts in one task would be counted as one.
        has_all_parts = rows.getNumPartitions() == sum(map(len, packed))
        if not (has_all_parts and _is_packed(execution.executedPlan(), packed, jvm)):
            return None
        sql = jvm.org.apache.spark.sql
        leaf = _leaf(sql, rows, scan._jdf)
        session: Any = spark._jsparkSession
        return CountedRows(DataFrame(sql.classic.Dataset.ofRows(session, leaf), spark), scan)


def _leaf(sql: Any, rows: Any, scan: Any) -> Any:
    """A plan of rows that are computed already."""
    leaves = getattr(getattr(sql.execution, "LogicalRDD$"), "MODULE$")
    try:
        return leaves.fromDataset(rows, scan, False, False)
    except Py4JJavaError:
        raise
    except Py4JError:
        # Spark 4.2 takes one argument less.
        return leaves.fromDataset(rows, scan, False)


@lru_cache(_MAX_FOOTERS)
def _row_count(path: str, size: int) -> int | None:
    """The rows of a file by its footer, as metadata that is wrong would number those after them.

    None if the footer cannot be read. The size tells files of one path apart.
    """
    try:
        with pq.ParquetFile(local_path(path)) as file:
            return int(file.metadata.num_rows)
    except (OSError, pa.ArrowException):
        return None


def _fulfilling(
    frame: DataFrame,
    storage: TableStorage,
    group: FileGroup,
    columns: Sequence[str],
    condition: Predicate,
) -> DataFrame:
    """The live rows of a group's numbered rows that fulfil a condition."""
    names = _Names.beside(_wider(columns, condition))
    count = quoted(names.count)
    first = f"get({quoted(names.firsts)}, CAST(shiftright({count}, {_COUNT_BITS}) AS INT))"
    bit = f"({first} + ({count} & {(1 << _COUNT_BITS) - 1}L))"
    word = f"get({quoted(names.bits)}, CAST(shiftright({bit}, 6) AS INT))"
    conditions = [f"({stored_condition(condition, storage.schema)})"]
    if group.may_retract:
        conditions.append(f"{quoted(names.kind)} IN ({ADDED_KINDS})")
    conditions.append(f"getbit({word}, CAST({bit} & {_BITS - 1} AS INT)) = 1")
    frame = frame.where(" AND ".join(conditions))
    return projected(frame, [(name, quoted(name)) for name in columns])


def _numbered(
    spark: SparkSession,
    counting: CountingSession,
    copy: Any,
    storage: TableStorage,
    group: FileGroup,
    parts: Sequence[Sequence[_File]],
    columns: Sequence[str],
    live_rows: Mapping[str, LiveRows],
) -> DataFrame:
    """All rows of a group, with their numbers in their parts and the bits of those that live."""
    paths = [path for part in parts for path, _ in part]
    # Files never change, and what is live of them is one object as long as it is known.
    key = (
        group.schema_id,
        group.partition,
        group.may_retract,
        tuple((field.id, field.name, str(field.type)) for field in storage.schema.columns(columns)),
        tuple(tuple((path, live_rows.get(path)) for path, _ in part) for part in parts),
    )

    def make() -> DataFrame:
        reader: Any = DataFrameReader(spark)
        reader._jreader = copy.read()
        schema, selected = columns_of_group(storage, group, columns, pushes=False)
        names = _Names.beside(columns)
        firsts, bits = _bits(parts, live_rows)
        selected.append((names.count, "monotonically_increasing_id()"))
        selected.append((names.firsts, array_literal(spark, firsts)))
        selected.append((names.bits, array_literal(spark, bits)))
        if group.may_retract:
            selected.append((names.kind, quoted(KIND_FIELD.name)))
        return projected(parquet_frame(reader, spark, paths, schema), selected)

    return counting.frame(key, make)


def _wider(columns: Sequence[str], condition: Predicate) -> list[str]:
    return [*columns, *sorted(columns_of(condition) - set(columns))]


@dataclass(frozen=True)
class _Names:
    """The names of columns that are added."""

    count: str
    firsts: str
    bits: str
    kind: str

    @staticmethod
    def beside(columns: Sequence[str]) -> _Names:
        taken = {name.casefold() for name in columns}
        return _Names(*(_unused(name, taken) for name in (_COUNT, _FIRSTS, _BITMAPS, _KIND)))


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _part_bytes(sizes: Sequence[int], parallelism: int) -> int:
    """The most bytes of a part of a scan; no file is cut."""
    share = sum(sizes) // (parallelism * _PARTS_OF_CORE)
    return max(*sizes, min(share, _MAX_BYTES_OF_PART))


def _packed(files: Sequence[_File], most_bytes: int) -> list[list[_File]]:
    """Files in the parts of a scan, as Spark's ``FilePartition`` packs them."""
    parts: list[list[_File]] = []
    size = 0
    for path, file in sorted(files, key=lambda each: -each[1].file_size):
        if not parts or size + file.file_size > most_bytes:
            parts.append([])
            size = 0
        parts[-1].append((path, file))
        size += file.file_size
    return parts


def _bits(
    parts: Sequence[Sequence[_File]], live_rows: Mapping[str, LiveRows]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each part the place of its first row's bit, and the bits of all rows of all parts."""
    counts = [sum(file.row_count for _, file in part) for part in parts]
    # One word more than there are bits, as those of a file may begin within a word.
    ends = list(accumulate((count // _BITS + 2 for count in counts), initial=0))
    words = np.zeros(ends[-1], np.uint64)
    firsts = np.array(ends[:-1], np.int64) * _BITS
    for part, first in zip(parts, firsts, strict=True):
        place = int(first)
        for path, file in part:
            rows = live_rows.get(path)
            own = LiveRows.of(np.ones(file.row_count, np.bool_)) if rows is None else rows
            at, shift = divmod(place, _BITS)
            words[at : at + len(own.words)] |= own.words << np.uint64(shift)
            if shift:
                words[at + 1 : at + 1 + len(own.words)] |= own.words >> np.uint64(_BITS - shift)
            place += file.row_count
    return firsts, words.view(np.int64)


def _is_packed(plan: Any, packed: Sequence[Sequence[Sequence[_File]]], jvm: Any) -> bool:
    """Whether a plan scans whole files, all their rows, in these parts."""
    scans = list(scans_of(plan))
    wrapper = jvm.scala.collection.immutable.ArraySeq
    if len(scans) != len(packed):
        return False
    for scan, parts in zip(scans, packed, strict=True):
        if not (scan.dataFilters().isEmpty() and scan.partitionFilters().isEmpty()):
            return False
        try:
            partitions = scan.inputRDDs().apply(0).filePartitions()
        except Py4JError:
            # Another way to scan than is known here.
            return False
        if partitions.size() != len(parts):
            return False
        for at, part in enumerate(parts):
            text = str(wrapper.unsafeWrapArray(partitions.apply(at).files()).toString())
            files = [(unquote(name), int(size)) for name, size in _WHOLE_FILE.findall(text)]
            if files != [(file.file_name, file.file_size) for _, file in part]:
                return False
    return True
