"""The system tables of a whole warehouse: the database ``sys`` of Paimon's catalogs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.snapshots import SnapshotInfo
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.table.system_table import SystemTable
from headwater.catalog.table.table import Table
from headwater.storage.errors import NotFound, ResourceType, Unsupported
from headwater.storage.runtime import Runtime
from headwater.storage.system_tables.tables import BIGINT, STRING, from_records, required

__all__ = ["LakeInspect"]

_TABLES = pa.schema(
    [
        ("database_name", STRING),
        ("table_name", STRING),
        ("table_type", STRING),
        ("partitioned", pa.bool_()),
        ("primary_key", pa.bool_()),
        ("owner", STRING),
        ("created_at", BIGINT),
        ("created_by", STRING),
        ("updated_at", BIGINT),
        ("updated_by", STRING),
        ("record_count", BIGINT),
        ("file_size_in_bytes", BIGINT),
        ("file_count", BIGINT),
        ("last_file_creation_time", BIGINT),
    ]
)
_PARTITIONS = pa.schema(
    [
        ("database_name", STRING),
        ("table_name", STRING),
        ("partition_name", STRING),
        ("record_count", BIGINT),
        ("file_size_in_bytes", BIGINT),
        ("file_count", BIGINT),
        ("last_file_creation_time", BIGINT),
        ("done", pa.bool_()),
    ]
)
_TABLE_OPTIONS = pa.schema(
    [("database_name", STRING), ("table_name", STRING), ("key", STRING), ("value", STRING)]
)
_CATALOG_OPTIONS = pa.schema([required("key", STRING), required("value", STRING)])
_SECRET = re.compile(r"secret|password|token|credential|access.?key|sas", re.IGNORECASE)


class LakeInspect:
    """The system tables of a warehouse; made by `headwater.client.Lake.inspect`.

    Each looks at every table of the warehouse, as Paimon's do. Times are milliseconds since the
    epoch.

    Args:
        catalog: The catalog.
        runtime: Clock and names.
    """

    def __init__(self, catalog: Catalog, runtime: Runtime) -> None:
        self._catalog = catalog
        self._runtime = runtime

    def __repr__(self) -> str:
        return f"LakeInspect({self._catalog.warehouse}: {', '.join(_GLOBAL)})"

    def tables(self) -> pa.Table:
        """Each table, and what its latest snapshot holds."""
        return from_records(_TABLES, (self._table_record(info) for info in self._infos()))

    def partitions(self) -> pa.Table:
        """Each partition of each table."""
        return from_records(
            _PARTITIONS,
            (
                (
                    info.identifier.database,
                    info.identifier.name,
                    partition.name,
                    partition.record_count,
                    partition.file_size_in_bytes,
                    partition.file_count,
                    partition.last_file_creation_time,
                    partition.is_done,
                )
                for info in self._infos()
                if info.schema.partition_keys and _has_snapshots(info)
                for partition in Table(self._catalog, info, self._runtime).partitions()
            ),
        )

    def all_table_options(self) -> pa.Table:
        """Each option of each table, its path among them."""
        return from_records(
            _TABLE_OPTIONS,
            (
                (info.identifier.database, info.identifier.name, key, value)
                for info in self._infos()
                for key, value in sorted({**info.schema.options, "path": info.path}.items())
            ),
        )

    def catalog_options(self) -> pa.Table:
        """Each option of the catalog; the values of secrets are left out."""
        options = {"warehouse": self._catalog.warehouse, **self._catalog.storage_options}
        return from_records(
            _CATALOG_OPTIONS,
            (
                (key, "******" if _SECRET.search(key) else str(value))
                for key, value in sorted(options.items())
            ),
        )

    def names(self) -> list[str]:
        """The names of these tables."""
        return list(_GLOBAL)

    def system_table(self, identifier: Identifier) -> SystemTable:
        """One of them by its name, ``sys.tables``; NotFound when there is none."""
        read = _GLOBAL.get(identifier.name.lower())
        if read is None:
            raise NotFound(
                f"there is no table {identifier}; the system tables of a warehouse are "
                f"{', '.join(f'{SYSTEM_DATABASE}.{name}' for name in _GLOBAL)}",
                resource_type=ResourceType.TABLE,
                resource_name=str(identifier),
            )
        return SystemTable(str(identifier), lambda _: read(self))

    def _infos(self) -> Iterator[TableInfo]:
        catalog = self._catalog
        for database in all_pages(lambda token: catalog.databases.list(page_token=token)):
            try:
                yield from _tables_of(catalog, database)
            except NotFound as error:
                # Somebody dropped the database meanwhile.
                if error.resource_type is not ResourceType.DATABASE:
                    raise

    def _table_record(self, info: TableInfo) -> tuple[object, ...]:
        latest = self._latest(info)
        return (
            info.identifier.database,
            info.identifier.name,
            info.schema.options.get("type", "table"),
            bool(info.schema.partition_keys),
            bool(info.schema.primary_keys),
            info.owner,
            info.created_at,
            info.created_by,
            info.updated_at,
            info.updated_by,
            *(
                (None,) * 4
                if latest is None
                else (
                    latest.record_count,
                    latest.file_size_in_bytes,
                    latest.file_count,
                    latest.last_file_creation_time,
                )
            ),
        )

    def _latest(self, info: TableInfo) -> SnapshotInfo | None:
        try:
            return self._catalog.snapshots.latest(info.identifier)
        except Unsupported:
            return None  # the catalog keeps no snapshots of such a table
        except NotFound as error:
            if error.resource_type is not ResourceType.TABLE:
                raise
            return None  # somebody dropped it meanwhile


def _tables_of(catalog: Catalog, database: str) -> list[TableInfo]:
    return all_pages(lambda token: catalog.tables.list_details(database, page_token=token))


def _has_snapshots(info: TableInfo) -> bool:
    return info.schema.options.get("type", "table") in ("table", "materialized-table")


_GLOBAL: Mapping[str, Callable[[LakeInspect], pa.Table]] = {
    "tables": LakeInspect.tables,
    "partitions": LakeInspect.partitions,
    "all_table_options": LakeInspect.all_table_options,
    "catalog_options": LakeInspect.catalog_options,
}
