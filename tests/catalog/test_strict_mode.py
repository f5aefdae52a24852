"""Commits that others' changes of the same partitions refuse, as in ``TableCommitTest.java``."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import TableWriter

OPTION = "commit.strict-mode.last-safe-snapshot"
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        ("v", pa.int32()),
    ]
)
KEYED = {"bucket": "1", "write-only": "true"}


def new_table(lake: Lake, *, keyed: bool = True, **options: str) -> Table:
    plain = option_names(options)
    return lake.create_table(
        "sales.strict",
        COLUMNS,
        primary_keys=["id", "p"] if keyed else (),
        partition_keys=["p"],
        options={**KEYED, **plain} if keyed else plain,
    )


def rows(partition: str, *ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [partition] * len(ids), "v": list(ids)}, COLUMNS)


def since(table: Table, last_safe: int) -> Table:
    return table.with_options({OPTION: str(last_safe)})


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_a_compaction_of_the_partition_refuses_a_commit(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", 1))
    table.write(rows("a", 2))
    table.write(rows("b", 3))
    table.compact({"p": "a"})
    with pytest.raises(Conflict, match=r"snapshot 4 of kind COMPACT.* changed partition p=a"):
        since(table, 3).write(rows("a", 4))
    with pytest.raises(Conflict, match=OPTION):
        since(table, 0).write(rows("a", 4))
    assert ids(table) == [1, 2, 3]
    since(table, 0).write(rows("b", 4))
    since(table, 4).write(rows("a", 5))
    table.write(rows("a", 6))
    assert ids(table) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_an_overwrite_of_the_partition_refuses_a_commit(lake: Lake, vectors: str) -> None:
    table = new_table(lake, keyed=False, deletion_vectors__enabled=vectors)
    table.write(rows("a", 1, 2))
    table.write(rows("b", 3, 4))
    table.delete("id = 1")
    assert table.snapshots()[0].commit_kind is CommitKind.OVERWRITE
    with pytest.raises(Conflict, match=r"snapshot 3 of kind OVERWRITE.* changed partition p=a"):
        since(table, 2).write(rows("a", 5))
    # A deletion vector of another partition changes none of this one.
    since(table, 2).write(rows("b", 5))
    table.delete("id = 3")
    since(table, 4).write(rows("a", 6))
    with pytest.raises(Conflict, match="snapshot 5 of kind OVERWRITE"):
        since(table, 4).delete("id = 4")
    assert ids(table) == [2, 4, 5, 6]


def test_new_rows_of_the_partition_refuse_an_overwrite_alone(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", 1))
    table.write(rows("a", 2))
    since(table, 1).write(rows("a", 3))
    with pytest.raises(Conflict, match=r"snapshot 3 of kind APPEND.* changed partition p=a"):
        since(table, 1).overwrite(rows("a", 4), partition={"p": "a"})
    since(table, 1).overwrite(rows("b", 4), partition={"p": "b"})
    since(table, 3).overwrite(rows("a", 5), partition={"p": "a"})
    assert ids(table) == [4, 5]


def test_rows_that_wait_for_buckets_do_not_refuse_an_overwrite(lake: Lake) -> None:
    table = new_table(lake, bucket="-2", postpone__batch_write_fixed_bucket="false")
    table.write(rows("a", 1))
    table.write(rows("a", 2))
    since(table, 1).overwrite(rows("a", 3), partition={"p": "a"})
    assert table.snapshots()[0].commit_kind is CommitKind.OVERWRITE


def test_a_snapshot_that_has_expired_cannot_be_looked_at(lake: Lake) -> None:
    table = new_table(lake)
    for number in range(1, 5):
        table.write(rows("a", number))
    table.expire_snapshots(retain_max=2, retain_min=2)
    with pytest.raises(Conflict, match="snapshot 2 has expired"):
        since(table, 1).write(rows("a", 5))
    since(table, 2).write(rows("a", 5))
    since(table, -1).write(rows("a", 6))


def commit(table: Table, user: str, number: int, *batches: pa.Table) -> Snapshot | None:
    """The commit of a job that numbers them, as by a process that has just begun."""
    return commit_by(TableCommit(table.storage, table.pointer, user), table, number, *batches)


def commit_by(
    commits: TableCommit, table: Table, number: int, *batches: pa.Table
) -> Snapshot | None:
    base = table.latest_snapshot()
    with TableWriter(
        table.storage,
        max_sequence_numbers=BucketStates(table.storage, base),
        checked_snapshot=SnapshotIdentity.of(base),
    ) as writer:
        for batch in batches:
            writer.write(batch)
        return commits.commit(writer.finish(), identifier=number)


def test_what_came_before_the_users_own_commit_is_safe(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", 1))
    table.write(rows("a", 2))
    table.compact({"p": "a"})
    strict = since(table, 0)
    commit(strict, "job", 1, rows("b", 3))
    commit(strict, "job", 2, rows("a", 4))
    table.compact()
    with pytest.raises(Conflict, match="snapshot 6 of kind COMPACT"):
        commit(strict, "job", 3, rows("a", 5))
    assert ids(table) == [1, 2, 3, 4]


def test_a_users_first_commit_is_not_checked_after_minus_one(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", 1))
    table.write(rows("a", 2))
    table.compact()
    strict = since(table, -1)
    commit(strict, "job", 1, rows("a", 3))
    commit(strict, "job", 2, rows("a", 4))
    table.compact()
    with pytest.raises(Conflict, match="snapshot 6 of kind COMPACT"):
        commit(strict, "job", 3, rows("a", 5))
    # Each write is a user's first, and each further one of the same user is checked.
    strict.write(rows("a", 6))
    commits = TableCommit(strict.storage, strict.pointer, "other")
    batch = 2**63 - 1
    commit_by(commits, strict, batch, rows("a", 7))
    table.compact()
    with pytest.raises(Conflict, match="snapshot 9 of kind COMPACT"):
        commit_by(commits, strict, batch, rows("a", 8))


def test_after_a_rollback_all_is_looked_at_again(lake: Lake) -> None:
    table = new_table(lake)
    table.write(rows("a", 1))
    strict = since(table, 1)
    commits = TableCommit(strict.storage, strict.pointer, "job")
    commit_by(commits, strict, 1, rows("a", 2))
    commit_by(commits, strict, 2, rows("a", 3))
    table.rollback(snapshot_id=1)
    table.write(rows("a", 4))
    table.compact()
    table.write(rows("b", 5))
    with pytest.raises(Conflict, match="snapshot 3 of kind COMPACT"):
        commit_by(commits, strict, 3, rows("a", 6))


@pytest.mark.parametrize("value", ["-2", "first"])
def test_other_values_are_refused(lake: Lake, value: str) -> None:
    with pytest.raises(Invalid, match=OPTION):
        new_table(lake, commit__strict_mode__last_safe_snapshot=value)
