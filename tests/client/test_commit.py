"""A commit whose answer is lost is found out, and never done twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.client.rest import RestCatalog
from headwater.client.settle import settle_commit
from headwater.client.transport import Answer
from headwater.storage.errors import NotFound, ResourceType, Unavailable
from headwater.storage.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.client.conftest import Clock, Proxy

MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def catalog(proxy: Proxy, clock: Clock) -> RestCatalog:
    client = RestCatalog(proxy.url, runtime=clock.runtime)
    client.connect()
    return client


def _history(behind: SqlCatalog, table: Identifier) -> list[Snapshot]:
    return list(behind.snapshots.list(table).items)[::-1]


def test_a_conflict_is_told_at_once(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    first = make_snapshot(1)
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert not catalog.snapshots.commit(orders, None, make_snapshot(1), None, [])
    assert [request[0] for request in proxy.seen] == ["GET", "POST", "POST"]
    assert _history(behind, orders) == [first]


def test_a_lost_answer_is_found_out(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    proxy.lose_answer("POST /commit")
    first = make_snapshot(1)
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert proxy.requests("POST", "/commit") == 1
    assert _history(behind, orders) == [first]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_error_after_the_work_is_found_out(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
    status: int,
) -> None:
    proxy.reply("POST /commit", status, is_done=True)
    first = make_snapshot(1)
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert _history(behind, orders) == [first]


@pytest.mark.parametrize("status", [429, 500, 503, None])
def test_a_commit_that_did_not_arrive_is_offered_again(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
    status: int | None,
) -> None:
    if status is None:
        proxy.lose_request("POST /commit")
    else:
        proxy.reply("POST /commit", status)
    first = make_snapshot(1)
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert proxy.requests("POST", "/commit") == 2
    assert _history(behind, orders) == [first]


@pytest.mark.parametrize("then", ["GET /snapshot", "POST /commit"])
def test_a_refusal_does_not_settle_a_lost_answer(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
    then: str,
) -> None:
    """A token that expires at the wrong moment must not pass for a commit that did not happen."""
    proxy.lose_answer("POST /commit")
    if then == "POST /commit":
        proxy.reply("GET /snapshot", 500)
    proxy.reply(then, 403, '{"message": "no", "resourceType": null, "code": 403}')
    first = make_snapshot(1)
    with pytest.raises(Unavailable, match="is unknown"):
        catalog.snapshots.commit(orders, None, first, None, [])
    assert _history(behind, orders) == [first]


def test_a_lost_answer_beneath_others_commits_is_found_out(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    first, second, third = make_snapshot(1), make_snapshot(2), make_snapshot(3)

    def others() -> None:
        assert behind.snapshots.commit(orders, None, second, first.uuid, [])
        assert behind.snapshots.commit(orders, None, third, second.uuid, [])

    proxy.lose_answer("POST /commit")
    proxy.meanwhile("GET /snapshot", others)
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert _history(behind, orders) == [first, second, third]


def test_a_lost_request_that_a_rival_overtook_is_a_conflict(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    rivals = [make_snapshot(1)]
    proxy.lose_request("POST /commit")
    proxy.meanwhile(
        "GET /snapshot", lambda: behind.snapshots.commit(orders, None, rivals[0], None, [])
    )
    assert not catalog.snapshots.commit(orders, None, make_snapshot(1), None, [])
    assert _history(behind, orders) == rivals


def test_a_refusal_after_a_lost_answer_is_looked_into(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    # A foreign server that knows a replay only while it is the latest snapshot.
    first = make_snapshot(1)
    proxy.reply("POST /commit", 503, is_done=True)
    proxy.reply("GET /snapshot", 404, _missing("SNAPSHOT"))
    proxy.reply("POST /commit", 200, '{"success": false}')
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert _history(behind, orders) == [first]


def test_a_lost_request_whose_base_was_rolled_back_is_a_conflict(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    first, second = make_snapshot(1), make_snapshot(2)
    assert catalog.snapshots.commit(orders, None, first, None, [])
    assert catalog.snapshots.commit(orders, None, second, first.uuid, [])
    proxy.lose_request("POST /commit")
    proxy.meanwhile("GET /snapshot", lambda: behind.snapshots.rollback_to_snapshot(orders, 1))
    assert not catalog.snapshots.commit(orders, None, make_snapshot(3), second.uuid, [])
    assert _history(behind, orders) == [first]


def _missing(kind: str) -> str:
    return json.dumps({"message": "none", "resourceType": kind, "resourceName": "", "code": 404})


def test_a_snapshot_that_expired_before_it_was_confirmed_is_not_guessed(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog, orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:  # fmt: skip
    first, second = make_snapshot(1), make_snapshot(2)
    directory = behind.tables.get(orders).path.removeprefix("file://")

    def others() -> None:
        assert behind.snapshots.commit(orders, None, second, first.uuid, [])
        Path(directory, "snapshot", "snapshot-1").unlink()

    proxy.lose_answer("POST /commit")
    proxy.meanwhile("GET /snapshot", others)
    for _ in range(9):
        proxy.lose_request("POST /commit")
    with pytest.raises(Unavailable, match="is unknown"):
        catalog.snapshots.commit(orders, None, first, None, [])


def test_an_unknown_outcome_says_so(
    catalog: RestCatalog, proxy: Proxy, orders: Identifier, make_snapshot: MakeSnapshot
) -> None:
    for _ in range(20):
        proxy.lose_answer("POST /commit")
        for _ in range(5):
            proxy.lose_request("GET /snapshot")
    with pytest.raises(
        Unavailable, match=r"whether snapshot 1 .* was committed is unknown.*a-user"
    ):
        catalog.snapshots.commit(orders, None, make_snapshot(1), None, [])


def test_a_server_out_of_reach_is_no_unknown_outcome(
    behind: SqlCatalog, orders: Identifier, make_snapshot: MakeSnapshot, clock: Clock
) -> None:
    def offer() -> Answer:
        raise Unavailable("the catalog cannot be reached")

    with pytest.raises(Unavailable, match=r"^the catalog cannot be reached$"):
        settle_commit(
            orders, make_snapshot(1), offer=offer, history=behind.snapshots, runtime=clock.runtime
        )
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_a_definite_refusal_is_raised(
    catalog: RestCatalog, proxy: Proxy, orders: Identifier, make_snapshot: MakeSnapshot
) -> None:
    with pytest.raises(NotFound) as error:
        catalog.snapshots.commit(orders, "another-id", make_snapshot(1), None, [])
    assert error.value.resource_type is ResourceType.TABLE
    assert proxy.requests("POST", "/commit") == 1


def test_a_snapshot_without_a_uuid_is_known_by_its_user(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    proxy.lose_answer("POST /commit")
    assert catalog.snapshots.commit(orders, None, make_snapshot(1, uuid=None), None, [])
    proxy.lose_answer("POST /commit")
    proxy.meanwhile("POST /commit", lambda: None)
    assert catalog.snapshots.commit(orders, None, make_snapshot(2, uuid=None), None, [])
    assert [item.id for item in _history(behind, orders)] == [1, 2]
