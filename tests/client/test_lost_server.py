"""A program that writes to a table while its server goes: what it is told, and what is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.client.rest import RestCatalog
from headwater.client.transport import Timeouts
from headwater.storage.commit.fate import DEFAULT_TIMEOUT_MILLIS
from headwater.storage.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, Unavailable
from headwater.storage.schema.change import SetOption

if TYPE_CHECKING:
    from tests.client.conftest import Clock, Proxy

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def table(proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock) -> Table:
    catalog = RestCatalog(proxy.url, runtime=clock.runtime)
    return Table(catalog, catalog.tables.get(orders), clock.runtime)


def _files(behind: SqlCatalog, orders: Identifier) -> set[str]:
    location = Path(behind.tables.get(orders).path.removeprefix("file://"))
    return {str(each.relative_to(location)) for each in location.rglob("*") if each.is_file()}


def _written_when(stop: object, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    assert callable(stop)
    yield from rows.to_batches()
    stop()


def test_a_server_that_goes_while_rows_are_written_leaves_no_files(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    before = _files(behind, orders)
    rows = pa.RecordBatchReader.from_batches(ROWS.schema, _written_when(proxy.stop, ROWS))
    with pytest.raises(Unavailable, match="nothing was committed") as error:
        table.write(rows)
    assert not isinstance(error.value, OutcomeUnknown)
    assert _files(behind, orders) == before
    assert behind.snapshots.latest(orders) is None
    assert sum(clock.slept) <= DEFAULT_TIMEOUT_MILLIS / 1000


def test_a_server_that_goes_before_the_commit_is_sent_leaves_no_files(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    before = _files(behind, orders)
    proxy.meanwhile("GET /snapshot", lambda: proxy.meanwhile("GET /snapshot", proxy.stop))
    with pytest.raises(Unavailable, match=r"nothing was committed.*cannot be reached") as error:
        table.write(ROWS)
    assert not isinstance(error.value, OutcomeUnknown)
    assert _files(behind, orders) == before
    assert proxy.requests("POST", "/commit") == 0
    assert len(clock.slept) <= 20


def test_a_server_that_goes_with_the_commit_leaves_the_files(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    before = _files(behind, orders)
    proxy.go("POST /commit")
    with pytest.raises(OutcomeUnknown, match="Its files are kept"):
        table.write(ROWS)
    assert proxy.requests("POST", "/commit") == 1
    # A data file, two manifest lists and a manifest.
    assert len(_files(behind, orders) - before) == 4
    assert len(clock.slept) <= 12


def test_what_the_server_does_not_say_the_files_may_tell(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier
) -> None:
    def be_lost() -> None:
        for _ in range(40):
            proxy.lose_answer("POST /commit")
            proxy.lose_request("GET /snapshot")

    # The writer asks for the latest snapshot, and the commit does.
    proxy.meanwhile("GET /snapshot", lambda: proxy.meanwhile("GET /snapshot", be_lost))
    assert table.write(ROWS) is not None
    here = Table(behind, behind.tables.get(orders))
    assert here.scan().to_arrow().sort_by("id")["id"].to_pylist() == [1, 2, 3]


CHANGES: dict[str, Callable[[Table], object]] = {
    "write": lambda table: table.write(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"id": 9}, where="id = 1"),
    "merge": lambda table: table.merge(ROWS, ["id"]),
    "truncate": Table.truncate,
    "alter": lambda table: table.alter(SetOption("write-only", "true")),
    "compact": Table.compact,
    "expire": lambda table: table.expire_snapshots(retain_min=1, retain_max=1),
    "tag": lambda table: table.create_tag("kept"),
    "branch": lambda table: table.create_branch("side"),
    "rollback": lambda table: table.rollback(snapshot_id=1),
    "refresh": Table.refresh,
}


@pytest.fixture
def written(table: Table) -> Table:
    """The table with two snapshots."""
    table.write(ROWS)
    table.write(ROWS)
    return table


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_waits_as_long_as_the_table_says(
    written: Table, proxy: Proxy, clock: Clock, change: Callable[[Table], object]
) -> None:
    patient = written.with_options({"commit.timeout": "1 min"})
    proxy.stop()
    for handle, seconds in ((written, DEFAULT_TIMEOUT_MILLIS / 1000), (patient, 60.0)):
        clock.slept.clear()
        with pytest.raises(Unavailable, match="cannot be reached") as error:
            change(handle)
        assert not isinstance(error.value, OutcomeUnknown)
        assert sum(clock.slept) == pytest.approx(seconds)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_outlasts_a_restart_of_the_server(
    written: Table, proxy: Proxy, clock: Clock, change: Callable[[Table], object]
) -> None:
    patient = written.with_options({"commit.timeout": "1 min"})
    proxy.stop()
    clock.after(30, proxy.start)
    change(patient)
    # It is looked for every two seconds.
    assert 30 <= sum(clock.slept) <= 32


def test_a_decision_ends_a_write_at_once(table: Table, proxy: Proxy, clock: Clock) -> None:
    patient = table.with_options({"commit.timeout": "1 min"})
    for status, kind in ((403, Forbidden), (404, NotFound), (409, Conflict)):
        body = json.dumps({"message": "no", "code": status, "resourceType": None})
        proxy.reply("GET /snapshot", status, body)
        with pytest.raises(kind):
            patient.write(ROWS)
    assert clock.slept == []


def test_a_write_waits_for_a_server_behind_a_proxy(
    table: Table, proxy: Proxy, clock: Clock
) -> None:
    for status in (502, 503, 504) * 4:
        proxy.reply("GET /snapshot", status, "<html>")
    patient = table.with_options({"commit.timeout": "1 min"})
    assert patient.write(ROWS) is not None
    assert 0 < sum(clock.slept) < 60


def test_a_commit_is_repeated_in_one_place(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    """Neither its requests nor its look-ups wait by themselves."""
    patient = table.with_options({"commit.timeout": "1 min"})
    proxy.go("POST /commit")
    with pytest.raises(OutcomeUnknown, match="Its files are kept"):
        patient.write(ROWS)
    assert sum(clock.slept) == pytest.approx(60)
    assert proxy.requests("POST", "/commit") == 1


def test_a_change_that_may_have_been_made_is_not_repeated(
    table: Table, proxy: Proxy, clock: Clock
) -> None:
    patient = table.with_options({"commit.timeout": "1 min"})
    proxy.lose_answer("POST /tables/orders")
    with pytest.raises(OutcomeUnknown):
        patient.alter(SetOption("write-only", "true"))
    assert proxy.requests("POST", "/tables/orders") == 1
    assert clock.slept == []


def test_a_connected_lake_waits_for_its_server(
    proxy: Proxy, orders: Identifier, clock: Clock
) -> None:
    with (
        connect(proxy.url, runtime=clock.runtime) as lake,
        connect(proxy.url, timeouts=Timeouts(outage=30), runtime=clock.runtime) as patient,
    ):
        tables = [each.table(str(orders)) for each in (lake, patient)]
        proxy.stop()
        waits: list[tuple[Callable[[], object], float]] = [
            (lambda: lake.table(str(orders)), 5),
            (tables[0].latest_snapshot, 5),
            (lambda: patient.table(str(orders)), 30),
            (tables[1].latest_snapshot, 30),
            (tables[1].with_options({"commit.timeout": "40 s"}).latest_snapshot, 40),
            (lambda: connect(proxy.url, runtime=clock.runtime), 1.5),
        ]
        for request, seconds in waits:
            clock.slept.clear()
            with pytest.raises(Unavailable):
                request()
            assert sum(clock.slept) == pytest.approx(seconds)


def test_a_lease_outlasts_a_restart_of_the_server(
    written: Table, proxy: Proxy, behind: SqlCatalog, clock: Clock
) -> None:
    reader = written.with_options({"commit.timeout": "1 min"}).consumer("billing")
    # It has run out by the time the server is back, and nobody has taken it.
    hold = reader.hold(timedelta(milliseconds=1))
    hold.take()
    proxy.lose_answer("POST /consumers/reset")
    hold.advance(2)
    proxy.stop()
    clock.after(30, proxy.start)
    hold.renew()
    assert sum(clock.slept) >= 30
    hold.advance(3)
    assert reader.next_snapshot == 3


def test_a_lease_that_cannot_be_given_back_runs_out(
    written: Table, proxy: Proxy, clock: Clock
) -> None:
    hold = written.with_options({"commit.timeout": "1 min"}).consumer("billing").hold()
    hold.take()
    proxy.stop()
    with pytest.raises(Unavailable):
        hold.release()
    assert sum(clock.slept) == pytest.approx(1.5)
