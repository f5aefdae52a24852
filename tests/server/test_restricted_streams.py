"""Streams of a table of which a server shows a part: its batches, positions and refusals."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.server.restricted import concat, filter_policy, leaf, mask_policy
from tests.server.test_restricted_changes import EMEA, REGIONS, As, Row, kept, make, rows

from headwater.catalog.model.access import ReadKind, ReadRequest, StreamAsked
from headwater.catalog.model.principal import Scope
from headwater.catalog.policies import PolicyType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.table.served_rows import ServedChanges
from headwater.catalog.table.served_stream import ServedBatch, ServedStream
from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Conflict, Forbidden, Invalid, NotFound
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.scan.stream import StreamPosition
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import parse_type


@pytest.fixture
def lake_as(catalog: SqlCatalog, serve: Callable[..., str]) -> Iterator[As]:
    """Connects with a token of a principal."""
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(catalog, parts={"find_token": tokens.find}, require_token=True)
    with ExitStack() as lakes:

        def open_as(principal: str) -> Any:
            secret = tokens.create(principal, scopes=[Scope.ADMINISTER]).secret
            return lakes.enter_context(connect(address, token=secret))

        yield open_as


def read(changes: ServedChanges, parts: int = 1) -> list[Row]:
    return [
        row
        for part in changes.parts(parts)
        for batch in changes.read_split(part)
        for row in batch.to_pylist()
    ]


def followed(stream: ServedStream, batch: ServedBatch, parts: int = 1) -> list[Row]:
    found = read(stream.changes(batch), 1 if batch.start.changes else parts)
    # A batch that is read again, as Spark does after a crash, is the same.
    assert read(stream.changes(batch)) == found or parts > 1
    return found


def write_at_random(table: Table, chance: random.Random) -> None:
    if chance.random() < 0.2:
        table.delete(f"id = {chance.randrange(8)}")
        return
    ids = chance.sample(range(8), chance.randint(1, 6))
    table.write(rows(*((id_, chance.choice(REGIONS), "55", chance.randrange(3)) for id_ in ids)))


@pytest.mark.parametrize(
    "producer", ["lookup", pytest.param("full-compaction", marks=pytest.mark.modes)]
)
def test_a_copy_that_is_kept_by_a_stream_is_what_is_shown(lake_as: As, producer: str) -> None:
    owner = lake_as("owner")
    options = {"changelog-producer": producer, "full-compaction.delta-commits": "2"}
    table = make(owner, **options)
    owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
    owner.catalog.policies.create(table.identifier, mask_policy("ada", "phone", concat("***")))
    chance = random.Random(11)
    for _ in range(6):
        write_at_random(table, chance)
    seen = lake_as("ada").table("sales.keyed")
    stream = seen.served_stream()
    batch = stream.first()
    assert not batch.start.changes
    held: dict[int, Row] = {}
    kept(held, followed(stream, batch, parts=3))
    for _ in range(6):
        for _ in range(chance.randint(1, 3)):
            write_at_random(table, chance)
        # Its position survives as JSON, as in a checkpoint.
        position = StreamPosition.from_json(batch.end.to_json())
        batch = stream.following(position, batch.policies)
        found = followed(stream, batch)
        assert all((row["region"], row["phone"]) == ("EMEA", "***") for row in found)
        kept(held, found)
    table.compact(full=True)
    kept(held, followed(stream, stream.following(batch.end, batch.policies)))
    shown = {row["id"]: row for row in seen.scan().to_arrow().to_pylist()}
    assert held == shown


def test_an_append_table_is_followed_by_columns_and_condition(lake_as: As) -> None:
    owner = lake_as("owner")
    table = make(owner, "sales.plain", keys=(), bucket="-1")
    owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
    owner.catalog.policies.create(table.identifier, mask_policy("ada", "phone", concat("***")))
    table.write(rows((1, "EMEA", "55", 1), (2, "APAC-SECRET", "56", 2)))
    seen = lake_as("ada").table("sales.plain")
    stream = seen.served_stream(["id"], row_kinds=False)
    assert stream.storage.schema.primary_keys == ()
    first = stream.first()
    assert read(stream.changes(first)) == [{"id": 1}]
    table.write(rows((3, "EMEA", "57", 3), (4, None, "58", 4)))
    table.write(rows((5, "EMEA", "59", 5)))
    again = stream.following(first.end, first.policies)
    assert read(stream.changes(again)) == [{"id": 3}, {"id": 5}]
    masked = seen.served_stream(["id"], "phone = '59'")
    assert read(masked.changes(again)) == []
    latest = stream.first({"scan.mode": "latest"})
    assert latest.start == again.end
    assert latest.end == again.end
    from_two = stream.first({"scan.snapshot-id": "2"})
    assert read(stream.changes(from_two)) == [{"id": 3}, {"id": 5}]
    assert stream.first(earliest=True).start.snapshot_id == 1


def test_what_would_not_be_exact_is_refused_at_the_start(lake_as: As) -> None:
    owner, ada = lake_as("owner"), lake_as("ada")
    for producer in ("none", "input"):
        table = make(owner, f"sales.{producer}", **{"changelog-producer": producer})
        owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
        with pytest.raises(Forbidden, match="lookup or full-compaction"):
            ada.table(f"sales.{producer}").served_stream().first()
    # A filter on the key shows both sides of an update or none, a mask both.
    table = make(owner, "sales.by_key")
    few = filter_policy("ada", leaf("LESS_THAN", "id", 3))
    owner.catalog.policies.create(table.identifier, few)
    owner.catalog.policies.create(table.identifier, mask_policy("ada", "phone", concat("***")))
    table.write(rows((1, "EMEA", "55", 1), (4, "EMEA", "56", 2)))
    stream = ada.table("sales.by_key").served_stream(["id", "phone"])
    batch = stream.first({"scan.snapshot-id": "1"})
    assert read(stream.changes(batch)) == [{"id": 1, "phone": "***", "_ROW_KIND": "+I"}]
    with pytest.raises(Invalid, match="you read its files yourself"):
        owner.table("sales.by_key").served_stream()


def test_other_policies_end_a_stream(lake_as: As) -> None:
    owner = lake_as("owner")
    table = make(owner, **{"changelog-producer": "lookup"})
    policies = owner.catalog.policies
    policies.create(table.identifier, filter_policy("ada", EMEA))
    table.write(rows((1, "EMEA", "55", 1), (2, "APAC-SECRET", "56", 2)))
    stream = lake_as("ada").table("sales.keyed").served_stream()
    batch = stream.first()
    policies.drop(table.identifier, PolicyType.ROW_FILTER, "ada")
    policies.create(table.identifier, filter_policy("ada", leaf("LESS_THAN", "id", 9)))
    for refused in (
        lambda: stream.following(batch.end, batch.policies),
        lambda: read(stream.changes(batch)),
    ):
        with pytest.raises(Conflict, match="new checkpoint"):
            refused()


def test_positions_outside_the_history_are_refused(lake_as: As) -> None:
    owner = lake_as("owner")
    table = make(owner, **{"changelog-producer": "lookup"})
    owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
    for number in range(4):
        table.write(rows((number, "EMEA", "55", 1)))
    stream = lake_as("ada").table("sales.keyed").served_stream()
    batch = stream.first()
    with pytest.raises(Invalid, match="rolled back or created again"):
        stream.following(StreamPosition(99), None)
    owner.table("sales.keyed").rollback(snapshot_id=2)
    with pytest.raises(Invalid, match="no longer part of the table's history"):
        stream.following(batch.end, batch.policies)
    for _ in range(3):
        owner.table("sales.keyed").write(rows((7, "EMEA", "55", 1)))
    owner.table("sales.keyed").expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFound, match="expired"):
        stream.following(StreamPosition(1), None)


def test_columns_that_change_end_a_batch_before_them(lake_as: As) -> None:
    owner = lake_as("owner")
    table = make(owner, **{"changelog-producer": "lookup"})
    owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
    table.write(rows((1, "EMEA", "55", 1)))
    stream = lake_as("ada").table("sales.keyed").served_stream()
    first = stream.first()
    owner.alter_table("sales.keyed", AddColumn(("more",), parse_type("INT")))
    changed = owner.table("sales.keyed")
    changed.write(rows((2, "EMEA", "56", 2)))
    with pytest.raises(Invalid, match="its columns changed"):
        stream.following(first.end, first.policies, to_schema_change=True)
    # Without, it keeps the columns that it began with.
    found = read(stream.changes(stream.following(first.end, first.policies)))
    assert [(row["id"], "more" in row) for row in found if row["_ROW_KIND"] == "+I"] == [(2, False)]


@pytest.mark.parametrize(
    ("asked", "more", "said"),
    [
        ({"end": StreamPosition(2)}, {}, "give both"),
        ({"start": StreamPosition(1), "earliest": True}, {}, "give one"),
        ({"start": StreamPosition(1, parts=1, digest="x")}, {}, "whole snapshots"),
        ({"start": StreamPosition(1, False, 5)}, {}, "whole snapshots"),
        ({}, {"limit": None}, "set limit to 0"),
        ({"start": StreamPosition(1)}, {"parts": 2}, "one part"),
        ({}, {"snapshot_id": 1}, "give no snapshot"),
        ({}, {"kind": ReadKind.ROWS}, "not asked for with rows"),
    ],
)
def test_requests_that_contradict_themselves(
    asked: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    given: dict[str, Any] = {"kind": ReadKind.CHANGES, "limit": 0, **more}
    with pytest.raises(Invalid, match=said):
        ReadRequest(stream=StreamAsked(**asked), **given)
