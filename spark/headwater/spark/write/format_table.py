"""Writes of format tables, by Spark's own writers of files.

Spark writes into a directory of its own beside the partitions, which no reader looks into. When all
tasks are done the files get their places, and then those that they replace are deleted: a write
that fails leaves the table as it was, and one that is killed at its very end leaves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyspark.sql.types as st
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import with_stored_values
from headwater.spark.errors import first_line, own_errors
from headwater.spark.explained_write import overwrite_mode, stop_if_explained
from headwater.spark.literal import literal
from headwater.spark.names import columns_by_name, quoted
from headwater.spark.row_change import RowCounts
from headwater.spark.session import ended_by_interrupt
from headwater.spark.source.format_table import (
    check_format_table,
    file_settings,
    is_encoded,
    present_partitions,
    row_counts,
    staged_counts,
    stored_fields,
)
from headwater.spark.types import spark_type
from headwater.spark.write.nested_defaults import nested_default
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.files.access import FileStatus
from headwater.storage.files.layout import unescape_path_name
from headwater.storage.files.local import move_local_file
from headwater.storage.options.format_options import FormatOptions
from headwater.storage.rows.partition import static_partition
from headwater.storage.scan.format_partitions import (
    FormatPartition,
    data_files,
    find_partitions,
    measure_files,
    partition_directory,
)
from headwater.storage.schema.default_values import default_value
from headwater.storage.table_storage import PartitionStatistics
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import StorageValue, arrow_scalar, is_blank, partition_text

__all__ = [
    "check_named_values",
    "measure_partitions",
    "truncate_format_table",
    "write_format_rows",
]

_UNKNOWN = -1
# Java's whitespace, as `is_blank` has it.
_BLANK = r"^[\t-\r\x1C-\x20\u1680\u2000-\u2006\u2008-\u200A\u2028\u2029\u205F\u3000]*$"
_UNNAMED = (
    "the name of its directory would be that of the null partition; write a null or another value"
)
_MOMENT = "yyyy-MM-dd HH:mm:ss.SSSSSS"


@dataclass(frozen=True)
class _NewFile:
    """A file that waits for its place.

    Attributes:
        status: The file.
        spec: Its partition.
        target: Its place.
    """

    status: FileStatus
    spec: Mapping[str, str]
    target: str


def write_format_rows(
    session: CatalogSession,
    table: Table,
    rows: DataFrame,
    *,
    overwrite: bool = False,
    partition: Mapping[str, object] | None = None,
    dynamic: bool = False,
) -> RowCounts:
    """Add rows to a format table, or put them in the place of what it holds.

    Args:
        session: The catalog's.
        table: The table.
        rows: The rows, by the names of the table's columns; nullable ones may be missing.
        overwrite: Replace what the table holds.
        partition: Values of some partition columns: the rows' own, where the frame lacks them, and
            with `overwrite` those of the partitions that are replaced.
        dynamic: With `overwrite`, replace only partitions that there are rows for.

    Raises:
        Invalid: The rows do not fit the table; nothing is written.
        Forbidden, Unsupported: As `check_format_table`.
    """
    check_format_table(table)
    options = FormatOptions(table.schema.options)
    options.refuse_hive()
    fixed = static_partition(table.storage, partition or {})
    check_named_values(table, partition or {}, fixed)
    frame = _stored(session, table, rows, fixed)
    mode = overwrite_mode(partition, dynamic=dynamic) if overwrite else "append"
    stop_if_explained(session, frame, table=table.name, mode=mode)
    counted = Observation()
    staging = f"{table.storage.layout.location}/.headwater-{table.storage.runtime.new_uuid()}"
    try:
        with own_errors(), ended_by_interrupt(session.spark):
            _write(frame.observe(counted, sf.count(sf.lit(1)).alias("rows")), table, staging)
        new = list(_new_files(table, options, staging))
        replaced = _replaced(table, new, fixed, dynamic=dynamic) if overwrite else []
        named = _named_partition(table, options, fixed)
        if named is not None:
            table.storage.files.make_directory(partition_directory(table.storage, named))
        emptied = [each.spec for each in replaced] + ([named] if named is not None else [])
        reports: Sequence[PartitionStatistics] = ()
        if _is_kept(table):
            counts = staged_counts(session, table, staging) if new else {}
            reports = _reports(table, new, emptied, counts)
        _publish(table, new, replaced, reports, overwrite=overwrite)
    finally:
        table.storage.files.delete_tree(staging)
    return RowCounts(inserted=int(counted.get.get("rows", 0)))


def truncate_format_table(table: Table, partition: Mapping[str, object]) -> None:
    """Delete the rows of a format table's partitions, which stay.

    Args:
        table: The table.
        partition: Values of some partition columns; of none for all partitions.

    Raises:
        NotFound: All columns have values, and the partition does not exist.
        Forbidden, Unsupported: As `check_format_table`.
    """
    check_format_table(table)
    values = static_partition(table.storage, partition)
    emptied = _within(table, present_partitions(table), values)
    named = _named_partition(table, FormatOptions(table.schema.options), values)
    if named is not None and not emptied:
        name = "/".join(f"{key}={text}" for key, text in named.items())
        raise NotFound(
            f"table {table.name} has no partition {name}",
            resource_type=ResourceType.PARTITION,
            resource_name=name,
        )
    reports = _reports(table, [], [each.spec for each in emptied], {}) if _is_kept(table) else ()
    _publish(table, [], emptied, reports, overwrite=True)


def measure_partitions(
    session: CatalogSession, table: Table, partition: Mapping[str, object], *, counts_rows: bool
) -> None:
    """Tell the catalog what the partitions hold that it knows of.

    Args:
        session: The catalog's.
        table: A format table whose partitions the catalog keeps.
        partition: Values of some partition columns; of none for all partitions.
        counts_rows: Read the rows to count them; otherwise the catalog keeps the number it has.

    Raises:
        NotFound: The partitions do not exist.
        Forbidden, Unsupported: As `check_format_table`.
    """
    check_format_table(table)
    values = static_partition(table.storage, partition)
    wanted = _within(table, present_partitions(table), values)
    if not wanted and values:
        name = ", ".join(f"{key} = {value}" for key, value in partition.items())
        raise NotFound(
            f"table {table.name} has no partition with {name}",
            resource_type=ResourceType.PARTITION,
            resource_name=name,
        )
    counts = row_counts(session, table, wanted) if counts_rows else {}
    now = table.storage.runtime.now_millis()
    reports: list[PartitionStatistics] = []
    for present in wanted:
        files = measure_files(table.storage, present.directory)
        rows = counts.get(tuple(present.spec.values()), 0) if counts_rows else _UNKNOWN
        newest = now if files.modified_millis is None else files.modified_millis
        reports.append(
            PartitionStatistics(present.spec, rows, files.size, files.count, newest, _UNKNOWN)
        )
    if reports:
        _report(table, reports, replace=True)


# Rows ---------------------------------------------------------------------------------------


def _stored(
    session: CatalogSession, table: Table, rows: DataFrame, fixed: Mapping[str, StorageValue]
) -> DataFrame:
    """Rows with all columns of the table, as they are stored."""
    fields = table.schema.fields
    given = columns_by_name([each.name for each in fields], rows.columns)
    odd = [name for name in rows.columns if name not in given.values()]
    if odd:
        raise Invalid(
            f"table {table.name} has no column '{odd[0]}'; its columns are "
            f"{', '.join(each.name for each in fields)}"
        )
    assignment = StoreAssignment(session.spark, table.name)
    columns: list[Column] = []
    for field in fields:
        kind = spark_type(field.type)
        if field.name in given:
            source = given[field.name]
            value = sf.col(quoted(source))
            value = assignment.assigned(value, rows.schema[source].dataType, kind, field.name)
        elif field.name in fixed:
            value = literal(arrow_scalar(fixed[field.name], field.type), kind)
        else:
            value = sf.lit(None).cast(kind)
        columns.append(_complete(table, field, value).alias(field.name))
    return with_stored_values(session.spark, rows.select(columns), table.schema)


def _complete(table: Table, field: DataField, value: Column) -> Column:
    """A value, or the column's default in its place; null fails where there may be none."""
    kind = spark_type(field.type)
    if field.default_value is not None:
        default = nested_default(field, table.name)
        if isinstance(field.type, AtomicType):
            where = f"table {table.name}, column '{field.name}'"
            zone = table.storage.runtime.time_zone
            constant = default_value(where, field.type, field.default_value, zone)
            default = literal(constant, kind)
        value = sf.coalesce(value, default)
    if not field.type.nullable:
        problem = f"table {table.name}, column '{field.name}' must not be null"
        value = sf.coalesce(value, sf.raise_error(sf.lit(problem)).cast(kind))
    return value


# Files --------------------------------------------------------------------------------------


def _write(frame: DataFrame, table: Table, staging: str) -> None:
    """Write rows below a directory, by partition."""
    options = FormatOptions(table.schema.options)
    keys = table.schema.partition_keys
    columns = [_file_value(each, options).alias(each.name) for each in stored_fields(table)]
    texts = [_directory_text(table, each, options) for each in table.schema.partition_fields]
    frame = frame.select(*columns, *texts)
    if keys and options.spreads_by_partition:
        frame = frame.repartition(*map(quoted, keys))
    writer = frame.write.format(options.file_format).options(**_writer_settings(options))
    if keys:
        writer = writer.partitionBy(*keys)
    try:
        writer.mode("error").save(staging)
    except (AnalysisException, IllegalArgumentException) as error:
        raise Invalid(
            f"table {table.name}: Spark cannot write its files: {first_line(error)}"
        ) from error


def _writer_settings(options: FormatOptions) -> dict[str, str]:
    settings = {**file_settings(options), "compression": options.compression}
    settings.pop("mode", None)
    if options.file_format == "csv":
        # Not the two quotes that Spark has for it, whatever the quote is.
        settings["emptyValue"] = options.text.quote * 2
    if options.most_rows_of_file:
        settings["maxRecordsPerFile"] = str(options.most_rows_of_file)
    if options.file_format in ("csv", "json"):
        # Spark's own would cut microseconds off.
        settings |= {"timestampFormat": f"{_MOMENT}XXX", "timestampNTZFormat": _MOMENT}
    return settings


def _file_value(field: DataField, options: FormatOptions) -> Column:
    value = sf.col(quoted(field.name))
    return sf.base64(value) if is_encoded(field, options) else value


def _directory_text(table: Table, field: DataField, options: FormatOptions) -> Column:
    """A partition column's value as in its directory's name, unescaped: as `partition_text`."""
    value = sf.col(quoted(field.name))
    text = value.cast("string")
    kind = spark_type(field.type)
    if _is_legacy(table, options):
        if isinstance(kind, st.DateType):
            text = sf.unix_date(value).cast("string")
        elif isinstance(kind, st.TimestampNTZType):
            text = _java_text(value)
    elif isinstance(field.type, AtomicType) and field.type.root is Root.TIMESTAMP:
        text = sf.date_format(value, f"yyyy-MM-dd HH:mm:ss{_fraction(field.type.precision)}")
    default = table.schema.table_options.partition_default_name
    problem = sf.concat(
        sf.lit(f"table {table.name}: '"),
        text,
        sf.lit(f"' cannot be a value of partition column '{field.name}': {_UNNAMED}"),
    )
    rejected = sf.raise_error(problem).cast("string")
    named = sf.when(text.rlike(_BLANK) | (text == default), rejected).otherwise(text)
    return sf.when(text.isNull(), sf.lit(default)).otherwise(named).alias(field.name)


def check_named_values(
    table: Table, partition: Mapping[str, object], values: Mapping[str, StorageValue]
) -> None:
    """Reject blank values for a partition's directories.

    Args:
        table: A format table.
        partition: What the caller gave for some or all partition columns.
        values: The values that this stands for.

    Raises:
        Invalid: A value is blank.
    """
    for name, value in values.items():
        if isinstance(value, str) and is_blank(value):
            raise Invalid(
                f"table {table.name}: '{partition[name]}' cannot be a value of partition column "
                f"'{name}': {_UNNAMED}"
            )


def _java_text(value: Column) -> Column:
    """A local time as ``LocalDateTime.toString`` writes it: no longer than it has to be."""
    micros = sf.unix_micros(value.cast("timestamp")) % sf.lit(1_000_000)
    second = sf.second(value)
    return (
        sf.when(micros % 1000 != 0, sf.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"))
        .when(micros != 0, sf.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSS"))
        .when(second != 0, sf.date_format(value, "yyyy-MM-dd'T'HH:mm:ss"))
        .otherwise(sf.date_format(value, "yyyy-MM-dd'T'HH:mm"))
    )


def _fraction(precision: int) -> str:
    return "." + "S" * precision if precision else ""


def _is_legacy(table: Table, options: FormatOptions) -> bool:
    return table.schema.table_options.legacy_partition_name and not options.names_as_engine


def _named_partition(
    table: Table, options: FormatOptions, values: Mapping[str, StorageValue]
) -> dict[str, str] | None:
    """The one partition with some values, as its directory's name has them; None for several."""
    keys = table.schema.partition_keys
    if not keys or len(values) < len(keys):
        return None
    named = table.schema.table_options
    if not _is_legacy(table, options):
        named = type(named)({**named.raw, "partition.legacy-name": "false"})
    return {key: partition_text(values[key], table.schema.column(key), named) for key in keys}


def _within(
    table: Table, partitions: Iterable[FormatPartition], values: Mapping[str, StorageValue]
) -> list[FormatPartition]:
    """The partitions with some values, whatever their directories' names for these are."""
    return [
        partition
        for partition in partitions
        if values.items() <= static_partition(table.storage, partition.spec).items()
    ]


def _new_files(table: Table, options: FormatOptions, staging: str) -> Iterator[_NewFile]:
    """The files that Spark wrote, and their places."""
    keys = table.schema.partition_keys
    for status in data_files(table.storage, staging):
        *directories, name = status.path[len(staging) + 1 :].split("/")
        texts = [unescape_path_name(each.partition("=")[2]) for each in directories]
        spec = dict(zip(keys, texts, strict=True))
        place = partition_directory(table.storage, spec)
        yield _NewFile(status, spec, f"{place}/{options.file_prefix}{name}")


def _replaced(
    table: Table,
    new: Sequence[_NewFile],
    fixed: Mapping[str, StorageValue],
    *,
    dynamic: bool,
) -> list[FormatPartition]:
    """The partitions whose files are replaced."""
    if not table.schema.partition_keys:
        return find_partitions(table.storage)
    if not dynamic:
        # What the catalog does not know yet is replaced only where it is named.
        present = find_partitions(table.storage) if fixed else present_partitions(table)
        return _within(table, present, fixed)
    written = {_values(table, each.spec) for each in new}
    return [each for each in find_partitions(table.storage) if _values(table, each.spec) in written]


def _values(table: Table, spec: Mapping[str, str]) -> tuple[StorageValue, ...]:
    return tuple(static_partition(table.storage, spec).values())


def _publish(
    table: Table,
    new: Sequence[_NewFile],
    replaced: Sequence[FormatPartition],
    reports: Sequence[PartitionStatistics],
    *,
    overwrite: bool,
) -> None:
    """Give new files their places, and delete those that they replace.

    Args:
        table: The table.
        new: The new files.
        replaced: The partitions whose files are deleted.
        reports: The contents of partitions that the catalog is told of.
        overwrite: Whether to replace what it knows of them.
    """
    # Format tables have no commit that would check it.
    table.require_present()
    files = table.storage.files
    old = [file.path for each in replaced for file in data_files(table.storage, each.directory)]
    placed: list[str] = []
    try:
        for file in new:
            move_local_file(file.status.path, file.target)
            placed.append(file.target)
        if reports:
            _report(table, reports, replace=overwrite)
    except BaseException:
        for path in placed:
            files.delete(path)
        raise
    for path in old:
        files.delete(path)


def _is_kept(table: Table) -> bool:
    """Whether the catalog keeps the table's partitions."""
    kept = table.schema.table_options.partitions_in_catalog
    return kept and bool(table.schema.partition_keys)


def _reports(
    table: Table,
    new: Sequence[_NewFile],
    emptied: Iterable[Mapping[str, str]],
    counts: Mapping[tuple[str, ...], int],
) -> list[PartitionStatistics]:
    """The contents of partitions after a write.

    Args:
        table: The table.
        new: The new files.
        emptied: Partitions that have no files but these.
        counts: The new rows of each partition.
    """
    now = table.storage.runtime.now_millis()
    reports = {
        tuple(spec.values()): PartitionStatistics(spec, 0, 0, 0, now, _UNKNOWN) for spec in emptied
    }
    for file in new:
        key = tuple(file.spec.values())
        before = reports.get(key) or PartitionStatistics(file.spec, 0, 0, 0, now, _UNKNOWN)
        size = before.file_size_in_bytes + file.status.size
        # A partition that has no rows is in no count.
        reports[key] = PartitionStatistics(
            file.spec, counts.get(key, 0), size, before.file_count + 1, now, _UNKNOWN
        )
    return list(reports.values())


def _report(table: Table, reports: Sequence[PartitionStatistics], *, replace: bool) -> None:
    table.catalog.partitions.create(
        table.identifier,
        [each.spec for each in reports],
        ignore_if_exists=True,
        statistics=reports,
        replace_statistics=replace,
    )
