"""Row filters, column masks and rights to columns of tables that are made of two branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from tests.chain_tables import OPTIONS, STOCK, Row, rows
from tests.server.restricted import concat, filter_policy, leaf, mask_policy, reference

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.permissions import Access, ColumnSet, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Forbidden, Unsupported
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import SetOption
from headwater.storage.types.data_type import Json

As = Callable[[str], Lake]
STOCKS = Identifier("sales", "stock")
# Whole partitions of the 1st and the 4th; changes of the 2nd, 3rd and 5th. Each row's amount tells
# it from all others.
CHAINS: list[Row] = [
    ("EU", "20260101", "apple", 1, 10),
    ("EU", "20260101", "pear", 1, 20),
    ("EU", "20260102", "apple", 2, 11),
    ("EU", "20260102", "pear", 1, 20),
    ("EU", "20260103", "apple", 2, 11),
    ("EU", "20260104", "apple", 4, 44),
    ("EU", "20260105", "apple", 4, 44),
    ("EU", "20260105", "fig", 5, 6),
    ("US", "20260102", "apple", 1, 7),
    ("US", "20260103", "apple", 2, 8),
]


@pytest.fixture
def lake_as(catalog: SqlCatalog, serve: Callable[..., str]) -> Iterator[As]:
    """Connects to the server with a token of a principal."""
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(catalog, parts={"find_token": tokens.find}, require_token=True)
    with ExitStack() as lakes:

        @cache
        def open_as(principal: str) -> Lake:
            # Bob has the rights that he is granted, and no others.
            scope = Scope.WRITE if principal == "bob" else Scope.ADMINISTER
            token = tokens.create(principal, scopes=[scope]).secret
            return lakes.enter_context(connect(address, token=token))

        yield open_as


@pytest.fixture
def owner(lake_as: As) -> Lake:
    """Whoever no policy names; the chain table is there."""
    lake = lake_as("owner")
    lake.create_database("sales")
    table = lake.create_table(
        "sales.stock",
        STOCK,
        primary_keys=["region", "day", "item"],
        partition_keys=["region", "day"],
        options=OPTIONS | {"query-auth.enabled": "true"},
    )
    table.create_branch("snapshot")
    table.create_branch("delta")
    whole, delta = table.branch("snapshot"), table.branch("delta")
    whole.write(rows(*CHAINS[:2]))
    whole.write(rows(CHAINS[5]))
    delta.write(rows(CHAINS[2]))
    gone = rows(("EU", "20260103", "pear", 3, None))
    delta.write(gone.append_column("_ROW_KIND", pa.array(["-D"])))
    delta.write(rows(("EU", "20260104", "apple", 4, -1)))
    delta.write(rows(CHAINS[7]))
    delta.write(rows(*CHAINS[8:]))
    return lake


def read(table: Table, *columns: str, where: str | None = None) -> list[Any]:
    found = table.scan(list(columns) or None, where).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


FILTERS: list[tuple[dict[str, Json], Callable[[Row], bool]]] = [
    (leaf("EQUAL", "region", "US"), lambda row: row[0] == "US"),
    # What one branch has of the partition, or of the key, must not stand for the whole.
    (leaf("EQUAL", "day", "20260105"), lambda row: row[1] == "20260105"),
    (leaf("EQUAL", "day", "20260103"), lambda row: row[1] == "20260103"),
    (leaf("NOT_EQUAL", "day", "20260101"), lambda row: row[1] != "20260101"),
    (leaf("EQUAL", "item", "pear"), lambda row: row[2] == "pear"),
    # A superseded row that the filter would let pass is not shown in the place of a newer one.
    (leaf("EQUAL", "version", 1), lambda row: row[3] == 1),
    (leaf("LESS_THAN", "amount", 11), lambda row: int(row[4] or 0) < 11),
    (leaf("GREATER_THAN", "amount", 11), lambda row: int(row[4] or 0) > 11),
]


CONDITIONS: list[tuple[str, Callable[[Row], bool]]] = [
    ("day = '20260102'", lambda row: row[1] == "20260102"),
    ("amount = 10", lambda row: row[4] == 10),
    ("version >= 2", lambda row: row[3] >= 2),
]


@pytest.mark.modes
def test_a_filter_is_asked_of_the_rows_of_the_chain(owner: Lake, lake_as: As) -> None:
    names = ("sales.stock", "sales.stock$branch_snapshot", "sales.stock$branch_delta")
    rows_of = {name: read(owner.table(name)) for name in names}
    assert rows_of["sales.stock"] == sorted(CHAINS)
    for number, (document, shown) in enumerate(FILTERS):
        reader = f"reader{number}"
        owner.catalog.policies.create(STOCKS, filter_policy(reader, document))
        lake = lake_as(reader)
        for name, every in rows_of.items():
            expected = [row for row in every if shown(row)]
            assert read(lake.table(name)) == expected, (name, document)
        table = lake.table("sales.stock")
        expected = [row for row in rows_of["sales.stock"] if shown(row)]
        assert table.scan().count() == len(expected)
        for where, kept in CONDITIONS:
            assert read(table, where=where) == [row for row in expected if kept(row)], document


@pytest.mark.modes
def test_masked_values_are_those_of_the_chain_and_cannot_be_asked_for(
    owner: Lake, lake_as: As
) -> None:
    policies = owner.catalog.policies
    policies.create(STOCKS, mask_policy("ada", "amount", {"name": "NULL"}))
    policies.create(STOCKS, mask_policy("ada", "day", concat("d", reference("region"))))
    table = lake_as("ada").table("sales.stock")
    assert read(table, "region", "day", "item", "version") == sorted(
        (region, f"d{region}", item, version) for region, _, item, version, _ in CHAINS
    )
    assert set(read(table, "amount")) == {(None,)}
    assert read(table, where="amount = 10") == []
    assert read(table, where="day = '20260102'") == []
    assert table.scan(where="day = 'dUS'").count() == 2


@pytest.mark.modes
def test_a_right_to_some_columns_holds_in_both_branches(
    catalog: SqlCatalog, owner: Lake, lake_as: As
) -> None:
    columns = PermissionTarget(TargetType.COLUMN, "sales", "stock")
    some = ColumnSet(("region", "day", "item"))
    owner.catalog.permissions.grant(Grant(columns, Access.SELECT, "bob", columns=some))
    lake = lake_as("bob")
    for name in ("sales.stock", "sales.stock$branch_delta", "sales.stock$branch_snapshot"):
        table = lake.table(name)
        assert read(table, "item") == read(owner.table(name), "item")
        for asked, where in ((["amount"], None), (None, None), (["item"], "amount = 10")):
            with pytest.raises(Forbidden):
                table.scan(asked, where).to_arrow()


def test_whoever_is_restricted_gets_no_files_and_no_stream(owner: Lake, lake_as: As) -> None:
    owner.catalog.policies.create(STOCKS, filter_policy("ada", leaf("EQUAL", "region", "US")))
    table = lake_as("ada").table("sales.stock")
    for look in (table.partitions, table.branch("delta").files, table.branch("snapshot").files):
        with pytest.raises(Forbidden):
            look()
    with pytest.raises(Unsupported, match="chain tables"):
        table.changes(0).to_arrow()
    changes = lake_as("ada").table("sales.stock$branch_delta").changes(0, 5, row_kinds=False)
    assert changes.to_arrow().num_rows == 2


def test_a_table_without_snapshots_shows_its_fallback_branch(owner: Lake, lake_as: As) -> None:
    options = {"query-auth.enabled": "true"}
    table = owner.create_table("sales.other", STOCK, partition_keys=["day"], options=options)
    table.create_branch("live")
    table.branch("live").write(rows(*CHAINS))
    table.alter(SetOption("scan.fallback-branch", "live"))
    hidden = filter_policy("ada", leaf("EQUAL", "region", "US"))
    owner.catalog.policies.create(Identifier("sales", "other"), hidden)
    assert read(lake_as("ada").table("sales.other")) == CHAINS[8:]
