"""Procedures about what refers to a table's snapshots: tags, branches, consumers, partitions."""

from __future__ import annotations

from headwater.catalog.table.table import Table
from headwater.spark.sql.call.partitions import partitions_of_text
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.spark.sql.ddl.tags import delete_tags
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.snapshot.files import snapshot_file_ids
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = [
    "clear_consumers",
    "create_branch",
    "create_tag",
    "create_tag_from_timestamp",
    "delete_branch",
    "delete_tag",
    "expire_tags",
    "fast_forward",
    "mark_partition_done",
    "rename_branch",
    "rename_tag",
    "replace_tag",
    "reset_consumer",
    "trigger_tag_automatic_creation",
]


def create_tag(arguments: Arguments) -> Rows:
    """Name a snapshot."""
    arguments.table().create_tag(
        arguments.required("tag"),
        arguments.integer("snapshot"),
        retained=arguments.duration("time_retained"),
    )
    return [(True,)]


def create_tag_from_timestamp(arguments: Arguments) -> Rows:
    """Name the first snapshot that was committed at or after a moment."""
    table = arguments.table()
    name = arguments.required("tag")
    timestamp = arguments.integer("timestamp")
    if timestamp is None:
        raise Invalid("sys.create_tag_from_timestamp: argument 'timestamp' is missing")
    snapshot = _first_since(table, timestamp)
    table.create_tag(name, snapshot.id, retained=arguments.duration("time_retained"))
    watermark = "null" if snapshot.watermark is None else str(snapshot.watermark)
    return [(name, snapshot.id, snapshot.time_millis, watermark)]


def _first_since(table: Table, millis: int) -> Snapshot:
    """The first snapshot since a moment, among them those that have expired and have a tag."""
    present = _first_present_since(table, millis)
    tagged = [tag.snapshot for tag in table.tags() if tag.snapshot.time_millis >= millis]
    found = min(
        [*tagged, *([] if present is None else [present])], key=lambda each: each.id, default=None
    )
    if found is None:
        raise NotFound(
            f"table {table.name} has no snapshot from {millis} or later",
            resource_type=ResourceType.SNAPSHOT,
            resource_name=str(millis),
        )
    return found


def _first_present_since(table: Table, millis: int) -> Snapshot | None:
    latest = table.latest_snapshot()
    if latest is None or latest.time_millis < millis:
        return None
    try:
        return table.snapshot(table.snapshot_at(millis - 1).id + 1)
    except NotFound as error:
        if error.resource_type is not ResourceType.SNAPSHOT:
            raise
    ids = snapshot_file_ids(table.storage.files, table.storage.layout)
    return table.snapshot(ids[0]) if ids else None


def replace_tag(arguments: Arguments) -> Rows:
    """Let a tag name another snapshot."""
    arguments.table().replace_tag(
        arguments.required("tag"),
        arguments.integer("snapshot"),
        retained=arguments.duration("time_retained"),
    )
    return [(True,)]


def rename_tag(arguments: Arguments) -> Rows:
    """Give a tag another name."""
    arguments.table().rename_tag(arguments.required("tag"), arguments.required("target_tag"))
    return [(True,)]


def delete_tag(arguments: Arguments) -> Rows:
    """Delete tags, all or none."""
    delete_tags(arguments.table(), arguments.required("tag"))
    return [(True,)]


def expire_tags(arguments: Arguments) -> Rows:
    """Delete the tags whose time is over."""
    table = arguments.table()
    gone = table.expire_tags(older_than=arguments.moment("older_than", table))
    return [(name,) for name in gone] or [("No expired tags.",)]


def trigger_tag_automatic_creation(arguments: Arguments) -> Rows:
    """Make the tags that are due."""
    arguments.table().create_due_tags()
    return [(True,)]


def create_branch(arguments: Arguments) -> Rows:
    """Begin a branch, of a tag or empty."""
    try:
        arguments.table().create_branch(arguments.required("branch"), tag=arguments.text("tag"))
    except AlreadyExists:
        if not arguments.flag("ignoreIfExists"):
            raise
    return [(True,)]


def delete_branch(arguments: Arguments) -> Rows:
    """Drop branches, all or none."""
    table = arguments.table()
    names = list(dict.fromkeys(each.strip() for each in arguments.required("branch").split(",")))
    present = table.branches()
    for name in names:
        if name not in present:
            raise NotFound(
                f"table {table.name} has no branch '{name}'",
                resource_type=ResourceType.BRANCH,
                resource_name=name,
            )
    for name in names:
        table.drop_branch(name)
    return [(True,)]


def rename_branch(arguments: Arguments) -> Rows:
    """Give a branch another name."""
    names = arguments.required("from_branch"), arguments.required("to_branch")
    arguments.table().rename_branch(*names)
    return [(True,)]


def fast_forward(arguments: Arguments) -> Rows:
    """Make a table hold what a branch holds."""
    arguments.table().fast_forward(arguments.required("branch"))
    return [(True,)]


def reset_consumer(arguments: Arguments) -> Rows:
    """Move a consumer, or forget it."""
    table = arguments.table()
    consumer = table.consumer(arguments.required("consumerId"))
    following = arguments.integer("nextSnapshotId")
    if following is None:
        consumer.delete()
        return [(True,)]
    latest = table.latest_snapshot()
    if latest is None or following != latest.id + 1:
        table.snapshot(following)
    consumer.reset(following)
    return [(True,)]


def clear_consumers(arguments: Arguments) -> Rows:
    """Forget the consumers whose ids match."""
    table = arguments.table()
    included = arguments.pattern("includingConsumers", ".*")
    excluded = arguments.pattern("excludingConsumers")
    assert included is not None
    for consumer in table.consumers():
        name = consumer.consumer_id
        if included.fullmatch(name) and (excluded is None or not excluded.fullmatch(name)):
            table.consumer(name).delete()
    return [(True,)]


def mark_partition_done(arguments: Arguments) -> Rows:
    """Say that partitions are complete."""
    table = arguments.table()
    specs = partitions_of_text(table, arguments.required("partitions"))
    table.mark_partitions_done(*specs)
    return [(True,)]
