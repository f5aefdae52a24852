"""Procedures that rewrite files: compaction, manifests, file indexes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.sql.call.partitions import chosen_partitions, chosen_rows, partition_condition
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.spark.sql.ddl.options import check_options
from headwater.spark.sql.names import column_name
from headwater.storage.commit.manifest_compaction import unordered_manifests
from headwater.storage.errors import HeadwaterError, Invalid, Unsupported
from headwater.storage.maintenance.partition_expiry import partition_updates
from headwater.storage.maintenance.reachable import delta_entries
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.predicate.tree import Or, Predicate
from headwater.storage.rows.partition import partition_spec
from headwater.storage.schema.table_type import table_type

__all__ = [
    "compact",
    "compact_database",
    "compact_manifest",
    "rebuild_bucket_index",
    "rewrite_file_index",
]

_LOG = logging.getLogger(__name__)
# A condition is evaluated as a whole, and its depth is bounded.
_PARTITIONS_A_COMMIT = 200
_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?", re.ASCII)
_STRATEGIES = {None: None, "full": True, "minor": False}


def compact(arguments: Arguments) -> Rows:
    """Rewrite files into fewer."""
    table = arguments.table()
    strategy = arguments.text("compact_strategy")
    if strategy is not None and strategy.lower() not in _STRATEGIES:
        raise Invalid(f"compact_strategy is 'full' or 'minor', not '{strategy}'")
    full = _STRATEGIES[None if strategy is None else strategy.lower()]
    where = chosen_partitions(arguments, table)
    order = arguments.text("order_strategy")
    buckets = _bucket_numbers(arguments, table)
    fields, names = table.schema.fields, (arguments.text("order_by") or "").split(",")
    columns = [column_name(fields, name.strip()) for name in names if name.strip()]
    idle = arguments.duration("partition_idle_time")
    if idle is not None:
        if columns or (order is not None and order.strip().lower() != "none"):
            raise Invalid(
                "partition_idle_time is not for sorting: leave order_strategy and order_by out"
            )
        if where is not None:
            raise Invalid("partition_idle_time chooses partitions: leave partitions and where out")
        for condition in _idle(table, idle.total_seconds() * 1000):
            table.compact(
                where=condition,
                full=full,
                buckets=buckets,
                executor=arguments.context.session.executor,
            )
        return [(True,)]
    table.compact(
        where=where,
        full=full,
        order_strategy=order,
        order_by=columns,
        buckets=buckets,
        executor=arguments.context.session.executor,
    )
    return [(True,)]


def _bucket_numbers(arguments: Arguments, table: Table) -> list[int] | None:
    """The numbers that ``buckets`` names: ``0-3,7`` are five; None where it is not given."""
    text = arguments.text("buckets")
    if text is None:
        return None
    bucket_ids: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise Invalid(
                f"argument 'buckets': '{part.strip()}' is not a number or range such as 0-3"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise Invalid(f"argument 'buckets': '{part.strip()}' ends before it begins")
        # No more than one that the table lacks.
        bucket_ids.update(
            range(first, min(last, max(first, table.schema.table_options.bucket)) + 1)
        )
    return sorted(bucket_ids)


def _idle(table: Table, millis: float) -> Iterator[Predicate]:
    """Conditions that idle partitions fulfil, each for so many as one commit takes."""
    if not table.schema.partition_keys:
        raise Invalid(f"table {table.name} has no partitions to be idle")
    latest = table.latest_snapshot()
    if latest is None:
        return
    before = table.storage.runtime.now_millis() - millis
    idle = [
        partition_condition(table, dict(partition_spec(table.storage, partition)))
        for partition, updated in partition_updates(table.storage, latest).items()
        if updated is not None and updated < before
    ]
    for start in range(0, len(idle), _PARTITIONS_A_COMMIT):
        yield Or(tuple(idle[start : start + _PARTITIONS_A_COMMIT]))


def compact_database(arguments: Arguments) -> Rows:
    """Compact the tables whose names match; one that fails keeps no other from it."""
    databases = arguments.pattern("including_databases", ".*")
    included = arguments.pattern("including_tables", ".*")
    excluded = arguments.pattern("excluding_tables")
    assert databases is not None
    assert included is not None
    options = arguments.options()
    check_options(options)
    lake = arguments.context.catalog
    done, failed = 0, 0
    for database in lake.list_databases():
        if not databases.fullmatch(database):
            continue
        for name in lake.list_tables(database):
            identifier = str(Identifier(database, name))
            if not included.fullmatch(identifier):
                continue
            if excluded is not None and excluded.fullmatch(identifier):
                continue
            try:
                table = lake.table(identifier)
                if not table_type(table.schema.options).has_snapshots:
                    continue
                table = table.with_options(options)
                table.compact(executor=arguments.context.session.executor)
                done += 1
            except HeadwaterError as error:
                failed += 1
                _LOG.warning("table %s is not compacted: %s", identifier, error)
    return [(f"Compact database finished. Success: {done}, Failed: {failed}",)]


def compact_manifest(arguments: Arguments) -> Rows:
    """List a table's files again, or log what that would write."""
    table = arguments.table()
    _check_manifest_sort(arguments, table)
    if not arguments.flag("dry_run"):
        table.compact_manifests()
        return [(True,)]
    latest = table.latest_snapshot()
    unordered = [] if latest is None else unordered_manifests(table.storage, latest)
    size = sum(manifest.file_size for manifest in unordered)
    _LOG.info(
        "table %s: %d manifests of %d bytes would be rewritten", table.name, len(unordered), size
    )
    return [(True,)]


def _check_manifest_sort(arguments: Arguments, table: Table) -> None:
    """Refuse what another order than that of all partition columns would be, or a part of it."""
    name = f"sys.compact_manifest: table {table.name}"
    if not arguments.flag("manifest_sort_enabled", default=True):
        raise Unsupported(f"{name}: manifests are always sorted; leave manifest_sort_enabled out")
    field = arguments.text("manifest_sort_partition_field")
    if field is not None and [field] != list(table.schema.partition_keys[:1]):
        raise Unsupported(
            f"{name}: manifests are sorted by all partition columns in their order "
            f"({', '.join(table.schema.partition_keys) or 'none'}), not by '{field}' "
            "first; leave manifest_sort_partition_field out"
        )
    if arguments.text("manifest_sort_max_rewrite_size") is not None:
        raise Unsupported(
            f"{name}: all manifests are rewritten, or nothing is; leave "
            "manifest_sort_max_rewrite_size out"
        )


def rewrite_file_index(arguments: Arguments) -> Rows:
    """Make the file indexes those that the options ask for."""
    table = arguments.table()
    made = table.rewrite_file_indexes(
        where=chosen_rows(arguments, table),
        rebuild=arguments.flag("rebuild"),
        executor=arguments.context.session.executor,
    )
    entries = [] if made is None else delta_entries(table.storage, made.delta_manifest_list) or []
    added = [entry for entry in entries if entry.kind is FileKind.ADD]
    return [(len({entry.partition for entry in added}), len(added))]


def rebuild_bucket_index(arguments: Arguments) -> Rows:
    """Rebuild the hash indexes of dynamic buckets that do not fit the keys of their buckets."""
    table = arguments.table()
    made = table.rebuild_bucket_indexes(
        where=chosen_rows(arguments, table), executor=arguments.context.session.executor
    )
    return [(made is not None,)]
