"""The options of ``format("headwater")``.

Spark takes any option and lower-cases its name; one that is not meant for this operation is
refused, as it would change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING

from headwater.spark.condition_text import is_local_moment, is_moment, is_read_alike
from headwater.spark.connection import Connection
from headwater.spark.names import named_partition
from headwater.spark.option_values import boolean_value
from headwater.spark.row_change import RowChange
from headwater.spark.schema_merging import MERGE_OPTIONS, SchemaMerging
from headwater.spark.stream_options import STREAM_OPTIONS, StreamOptions
from headwater.storage.capabilities import find_option
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.jobs.write import Replacement
from headwater.storage.predicate.filter import columns_of, parse_predicate
from headwater.storage.schema.read_start import INCREMENTAL_OPTIONS
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import CommitOperation, Snapshot

if TYPE_CHECKING:
    from headwater.catalog.table.table import Table
    from headwater.client import Lake

__all__ = [
    "Operation",
    "ReadOptions",
    "WriteOptions",
    "refuse_other_options",
]

_CONNECTION = ("uri", "warehouse", "token")
_STARTS = (
    "scan.snapshot-id",
    "scan.timestamp-millis",
    "scan.timestamp",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
)
_MOMENTS = ("scan.tag-name", "scan.watermark", "scan.version")
_BOUND = "scan.bounded.watermark"
_CHOICES = (*_STARTS, *_MOMENTS, *INCREMENTAL_OPTIONS, "scan.mode", _BOUND)
_COLUMNS = ("columns", "where")
_CHANGE_LOG = "read.changelog"
_REPLACE_WHERE = "replaceWhere"
# Set by Spark: `load` and `save` pass their argument as ``path``.
_PASSED = frozenset({"path", "checkpointlocation"})


class Operation(Enum):
    """The operations of the format: a name for errors, and the options that each takes."""

    READ = (
        "spark.read",
        (*_STARTS, *_MOMENTS, *INCREMENTAL_OPTIONS, *_COLUMNS, "include-row-kind", _CHANGE_LOG),
    )
    READ_STREAM = (
        "spark.readStream",
        (
            *_STARTS,
            "scan.mode",
            _BOUND,
            *_COLUMNS,
            *STREAM_OPTIONS,
            "include-row-kind",
            _CHANGE_LOG,
        ),
    )
    WRITE = (
        "df.write",
        ("partition", "dynamic-partition-overwrite", _REPLACE_WHERE, *MERGE_OPTIONS),
    )
    WRITE_STREAM = (
        "df.writeStream",
        ("dynamic-partition-overwrite", "checkpointLocation", *MERGE_OPTIONS),
    )

    def __init__(self, call: str, options: tuple[str, ...]) -> None:
        self.call = call
        self.options = (*options, *_CONNECTION)


def refuse_other_options(options: Mapping[str, str], *operations: Operation) -> None:
    """Refuse options that none of some operations takes.

    Args:
        options: Spark's option map, whose names are in lower case.
        operations: The operation; or several, while Spark does not say which it is.

    Raises:
        Invalid: The message names the option, and those that there are.
    """
    taken = list(dict.fromkeys(name for each in operations for name in each.options))
    known = _PASSED.union(name.lower() for name in taken)
    for name in options:
        if name.lower() in known:
            continue
        calls = " or ".join(each.call for each in operations)
        listed = f"there are {', '.join(taken)}"
        others = [
            operation.call
            for operation in Operation
            if name.lower() in (option.lower() for option in operation.options)
        ]
        near = get_close_matches(name.lower(), taken, 1)
        if others:
            hint = f"it is for {' and '.join(others)}"
        elif find_option(name.lower()) is not None:
            hint = f"it is one of Paimon's that Headwater does not support here; {listed}"
        elif near:
            hint = f"did you mean '{near[0]}' ({listed})"
        else:
            hint = listed
        raise Invalid(f"format(\"headwater\") has no option '{name}' for {calls}: {hint}")


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read.

    Attributes:
        table: ``database.table``; with ``read.changelog`` its system table ``$audit_log``.
        start: Paimon's options that say which part of the table's history is read.
        columns: ``columns``, separated by commas or as a JSON list; None is all.
        where: ``where``, a SQL condition that is applied where the files are read.
        stream: The options that only streams have, the start apart.
        row_kind: ``include-row-kind``: true for a stream, or changes, with a column
            ``_ROW_KIND``; None leaves it to the table.
    """

    table: str
    start: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    stream: StreamOptions = field(default_factory=StreamOptions)
    row_kind: bool | None = None

    @property
    def for_stream(self) -> bool:
        """True when an option is among them that only streams have."""
        if self.stream.is_given or {"scan.mode", _BOUND} & self.start.keys():
            return True
        return self.row_kind is not None and not self.for_changes

    @property
    def for_changes(self) -> bool:
        """True when a batch of changes is asked for, and not rows."""
        return any(key in self.start for key in INCREMENTAL_OPTIONS)

    @staticmethod
    def parse(options: Mapping[str, str]) -> ReadOptions:
        """Read Spark's option map; raises Invalid, naming the option that is wrong."""
        table = _table(options)
        if boolean_value(options, _CHANGE_LOG):
            table += "$audit_log"
        return ReadOptions(
            table=table,
            start={key: options[key] for key in _CHOICES if key in options},
            columns=_columns(options.get("columns")),
            where=options.get("where"),
            stream=StreamOptions.parse(options),
            row_kind=boolean_value(options, "include-row-kind"),
        )


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write.

    Attributes:
        connection: The catalog's.
        table: ``database.table``.
        overwrite: Whether the rows replace the table's.
        partition: With `overwrite`: replace the partitions with these values only.
        dynamic: With `overwrite`, without `partition`: replace only partitions that there are
            rows for; None takes the table's option ``dynamic-partition-overwrite``.
        clustered: Whether all rows of a bucket come to one task; this and what follows up to
            `change`, and the last three, are not options of Spark's.
        unchanged_since: Refuse when a later snapshot changed rows of the same buckets, or this one
            was rolled back.
        compacts: False if the caller does the compaction that is due after the commit.
        numbered: The commit user and its number of this commit, by which it is found again when
            it is repeated.
        change: A change of rows, whose frame says of each what becomes of it.
        replace_where: With `overwrite`: replace the partitions that fulfil this SQL condition.
        merging: The changes of the table's columns that the rows' columns may make.
        laid_over: Options of this write that override the table's.
        operation: The statement that writes, unless it is a plain write.
        table_id: The table's id; None until the write is planned.
    """

    connection: Connection
    table: str
    overwrite: bool = False
    partition: Mapping[str, object] | None = None
    dynamic: bool | None = None
    clustered: bool = False
    unchanged_since: Snapshot | None = None
    compacts: bool = True
    numbered: tuple[str, int] | None = None
    change: RowChange | None = None
    replace_where: str | None = None
    merging: SchemaMerging | None = None
    laid_over: Mapping[str, str] = field(default_factory=dict)
    operation: CommitOperation | None = None
    table_id: str | None = None

    @staticmethod
    def parse(connection: Connection, options: Mapping[str, str], overwrite: bool) -> WriteOptions:
        """Read Spark's option map; raises Invalid, naming the option that is wrong."""
        text = options.get("partition")
        if not overwrite:
            for name in ("partition", "dynamic-partition-overwrite", _REPLACE_WHERE):
                if name in options:
                    raise Invalid(
                        f"option '{name}' says what an overwrite replaces, and this write appends; "
                        "leave it out, or write with mode overwrite"
                    )
        replace_where = options.get(_REPLACE_WHERE)
        if replace_where is not None:
            for name in ("partition", "dynamic-partition-overwrite"):
                if name in options:
                    raise Invalid(
                        f"options '{name}' and '{_REPLACE_WHERE}' both say what an overwrite "
                        "replaces; leave one out"
                    )
        return WriteOptions(
            connection,
            _table(options),
            overwrite,
            None if text is None else _object(text),
            boolean_value(options, "dynamic-partition-overwrite"),
            replace_where=replace_where,
            merging=SchemaMerging.parse(options),
        )

    def replacement(self, schema: TableSchema) -> Replacement | None:
        """The rows of a table that an overwrite replaces; None for a write that appends.

        Raises:
            Invalid, NotFound, Unsupported: The condition of what is replaced is not one on
                partition columns.
        """
        if not self.overwrite:
            return None
        if self.replace_where is None:
            partition = None if self.partition is None else named_partition(self.partition, schema)
            for name, value in (partition or {}).items():
                if isinstance(value, str) and is_moment(schema, name) and is_local_moment(value):
                    raise Unsupported(
                        f"table {self.table}: the option partition does not know the session's "
                        f"time zone, in which '{name}' would be '{value}': give it as in "
                        "'2026-01-01 12:00:00Z', or use SparkLake.write(…, partition=…)"
                    )
            return Replacement(partition, self.dynamic)
        where = parse_predicate(self.replace_where, schema, any_case=True)
        if not columns_of(where) <= set(schema.partition_keys):
            raise Unsupported(
                f"table {self.table}: replaceWhere is about partitions here, and "
                f"'{self.replace_where}' is not on partition columns alone "
                f"({', '.join(schema.partition_keys) or 'it has no partitions'}): use "
                "SparkLake.write(…, replace_where=…) or INSERT INTO … REPLACE WHERE, which read "
                "the rows"
            )
        if not is_read_alike(self.replace_where, where, schema):
            raise Unsupported(
                f"table {self.table}: the option replaceWhere does not know the session's time "
                f"zone, and '{self.replace_where}' has timestamps without one, or a time beside a "
                "DATE: give them as in '2026-01-01 12:00:00Z', or use "
                "SparkLake.write(…, replace_where=…) or INSERT INTO … REPLACE WHERE"
            )
        return Replacement(where=where)

    def open(self) -> Table:
        """The table's handle; on the driver only."""
        return self.open_in(self.connection.open())

    def open_in(self, lake: Lake) -> Table:
        """The table's handle, with the options of this write.

        Raises:
            NotFound: The table does not exist, or another has its name since the write was planned.
        """
        table = lake.table(self.table, table_id=self.table_id)
        return table.with_options(self.laid_over) if self.laid_over else table


def _table(options: Mapping[str, str]) -> str:
    name = options.get("path", "").strip()
    if not name:
        raise Invalid(
            'format("headwater") needs a table: pass "database.table" to load, save or start; '
            "saveAsTable is for tables of Spark's own catalog"
        )
    return name


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return _each_once([name.strip() for name in text.split(",") if name.strip()])
    try:
        names = json.loads(text)
    except ValueError as error:
        raise Invalid(f"option 'columns' is not a JSON list: {error}") from None
    if not all(isinstance(name, str) for name in names):
        raise Invalid("option 'columns' must be a list of column names")
    return _each_once(names)


def _each_once(names: Sequence[str]) -> tuple[str, ...]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid(f"option 'columns' names '{twice}' twice: select it again from the frame")
    return tuple(names)


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Invalid(f"option 'partition' is not a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise Invalid("option 'partition' must be a JSON object of partition values")
    return value
