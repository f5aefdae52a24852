"""System tables by name: ``t$snapshots`` of a table, ``sys.tables`` of a warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.inspect import Inspect
from headwater.catalog.table.scan import Rows
from headwater.storage.errors import NotFound, ResourceType, Unsupported
from headwater.storage.predicate.filter import (
    columns_of,
    filter_rows,
    parse_predicate,
    to_expression,
)
from headwater.storage.schema.read_start import ReadStart, StartMode
from headwater.storage.schema.table_schema import Schema, TableSchema, highest_field_id

__all__ = [
    "OF_A_SNAPSHOT",
    "SYSTEM_TABLES",
    "SystemTable",
    "check_moment",
    "system_table_of",
]

_Content = Callable[[Sequence[str] | None], "pa.Table | Rows"]


@checks_arguments
class SystemTable:
    """A system table, to be read; made by `headwater.client.Lake.system_table`.

    Args:
        name: Its qualified name, ``sales.orders$snapshots``.
        content: Its rows: metadata as a table, or rows with some columns, to be read.
    """

    def __init__(self, name: str, content: _Content) -> None:
        self.name = name
        self._content = content

    def __repr__(self) -> str:
        return f"SystemTable({self.name})"

    @cached_property
    def _whole(self) -> pa.Table | Rows:
        return self._content(None)

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        schema: pa.Schema = self._whole.schema
        return schema

    @property
    def rows(self) -> Rows | None:
        """The rows, to be planned and read elsewhere; None for metadata, which is read at once."""
        return None if isinstance(self._whole, pa.Table) else self._whole

    def to_batches(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in batches.

        Args:
            columns: The columns, in this order; None means all.
            where: A SQL condition over the system table's columns.

        Raises:
            NotFound: A column does not exist.
            Invalid: `where` is not a condition.
        """
        declared = _table_schema(self.schema)
        names = list(declared.field_by_name) if columns is None else list(columns)
        declared.columns(names)
        predicate = None if where is None else parse_predicate(where, declared)
        keep = None if predicate is None else to_expression(predicate, declared)
        needed = dict.fromkeys([*names, *sorted(columns_of(predicate) if predicate else ())])
        for batch in self._batches(list(needed)):
            if keep is None:
                yield batch.select(names)
            else:
                yield from filter_rows(batch, keep).select(names).to_batches()

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """The rows as an Arrow table; as `to_batches`."""
        batches = list(self.to_batches(columns, where))
        names = self.schema.names if columns is None else columns
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_batches(batches, schema)

    def _batches(self, needed: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if isinstance(self._whole, pa.Table):
            yield from self._whole.select(needed).to_batches()
            return
        rows = self._content(needed)
        assert isinstance(rows, Rows)
        for batch in rows.to_batches():
            yield batch.select(needed)


def _table_schema(schema: pa.Schema) -> TableSchema:
    declared = Schema.from_arrow(schema)
    fields = declared.fields
    return TableSchema(0, fields, highest_field_id(fields), (), (), {}, None, 0)


def _of_rows(
    read: Callable[[Inspect, Sequence[str] | None], Rows],
) -> Callable[[Inspect], _Content]:
    return lambda inspect: lambda columns: read(inspect, _own(inspect, columns))


def _own(inspect: Inspect, columns: Sequence[str] | None) -> Sequence[str] | None:
    """Those of some columns that the table itself has, or keeps beside its own."""
    if columns is None:
        return None
    return [name for name in columns if name in inspect.table.schema.moved_columns]


def _of_metadata(read: Callable[[Inspect], pa.Table]) -> Callable[[Inspect], _Content]:
    return lambda inspect: lambda _: read(inspect)


SYSTEM_TABLES: Mapping[str, Callable[[Inspect], _Content]] = {
    "snapshots": _of_metadata(Inspect.snapshots),
    "schemas": _of_metadata(Inspect.schemas),
    "options": _of_metadata(Inspect.options),
    "tags": _of_metadata(Inspect.tags),
    "branches": _of_metadata(Inspect.branches),
    "consumers": _of_metadata(Inspect.consumers),
    "aggregation_fields": _of_metadata(Inspect.aggregation_fields),
    "files": _of_metadata(Inspect.files),
    "file_key_ranges": _of_metadata(Inspect.file_key_ranges),
    "manifests": _of_metadata(Inspect.manifests),
    "table_indexes": _of_metadata(Inspect.table_indexes),
    "partitions": _of_metadata(Inspect.partitions),
    "buckets": _of_metadata(Inspect.buckets),
    "statistics": _of_metadata(Inspect.statistics),
    "ro": _of_rows(Inspect.ro),
    "row_tracking": _of_rows(Inspect.row_tracking),
    "audit_log": _of_rows(Inspect.audit_log),
    "binlog": _of_rows(Inspect.binlog),
}
"""Paimon's names (``SystemTableLoader.java``), and what they are read from."""


_OF_CHANGES = frozenset({"audit_log", "binlog"})
"""Those that tell what changed between snapshots, where a table's options ask for that."""
OF_A_SNAPSHOT = _OF_CHANGES | {
    "files", "file_key_ranges", "manifests", "table_indexes", "buckets", "statistics", "ro",
    "row_tracking",
}  # fmt: skip
"""Those that tell of one snapshot: the latest, unless a table's options ask for another."""


def check_moment(identifier: Identifier, options: Mapping[str, str]) -> None:
    """Check that a system table can be read as a table's options ask for.

    Args:
        identifier: Its name.
        options: The table's options, of which some say what is read of its history.

    Raises:
        Unsupported: It is the same at any time, or the options ask for changes and it has none.
    """
    name = identifier.system_table
    if name in SYSTEM_TABLES and name not in OF_A_SNAPSHOT:
        raise Unsupported(
            f"{identifier} is the same at any time: leave timestamps, versions and options out"
        )
    if name not in _OF_CHANGES and ReadStart.of(options).mode is StartMode.INCREMENTAL:
        raise Unsupported(f"{identifier} is of one snapshot: it does not tell what changed")


def system_table_of(identifier: Identifier, inspect: Inspect) -> SystemTable:
    """A system table of a table.

    Args:
        identifier: Its name; the part after the last ``$`` is taken in any case.
        inspect: The table's system tables.

    Raises:
        NotFound: There is no system table of that name.
    """
    name = identifier.system_table or ""
    content = SYSTEM_TABLES.get(name)
    if content is None:
        raise NotFound(
            f"there is no system table '{name}'; the system tables of a table are "
            f"{', '.join(sorted(SYSTEM_TABLES))}",
            resource_type=ResourceType.TABLE,
            resource_name=str(identifier),
        )
    return SystemTable(str(identifier), content(inspect))
