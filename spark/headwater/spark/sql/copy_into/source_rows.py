"""The rows of files, brought to a table's columns, with what is wrong with each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyspark.sql.types as st
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.names import column_of, quoted
from headwater.spark.sql.copy_into.file_format import FileFormat, FileType
from headwater.spark.sql.copy_into.source_files import SourceFile, refuse_pattern
from headwater.spark.types import spark_type
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType

__all__ = ["FileErrors", "SourceRows"]

_FILE, _ERROR, _CORRUPT = "_headwater_file", "_headwater_error", "_headwater_corrupt"
_FIELD = "_headwater_{}"
_SHOWN = 200


@dataclass(frozen=True)
class FileErrors:
    """The rows of a file.

    Attributes:
        rows: All of them.
        errors: Those that do not fit the table.
        first: The problem of one of these.
    """

    rows: int = 0
    errors: int = 0
    first: str | None = None


class SourceRows:
    """The rows of files, for some columns of a table.

    Args:
        session: The catalog's.
        table: The table.
        columns: The columns that the files have values of: by their places in CSV files, by their
            names in others.
        file_format: The files' format.

    Raises:
        Unsupported: The format has no values of a column's type.
    """

    def __init__(
        self,
        session: CatalogSession,
        table: Table,
        columns: Sequence[str],
        file_format: FileFormat,
    ) -> None:
        self._session = session
        self._table = table
        self._fields = [table.schema.column(name) for name in columns]
        self._format = file_format
        self._assignment = StoreAssignment(session.spark, table.name)
        for field in self._fields:
            self._check_type(field)

    def errors(self, files: Sequence[SourceFile]) -> dict[SourceFile, FileErrors]:
        """The errors in each file; reads all of them."""
        error = sf.col(_ERROR)
        counted = (
            self._read(files)
            .groupBy(_FILE)
            .agg(
                sf.count(sf.lit(1)).alias("rows"),
                sf.count(error).alias("errors"),
                sf.first(error, ignorenulls=True).alias("first"),
                # A column that nobody asks for is not read, and then not found to be malformed.
                *[sf.count(_FIELD.format(at)) for at in range(len(self._fields))],
            )
        )
        found = {row[_FILE]: FileErrors(*row[1:4]) for row in counted.collect()}
        return {file: found.get(file.name, FileErrors()) for file in files}

    def rows(self, files: Sequence[SourceFile], *, keeps_good: bool) -> DataFrame:
        """The rows, with the table's columns.

        Args:
            files: At least one.
            keeps_good: Leave out those that do not fit; otherwise one fails the job, as a file
                that had none when it was looked at has changed.
        """
        read = self._read(files)
        error = sf.col(_ERROR)
        fits = error.isNull() if keeps_good else sf.assert_true(error.isNull(), error).isNull()
        names = [
            sf.col(_FIELD.format(at)).alias(field.name) for at, field in enumerate(self._fields)
        ]
        return read.where(fits).select(names)

    def _read(self, files: Sequence[SourceFile]) -> DataFrame:
        """Numbered columns, the file's name and what is wrong, null if nothing is."""
        for file in files:
            self._format.check_name(file.name)
            refuse_pattern(file.path)
        paths = [file.path for file in files]
        try:
            if self._format.type is FileType.PARQUET:
                return self._parquet(paths)
            return self._text(paths)
        except AnalysisException as error:
            raise Invalid(
                f"table {self._table.name}: the files do not fit its columns: {error}"
            ) from error

    # CSV and JSON -----------------------------------------------------------------------------

    def _text(self, paths: Sequence[str]) -> DataFrame:
        is_json = self._format.type is FileType.JSON
        names = [
            field.name if is_json else _FIELD.format(at) for at, field in enumerate(self._fields)
        ]
        corrupt = _CORRUPT
        while column_of(corrupt, names) is not None:
            corrupt += "_"
        schema = st.StructType(
            [
                *(
                    st.StructField(name, self._read_type(field))
                    for name, field in zip(names, self._fields, strict=True)
                ),
                st.StructField(corrupt, st.StringType()),
            ]
        )
        reader = (
            self._session.spark.read.schema(schema)
            .options(**self._format.reader_options)
            .option("columnNameOfCorruptRecord", corrupt)
        )
        raw = reader.json(list(paths)) if is_json else reader.csv(list(paths))
        # Apart from the table's names, which may be those of a file's metadata.
        given = raw.select(
            *[sf.col(quoted(name)).alias(_FIELD.format(at)) for at, name in enumerate(names)],
            sf.col(quoted(corrupt)).alias(_CORRUPT),
            sf.col("_metadata.file_name").alias(_FILE),
        )
        malformed = sf.when(
            sf.col(_CORRUPT).isNotNull(),
            sf.concat(sf.lit("Malformed record: "), sf.left(sf.col(_CORRUPT), sf.lit(_SHOWN))),
        )
        return self._cast(given, malformed, self._text_values(given))

    def _text_values(self, given: DataFrame) -> Iterator[tuple[Column, Column]]:
        for at, field in enumerate(self._fields):
            written = sf.col(_FIELD.format(at))
            kind = spark_type(field.type)
            if given.schema[at].dataType != st.StringType():
                yield written, written
                continue
            nulls = [*self._format.null_if, *([""] if self._format.empty_is_null else [])]
            if nulls:
                written = sf.when(~written.isin(nulls), written)
            same = isinstance(kind, st.StringType)
            yield written, written if same else written.try_cast(kind)

    def _read_type(self, field: DataField) -> st.DataType:
        """Text, which is cast where it can be told what does not fit; JSON has nested values."""
        kind = spark_type(field.type)
        return kind if isinstance(kind, _NESTED) else st.StringType()

    def _check_type(self, field: DataField) -> None:
        kind = spark_type(field.type)
        file_type = self._format.type
        if file_type is FileType.PARQUET:
            return
        if isinstance(kind, st.BinaryType | st.VariantType) or (
            file_type is FileType.CSV and isinstance(kind, _NESTED)
        ):
            raise Unsupported(
                f"table {self._table.name}, column '{field.name}': {file_type} files have no "
                f"values of type {field.type}; load Parquet files, or name the other columns"
            )

    # Parquet ----------------------------------------------------------------------------------

    def _parquet(self, paths: Sequence[str]) -> DataFrame:
        # Without it the columns would be those of any one of the files.
        reader = self._session.spark.read.option("mergeSchema", "true")
        raw = reader.options(**self._format.reader_options).parquet(*paths)
        kinds = {field.name: field.dataType for field in raw.schema.fields}
        found = {field.name: column_of(field.name, list(kinds)) for field in self._fields}
        if not any(found.values()):
            raise Invalid(
                f"table {self._table.name}: the files have none of its columns "
                f"{', '.join(found)}; theirs are {', '.join(kinds)}"
            )
        values: list[tuple[Column, Column]] = []
        for at, field in enumerate(self._fields):
            name, wanted = found[field.name], spark_type(field.type)
            given = sf.col(_FIELD.format(at))
            if name is None:
                values.append((sf.lit(None), sf.lit(None).cast(wanted)))
            elif kinds[name] == wanted:
                values.append((given, given))
            elif isinstance(wanted, _NESTED):
                # By the names of fields; what does not fit fails the statement.
                stored = self._assignment.assigned(given, kinds[name], wanted, field.name)
                values.append((given, stored))
            else:
                values.append((given, given.try_cast(wanted)))
        chosen = [
            sf.col(quoted(name)).alias(_FIELD.format(at))
            for at, name in enumerate(found.values())
            if name is not None
        ]
        given_rows = raw.select(*chosen, sf.col("_metadata.file_name").alias(_FILE))
        return self._cast(given_rows, None, values)

    # Both -------------------------------------------------------------------------------------

    def _cast(
        self,
        given: DataFrame,
        malformed: Column | None,
        values: Sequence[tuple[Column, Column]] | Iterator[tuple[Column, Column]],
    ) -> DataFrame:
        """The values as they are stored, and what is wrong with a row.

        Args:
            given: The files' rows.
            malformed: The problem of a row as a whole.
            values: Each column's value as it was given, and as it is stored.
        """
        problems = [] if malformed is None else [malformed]
        columns: list[Column] = []
        for at, (field, (before, after)) in enumerate(zip(self._fields, values, strict=True)):
            after = _within_length(after, field.type)
            columns.append(after.alias(_FIELD.format(at)))
            lost = before.isNotNull() & after.isNull()
            shown = sf.left(before.try_cast("string"), sf.lit(_SHOWN))
            if not isinstance(spark_type(field.type), _NESTED):
                problems.append(
                    sf.when(
                        lost,
                        sf.concat(
                            sf.lit(f"column '{field.name}': '"),
                            sf.coalesce(shown, sf.lit("?")),
                            sf.lit(f"' is no {str(field.type).removesuffix(' NOT NULL')}"),
                        ),
                    )
                )
            if not field.type.nullable and field.default_value is None:
                problems.append(
                    sf.when(after.isNull(), sf.lit(f"column '{field.name}' must not be null"))
                )
        error = reduce(lambda one, other: sf.coalesce(one, other), problems, sf.lit(None))
        return given.select(*columns, sf.col(_FILE), error.cast("string").alias(_ERROR))


def _within_length(value: Column, kind: DataType) -> Column:
    """A value, or null if it is too long for its type; spaces beyond the length are cut off."""
    if not isinstance(kind, AtomicType) or kind.length == MAX_LENGTH:
        return value
    if kind.root in (Root.CHAR, Root.VARCHAR):
        return sf.when(sf.char_length(sf.rtrim(value)) <= kind.length, value)
    if kind.root in (Root.BINARY, Root.VARBINARY):
        return sf.when(sf.octet_length(value) <= kind.length, value)
    return value


_NESTED = (st.ArrayType, st.MapType, st.StructType)
