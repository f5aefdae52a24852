"""The requests that each caller may send in a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import plain_http
from tests.server.test_readiness import Watch

from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client.rest import RestCatalog
from headwater.server.request_rates import BURST_SECONDS, RequestRates
from headwater.storage.runtime import Runtime

Serve = Callable[..., str]

RATE = 2
BURST = round(RATE * BURST_SECONDS)


NAMES = ("ada", "bob")


@dataclass(frozen=True)
class Callers:
    """Callers with tokens, by name, and one without."""

    client: httpx.Client
    secrets: Mapping[str, str]

    def get(self, name: str, path: str = "/v1/main/databases") -> httpx.Response:
        """The answer to a caller; whoever is not known has a wrong token."""
        token = self.secrets.get(name, name)
        return self.client.get(path, headers={"authorization": f"Bearer {token}"})


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def limited(catalog: SqlCatalog, serve: Serve, watch: Watch) -> Iterator[Callers]:
    """The callers of a server that takes two requests a second, for ten seconds at once."""
    tokens = Tokens(catalog.operation.database, watch.runtime)
    secrets = {each: tokens.create(each, scopes=[Scope.ADMINISTER]).secret for each in NAMES}
    parts = {"runtime": watch.runtime, "find_token": tokens.find}
    address = serve(catalog, parts=parts, require_token=True, max_requests_per_second=RATE)
    with plain_http.Client(base_url=address) as client:
        yield Callers(client, secrets)


def _is_refused(answer: httpx.Response, seconds: int, who: str) -> None:
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == str(seconds)
    told = answer.json()
    assert set(told) == {"message", "resourceType", "resourceName", "code"}
    assert told["code"] == 429
    assert f"{who} sends more requests than this server takes" in told["message"]


def test_a_principal_that_sends_too_many_waits_and_nobody_else(
    limited: Callers, watch: Watch
) -> None:
    for _ in range(BURST):
        assert limited.get("ada").status_code == 200
    # Tables and snapshots, too, which go by the fast lane.
    for path in ("/v1/main/databases", "/v1/main/databases/sales/tables/orders", "/v1/config"):
        _is_refused(limited.get("ada", path), 1, "'ada'")
    assert limited.get("bob").status_code == 200
    assert limited.client.get("/healthz").status_code == 200

    # What was refused does not count, and the wall clock neither.
    watch.millis += 1000
    watch.wrong_by = 3_600_000
    answers = [limited.get("ada").status_code for _ in range(3)]
    assert answers == [200, 200, 429]


def test_who_has_no_token_that_is_good_counts_by_address(limited: Callers) -> None:
    for number in range(BURST):
        assert limited.get(f"wrong-{number}").status_code == 401
    _is_refused(limited.get("wrong"), 1, "this address")
    _is_refused(limited.client.get("/v1/config"), 1, "this address")
    assert limited.get("ada").status_code == 200
    for path in ("/healthz", "/readyz"):
        assert limited.client.get(path).status_code == 200


def test_a_body_that_is_refused_is_not_read(limited: Callers) -> None:
    for _ in range(BURST):
        limited.client.get("/v1/config")
    answer = limited.client.post("/v1/main/databases", content=b"x" * 100_000)
    _is_refused(answer, 1, "this address")


def test_nothing_is_refused_without_a_limit(catalog: SqlCatalog, serve: Serve) -> None:
    with plain_http.Client(base_url=serve(catalog, max_requests_per_second=0)) as client:
        for _ in range(BURST + 1):
            assert client.get("/v1/main/databases").status_code == 200


def test_the_sdk_waits_for_as_long_as_it_is_told(
    catalog: SqlCatalog, serve: Serve, watch: Watch
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        watch.millis += round(seconds * 1000)

    address = serve(catalog, parts={"runtime": watch.runtime}, max_requests_per_second=0.25)
    ours = watch.runtime
    runtime = Runtime(ours.now_millis, ours.new_uuid, sleep, monotonic=ours.monotonic)
    with closing(RestCatalog(address, runtime=runtime)) as client:
        client.databases.create("sales")
        for _ in range(3):
            assert list(client.databases.list().items) == ["sales"]
    assert set(slept) <= {1.0, 2.0, 3.0, 4.0}
    assert sum(slept) >= 4


@given(
    rate=st.fractions(min_value=Fraction(1, 100), max_value=1000),
    sent=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 20_000), st.integers(1, 40)), max_size=40
    ),
)
def test_callers_get_their_rate_and_no_more(
    rate: Fraction, sent: list[tuple[str, int, int]]
) -> None:
    """Against a bucket that is filled and emptied by exact numbers."""
    watch = Watch()
    watch.millis = 0
    rates = RequestRates(float(rate), watch.runtime)
    most = max(rate * round(BURST_SECONDS), Fraction(1))
    buckets = {"a": most, "b": most}
    for caller, pause, requests in sent:
        watch.millis += pause
        buckets = {who: min(most, left + rate * pause / 1000) for who, left in buckets.items()}
        for _ in range(requests):
            left = buckets[caller]
            seconds = rates.take(caller)
            if abs(left - 1) > Fraction(1, 100):
                assert (seconds is None) == (left > 1)
            if seconds is None:
                buckets[caller] = left - 1
            else:
                assert 0 < seconds <= 1 / rate + 1


def test_callers_who_are_gone_are_forgotten() -> None:
    watch = Watch()
    rates = RequestRates(1, watch.runtime, most_kept=100)
    for number in range(1000):
        rates.take(number)
    assert [rates.take("busy") for _ in range(11)] == [None] * 10 + [1]
    assert rates.take("busy") == 1
