"""The meanings of names in a query: tables, system tables and views of the catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException

from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.files import objects_of
from headwater.catalog.table.inspect import Inspect
from headwater.catalog.table.scan import Rows, Scan
from headwater.catalog.table.system_table import (
    OF_A_SNAPSHOT,
    check_moment,
    system_table_of,
)
from headwater.catalog.table.table import Table
from headwater.spark.errors import first_line
from headwater.spark.source.metadata_rows import MetadataRows, metadata_schema
from headwater.spark.source.table_read import Relation
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.references import TableReference
from headwater.spark.sql.query.table_clauses import TimeTravel
from headwater.spark.sql.session_options import paimon_settings, session_options
from headwater.spark.types import spark_schema
from headwater.storage.capabilities import find_option
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.schema.read_start import INCREMENTAL_OPTIONS
from headwater.storage.schema.system_fields import TRACKING_FIELDS
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema.table_type import TableType, table_type

__all__ = ["Relations", "with_metadata"]

_INTEGER = re.compile(r"-?\d+[lL]?")
_MISSING = (ResourceType.TABLE, ResourceType.DATABASE, ResourceType.VIEW)


@dataclass
class Relations:
    """Opens tables, each once and as of one snapshot, however often a query names it.

    Args:
        context: The user's.
    """

    context: SqlContext
    missing: dict[tuple[str, ...], NotFound] = field(default_factory=dict)
    """Names that the catalog does not know: they may be Spark's."""
    _found: dict[object, Relation | ViewInfo] = field(default_factory=dict)
    _absent: set[tuple[str, ...]] = field(default_factory=set)
    _tables: dict[str, Table] = field(default_factory=dict)
    _dynamic: Mapping[str, str] | None = None

    def open(self, reference: TableReference, database: str | None) -> Relation | ViewInfo | None:
        """The meaning of a name; None for one that is Spark's to know.

        Args:
            reference: The name and what the query says of it.
            database: The database of names that say none; None if none is in use.

        Raises:
            Invalid, NotFound, Unsupported: The query asks for what there is not.
        """
        parts = self.context.whole_name(reference.parts, database)
        if len(parts) != 2 or not all(parts) or parts in self._absent:
            return None
        try:
            key = (
                parts,
                reference.time_travel,
                tuple(sorted(reference.options.items())),
                reference.function,
            )
            if key not in self._found:
                self._found[key] = self._open_stored(Identifier(*parts), reference)
            relation = self._found[key]
        except NotFound as error:
            if error.resource_type not in _MISSING:
                raise
            self.missing[reference.parts] = error
            self._absent.add(parts)
            return None
        if not reference.metadata or not isinstance(relation, Relation) or relation.rows is None:
            return relation
        # Cached rows do not have them; what is read is of the same snapshot.
        return with_metadata(relation, relation.rows, reference.metadata)

    def _open_stored(
        self, identifier: Identifier, reference: TableReference
    ) -> Relation | ViewInfo:
        """Open a table or view by its name, or else by the name in another case."""
        try:
            return self._open(identifier, reference)
        except NotFound as error:
            if error.resource_type not in _MISSING:
                raise
            stored = self.context.stored_names.table(identifier, is_missing=True)
            if stored == identifier:
                raise
            return self._open(stored, reference)

    def _open(self, identifier: Identifier, reference: TableReference) -> Relation | ViewInfo:
        name = str(identifier)
        if identifier.database == SYSTEM_DATABASE or identifier.system_table is not None:
            return self._system_table(identifier, reference)
        try:
            table = self._table(name)
        except NotFound as error:
            view = self.context.view(identifier)
            if view is None:
                raise error
            if reference.time_travel or reference.options or reference.function:
                raise Unsupported(
                    f"{name} is a view: timestamps, versions and options are for tables; write "
                    "them into a query of your own over its tables"
                ) from None
            return view
        cached = self._cached(table, reference)
        if cached is not None:
            return cached
        table = self._configured(table, reference)
        kind = table_type(table.schema.options)
        if kind in (TableType.FORMAT, TableType.OBJECT):
            reads_changes = any(key in table.schema.options for key in INCREMENTAL_OPTIONS)
            if reference.time_travel or reads_changes:
                raise Unsupported(f"{name} has no snapshots: it is only read as it is now")
            schema = spark_schema(table.schema.fields)
            if kind is TableType.FORMAT:
                return Relation(name, schema, format_table=table)
            table.refuse_restricted("this tells of its files")
            return Relation(name, schema, content=objects_of(table.storage))
        rows = self._rows(table, reference)
        return Relation(name, spark_schema(rows.storage.schema.fields), rows=rows)

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = self.context.catalog.table(name)
        return self._tables[name]

    def _cached(self, table: Table, reference: TableReference) -> Relation | None:
        """The rows that `CACHE TABLE` keeps of a table, where the query reads it as it is."""
        cached = self.context.cached.get(table.name)
        if cached is None or cached.table_id != table.info.id:
            return None
        if reference.time_travel or reference.options or reference.function:
            return None
        return cached.relation if self._session_options(table) == cached.settings else None

    def _configured(self, table: Table, reference: TableReference) -> Table:
        options = {**self._session_options(table), **reference.options}
        for key in reference.options:
            if find_option(key) is None:
                raise Invalid(f"table {table.name}: '{key}' is not an option of a table")
        if reference.function is not None:
            options.update([reference.function])
        return table.with_options(options) if options else table

    def _session_options(self, table: Table) -> dict[str, str]:
        if self._dynamic is None:
            self._dynamic = paimon_settings(self.context)
        return session_options(self.context, table, self._dynamic)

    def _rows(self, table: Table, reference: TableReference) -> Rows:
        options = table.schema.options
        if any(key in options for key in INCREMENTAL_OPTIONS):
            if reference.time_travel is not None:
                raise Invalid(
                    f"table {table.name}: changes are not read as of a version or timestamp; leave "
                    "one of the two out"
                )
            return table.changes(row_kinds=False)
        travel = reference.time_travel
        if travel is None:
            return table.scan()
        if travel.by_version:
            return table.scan(version=travel.text)
        return table.scan(timestamp=self._millis(travel))

    def _millis(self, travel: TimeTravel) -> int:
        """A timestamp as Spark reads it: a number counts seconds, text is in the session's zone."""
        text = travel.text.strip()
        if _INTEGER.fullmatch(text):
            return int(text.rstrip("lL")) * 1000
        spark = self.context.session.spark
        try:
            frame = spark.sql(f"SELECT unix_micros(CAST(({text}) AS TIMESTAMP_LTZ))")
            micros = frame.collect()[0][0]
        except PySparkException as error:
            if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
                raise Unsupported(
                    f"TIMESTAMP AS OF {text}: a timestamp is not read from tables of the catalog; "
                    "query it first, and give its value"
                ) from error
            raise Invalid(
                f"TIMESTAMP AS OF {text}: that is not a timestamp: {first_line(error)}"
            ) from error
        if micros is None:
            raise Invalid(f"TIMESTAMP AS OF {text}: that is NULL, and not a timestamp")
        return int(micros) // 1000

    def _system_table(self, identifier: Identifier, reference: TableReference) -> Relation:
        name = str(identifier)
        asks = bool(reference.time_travel or reference.options or reference.function)
        if identifier.database == SYSTEM_DATABASE:
            if asks:
                raise Unsupported(
                    f"{name} is about the warehouse as it is: leave timestamps, versions and "
                    "options out"
                )
            table = self.context.catalog.system_table(name)
        else:
            table = system_table_of(identifier, self._inspected(identifier, reference, asks))
        declared = Schema.from_arrow(table.schema)
        schema = spark_schema(declared.fields)
        rows = table.rows
        return Relation(name, schema, rows, None if rows is not None else table.to_arrow())

    def _inspected(self, identifier: Identifier, reference: TableReference, asks: bool) -> Inspect:
        """The system tables of the table that one is of, as the query asks for it."""
        table = self._table(str(identifier.without_system_table))
        if identifier.system_table not in OF_A_SNAPSHOT:
            if asks:
                check_moment(identifier, {})
            return table.inspect
        travel = reference.time_travel
        table = self._configured(table, reference)
        if travel is not None:
            place = "scan.version" if travel.by_version else "scan.timestamp-millis"
            wanted = travel.text if travel.by_version else str(self._millis(travel))
            table = table.with_options({place: wanted})
        check_moment(identifier, table.schema.options)
        return table.inspect


def with_metadata(relation: Relation, rows: Rows, columns: Sequence[str]) -> Relation:
    """A table with those of some metadata columns that it does not have itself."""
    fields = relation.schema.fieldNames()
    own = {name.casefold() for name in fields}
    absent = TRACKING_FIELDS.keys() - rows.storage.schema.tracking_fields
    # Of a table without row tracking, Spark says that there is no such column.
    metadata = tuple(name for name in columns if name.casefold() not in own and name not in absent)
    if not metadata:
        return relation
    if not isinstance(rows, Scan):
        raise Unsupported(
            f"table {relation.name}: the places of rows are not known here; leave the columns "
            f"{', '.join(metadata)} out, or SELECT them from the table itself"
        )
    names = [*fields, *metadata]
    schema = metadata_schema(names, rows.storage)
    return Relation(relation.name, schema, MetadataRows(rows, names), metadata=metadata)
