"""The operations that are interleaved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from tests.catalog.interleaved_tables import (
    TABLE,
    StartingState,
    build_appended,
    build_changelog,
    build_compacted,
    build_history,
    build_indexed,
    expire_all,
)

from headwater.catalog.table.table import Table
from headwater.client import Lake

__all__ = ["OPERATIONS", "STATES", "Call", "Client", "Operation"]

STATES: Mapping[str, Callable[[StartingState, Lake], None]] = {
    "history": build_history,
    "changelog": build_changelog,
    "compacted": build_compacted,
    "appended": build_appended,
    "indexed": build_indexed,
}
"""The starting states."""


@dataclass(frozen=True)
class Client:
    """A process that changes tables.

    Attributes:
        state: The starting state, for ids and locations.
        lake: The catalog.
        table: A handle of the table, as it was in the beginning.
    """

    state: StartingState
    lake: Lake
    table: Table


Call: TypeAlias = Callable[[Client], object]
"""A call of the public API."""


@dataclass(frozen=True)
class Operation:
    """A call, or several of one client.

    Attributes:
        name: Its name.
        calls: The calls, in their order.
        maintains: The calls, by index, that do what is due. They may leave it to the next call of
            their type, as an expiry does.
        deletes: Whether it deletes files.
        rewrites_history: Whether it gives the table another history.
        removes: The tags that it may remove.
        interim: How the names of tags begin that it creates and removes again.
        position: The consumer that it sets, and the snapshot that this has to read next.
    """

    name: str
    calls: Sequence[Call]
    maintains: frozenset[int] = frozenset()
    deletes: bool = False
    rewrites_history: bool = False
    removes: frozenset[str] = frozenset()
    interim: str | None = None
    position: tuple[str, int] | None = None

    def __str__(self) -> str:
        return self.name


def _changes(name: str, *calls: Call, removes: str = "", deletes: bool = False) -> Operation:
    return Operation(name, calls, deletes=deletes, removes=frozenset(removes.split()))


def _maintains(
    name: str, call: Call, *, removes: str = "", interim: str | None = None
) -> Operation:
    names, every = frozenset(removes.split()), frozenset({0})
    return Operation(name, [call], every, deletes=True, removes=names, interim=interim)


def _rewrites(name: str, call: Call, *, removes: str = "") -> Operation:
    names = frozenset(removes.split())
    return Operation(name, [call], deletes=True, rewrites_history=True, removes=names)


def _sets(name: str, consumer: str, number: int) -> Operation:
    calls = [lambda client: client.table.consumer(consumer).reset(number)]
    return Operation(name, calls, position=(consumer, number))


def _row(number: int) -> dict[str, list[object]]:
    return {"n": [number], "day": ["2024-01-01"]}


def _expire_some(client: Client) -> None:
    client.table.expire_snapshots(retain_max=1, retain_min=1, retain=timedelta(0), limit=2)


def _remove_orphans(client: Client) -> None:
    client.table.remove_orphan_files(older_than=timedelta(hours=1))


def _write_branch(client: Client) -> None:
    table = client.table
    rows = {"k": [0], "v": [72]} if table.schema.primary_keys else _row(72)
    table.branch("b").write(rows)


def _expire_branch(client: Client) -> None:
    expire_all(client.table.branch("b"))


def _drop(client: Client) -> None:
    client.lake.drop_table(TABLE)


def _restore(client: Client, table: str = TABLE) -> None:
    client.lake.catalog.dropped_tables.restore(client.state.table_ids[table])


def _purge(client: Client, table: str = TABLE) -> None:
    client.lake.catalog.dropped_tables.purge(client.state.table_ids[table])


def _clone(client: Client, **version: object) -> None:
    client.lake.clone_table(client.table, "s.clone", **version)  # type: ignore[arg-type]


def _register(client: Client) -> None:
    client.lake.register_table("s.found", client.state.paths["s.gone"])


_EXPIRY = (
    _maintains("expire", lambda it: expire_all(it.table)),
    _maintains("expire_some", _expire_some),
)

_BESIDE_BRANCH = (
    *_EXPIRY,
    _maintains("remove_orphans", _remove_orphans),
    Operation("renew_branch", [_write_branch, _expire_branch], frozenset({1}), deletes=True),
    _changes("drop_branch", lambda it: it.table.drop_branch("b"), deletes=True),
    _rewrites("fast_forward", lambda it: it.table.fast_forward("b"), removes="kept"),
)

_BESIDE_TAGS = (
    _changes("create_tag", lambda it: it.table.create_tag("new", 5)),
    _changes("replace_tag", lambda it: it.table.replace_tag("old", 5), deletes=True),
    _changes("delete_tag", lambda it: it.table.delete_tag("old"), removes="old", deletes=True),
    _maintains("expire_tags", lambda it: it.table.expire_tags(), removes="ended"),
    _rewrites("roll_back_to_tag", lambda it: it.table.rollback(tag="old"), removes="kept"),
    _changes("write", lambda it: it.table.write(_row(70))),
)

OPERATIONS: Mapping[str, Sequence[Operation]] = {
    "history": (
        *_BESIDE_BRANCH,
        *_BESIDE_TAGS,
        _changes("rename_tag", lambda it: it.table.rename_tag("kept", "renamed"), removes="kept"),
        _maintains(
            "create_due_tags",
            lambda it: it.table.create_due_tags(),
            removes="2023-11-13",
            interim="2023-11-",
        ),
        _changes("branch_of_tag", lambda it: it.table.create_branch("d", tag="kept")),
        _changes("branch_of_snapshot", lambda it: it.table.create_branch("e", snapshot_id=5)),
        _changes("rename_branch", lambda it: it.table.rename_branch("c", "z")),
        _changes("write_branch", lambda it: it.table.branch("c").write(_row(73))),
        _rewrites("forward_other", lambda it: it.table.fast_forward("c"), removes="kept"),
        _sets("set_consumer", "new", 5),
        _sets("move_consumer", "reader", 6),
        _changes("delete_consumer", lambda it: it.table.consumer("reader").delete()),
        _rewrites("roll_back", lambda it: it.table.rollback(snapshot_id=6)),
        _changes("clone", lambda it: _clone(it, snapshot_id=5)),
        _changes("clone_tag", lambda it: _clone(it, tag="old")),
        _changes("register", _register),
        _changes("overwrite", lambda it: it.table.overwrite(_row(71))),
        _changes("compact", lambda it: it.table.compact(full=True)),
        _changes("compact_manifests", lambda it: it.table.compact_manifests()),
        _maintains(
            "expire_partitions", lambda it: it.table.expire_partitions(older_than=timedelta(7))
        ),
        _changes("drop", _drop),
        _changes("drop_and_restore", _drop, _restore),
        _changes("drop_and_purge", _drop, _purge, deletes=True),
        _changes("purge", lambda it: _purge(it, "s.gone"), deletes=True),
        _changes("restore", lambda it: _restore(it, "s.gone")),
    ),
    "changelog": (
        *_BESIDE_BRANCH,
        _maintains("expire_changelogs", lambda it: it.table.expire_changelogs(delete_all=True)),
        _sets("set_consumer", "new", 1),
        _changes("delete_consumer", lambda it: it.table.consumer("feed").delete()),
        _changes("create_tag", lambda it: it.table.create_tag("new", 3)),
        _changes(
            "delete_tag", lambda it: it.table.delete_tag("kept"), removes="kept", deletes=True
        ),
        _rewrites("roll_back", lambda it: it.table.rollback(snapshot_id=3)),
        _changes("write", lambda it: it.table.write({"k": [0], "v": [70]})),
        _changes("compact", lambda it: it.table.compact(full=True)),
    ),
    "appended": (*_EXPIRY, *_BESIDE_TAGS),
    "indexed": (*_EXPIRY, *_BESIDE_TAGS),
    "compacted": (
        *_BESIDE_BRANCH,
        _changes("rename_branch", lambda it: it.table.rename_branch("b", "z")),
        _changes("overwrite", lambda it: it.table.overwrite(_row(71))),
    ),
}
"""The operations on each starting state."""
