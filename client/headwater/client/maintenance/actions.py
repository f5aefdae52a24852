"""The kinds of upkeep: when each is due for a table, and how it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from headwater.catalog.table.table import Table
from headwater.storage.jobs.executor import Executor
from headwater.storage.options.lifecycle_options import LifecycleOptions, TagCreation

__all__ = ["DEFAULT_ACTIONS", "Action", "Due", "Rules", "do", "due"]


class Action(StrEnum):
    """A kind of upkeep. The order is the one in which those of a table are done."""

    CREATE_TAGS = "create-tags"
    EXPIRE_PARTITIONS = "expire-partitions"
    COMPACT = "compact"
    COMPACT_MANIFESTS = "compact-manifests"
    REWRITE_FILE_INDEXES = "rewrite-file-indexes"
    ANALYZE = "analyze"
    EXPIRE_TAGS = "expire-tags"
    EXPIRE_SNAPSHOTS = "expire-snapshots"
    REMOVE_ORPHAN_FILES = "remove-orphan-files"


DEFAULT_ACTIONS = (
    Action.CREATE_TAGS,
    Action.EXPIRE_PARTITIONS,
    Action.COMPACT,
    Action.EXPIRE_TAGS,
    Action.EXPIRE_SNAPSHOTS,
)
"""The kinds of upkeep that a table's options ask for; the others are done when they are named."""


@dataclass(frozen=True)
class Rules:
    """The arguments of the actions, the same for all tables.

    Attributes:
        full: Compact all there is, and not only what is due.
        orphans_older_than: Files changed within this time are no orphans.
    """

    full: bool = False
    orphans_older_than: timedelta = timedelta(days=1)


@dataclass(frozen=True)
class Due:
    """Work that an action finds.

    Attributes:
        text: The work in words, such as ``3 partitions``.
        size: Bytes that it rewrites.
    """

    text: str
    size: int = 0


def due(action: Action, table: Table, rules: Rules) -> Due | None:
    """The work that an action finds at a table; None when there is none.

    Raises:
        HeadwaterError: The table does not allow the action.
    """
    return _ACTIONS[action].due(table, rules)


def do(action: Action, table: Table, rules: Rules, executor: Executor) -> str:
    """Do what an action finds at a table, and say in words what was done.

    Raises:
        HeadwaterError: As the table's method.
    """
    return _ACTIONS[action].do(table, rules, executor)


@dataclass(frozen=True)
class _Action:
    due: Callable[[Table, Rules], Due | None]
    do: Callable[[Table, Rules, Executor], str]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    number = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def _tags_due(table: Table, rules: Rules) -> Due | None:
    creation = LifecycleOptions(table.storage.schema.options).tag_creation
    # Those of a batch are made by the batch.
    if creation in (TagCreation.NONE, TagCreation.BATCH):
        return None
    return Due(f"tags by {creation}")


def _create_tags(table: Table, rules: Rules, executor: Executor) -> str:
    return _count(len(table.create_due_tags()), "tag")


def _past_partitions(table: Table, rules: Rules) -> Due | None:
    expires = LifecycleOptions(table.storage.schema.options).partition_expiration is not None
    if not (expires and table.schema.partition_keys):
        return None
    found = table.expire_partitions(dry_run=True)
    return Due(_count(len(found.dropped), "partition")) if found.dropped else None


def _expire_partitions(table: Table, rules: Rules, executor: Executor) -> str:
    return _count(len(table.expire_partitions().dropped), "partition")


def _compaction_due(table: Table, rules: Rules) -> Due | None:
    found = table.compaction_due(full=rules.full)
    if not found.tasks:
        return None
    return Due(f"{_count(found.tasks, 'task')}, {_size(found.size)}", found.size)


def _compact(table: Table, rules: Rules, executor: Executor) -> str:
    made = table.compact(full=rules.full, executor=executor)
    return "nothing left to do" if made is None else f"snapshot {made.id}"


def _manifests_due(table: Table, rules: Rules) -> Due | None:
    return None if table.latest_snapshot() is None else Due("manifests, if they are out of order")


def _compact_manifests(table: Table, rules: Rules, executor: Executor) -> str:
    made = table.compact_manifests()
    return "in order" if made is None else f"snapshot {made.id}"


def _indexes_due(table: Table, rules: Rules) -> Due | None:
    indexed = any(key.startswith("file-index.") for key in table.schema.options)
    if table.latest_snapshot() is None or not indexed:
        return None
    return Due("files without an index that the options ask for")


def _rewrite_indexes(table: Table, rules: Rules, executor: Executor) -> str:
    made = table.rewrite_file_indexes(executor=executor)
    return "nothing to do" if made is None else f"snapshot {made.id}"


def _statistics_due(table: Table, rules: Rules) -> Due | None:
    latest = table.latest_snapshot()
    if latest is None:
        return None
    return Due(f"{_count(latest.total_record_count or 0, 'record')} to read")


def _analyze(table: Table, rules: Rules, executor: Executor) -> str:
    made = table.analyze(executor=executor)
    return "no snapshot" if made is None else f"snapshot {made.id}"


def _past_tags(table: Table, rules: Rules) -> Due | None:
    found = table.expire_tags(dry_run=True)
    return Due(_count(len(found), "tag")) if found else None


def _expire_tags(table: Table, rules: Rules, executor: Executor) -> str:
    return _count(len(table.expire_tags()), "tag")


def _past_snapshots(table: Table, rules: Rules) -> Due | None:
    found = table.expire_snapshots(dry_run=True)
    if not (found.expired or found.expired_changelogs):
        return None
    return Due(f"{_count(len(found.expired), 'snapshot')}, {_size(found.data_bytes)} of files")


def _expire_snapshots(table: Table, rules: Rules, executor: Executor) -> str:
    done = table.expire_snapshots(executor=executor)
    return f"{_count(len(done.expired), 'snapshot')}, {_size(done.data_bytes)} of files"


def _orphans(table: Table, rules: Rules) -> Due | None:
    found = table.remove_orphan_files(older_than=rules.orphans_older_than, dry_run=True)
    if not found.files:
        return None
    return Due(f"{_count(len(found.files), 'file')}, {_size(found.size)}")


def _remove_orphans(table: Table, rules: Rules, executor: Executor) -> str:
    done = table.remove_orphan_files(older_than=rules.orphans_older_than, executor=executor)
    return f"{_count(len(done.files), 'file')}, {_size(done.size)}"


_ACTIONS: Mapping[Action, _Action] = {
    Action.CREATE_TAGS: _Action(_tags_due, _create_tags),
    Action.EXPIRE_PARTITIONS: _Action(_past_partitions, _expire_partitions),
    Action.COMPACT: _Action(_compaction_due, _compact),
    Action.COMPACT_MANIFESTS: _Action(_manifests_due, _compact_manifests),
    Action.REWRITE_FILE_INDEXES: _Action(_indexes_due, _rewrite_indexes),
    Action.ANALYZE: _Action(_statistics_due, _analyze),
    Action.EXPIRE_TAGS: _Action(_past_tags, _expire_tags),
    Action.EXPIRE_SNAPSHOTS: _Action(_past_snapshots, _expire_snapshots),
    Action.REMOVE_ORPHAN_FILES: _Action(_orphans, _remove_orphans),
}
