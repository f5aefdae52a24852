"""Procedures about a table's past: rollback and expiry, and the files that nothing needs."""

from __future__ import annotations

from datetime import timedelta

from headwater.catalog.table.history import millis_of
from headwater.catalog.table.table import Table
from headwater.spark.jobs.executor import SparkExecutor
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.jobs.executor import Executor, LocalExecutor
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = [
    "expire_changelogs",
    "expire_partitions",
    "expire_snapshots",
    "purge_files",
    "remove_orphan_files",
    "remove_unexisting_files",
    "rollback",
    "rollback_to_timestamp",
    "rollback_to_watermark",
]

# Changelogs beside those of the snapshot that stays go, too.
_NO_CHANGELOGS = {
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "1",
    "changelog.time-retained": "1 ms",
}


def rollback(arguments: Arguments) -> Rows:
    """Make an earlier snapshot the latest, by its id or by a tag."""
    table = arguments.table()
    version, tag = arguments.text("version"), arguments.text("tag")
    snapshot_id = arguments.integer("snapshot")
    if sum(one is not None for one in (version, tag, snapshot_id)) != 1:
        raise Invalid("sys.rollback: give one of version, snapshot and tag")
    if version is not None:
        if version.isdecimal():
            snapshot_id = int(version)
        else:
            tag = version
    target = table.tag(tag).snapshot if tag is not None else None
    before = _latest(table)
    if tag is not None and target is not None:
        table.rollback(tag=tag)
        return [(before.id, target.id)]
    assert snapshot_id is not None
    table.rollback(snapshot_id=snapshot_id)
    return [(before.id, snapshot_id)]


def rollback_to_timestamp(arguments: Arguments) -> Rows:
    """Make the latest snapshot that was committed at or before a moment the latest."""
    timestamp = arguments.integer("timestamp")
    assert timestamp is not None
    table = arguments.table()
    return _rolled_back(table, table.snapshot_at(timestamp))


def rollback_to_watermark(arguments: Arguments) -> Rows:
    """Make the latest snapshot whose watermark has not passed a time the latest."""
    watermark = arguments.integer("watermark")
    assert watermark is not None
    table = arguments.table()
    missing = NotFound(
        f"table {table.name} has no snapshot with a watermark of {watermark} or earlier",
        resource_type=ResourceType.SNAPSHOT,
        resource_name=str(watermark),
    )
    try:
        found = table.snapshot(table.snapshot_at_watermark(watermark + 1).id - 1)
    except NotFound as error:
        if error.resource_type is not ResourceType.SNAPSHOT:
            raise
        found = _latest(table)
    if found.watermark is None or found.watermark > watermark:
        raise missing
    return _rolled_back(table, found)


def _rolled_back(table: Table, target: Snapshot) -> Rows:
    before = _latest(table)
    table.rollback(snapshot_id=target.id)
    return [(before.id, target.id)]


def _latest(table: Table) -> Snapshot:
    found = table.latest_snapshot()
    if found is None:
        raise NotFound(
            f"table {table.name} has no snapshot",
            resource_type=ResourceType.SNAPSHOT,
            resource_name=table.name,
        )
    return found


def expire_snapshots(arguments: Arguments) -> Rows:
    """Forget old snapshots and delete the files that only they needed."""
    table = arguments.table()
    result = table.expire_snapshots(
        retain_min=arguments.integer("retain_min"),
        retain_max=arguments.integer("retain_max"),
        retain=_retained(arguments, table),
        limit=arguments.integer("max_deletes"),
        executor=arguments.context.session.executor,
    )
    return [(len(result.expired),)]


def expire_changelogs(arguments: Arguments) -> Rows:
    """Forget old changelogs whose snapshots have expired."""
    table = arguments.table()
    result = table.expire_changelogs(
        retain_min=arguments.integer("retain_min"),
        retain_max=arguments.integer("retain_max"),
        retain=_retained(arguments, table),
        limit=arguments.integer("max_deletes"),
        delete_all=arguments.flag("delete_all"),
        executor=arguments.context.session.executor,
    )
    return [(len(result.expired_changelogs),)]


def _retained(arguments: Arguments, table: Table) -> timedelta | None:
    """The age of what is older than the argument ``older_than``; None where it is not given."""
    older_than = arguments.moment("older_than", table)
    if older_than is None:
        return None
    age = table.storage.runtime.earliest_millis() - millis_of(older_than)
    if age < 0:
        raise Invalid(f"older_than must be before now, and {older_than} is not")
    return timedelta(milliseconds=age)


def expire_partitions(arguments: Arguments) -> Rows:
    """Drop the partitions whose time is over."""
    result = arguments.table().expire_partitions(
        older_than=arguments.duration("expiration_time"),
        strategy=arguments.text("expire_strategy"),
        timestamp_pattern=arguments.text("timestamp_pattern"),
        timestamp_formatter=arguments.text("timestamp_formatter"),
        max_partitions=arguments.integer("max_expires"),
    )
    if not result.dropped:
        return [("No expired partitions.",)]
    return [
        (", ".join(f"{key}={value}" for key, value in spec.items()),) for spec in result.dropped
    ]


def purge_files(arguments: Arguments) -> Rows:
    """Empty a table and forget all of its past: branches, tags, consumers and snapshots."""
    table = arguments.table()
    for branch in table.branches():
        table.drop_branch(branch)
    for tag in table.tags():
        table.delete_tag(tag.name)
    for consumer in table.consumers():
        table.consumer(consumer.consumer_id).delete()
    table.truncate()
    table.with_options(_NO_CHANGELOGS).expire_snapshots(
        retain_min=1,
        retain_max=1,
        retain=timedelta(0),
        limit=2**31 - 1,
        executor=arguments.context.session.executor,
    )
    return [("Success",)]


def remove_orphan_files(arguments: Arguments) -> Rows:
    """Delete the files that nothing refers to, of a table or of all tables of a database."""
    mode = (arguments.text("mode") or "distributed").lower()
    if mode not in ("local", "distributed"):
        raise Invalid(f"mode is 'local' or 'distributed', not '{mode}'")
    executor = _executor(arguments)
    if mode == "local":
        executor = LocalExecutor(arguments.integer("parallelism") or 8)
    count, size = 0, 0
    for table in _tables(arguments):
        age = _retained(arguments, table)
        found = table.remove_orphan_files(
            older_than=timedelta(days=1) if age is None else age,
            dry_run=arguments.flag("dry_run"),
            executor=executor,
        )
        count, size = count + len(found.files), size + found.size
    return [(count, size)]


def remove_unexisting_files(arguments: Arguments) -> Rows:
    """Take data files that do not exist out of a table, or of all tables of a database."""
    dry_run, executor = arguments.flag("dry_run"), _executor(arguments)
    return [
        (path,)
        for table in _tables(arguments)
        for path in table.remove_unexisting_files(dry_run=dry_run, executor=executor)
    ]


def _executor(arguments: Arguments) -> Executor:
    """Spark, as many tasks at once as the argument ``parallelism`` says."""
    threads = arguments.integer("parallelism")
    session = arguments.context.session
    if threads is None:
        return session.executor
    if threads < 1:
        raise Invalid(f"parallelism is at least 1, not {threads}")
    return SparkExecutor(session.spark, at_once=threads)


def _tables(arguments: Arguments) -> list[Table]:
    name = arguments.required("table")
    if not name.endswith(".*"):
        return [arguments.table()]
    lake = arguments.context.catalog
    database = name.removesuffix(".*").removeprefix(f"{lake.warehouse}.").strip("`")
    tables = [lake.table(f"{database}.{each}") for each in lake.list_tables(database)]
    return [table for table in tables if table_type(table.schema.options) is TableType.TABLE]
