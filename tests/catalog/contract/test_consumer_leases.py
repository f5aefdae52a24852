"""One reader at a time moves a consumer, over every catalog."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.consumers import MAX_LEASE_MILLIS
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Conflict, Invalid, NotFound

MINUTE = 60_000


def _position(catalog: Catalog, table: Identifier) -> int | None:
    found = {item.consumer_id: item for item in catalog.consumers.list(table).items}
    return found["billing"].next_snapshot if "billing" in found else None


def _owner(catalog: Catalog, table: Identifier, owner: str, *, renew: bool = False) -> str | None:
    lease = catalog.consumers.lease(table, "billing", owner, MINUTE, renew=renew)
    return None if lease is None else lease.owner


def test_the_lease_is_its_owners_until_given_back(catalog: Catalog, table: Identifier) -> None:
    assert _owner(catalog, table, "one", renew=True) is None
    assert _owner(catalog, table, "one") == "one"
    assert _owner(catalog, table, "one") == "one"
    assert _owner(catalog, table, "two") == "one"
    assert _owner(catalog, table, "two", renew=True) == "one"
    catalog.consumers.release(table, "billing", "two")
    assert _owner(catalog, table, "two") == "one"
    catalog.consumers.release(table, "billing", "one")
    assert _owner(catalog, table, "two") == "two"
    # Another consumer is another matter.
    lease = catalog.consumers.lease(table, "audit", "one", MINUTE)
    assert lease is not None
    assert (lease.consumer_id, lease.owner) == ("audit", "one")


def test_a_leased_consumer_is_moved_by_its_owner_alone(catalog: Catalog, table: Identifier) -> None:
    catalog.consumers.reset(table, "billing", 2)
    assert _owner(catalog, table, "one") == "one"
    catalog.consumers.reset(table, "billing", 3, owner="one")
    for position in (9, None):
        with pytest.raises(Conflict, match="'two' may not move consumer 'billing' any more"):
            catalog.consumers.reset(table, "billing", position, owner="two")
        with pytest.raises(Conflict, match="in use by 'one'"):
            catalog.consumers.reset(table, "billing", position)
    assert _position(catalog, table) == 3
    catalog.consumers.release(table, "billing", "one")
    catalog.consumers.reset(table, "billing", 4)
    assert _position(catalog, table) == 4
    with pytest.raises(Conflict, match="nobody has it"):
        catalog.consumers.reset(table, "billing", 5, owner="one")
    assert _position(catalog, table) == 4


def test_force_takes_the_lease_away_for_good(catalog: Catalog, table: Identifier) -> None:
    assert _owner(catalog, table, "one") == "one"
    catalog.consumers.reset(table, "billing", 7, force=True)
    assert _owner(catalog, table, "one", renew=True) is None
    with pytest.raises(Conflict):
        catalog.consumers.reset(table, "billing", 8, owner="one")
    assert _position(catalog, table) == 7
    assert _owner(catalog, table, "two") == "two"
    catalog.consumers.reset(table, "billing", None, force=True)
    assert _position(catalog, table) is None


def test_of_many_at_once_one_gets_the_lease(catalog: Catalog, table: Identifier) -> None:
    names = [f"reader-{number}" for number in range(4)]

    def take(name: str) -> str | None:
        return _owner(catalog, table, name)

    with ThreadPoolExecutor(len(names)) as threads:
        owners = set(threads.map(take, names))
    assert len(owners) == 1
    assert owners <= set(names)


@pytest.mark.parametrize(
    ("consumer_id", "owner", "millis"),
    [
        ("a/b", "one", MINUTE),
        ("c" * 256, "one", MINUTE),
        ("billing", " ", MINUTE),
        ("billing", "o" * 256, MINUTE),
        ("billing", "one", 0),
        ("billing", "one", MAX_LEASE_MILLIS + 1),
    ],
)
def test_what_is_no_lease_is_refused(
    catalog: Catalog, table: Identifier, consumer_id: str, owner: str, millis: int
) -> None:
    with pytest.raises(Invalid):
        catalog.consumers.lease(table, consumer_id, owner, millis)


def test_a_lease_goes_with_its_table_and_branch(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: Callable[..., object]
) -> None:
    assert directory.exists()
    branch = Identifier(table.database, f"{table.name}$branch_dev")
    catalog.branches.create(table, "dev")
    assert _owner(catalog, branch, "one") == "one"
    assert _owner(catalog, table, "two") == "two"
    catalog.branches.rename(table, "dev", "test")
    renamed = Identifier(table.database, f"{table.name}$branch_test")
    assert _owner(catalog, renamed, "two") == "one"
    catalog.branches.drop(table, "test")
    catalog.branches.create(table, "test")
    assert _owner(catalog, renamed, "two") == "two"
    catalog.tables.drop(table)
    with pytest.raises(NotFound):
        catalog.consumers.lease(table, "billing", "one", MINUTE)
