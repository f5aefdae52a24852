"""Invariants between a snapshot and the one before it, checked before every commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headwater.storage.errors import Invalid
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = [
    "INVARIANTS",
    "check_invariants",
    "record_counts_add_up",
    "row_ids_are_not_given_twice",
    "schema_does_not_go_back",
    "snapshot_ids_are_dense",
    "time_does_not_run_backwards",
]

Invariant: TypeAlias = Callable[[Snapshot | None, Snapshot], bool]


def snapshot_ids_are_dense(before: Snapshot | None, after: Snapshot) -> bool:
    """Ids start at 1 and grow by 1."""
    return after.id == (1 if before is None else before.id + 1)


def time_does_not_run_backwards(before: Snapshot | None, after: Snapshot) -> bool:
    """Time travel finds a snapshot by its time, so times follow ids."""
    return before is None or after.time_millis >= before.time_millis


def record_counts_add_up(before: Snapshot | None, after: Snapshot) -> bool:
    """The total is what was there before and what the commit changed."""
    start = 0 if before is None else before.total_record_count
    return after.total_record_count == start + after.delta_record_count


def schema_does_not_go_back(before: Snapshot | None, after: Snapshot) -> bool:
    """A snapshot's schema is at least that of the one before."""
    return before is None or after.schema_id >= before.schema_id


def row_ids_are_not_given_twice(before: Snapshot | None, after: Snapshot) -> bool:
    """The next row id never decreases."""
    return before is None or (after.next_row_id or 0) >= (before.next_row_id or 0)


INVARIANTS: tuple[Invariant, ...] = (
    snapshot_ids_are_dense,
    time_does_not_run_backwards,
    record_counts_add_up,
    schema_does_not_go_back,
    row_ids_are_not_given_twice,
)


def check_invariants(before: Snapshot | None, after: Snapshot) -> None:
    """Refuse a snapshot that breaks an invariant.

    Raises:
        Invalid: The message names the invariant.
    """
    for holds in INVARIANTS:
        if not holds(before, after):
            raise Invalid(
                f"snapshot {after.id} by {after.commit_user} breaks the invariant "
                f"'{holds.__name__}' after "
                f"{'no snapshot' if before is None else f'snapshot {before.id}'}"
            )
