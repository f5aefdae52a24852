"""A commit whose answer is lost is found out, and never done twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.pointer import CatalogPointer
from headwater.client.rest import RestCatalog
from headwater.storage.commit.fate import DEFAULT_TIMEOUT_MILLIS, commit_snapshot
from headwater.storage.errors import Conflict, NotFound, OutcomeUnknown, ResourceType, Unavailable
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

if TYPE_CHECKING:
    from tests.client.conftest import Clock, Proxy

MakeSnapshot = Callable[..., Snapshot]
Commit = Callable[..., bool]


@pytest.fixture
def catalog(proxy: Proxy, clock: Clock) -> RestCatalog:
    client = RestCatalog(proxy.url, runtime=clock.runtime)
    client.connect()
    return client


@pytest.fixture
def commit(catalog: RestCatalog, behind: SqlCatalog, orders: Identifier, clock: Clock) -> Commit:
    """Commits a snapshot to the table, on top of another, and finds out what became of it."""
    info = behind.tables.get(orders)
    storage = TableStorage(
        str(orders), TableLayout(info.path), LocalFileAccess(), info.schema, clock.runtime
    )
    pointer = CatalogPointer(catalog, orders, info.id)

    def make(snapshot: Snapshot, base: Snapshot | None = None) -> bool:
        return commit_snapshot(storage, pointer, snapshot, base, [])

    return make


def _history(behind: SqlCatalog, table: Identifier) -> list[Snapshot]:
    return list(behind.snapshots.list(table).items)[::-1]


def test_a_conflict_is_told_at_once(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    first = make_snapshot(1)
    assert commit(first)
    assert not commit(make_snapshot(1))
    assert [request[0] for request in proxy.seen] == ["GET", "POST", "POST"]
    assert _history(behind, orders) == [first]


def test_a_lost_answer_is_found_out(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    proxy.lose_answer("POST /commit")
    first = make_snapshot(1)
    assert commit(first)
    assert proxy.requests("POST", "/commit") == 1
    assert _history(behind, orders) == [first]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_error_after_the_work_is_found_out(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
    status: int,
) -> None:
    proxy.reply("POST /commit", status, is_done=True)
    first = make_snapshot(1)
    assert commit(first)
    assert _history(behind, orders) == [first]


@pytest.mark.parametrize("status", [429, 500, 503, None])
def test_a_commit_that_did_not_arrive_is_offered_again(
    commit: Commit,
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
    assert commit(first)
    assert proxy.requests("POST", "/commit") == 2
    assert _history(behind, orders) == [first]


@pytest.mark.parametrize("then", ["GET /snapshot", "POST /commit"])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_refusal_tells_nothing_of_a_lost_answer(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
    then: str,
    is_done: bool,
) -> None:
    """A token that expires at the wrong moment must not pass for a commit that did not happen."""
    first = make_snapshot(1)
    refusal = '{"message": "no", "resourceType": null, "code": 403}'
    proxy.reply("POST /commit", 500, is_done=is_done)
    if then == "POST /commit":
        proxy.reply("GET /snapshot", 500)
    for request in ("POST /commit", "GET /snapshot"):
        for _ in range(40):
            proxy.reply(request, 403, refusal)
    if is_done:
        # The file of a snapshot is written when it is decided on, and by nobody else.
        assert commit(first)
        assert _history(behind, orders) == [first]
    else:
        with pytest.raises(OutcomeUnknown, match="is not known: no"):
            commit(first)


def test_a_lost_answer_beneath_others_commits_is_found_out(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    first, second, third = make_snapshot(1), make_snapshot(2), make_snapshot(3)

    def others() -> None:
        assert behind.snapshots.commit(orders, None, second, first.uuid, []).decided()
        assert behind.snapshots.commit(orders, None, third, second.uuid, []).decided()

    proxy.lose_answer("POST /commit")
    proxy.meanwhile("GET /snapshot", others)
    assert commit(first)
    assert _history(behind, orders) == [first, second, third]


def test_a_lost_request_that_a_rival_overtook_is_a_conflict(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    rivals = [make_snapshot(1)]
    proxy.lose_request("POST /commit")
    proxy.meanwhile(
        "GET /snapshot",
        lambda: behind.snapshots.commit(orders, None, rivals[0], None, []).decided(),
    )
    assert not commit(make_snapshot(1))
    assert _history(behind, orders) == rivals


def test_a_refusal_after_a_lost_answer_is_looked_into(
    commit: Commit,
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
    assert commit(first)
    assert _history(behind, orders) == [first]


def test_a_lost_request_whose_base_was_rolled_back_is_a_conflict(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    first, second = make_snapshot(1), make_snapshot(2)
    assert commit(first)
    assert commit(second, first)
    proxy.lose_request("POST /commit")
    proxy.meanwhile("GET /snapshot", lambda: behind.snapshots.rollback_to_snapshot(orders, 1))
    assert not commit(make_snapshot(3), second)
    assert _history(behind, orders) == [first]


def _missing(kind: str) -> str:
    return json.dumps({"message": "none", "resourceType": kind, "resourceName": "", "code": 404})


def test_a_snapshot_that_expired_before_it_was_confirmed_is_not_guessed(
    commit: Commit, proxy: Proxy, behind: SqlCatalog, orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:  # fmt: skip
    first, second = make_snapshot(1), make_snapshot(2)
    directory = behind.tables.get(orders).path.removeprefix("file://")

    def others() -> None:
        assert behind.snapshots.commit(orders, None, second, first.uuid, []).decided()
        Path(directory, "snapshot", "snapshot-1").unlink()

    proxy.lose_answer("POST /commit")
    proxy.meanwhile("GET /snapshot", others)
    for _ in range(40):
        proxy.lose_request("POST /commit")
    with pytest.raises(OutcomeUnknown, match="was committed is not known"):
        commit(first)


def test_an_unknown_outcome_says_so(
    commit: Commit, proxy: Proxy, clock: Clock, make_snapshot: MakeSnapshot
) -> None:
    for _ in range(40):
        proxy.lose_request("POST /commit")
        proxy.lose_request("GET /snapshot")
    with pytest.raises(
        OutcomeUnknown, match=r"whether snapshot 1 by a-user .* was committed is not known"
    ):
        commit(make_snapshot(1))
    # As long as the option says, and each try asks once for the commit and once what became of it.
    assert sum(clock.slept) == pytest.approx(DEFAULT_TIMEOUT_MILLIS / 1000)
    assert proxy.requests("POST", "/commit") == proxy.requests("GET", "/snapshot")
    assert proxy.requests("POST", "/commit") == len(clock.slept) + 1 <= 12


def test_how_long_is_tried_is_an_option(
    catalog: RestCatalog,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    clock: Clock,
    make_snapshot: MakeSnapshot,
) -> None:
    info = behind.tables.get(orders)
    schema = info.schema.with_options({"commit.timeout": "0 s"})
    layout = TableLayout(info.path)
    storage = TableStorage("sales.orders", layout, LocalFileAccess(), schema, clock.runtime)
    proxy.lose_request("POST /commit")
    with pytest.raises(OutcomeUnknown):
        commit_snapshot(
            storage, CatalogPointer(catalog, orders, info.id), make_snapshot(1), None, []
        )
    assert clock.slept == []
    assert proxy.requests("POST", "/commit") == 1


def test_a_server_that_says_when_to_come_back_is_waited_for(
    commit: Commit, proxy: Proxy, clock: Clock, make_snapshot: MakeSnapshot
) -> None:
    for status, seconds in ((503, "2"), (429, "1"), (503, "30")):
        proxy.reply("POST /commit", status, headers={"retry-after": seconds})
    assert commit(make_snapshot(1))
    assert clock.slept[:2] == [2.0, 1.0]
    # No longer than there is time left.
    assert clock.slept[2] == pytest.approx(2.0)


def test_a_server_out_of_reach_is_no_unknown_outcome(
    commit: Commit, proxy: Proxy, clock: Clock, make_snapshot: MakeSnapshot
) -> None:
    proxy.stop()
    with pytest.raises(Unavailable, match="cannot be reached") as error:
        commit(make_snapshot(1))
    assert not isinstance(error.value, OutcomeUnknown)
    assert sum(clock.slept) == pytest.approx(DEFAULT_TIMEOUT_MILLIS / 1000)
    assert len(clock.slept) <= 12


def test_a_server_that_goes_after_an_answer_was_lost_leaves_the_outcome_unknown(
    commit: Commit, proxy: Proxy, behind: SqlCatalog, orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:  # fmt: skip
    """That later tries are not sent says nothing of the first: it may still be under way."""
    first = make_snapshot(1)
    proxy.go("POST /commit")
    with pytest.raises(OutcomeUnknown, match="cannot be reached"):
        commit(first)
    assert proxy.requests("POST", "/commit") == 1
    assert _history(behind, orders) == []


def test_a_definite_refusal_is_raised(
    catalog: RestCatalog, proxy: Proxy, orders: Identifier, make_snapshot: MakeSnapshot
) -> None:
    with pytest.raises(NotFound) as error:
        catalog.snapshots.commit(orders, "another-id", make_snapshot(1), None, []).decided()
    assert error.value.resource_type is ResourceType.TABLE
    assert proxy.requests("POST", "/commit") == 1


def test_a_foreign_file_in_the_snapshots_place_is_a_refusal_and_told_at_once(
    commit: Commit, proxy: Proxy, behind: SqlCatalog, orders: Identifier,
    make_snapshot: MakeSnapshot, clock: Clock,
) -> None:  # fmt: skip
    first = make_snapshot(1)
    assert commit(first)
    directory = behind.tables.get(orders).path.removeprefix("file://")
    Path(directory, "snapshot", "snapshot-2").write_text(make_snapshot(2).to_json())
    with pytest.raises(Conflict, match="something else wrote it"):
        commit(make_snapshot(2), first)
    assert proxy.requests("POST", "/commit") == 2
    assert clock.slept == []
    assert _history(behind, orders) == [first]


def test_a_snapshot_without_a_uuid_is_known_by_its_user(
    commit: Commit,
    proxy: Proxy,
    behind: SqlCatalog,
    orders: Identifier,
    make_snapshot: MakeSnapshot,
) -> None:
    proxy.lose_answer("POST /commit")
    assert commit(make_snapshot(1, uuid=None))
    proxy.lose_answer("POST /commit")
    proxy.meanwhile("POST /commit", lambda: None)
    assert commit(make_snapshot(2, uuid=None))
    assert [item.id for item in _history(behind, orders)] == [1, 2]
