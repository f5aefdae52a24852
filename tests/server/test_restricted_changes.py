"""Changes of a filtered table: who keeps them has what is shown, and is told of nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest
from tests.server.restricted import SCHEMA, concat, filter_policy, leaf, mask_policy, reference

from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Forbidden
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import CommitKind

As = Callable[[str], Lake]
Row = dict[str, Any]
EMEA = leaf("EQUAL", "region", "EMEA")
REGIONS = ("EMEA", "APAC-SECRET", None)


@pytest.fixture(
    params=[
        pytest.param(1, marks=pytest.mark.modes),
        3,
        pytest.param(16_384, marks=pytest.mark.modes),
    ],
    ids="{} rows a batch".format,
)
def lake_as(
    catalog: SqlCatalog, serve: Callable[..., str], request: pytest.FixtureRequest
) -> Iterator[As]:
    """Connects with a token of a principal to a server that reads in batches of so many rows."""
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    parts = {"find_token": tokens.find}
    address = serve(catalog, parts=parts, require_token=True, read_batch_rows=request.param)
    with ExitStack() as lakes:

        def open_as(principal: str) -> Lake:
            secret = tokens.create(principal, scopes=[Scope.ADMINISTER]).secret
            return lakes.enter_context(connect(address, token=secret))

        yield open_as


def make(
    owner: Lake, name: str = "sales.keyed", keys: Sequence[str] = ("id",), **more: str
) -> Table:
    owner.create_database("sales", ignore_if_exists=True)
    options = {"query-auth.enabled": "true", "bucket": "2", **more}
    return owner.create_table(name, SCHEMA, primary_keys=keys, options=options)


def rows(*found: Sequence[object]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA
    )


def kept(held: dict[int, Row], changes: Sequence[Mapping[str, Any]]) -> None:
    """Keep a copy by changes, of which each must be about what is there."""
    for change in changes:
        row = dict(change)
        kind, key = row.pop("_ROW_KIND"), row["id"]
        if kind == "+I":
            assert key not in held, change
            held[key] = row
        elif kind == "+U":
            assert key not in held, "the side before comes first"
            held[key] = row
        else:
            assert held.pop(key) == row, change


@pytest.mark.modes
def test_a_copy_that_is_kept_by_changes_is_what_is_shown(lake_as: As) -> None:
    owner = lake_as("owner")
    table = make(owner, **{"changelog-producer": "lookup"})
    policies = owner.catalog.policies
    policies.create(table.identifier, filter_policy("ada", EMEA))
    policies.create(
        table.identifier, mask_policy("ada", "phone", concat("***", reference("region")))
    )
    chance = random.Random(7)
    for _ in range(25):
        if chance.random() < 0.2:
            table.delete(f"id = {chance.randrange(8)}")
        else:
            ids = chance.sample(range(8), chance.randint(1, 6))
            table.write(
                rows(*((id_, chance.choice(REGIONS), "55", chance.randrange(3)) for id_ in ids))
            )
    seen = lake_as("ada").table("sales.keyed")
    held: dict[int, Row] = {}
    kinds = set()
    snapshots = owner.table("sales.keyed").snapshots()
    for snapshot in sorted(snapshots, key=lambda each: each.id):
        found = seen.changes(since=snapshot.id - 1, until=snapshot.id).to_arrow().to_pylist()
        kept(held, found)
        kinds |= {change["_ROW_KIND"] for change in found}
        assert all(change["region"] == "EMEA" for change in found)
        # Its compaction tells of what a commit has changed.
        if snapshot.commit_kind is CommitKind.COMPACT:
            shown = seen.scan(snapshot_id=snapshot.id).to_arrow().to_pylist()
            assert {row["id"]: row for row in shown} == held
    assert kinds == {"+I", "-U", "+U", "-D"}
    # All at once, without the columns that decide, and as an audit log.
    again: dict[int, Row] = {}
    kept(again, seen.changes(since=0, columns=["id", "salary"]).to_arrow().to_pylist())
    assert again == {key: {"id": key, "salary": row["salary"]} for key, row in held.items()}
    log = seen.inspect.audit_log(["id", "salary"], since=0).to_arrow().to_pylist()
    changes = [{"_ROW_KIND": row.pop("rowkind"), **row} for row in log]
    again = {}
    kept(again, changes)
    assert len(again) == len(held)


def test_the_key_of_a_row_need_not_be_asked_for(lake_as: As) -> None:
    owner = lake_as("owner")
    table = make(owner, **{"changelog-producer": "lookup"})
    owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
    table.write(rows((1, "EMEA", "a", 1), (2, "APAC-SECRET", "b", 2)))
    table.write(rows((1, "APAC-SECRET", "a", 1), (2, "EMEA", "b", 2)))
    table.write(rows((1, "APAC-SECRET", "z", 1), (2, "EMEA", "c", 2)))
    seen = lake_as("ada").table("sales.keyed")
    found = seen.changes(since=0, columns=["phone"]).to_arrow().to_pylist()
    assert sorted((row["_ROW_KIND"], row["phone"]) for row in found) == [
        ("+I", "a"), ("+I", "b"), ("+U", "c"), ("-D", "a"), ("-U", "b"),
    ]  # fmt: skip


@pytest.mark.parametrize("lake_as", [16_384], indirect=True, ids="{} rows a batch".format)
def test_changes_that_do_not_tell_both_sides_are_refused(lake_as: As) -> None:
    owner, ada = lake_as("owner"), lake_as("ada")
    for producer in ("none", "input", "lookup"):
        name = f"sales.of_{producer}"
        table = make(owner, name, **{"changelog-producer": producer})
        table.write(rows((1, "EMEA", "a", 1)))
        table.write(rows((1, "APAC-SECRET", "a", 1)))
        owner.catalog.policies.create(table.identifier, filter_policy("ada", EMEA))
        seen = ada.table(name)
        for mode in ("auto", "delta", "changelog", "diff"):
            if producer == "lookup" and mode in ("auto", "changelog"):
                continue
            with pytest.raises(Forbidden, match="changelog-producer") as caught:
                seen.changes(since=1, until=2, mode=mode)
            assert "APAC" not in str(caught.value)
        with pytest.raises(Forbidden, match="changelog-producer"):
            seen.with_options(
                {"incremental-between": "1,2", "incremental-between-scan-mode": "diff"}
            ).changes()
    # How a changelog was made then is what counts.
    owner.alter_table("sales.of_input", SetOption("changelog-producer", "lookup"))
    owner.table("sales.of_input").write(rows((1, "EMEA", "a", 1)))
    seen = ada.table("sales.of_input")
    with pytest.raises(Forbidden, match="changelog-producer"):
        seen.changes(since=1)
    found = seen.changes(since=2).to_arrow().to_pylist()
    assert [(row["_ROW_KIND"], row["id"]) for row in found] == [("+I", 1)]


@pytest.mark.parametrize("lake_as", [16_384], indirect=True, ids="{} rows a batch".format)
def test_filters_on_the_key_and_masks_part_no_update(lake_as: As) -> None:
    owner, ada = lake_as("owner"), lake_as("ada")
    by_key = make(owner, "sales.by_key", ("id", "region"))
    masked = make(owner, "sales.masked")
    policies = owner.catalog.policies
    policies.create(by_key.identifier, filter_policy("ada", EMEA))
    policies.create(masked.identifier, mask_policy("ada", "phone", {"name": "NULL"}))
    for table in (by_key, masked):
        table.write(rows((1, "EMEA", "a", 1), (2, "APAC-SECRET", "b", 2)))
        table.write(rows((1, "EMEA", "c", 3)))
    found = ada.table("sales.by_key").changes(since=0).to_arrow().to_pylist()
    assert [(row["id"], row["phone"]) for row in found] == [(1, "a"), (1, "c")]
    found = ada.table("sales.masked").changes(since=0).to_arrow().to_pylist()
    assert [row["phone"] for row in found] == [None] * 3
    difference = ada.table("sales.masked").changes(since=1, until=2, mode="diff").to_arrow()
    assert difference["id"].to_pylist() == [1]
