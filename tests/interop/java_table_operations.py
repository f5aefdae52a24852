"""What Paimon's Java client does with one table: its snapshots, branches, tags and partitions."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from .java_rest_api import Java, names, pages, raises


def snapshots(java: Java) -> None:
    instant = java.paimon.table.Instant
    table = java.make("sales.counted")
    assert not java.catalog.loadSnapshot(table).isPresent()
    assert not java.catalog.loadSnapshot(table, "LATEST").isPresent()
    for number in range(1, 6):
        java.write("sales.counted", number)
    latest = java.api.loadSnapshot(table)
    assert [latest.snapshot().id(), latest.recordCount()] == [5, 5]
    assert latest.fileCount() == 5
    versions = {"EARLIEST": 1, "LATEST": 5, "3": 3}
    found = {each: java.api.loadSnapshot(table, each).id() for each in versions}
    assert found == versions
    assert not java.catalog.loadSnapshot(table, "9").isPresent()
    listed = pages(lambda token: java.api.listSnapshotsPaged(table, 2, token))
    assert [[each.id() for each in page] for page in listed] == [[5, 4], [3, 2], [1]]

    # A commit is taken when it is the next, and not when another was before it.
    table_id = java.api.getTable(table).getId()
    following = json.loads(latest.snapshot().toJson())
    base = following.get("uuid")  # Older clients give snapshots none.
    following.update(id=6, commitIdentifier=77, commitKind="ANALYZE")
    if base is not None:
        following.update(uuid="of the sixth")
    read = java.paimon.Snapshot.fromJson
    assert java.commit(java.api, table, table_id, read(json.dumps(following)), [], base=base)
    assert java.api.loadSnapshot(table).snapshot().commitIdentifier() == 77
    following.update(commitIdentifier=78)
    if base is not None:
        following.update(uuid="of another sixth")
    other = read(json.dumps(following))
    assert not java.commit(java.api, table, table_id, other, [], base=base)
    raises(
        "TableNotExistException",
        lambda: java.commit(java.catalog, table, "other", other, [], base=base),
    )

    java.api.rollbackTo(table, instant.snapshot(4))
    assert java.api.loadSnapshot(table).snapshot().id() == 4
    assert java.read("sales.counted") == [1, 2, 3, 4]
    java.tables.create_tag("sales.counted", "third", 3)
    assert java.api.loadSnapshot(table, "third").id() == 3
    java.api.rollbackTo(table, instant.tag("third"))
    assert java.read("sales.counted") == [1, 2, 3]
    for kind, each in (("snapshot", instant.snapshot(4)), ("tag", instant.tag("none"))):
        rollback = partial(java.catalog.rollbackTo, table, each)
        raises("IllegalArgumentException", rollback, f"Rollback {kind}")
    if java.has("rollbackSchema"):  # Only then with the snapshot from which one rolls back.
        raises(
            "AlreadyExistsException",
            lambda: java.catalog.rollbackTo(table, instant.snapshot(1), 2),
            "Latest snapshot 3 is not 2",
        )
        java.api.rollbackTo(table, instant.snapshot(2), 3)
        assert java.read("sales.counted") == [1, 2]
    java.write("sales.counted", 9)
    assert java.read("sales.counted")[-1] == 9
    java.api.dropTable(table)


def branches(java: Java) -> None:
    table = java.make("sales.branched", 1, 2)
    java.tables.create_tag("sales.branched", "first", 1)
    java.api.createBranch(table, "trial", "first")
    java.api.createBranch(table, "empty", None)
    assert sorted(names(java.api.listBranches(table))) == ["empty", "trial"]
    raises("BranchAlreadyExistException", lambda: java.catalog.createBranch(table, "trial", None))
    raises("TagNotExistException", lambda: java.catalog.createBranch(table, "b", "none"))
    java.write("sales.branched$branch_trial", 30)
    assert java.read("sales.branched$branch_trial") == [1, 30]
    java.api.fastForward(table, "trial")
    assert java.read("sales.branched") == [1, 30]
    raises("BranchNotExistException", lambda: java.catalog.fastForward(table, "none"))
    if java.has("renameBranch"):
        java.api.renameBranch(table, "empty", "renamed")
        assert sorted(names(java.api.listBranches(table))) == ["renamed", "trial"]
        raises(
            "BranchNotExistException", lambda: java.catalog.renameBranch(table, "empty", "other")
        )
        raises(
            "BranchAlreadyExistException",
            lambda: java.catalog.renameBranch(table, "renamed", "trial"),
        )
    for branch in names(java.api.listBranches(table)):
        java.api.dropBranch(table, branch)
    assert names(java.api.listBranches(table)) == []
    raises("BranchNotExistException", lambda: java.catalog.dropBranch(table, "trial"))
    java.api.dropTable(table)


def tags(java: Java) -> None:
    if not java.has("createTag"):
        return  # The older client makes tags on storage, as the areas above do.
    table = java.make("sales.tagged", 1, 2)
    java.api.createTag(table, "v1", 1, "1 d")
    java.api.createTag(table, "v2", None, None)
    java.api.createTag(table, "w", 2, None)
    first = java.api.getTag(table, "v1")
    assert [str(first.tagName()), first.snapshot().id()] == ["v1", 1]
    assert first.tagCreateTime() > 0
    assert str(first.tagTimeRetained()) == "1d"
    assert java.api.getTag(table, "v2").snapshot().id() == 2
    assert java.api.getTag(table, "v2").tagTimeRetained() is None
    assert pages(lambda token: java.api.listTagsPaged(table, 1, token, "v")) == [["v1"], ["v2"]]
    assert java.api.loadSnapshot(table, "v1").id() == 1
    raises("TagAlreadyExistException", lambda: java.catalog.createTag(table, "v1", 1, None, False))
    java.catalog.createTag(table, "v1", 1, None, True)
    raises("SnapshotNotExistException", lambda: java.catalog.createTag(table, "x", 9, None, False))
    java.api.deleteTag(table, "v1")
    raises("TagNotExistException", lambda: java.catalog.getTag(table, "v1"))
    raises("TagNotExistException", lambda: java.catalog.deleteTag(table, "v1"))
    java.api.dropTable(table)


def partitions(java: Java) -> None:
    options = {"metastore.partitioned-table": "true"}
    table = java.make("sales.days", 1, 2, 3, partition_keys=["day"], options=options)
    found = {dict(each.spec())["day"]: each for each in java.api.listPartitions(table)}
    assert {day: each.recordCount() for day, each in found.items()} == {"d0": 1, "d1": 2}
    assert {day: each.fileCount() for day, each in found.items()} == {"d0": 1, "d1": 2}
    assert all(each.fileSizeInBytes() > 0 for each in found.values())
    assert all(each.lastFileCreationTime() > 0 for each in found.values())
    java.api.markDonePartitions(table, [{"day": "d1"}])
    paged = pages(lambda token: java.api.listPartitionsPaged(table, 1, token, None))
    assert [[dict(each.spec()) for each in page] for page in paged] == [
        [{"day": "d0"}],
        [{"day": "d1"}],
    ]
    assert [[each.done() for each in page] for page in paged] == [[False], [True]]
    paged = pages(lambda token: java.api.listPartitionsPaged(table, None, token, "day=d1%"))
    assert [[dict(each.spec()) for each in page] for page in paged] == [[{"day": "d1"}]]
    if java.has("listPartitionsByNames"):
        some = java.api.listPartitionsByNames(table, [{"day": "d1"}, {"day": "none"}])
        assert [dict(each.spec()) for each in some] == [{"day": "d1"}]
    if java.has("createPartitions"):
        _created_partitions(java, table)
    # A table that does not keep them in the catalog: the client reads them from its files.
    files = java.make("sales.files", 1, 2, partition_keys=["day"])
    raises("NotImplementedException", lambda: java.api.listPartitions(files))
    days = [dict(each.spec())["day"] for each in java.catalog.listPartitions(files)]
    assert sorted(days) == ["d0", "d1"]
    for each in (table, files):
        java.api.dropTable(each)


def _created_partitions(java: Java, table: Any) -> None:
    """Partitions that the client creates, asks for by a condition, and drops."""
    found = java.api.createPartitions(table, [{"day": "d1"}, {"day": "d8"}], True)
    assert [dict(each) for each in found.getCreated()] == [{"day": "d8"}]
    assert [dict(each) for each in found.getExisted()] == [{"day": "d1"}]
    row_type = java.paimon.types.RowType.builder()
    row_type.field("day", java.paimon.types.DataTypes.STRING())
    text = java.paimon.data.BinaryString.fromString("d1")
    after = java.paimon.predicate.PredicateBuilder(row_type.build()).greaterOrEqual(0, text)
    condition = java.paimon.utils.JsonSerdeUtil.toFlatJson(after)
    paged = pages(
        lambda token: java.api.listPartitionsByFilterPaged(table, condition, 1, token, None)
    )
    assert [[dict(each.spec()) for each in page] for page in paged] == [
        [{"day": "d1"}],
        [{"day": "d8"}],
    ]
    gone = java.api.dropPartitions(table, [{"day": "d8"}, {"day": "d9"}], True)
    assert [dict(each) for each in gone.getDropped()] == [{"day": "d8"}]
    assert [dict(each) for each in gone.getMissing()] == [{"day": "d9"}]


def consumers(java: Java) -> None:
    if not java.has("resetConsumer"):
        return  # The older client moves consumers on storage.
    table = java.make("sales.consumed", 1, 2)
    for name, following in {"a": 1, "b": 2, "c": 3}.items():
        java.api.resetConsumer(table, name, following)
    java.api.resetConsumer(table, "a", 2)
    listed = pages(lambda token: java.api.listConsumersPaged(table, 2, token))
    found = [[(str(e.getConsumerId()), e.getNextSnapshot()) for e in page] for page in listed]
    assert found == [[("a", 2), ("b", 2)], [("c", 3)]]
    java.api.resetConsumer(table, "a", None)
    left = [
        str(e.getConsumerId()) for e in java.api.listConsumersPaged(table, None, None).getElements()
    ]
    assert left == ["b", "c"]
    assert java.tables.consumers("sales.consumed") == {"b": 2, "c": 3}
    java.api.dropTable(table)
