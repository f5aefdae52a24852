"""A server whose clock is wrong revives no credential and deletes nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests import plain_http
from tests.conftest import NewSqlite
from tests.processes import serving
from tests.wrong_clock import WrongClock, serve

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.feed import EventFeed
from headwater.server.clock_watch import ClockWatch
from headwater.storage.clock import Clock
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

# One of the processes that share the tests starts what servers are forked off.
pytestmark = pytest.mark.xdist_group("processes")

HOUR = 3_600_000
DAY = 24 * HOUR
MONTH = 30 * DAY
ORDERS = Identifier("sales", "orders")


@pytest.fixture
def url(tmp_path: Path, new_sqlite: NewSqlite) -> str:
    return new_sqlite(tmp_path / "headwater.db")


@pytest.fixture
def clock(tmp_path: Path) -> WrongClock:
    return WrongClock(tmp_path / "clock")


@contextmanager
def _serving(
    url: str, tmp_path: Path, clock: WrongClock, **settings: object
) -> Iterator[httpx.Client]:
    given = {
        "port": 0,
        "database_url": url,
        "warehouses": {"main": str(tmp_path / "lake")},
        "tokens": ["a-token"],
        **settings,
    }
    with (
        serving(given, serve, str(clock.path)) as address,
        plain_http.Client(base_url=address, headers={"authorization": "Bearer a-token"}) as client,
    ):
        yield client


def _metric(client: httpx.Client, name: str, label: str | None = None) -> float:
    text = client.get("/metrics").text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and (label is None or label in sample.labels.values())
    )


@pytest.mark.modes
def test_a_token_that_expired_stays_so_while_the_clock_is_set_back(
    url: str, tmp_path: Path, clock: WrongClock
) -> None:
    def yesterday() -> int:
        return SYSTEM_RUNTIME.now_millis() - DAY

    with opened_database(url, replace(SYSTEM_RUNTIME, now_millis=yesterday)) as past:
        tokens = Tokens(past, past.runtime)
        over = tokens.create("over", lifetime=timedelta(hours=1)).secret
        good = tokens.create("good", lifetime=timedelta(hours=30)).secret

    with _serving(url, tmp_path, clock) as client:

        def status(secret: str) -> int:
            headers = {"authorization": f"Bearer {secret}"}
            return client.get("/v1/main/databases", headers=headers).status_code

        assert (status(over), status(good)) == (401, 200)
        clock.set(-2 * DAY)
        assert (status(over), status(good)) == (401, 200)
        # Refused as long as a clock says that it is over, and no longer.
        clock.set(MONTH)
        assert (status(over), status(good)) == (401, 401)
        clock.set(0)
        assert (status(over), status(good)) == (401, 200)


def test_what_is_made_while_the_clock_is_ahead_has_the_right_date(
    url: str, tmp_path: Path, clock: WrongClock
) -> None:
    manager = {"authorization": "Bearer a-manager"}
    before = SYSTEM_RUNTIME.now_millis()
    with _serving(url, tmp_path, clock, management_tokens=["a-manager"]) as client:
        clock.set(MONTH)
        body = {"name": "short", "lifetimeMillis": HOUR}
        answer = client.post("/management/v1/tokens", json=body, headers=manager)
        assert answer.status_code == 200, answer.text
        told = parsedate_to_datetime(answer.headers["date"]).timestamp() * 1000
    after = SYSTEM_RUNTIME.now_millis()
    assert before - 1000 <= told <= after
    with opened_database(url) as database:
        (token,) = Tokens(database, database.runtime).list()
        events = EventFeed(database).read(limit=100).events
    assert before <= token.created_at <= after
    assert token.expires_at == token.created_at + HOUR
    assert events
    assert all(before <= event.at <= after for event in events)


def test_a_clock_that_jumps_ahead_deletes_nothing_and_is_shown(
    url: str, tmp_path: Path, clock: WrongClock
) -> None:
    with closing(
        SqlCatalog.open(
            url, warehouse="main", location=str(tmp_path / "lake"), undrop_millis=7 * DAY
        )
    ) as catalog:
        catalog.databases.create("sales")
        catalog.tables.create(ORDERS, Schema((DataField(0, "id", AtomicType(Root.BIGINT)),)))
        catalog.tables.drop(ORDERS)
    often = {"sweep_interval": "100 ms", "event_retention": "1 d"}
    with _serving(url, tmp_path, clock, **often) as client:
        clock.set(MONTH)
        ahead = _metric(client, "headwater_clock_difference_seconds", "machine")
        assert abs(ahead - MONTH / 1000) < 60
        swept = _metric(client, "headwater_sweeps_total")
        until = time.monotonic() + 60
        # The first of them may have begun before the jump.
        while _metric(client, "headwater_sweeps_total") < swept + 3:
            assert time.monotonic() < until
        assert _metric(client, "headwater_sweep_purged_total") == 0
        clock.set(0)
        assert abs(_metric(client, "headwater_clock_difference_seconds", "machine")) < 60
    with closing(
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    ) as catalog:
        assert [each.identifier for each in catalog.dropped_tables.list().items] == [ORDERS]
        assert catalog.events.read(limit=100).events


def test_the_log_tells_of_a_jump_once_and_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    seconds, wrong_by = [0.0], [0]
    clock = Clock(lambda: int(seconds[0] * 1000) + wrong_by[0], lambda: seconds[0])
    watch = ClockWatch(clock)
    with caplog.at_level(logging.INFO, "headwater.server.clock"):
        for wrong in (0, 30_000, MONTH, MONTH + 30_000, -DAY, 0, 0):
            seconds[0] += 15
            wrong_by[0] = wrong
            watch.look()
        clock.compare(clock.now_millis() + HOUR)
        watch.look()
    told = [record.getMessage().partition(" of the time")[0] for record in caplog.records]
    assert told == [
        "this machine's clock is 2592000 s ahead",
        "this machine's clock is 86400 s behind",
        "this machine's clock agrees with the time since the server started again",
        "the database server's clock is 3600 s ahead",
    ]
