"""The rows of format tables, by Spark's own readers of files.

Spark finds the partitions by their directories, leaves out those that a query does not need, and
reads only the columns and row groups that it needs, as of any files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.types as st
from pyspark.errors import AnalysisException, IllegalArgumentException, SparkRuntimeException
from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns
from headwater.spark.errors import first_line
from headwater.spark.names import quoted
from headwater.spark.source.division import is_plain_path, is_scannable
from headwater.spark.types import spark_schema, spark_type
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.options.format_options import FormatOptions
from headwater.storage.scan.format_partitions import FormatPartition, data_files, find_partitions
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    VariantType,
)

__all__ = [
    "FILE_FORMATS",
    "check_format_table",
    "file_settings",
    "format_frame",
    "is_encoded",
    "is_format_table",
    "present_partitions",
    "row_counts",
    "staged_counts",
    "stored_fields",
]

FILE_FORMATS = ("csv", "json", "orc", "parquet", "text")
"""The formats of format tables' files that Spark reads and writes."""

_DIRECTORY_TYPES = frozenset(
    (Root.CHAR, Root.VARCHAR, Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT,
     Root.DECIMAL, Root.DATE, Root.TIMESTAMP)
)  # fmt: skip
_MAX_LENGTH = 2**31 - 1
_ODD_DIRECTORIES = ("CONFLICTING_DIRECTORY_STRUCTURES", "CONFLICTING_PARTITION_COLUMN_NAMES")
_BINARY = (Root.BINARY, Root.VARBINARY)


def is_format_table(table: Table) -> bool:
    """Whether a table is a directory of files without snapshots, which Spark reads and writes."""
    return table_type(table.schema.options) is TableType.FORMAT


def check_format_table(table: Table) -> None:
    """Refuse a format table that Spark's own readers and writers cannot do right.

    Raises:
        Forbidden: Policies restrict what is seen of it.
        Unsupported: Its place, its format or the type of a column is one that they do not know.
    """
    table.refuse_restricted("Spark reads the files of format tables itself")
    options = FormatOptions(table.schema.options)
    location = table.storage.layout.location
    if not is_plain_path(location):
        raise Unsupported(
            f"table {table.name} is a format table at {location}: Headwater reads and writes those "
            "on a file system (file:///…), in paths without any of {}[]*?\\; use another engine"
        )
    if options.file_format not in FILE_FORMATS:
        raise Unsupported(
            f"table {table.name}: Spark has no files of format {options.file_format}, only "
            f"{', '.join(FILE_FORMATS)}; use another engine"
        )
    for field in table.schema.partition_fields:
        if not isinstance(field.type, AtomicType) or field.type.root not in _DIRECTORY_TYPES:
            raise Unsupported(
                f"table {table.name}: partition column '{field.name}' is {field.type}, whose "
                "values have no name for a directory that all engines agree on"
            )
    fields = stored_fields(table)
    for field in fields:
        if not _is_known(field.type, options.file_format):
            raise Unsupported(
                f"table {table.name}: column '{field.name}' is {field.type}, which Spark's files "
                f"of {options.file_format} do not have"
            )
    if options.file_format == "text" and [_is_text(each.type) for each in fields] != [True]:
        raise Unsupported(
            f"table {table.name}: files of text are lines, of one column of type STRING besides "
            "the partition columns"
        )


def stored_fields(table: Table) -> list[DataField]:
    """The columns that the files have: not those of partitions, which directories' names tell."""
    return [each for each in table.schema.fields if each.name not in table.schema.partition_keys]


def _is_known(kind: DataType, file_format: str) -> bool:
    match kind:
        case AtomicType(root=Root.TIMESTAMP | Root.TIMESTAMP_LTZ) if file_format == "orc":
            # Spark's has instants in the zone of the writing process, and local times as numbers.
            return False
        case AtomicType():
            return is_scannable(kind)
        case ArrayType():
            return file_format != "csv" and _is_known(kind.element, file_format)
        case MapType():
            keys_and_values = (kind.key, kind.value)
            return file_format != "csv" and all(_is_known(e, file_format) for e in keys_and_values)
        case RowType():
            return file_format != "csv" and all(_is_known(e.type, file_format) for e in kind.fields)
        case VariantType():
            return file_format == "parquet"
    return False


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, AtomicType) and kind.root in (Root.CHAR, Root.VARCHAR)


def file_settings(options: FormatOptions) -> dict[str, str]:
    """The options of Spark's readers and writers for a format table's files."""
    text = options.text
    match options.file_format:
        case "csv":
            return {
                "sep": text.field_delimiter,
                "lineSep": text.line_delimiter,
                "quote": text.quote,
                "escape": text.escape,
                "header": str(text.has_header).lower(),
                "nullValue": text.null_literal,
                "mode": text.mode,
            }
        case "json":
            return {"lineSep": text.line_delimiter, "mode": text.mode}
        case "text":
            return {"lineSep": text.line_delimiter}
    return {}


def format_frame(session: CatalogSession, table: Table) -> DataFrame:
    """A format table's rows as they are now.

    Args:
        session: The catalog's.
        table: The table.

    Raises:
        Forbidden, Unsupported: As `check_format_table`.
    """
    check_format_table(table)
    options = FormatOptions(table.schema.options)
    fields = stored_fields(table)
    result = _files(session, table, options)
    if result is None:
        return session.spark.createDataFrame([], spark_schema(table.schema.fields))
    result = _well_formed(result, fields, options)
    stored = {each.name: _read_value(each, options) for each in fields}
    columns = [
        stored[field.name]
        if field.name in stored
        else _partition_value(table, field, _directory_text(table, field, options))
        for field in table.schema.fields
    ]
    named = zip(columns, table.schema.fields, strict=True)
    frame = result.select([column.alias(each.name) for column, each in named])
    return CharColumns.from_session(session.spark, table.schema.fields).read(frame)


def row_counts(
    session: CatalogSession, table: Table, partitions: Sequence[FormatPartition]
) -> dict[tuple[str, ...], int]:
    """The rows of partitions that have some, by the texts in their directories' names."""
    options = FormatOptions(table.schema.options)
    fields = table.schema.partition_fields
    result = _files(session, table, options) if partitions else None
    if result is None:
        return {}
    texts = [_directory_text(table, each, options).alias(each.name) for each in fields]
    rows = result.select(texts)
    for field in fields:
        wanted = {each.spec[field.name] for each in partitions}
        rows = rows.where(sf.col(quoted(field.name)).isin(wanted))
    return _counted(rows, table)


def staged_counts(
    session: CatalogSession, table: Table, directory: str
) -> dict[tuple[str, ...], int]:
    """The rows of each partition below a directory that Spark wrote, as `row_counts`.

    Args:
        session: The catalog's.
        table: The table that the rows are for, which has partitions.
        directory: The directory's URI; there is a file below it.
    """
    options = FormatOptions(table.schema.options)
    schema = _with_texts(_file_schema(table, options), table)
    reader = _reader(session, table, options).schema(schema).option("basePath", directory)
    return _counted(reader.load(directory), table)


def _counted(rows: DataFrame, table: Table) -> dict[tuple[str, ...], int]:
    keys = table.schema.partition_keys
    return {tuple(row[:-1]): row[-1] for row in rows.groupBy(*map(quoted, keys)).count().collect()}


def _files(session: CatalogSession, table: Table, options: FormatOptions) -> DataFrame | None:
    """The files' rows, with the text of partition columns where Spark finds it itself.

    Returns:
        None for a table without files, or without partitions.
    """
    location = table.storage.layout.location
    keys = table.schema.partition_keys
    in_catalog = table.schema.table_options.partitions_in_catalog
    schema = _file_schema(table, options)
    reader = _reader(session, table, options)
    paths = [location]
    if keys and options.values_alone_in_paths:
        # Spark knows directories by names of columns alone.
        reader = reader.option("recursiveFileLookup", "true")
        paths = [partition.directory for partition in present_partitions(table)]
    elif keys:
        reader = reader.option("basePath", location)
        schema = _with_texts(schema, table)
        if in_catalog:
            paths = [partition.directory for partition in present_partitions(table)]
    # No directory is made for a table before something is written.
    if not paths or next(data_files(table.storage, location), None) is None:
        return None
    reader = reader.schema(schema)
    try:
        try:
            return _loaded(reader, paths)
        except SparkRuntimeException as error:
            if error.getCondition() not in _ODD_DIRECTORIES:
                raise
            # Some directories are not the table's.
            paths = [partition.directory for partition in present_partitions(table)]
            return _loaded(reader, paths) if paths else None
    except (AnalysisException, IllegalArgumentException, SparkRuntimeException) as error:
        raise Invalid(
            f"table {table.name}: Spark cannot read its files in {location}: {first_line(error)}"
        ) from error


def _reader(session: CatalogSession, table: Table, options: FormatOptions) -> DataFrameReader:
    reader = session.spark.read.format(options.file_format).options(**file_settings(options))
    reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    if options.file_format == "parquet":
        reader = reader.option("mergeSchema", "false").option("datetimeRebaseMode", "CORRECTED")
    return reader


def _file_schema(table: Table, options: FormatOptions) -> st.StructType:
    return st.StructType(
        [st.StructField(each.name, _file_type(each, options)) for each in stored_fields(table)]
    )


def _with_texts(schema: st.StructType, table: Table) -> st.StructType:
    """The columns of files, and after them the texts of their directories' names."""
    texts = [st.StructField(key, st.StringType()) for key in table.schema.partition_keys]
    return st.StructType([*schema.fields, *texts])


def _loaded(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    frame = reader.load(paths)
    _ = frame.schema  # Spark Connect looks at the files now.
    return frame


def present_partitions(table: Table) -> list[FormatPartition]:
    """The partitions of a format table that have a directory.

    Where the catalog keeps the partitions, those that it does not know are not the table's.
    """
    result = find_partitions(table.storage)
    if not table.schema.table_options.partitions_in_catalog:
        return result
    known = {tuple(each.spec.items()) for each in table.partitions()}
    return [each for each in result if tuple(each.spec.items()) in known]


def _file_type(field: DataField, options: FormatOptions) -> st.DataType:
    """The type that Spark's reader is asked for."""
    if is_encoded(field, options):
        return st.StringType()
    kind = spark_type(field.type)
    return _json_type(kind) if options.file_format == "json" else kind


def _json_type(kind: st.DataType) -> st.DataType:
    """A type whose numbers and booleans are text, as Paimon writes them: Spark reads both then."""
    match kind:
        case st.StructType(fields=fields):
            parts = [st.StructField(each.name, _json_type(each.dataType)) for each in fields]
            return st.StructType(parts)
        case st.ArrayType(elementType=element):
            return st.ArrayType(_json_type(element))
        case st.MapType(keyType=key, valueType=value):
            return st.MapType(_json_type(key), _json_type(value))
        case st.IntegralType() | st.FractionalType() | st.BooleanType():
            return kind if isinstance(kind, st.DecimalType) else st.StringType()
    return kind


def is_encoded(field: DataField, options: FormatOptions) -> bool:
    """Whether files hold a column's bytes in base 64, as those of CSV do."""
    is_binary = isinstance(field.type, AtomicType) and field.type.root in _BINARY
    return is_binary and options.file_format == "csv"


def _read_value(field: DataField, options: FormatOptions) -> Column:
    """A column's value, of what Spark's reader gives."""
    value = sf.col(quoted(field.name))
    kind = spark_type(field.type)
    stored = _file_type(field, options)
    if stored != kind:
        return sf.unbase64(value) if is_encoded(field, options) else value.cast(kind)
    if options.file_format == "parquet" and kind in (st.FloatType(), st.DoubleType()):
        # A footer's ranges may lack NaN, by which Spark would skip row groups for conditions.
        return sf.nanvl(value, value)
    return value


def _well_formed(
    frame: DataFrame, fields: Sequence[DataField], options: FormatOptions
) -> DataFrame:
    """The rows whose texts are values of their columns, where malformed rows are left out."""
    if options.file_format != "json" or options.text.mode != "dropmalformed":
        return frame
    for field in fields:
        kind = spark_type(field.type)
        if _file_type(field, options) != kind:
            value = sf.col(quoted(field.name))
            frame = frame.where(value.isNull() | value.try_cast(kind).isNotNull())
    return frame


def _directory_text(table: Table, field: DataField, options: FormatOptions) -> Column:
    """The text of a partition column in the names of a file's directories."""
    keys = table.schema.partition_keys
    if not options.values_alone_in_paths:
        return sf.col(quoted(field.name))
    # Spark's name of a file is a URI, in which the names' own percent signs are escaped again.
    path = sf.regexp_replace(_decoded(sf.col("_metadata.file_path")), "^file:/+", "/")
    start = len(local_path(table.storage.layout.location)) + 2
    below = sf.substring(path, sf.lit(start), sf.lit(_MAX_LENGTH))
    return _decoded(sf.split_part(below, sf.lit("/"), sf.lit(keys.index(field.name) + 1)))


def _decoded(text: Column) -> Column:
    """A text whose percent signs are escapes, in which a plus is a plus."""
    return sf.url_decode(sf.replace(text, sf.lit("+"), sf.lit("%2B")))


def _partition_value(table: Table, field: DataField, text: Column) -> Column:
    """A partition column's value; dates may be numbers of days, as Paimon names them."""
    text = sf.nullif(text, sf.lit(table.schema.table_options.partition_default_name))
    kind = spark_type(field.type)
    if isinstance(kind, st.DateType):
        days = sf.when(text.rlike(r"^-?\d+$"), text.cast("int"))
        return sf.when(days.isNotNull(), sf.date_from_unix_date(days)).otherwise(text.cast(kind))
    return text.cast(kind)
