"""The data source ``format("headwater")``.

Spark makes, plans and runs a Python data source in processes of its own, so everything it needs
travels with it: the class that a session registers holds the connection's settings, and what is
sent to tasks holds no connection at all.

A frame shows the table as it was when `load` was called; call `load` again to see later commits.

Filters are not pushed: Spark 4.1 to 4.3 keeps one plan for all scans of a frame, so that a filter
pushed for one use of the frame loses rows of another. The option ``where`` does it, and so does
`headwater.spark.SparkLake.table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyspark.sql.types as st
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.catalog.table.audit_log import AuditLog, Binlog
from headwater.catalog.table.scan import Rows
from headwater.catalog.table.served_rows import ServedScan
from headwater.catalog.table.system_table import check_moment, system_table_of
from headwater.spark.char_types import declared_schema
from headwater.spark.connection import Connection
from headwater.spark.options import (
    Operation,
    ReadOptions,
    WriteOptions,
    refuse_other_options,
)
from headwater.spark.source.batch_read import BatchReader
from headwater.spark.source.content_read import ContentReader
from headwater.spark.source.metadata_rows import (
    MetadataRows,
    asks_for_metadata,
    metadata_schema,
)
from headwater.spark.stream.read import StreamReader
from headwater.spark.stream.served import ServedStreamReader
from headwater.spark.types import spark_schema
from headwater.spark.write.tasks import BatchWriter, StreamWriter
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported
from headwater.storage.scan.stream import starting_position
from headwater.storage.schema.read_start import ReadStart
from headwater.storage.schema.system_fields import ROW_KIND_COLUMN, check_row_kind_column
from headwater.storage.schema.table_schema import Schema, TableSchema

if TYPE_CHECKING:
    # Spark sends this object to its tasks, which do without what the driver does with a table.
    from headwater.catalog.table.system_table import SystemTable
    from headwater.catalog.table.table import Table

__all__ = ["FORMAT", "HeadwaterSource", "source_class"]

FORMAT = "headwater"
"""The format's name."""

CHANGE_LOGS: Mapping[str, type[AuditLog]] = {"audit_log": AuditLog, "binlog": Binlog}
"""The system tables that are streams."""


class HeadwaterSource(DataSource):
    """Reads and writes tables of a catalog, in batches and streams."""

    connection: ClassVar[Connection | None] = None
    """The catalog of the session, unless the options name another."""
    _table_id: str | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> st.StructType:
        """The columns of a table; with ``consumer-id`` or ``include-row-kind``, row kinds too."""
        # Spark asks for the schema of a stream as for that of a batch.
        refuse_other_options(self.options, Operation.READ, Operation.READ_STREAM)
        options = self._read_options
        # The logs may be streams, which have the present columns.
        system_table = self._system_table(at_present=self._identifier.system_table in CHANGE_LOGS)
        if system_table is not None:
            return _schema_of(system_table)
        table = self._table(options.table)
        chosen = None if options.for_stream else self._chosen_rows(table)
        if chosen is None:
            schema = table.schema
            names = list(options.columns or schema.field_by_name)
        else:
            # Spark pickles this object when the schema is known: the snapshot stays chosen.
            self._chosen = chosen
            if isinstance(chosen, MetadataRows):
                named = metadata_schema(chosen.names, chosen.storage)
                return declared_schema(named, chosen.storage.schema.fields)
            schema = chosen.storage.schema
            names = [name for name in chosen.schema.names if name in schema.field_by_name]
        own = schema.columns(names)
        columns = declared_schema(spark_schema(own), own)
        # Spark does not say whether the schema is for a stream, but only streams have consumers.
        kinds = options.row_kind
        if kinds is None:
            kinds = options.stream.consumer_id is not None and bool(schema.primary_keys)
        if not kinds:
            return columns
        check_row_kind_column(names, ROW_KIND_COLUMN)
        return columns.add(ROW_KIND_COLUMN, st.StringType())

    def reader(self, schema: st.StructType) -> DataSourceReader:
        """A batch read of the columns of `schema`."""
        refuse_other_options(self.options, Operation.READ)
        options = self._read_options
        system_table = self._system_table()
        if system_table is not None:
            return self._system_reader(system_table, schema)
        # A schema of the user's own was not asked of this object.
        whole: Rows = getattr(self, "_chosen", None) or self._rows(self._table(options.table))
        own = whole.storage.schema
        if isinstance(whole, MetadataRows):
            names = schema.fieldNames()
            _check_types(schema, metadata_schema(names, whole.storage))
        else:
            names = [name for name in schema.fieldNames() if name in own.field_by_name]
            _check_schema(schema, own)
        try:
            return self._batch_reader(whole.narrowed(names, whole.predicate), schema)
        except HeadwaterError:
            # What Spark pickled cannot ask whether the table was dropped since.
            if self._table_id is not None:
                self._connection.open().table(options.table, table_id=self._table_id)
            raise

    def streamReader(self, schema: st.StructType) -> DataSourceStreamReader:
        """A stream of a table's changes."""
        refuse_other_options(self.options, Operation.READ_STREAM)
        self._connection = self._connection.for_stream()
        options = self._read_options
        system_table = self._system_table(at_present=True)
        if system_table is not None:
            return self._system_stream(system_table, schema)
        table = self._table(options.table)
        own = table.schema.field_by_name
        kinds = ROW_KIND_COLUMN in schema.fieldNames() and ROW_KIND_COLUMN not in own
        if table.schema.primary_keys and not kinds and options.row_kind is None:
            raise Invalid(
                f"table {options.table} has a primary key, so its stream has updates and deletes: "
                "set the option include-row-kind to true for a column _ROW_KIND that tells them "
                "apart, or to false to leave deletes out"
            )
        self._check_present(table, schema)
        _check_schema(schema, table.schema)
        # Restricted callers have no files to read.
        kind = StreamReader if table.storage.sees_all else ServedStreamReader
        return kind(self._connection, options, table, schema)

    def writer(self, schema: st.StructType, overwrite: bool) -> DataSourceWriter:
        """A write of one batch as one commit."""
        refuse_other_options(self.options, Operation.WRITE)
        writer = BatchWriter(self._write_options(schema, overwrite), rows=schema)
        # Spark pickles it next, which would plan it, too, but tell of errors as of failed pickling.
        writer.plan()
        return writer

    def streamWriter(self, schema: st.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A stream that is written with one commit for each micro-batch."""
        refuse_other_options(self.options, Operation.WRITE_STREAM)
        self._connection = self._connection.for_stream()
        return StreamWriter(self._write_options(schema, overwrite), rows=schema)

    def _write_options(self, schema: st.StructType, overwrite: bool) -> WriteOptions:
        """The options, after the changes of the table's columns that they ask for."""
        options = WriteOptions.parse(self._connection, self.options, overwrite)
        if options.merging is not None:
            # Tasks import this module, and do without the catalog.
            from headwater.spark.write.evolve import merge_columns

            merge_columns(options.open(), schema, options.merging)
        return options

    @cached_property
    def _connection(self) -> Connection:
        return Connection.of(self.connection, self.options)

    @cached_property
    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(self.options)

    @cached_property
    def _identifier(self) -> Identifier:
        return Identifier.parse(self._read_options.table)

    def _system_table(self, *, at_present: bool = False) -> SystemTable | None:
        """The system table that is read; None for a table of data.

        Args:
            at_present: Whether to read it as of now, whatever the options name.
        """
        name = self._identifier
        if name.system_table is None and name.database != SYSTEM_DATABASE:
            return None
        options = self._read_options
        if options.columns is not None:
            raise Unsupported(f"{name} is a system table: select its columns from the frame")
        if options.row_kind is not None:
            raise Unsupported(f"{name} is a system table: leave the option include-row-kind out")
        if at_present or not options.start:
            return self._connection.open().system_table(options.table)
        if name.database == SYSTEM_DATABASE:
            raise Unsupported(f"{name} is about the warehouse as it is: leave options out")
        table = self._table(str(name.without_system_table)).with_options(options.start)
        check_moment(name, table.schema.options)
        return system_table_of(name, table.inspect)

    def _system_reader(self, found: SystemTable, schema: st.StructType) -> DataSourceReader:
        if self._read_options.where is not None:
            raise Unsupported(f"{self._identifier} is a system table: filter the frame instead")
        _check_system_schema(schema, found)
        if found.rows is None:
            return ContentReader(found.to_arrow(), schema)
        return self._batch_reader(found.rows, schema)

    def _batch_reader(self, rows: Rows, schema: st.StructType) -> DataSourceReader:
        parallelism = self._connection.parallelism
        if isinstance(rows, ServedScan):
            rows = rows.divided(parallelism)
        return BatchReader(rows, rows.splits, schema, parallelism)

    def _system_stream(self, found: SystemTable, schema: st.StructType) -> DataSourceStreamReader:
        name, options = self._identifier, self._read_options
        view = CHANGE_LOGS.get(name.system_table or "")
        if view is None:
            logs = " and ".join(f"${each}" for each in CHANGE_LOGS)
            raise Unsupported(
                f"{name} cannot be followed: of a table's system tables {logs} are streams; read "
                "the others with spark.read"
            )
        if view is Binlog and options.where is not None:
            raise Unsupported(
                f"{name}: a condition would part the two sides of an update; filter the frame, or "
                "follow $audit_log"
            )
        _check_system_schema(schema, found)
        table = self._table(str(name.without_system_table))
        if not table.storage.sees_all:
            if view is Binlog:
                table.refuse_restricted("its binlog pairs rows that you may not see")
            return ServedStreamReader(self._connection, options, table, schema, view)
        return StreamReader(self._connection, options, table, schema, view)

    def _chosen_rows(self, table: Table) -> Rows | None:
        """The rows of a batch read; None if only a stream can begin where the options say."""
        try:
            return self._rows(table)
        except (Invalid, NotFound):
            if not self._read_options.start or not self._begins_stream(table):
                raise
        # Spark asks for the schema of a stream as for that of a batch, which is refused later.
        return None

    def _begins_stream(self, table: Table) -> bool:
        start = ReadStart.of(table.with_options(self._read_options.start).schema.options)
        try:
            starting_position(table.storage, table.pointer.latest(), start)
        except HeadwaterError:
            return False
        return True

    def _check_present(self, table: Table, schema: st.StructType) -> None:
        """Refuse a stream whose columns were taken from a batch read of an earlier time."""
        chosen: Rows | None = getattr(self, "_chosen", None)
        if chosen is None or chosen.storage.schema.id == table.schema.id:
            return
        names = list(self._read_options.columns or table.schema.field_by_name)
        present = [(each.id, each.type) for each in table.schema.columns(names)]
        if names != schema.fieldNames() or present != [
            (each.id, each.type) for each in chosen.storage.schema.columns(names)
        ]:
            asked = table.with_options(self._read_options.start).schema.options
            raise Invalid(
                f"table {table.name}: its columns changed after the time that the options name, "
                "and a stream has the present ones: set the option scan.mode to "
                f"{ReadStart.of(asked).mode} as well"
            )

    def _table(self, name: str) -> Table:
        table = self._connection.open().table(name)
        self._table_id = table.info.id
        return table

    def _rows(self, table: Table) -> Rows:
        options = self._read_options
        asked = table.with_options(options.start) if options.start else table
        if options.for_changes:
            kinds = bool(options.row_kind)
            return asked.changes(columns=options.columns, where=options.where, row_kinds=kinds)
        if options.columns is not None and asks_for_metadata(options.columns, asked.schema):
            return MetadataRows(asked.scan(where=options.where), options.columns)
        return asked.scan(options.columns, options.where)


def source_class(connection: Connection) -> type[HeadwaterSource]:
    """The data source of one session; Spark pickles the class with the settings in it."""

    class SessionSource(HeadwaterSource):
        pass

    SessionSource.connection = connection
    return SessionSource


def _schema_of(system_table: SystemTable) -> st.StructType:
    schema = spark_schema(Schema.from_arrow(system_table.schema).fields)
    rows = system_table.rows
    return schema if rows is None else declared_schema(schema, rows.storage.schema.fields)


def _check_system_schema(schema: st.StructType, system_table: SystemTable) -> None:
    """Refuse a schema of the user's that is another than the system table's."""
    actual = _schema_of(system_table)
    if [(each.name, each.dataType) for each in schema] != [
        (each.name, each.dataType) for each in actual
    ]:
        raise Invalid(
            f"{system_table.name} has the columns {actual.simpleString()}, and not "
            f"{schema.simpleString()}: read it without a schema of your own; as of a time when "
            "the table had other columns, with SQL"
        )


def _check_schema(schema: st.StructType, table: TableSchema) -> None:
    """Refuse a schema of the user's that says other types than the table's."""
    own = [
        field
        for field in schema.fields
        if field.name != ROW_KIND_COLUMN or field.name in table.field_by_name
    ]
    _check_types(st.StructType(own), spark_schema(table.columns([field.name for field in own])))


def _check_types(schema: st.StructType, actual: st.StructType) -> None:
    for field, present in zip(schema.fields, actual.fields, strict=True):
        if present.dataType != field.dataType:
            raise Invalid(
                f"column '{field.name}' is {present.dataType.simpleString()}, and the schema given "
                f"says {field.dataType.simpleString()}; read it as it is and cast it"
            )
