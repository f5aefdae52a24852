"""What `/metrics` counts."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Callable, Mapping

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event
from tests import plain_http

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.operation import Backlog
from headwater.server.metrics import Metrics
from headwater.server.sweep import Sweeps
from headwater.storage.errors import OutcomeUnknown, Unavailable

Serve = Callable[..., str]

REFUSED = "headwater_http_refused_total"


def counts(address: str, token: str | None = None) -> Mapping[tuple[str, ...], float]:
    """Every sample by its name and its labels' values in the order of the labels' names."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    answer = plain_http.get(f"{address}/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_they_need_a_token(address: str) -> None:
    assert plain_http.get(f"{address}/metrics").status_code == 401


def test_requests_are_counted_by_route_not_by_name(http: httpx.Client, address: str) -> None:
    for name in ("a", "b", "c"):
        http.get(f"/v1/main/databases/{name}")
        http.get(f"/nothing/{name}")
    http.request("PROPFIND", "/healthz")
    plain_http.get(f"{address}/v1/main/databases/x")
    found = counts(address, "a-token")
    requests = "headwater_http_requests_total"
    assert found[requests, "GET", "/v1/{prefix}/databases/{database}", "404"] == 3
    assert found[requests, "GET", "none", "404"] == 3
    assert found[requests, "other", "/healthz", "405"] == 1
    # Refused before there was a route.
    assert found[requests, "GET", "none", "401"] == 1
    seconds = "headwater_http_request_seconds_count"
    assert found[seconds, "GET", "/v1/{prefix}/databases/{database}"] == 3
    # The one that asks is under way.
    assert found[("headwater_http_requests_in_progress",)] == 1


def test_commits_are_counted_by_outcome(
    address: str,
    orders: str,
    commit: Callable[..., httpx.Response],
) -> None:
    assert commit(orders, 1).json() == {"success": True}
    assert commit(orders, 2).json() == {"success": True}
    assert commit(orders, 2, uuid="another").json() == {"success": False}
    assert commit(orders.replace("orders", "none"), 1).status_code == 404
    found = counts(address, "a-token")
    commits = "headwater_commits_total"
    assert found[commits, "success", "main"] == 2
    assert found[commits, "conflict", "main"] == 1
    assert found[commits, "refused", "main"] == 1
    assert found["headwater_commit_seconds_count", "success"] == 2


def test_a_commit_of_unknown_outcome_is_counted_as_such() -> None:
    metrics = Metrics()
    with pytest.raises(OutcomeUnknown), metrics.committing("main"):
        raise OutcomeUnknown("the answer is lost")
    with pytest.raises(ZeroDivisionError), metrics.committing("main"):
        raise ZeroDivisionError
    assert b'headwater_commits_total{outcome="unknown",warehouse="main"} 2.0' in metrics.text()


@pytest.mark.parametrize("way", ["", "?way=ordinary"])
def test_a_commit_that_did_not_reach_the_database_is_counted_as_not_sent(
    catalog: SqlCatalog,
    address: str,
    orders: str,
    http: httpx.Client,
    snapshot: Callable[..., dict[str, object]],
    way: str,
) -> None:
    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("the database is away")

    engine = catalog.operation.database.engine
    engine.dispose()
    event.listen(engine, "do_connect", refuse)
    body = {"snapshot": snapshot(1), "statistics": []}
    assert http.post(f"{orders}/commit{way}", json=body).status_code == 503
    event.remove(engine, "do_connect", refuse)
    found = counts(address, "a-token")
    assert found["headwater_commits_total", "not-sent", "main"] == 1
    assert found["headwater_commit_seconds_count", "not-sent"] == 1
    assert ("headwater_commits_total", "unknown", "main") not in found


def test_what_is_refused_before_it_is_a_request_is_counted(
    catalog: SqlCatalog, serve: Serve
) -> None:
    address = serve(catalog, max_connections=1, max_header_size="1 kb", max_body_size="1 kb")
    where = ("127.0.0.1", int(address.rpartition(":")[2]))

    def answered(sent: bytes) -> bytes:
        with socket.create_connection(where, timeout=60) as connection:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    assert answered(b"GET /" + b"x" * 2000).startswith(b"HTTP/1.1 431")
    assert answered(b"no HTTP\r\n\r\n").startswith(b"HTTP/1.1 400")
    with socket.create_connection(where, timeout=60) as busy:
        # Its body is awaited, so that it does not make way.
        busy.sendall(b"POST /v1/x HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n")
        busy.sendall(b"connection: close\r\ncontent-length: 9\r\n\r\n")
        assert busy.recv(100).startswith(b"HTTP/1.1 100")
        assert answered(b"").startswith(b"HTTP/1.1 503")
        # Its place is free as soon as it is answered, and only then for certain.
        busy.sendall(b"not asked")
        assert b"".join(iter(lambda: busy.recv(65536), b"")).startswith(b"HTTP/1.1 404")
    answer = plain_http.post(f"{address}/v1/main/databases", content=b"x" * 2000)
    assert answer.status_code == 413
    found = counts(address)
    refused = {name[1]: count for name, count in found.items() if name[0] == REFUSED}
    assert refused == {"431": 1, "400": 1, "503": 1}
    assert found["headwater_http_requests_total", "POST", "none", "413"] == 1


def test_connections_are_counted(catalog: SqlCatalog, serve: Serve) -> None:
    metrics = Metrics()
    with catalog.operation.database.read():
        pass  # it begins with a connection that is open
    metrics.watch(catalog.operation.database)
    address = serve(catalog, parts={"metrics": metrics})
    plain_http.get(f"{address}/v1/main/databases")
    found = counts(address)
    assert found["headwater_database_connections", "open"] == 1
    assert found["headwater_database_connections", "in_use"] == 0
    with catalog.operation.database.read():
        assert counts(address)["headwater_database_connections", "in_use"] == 1
    catalog.close()
    assert counts(address)["headwater_database_connections", "open"] == 0


def test_connections_that_cannot_be_made_are_not_counted(catalog: SqlCatalog, serve: Serve) -> None:
    metrics, database = Metrics(), catalog.operation.database
    address = serve(catalog, parts={"metrics": metrics})
    metrics.watch(database)
    with database.connection() as connection:
        connection.invalidate()  # its place in the pool stays

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("the database is away")

    event.listen(database.engine, "do_connect", refuse)
    for _ in range(3):
        with pytest.raises(Unavailable, match="is away"), database.read():
            pass
    event.remove(database.engine, "do_connect", refuse)
    with database.read():
        found = counts(address)
    assert found["headwater_database_connections", "open"] == 1
    assert found["headwater_database_connections", "in_use"] == 1


def test_the_backlog_is_that_of_the_moment(catalog: SqlCatalog, serve: Serve) -> None:
    answers = True

    def backlog() -> Mapping[str, Backlog]:
        if not answers:
            raise Unavailable("the database does not answer")
        return {"main": Backlog(3, 4500)}

    metrics = Metrics(backlog)
    address = serve(catalog, parts={"metrics": metrics})
    found = counts(address)
    assert found["headwater_outbox_decisions", "main"] == 3
    assert found["headwater_outbox_oldest_seconds", "main"] == 4.5
    answers = False
    assert ("headwater_outbox_decisions", "main") not in counts(address)


def test_sweeps_are_counted(catalog: SqlCatalog, serve: Serve) -> None:
    metrics = Metrics()
    Sweeps(metrics).sweep({"main": catalog})
    found = counts(serve(catalog, parts={"metrics": metrics}))
    assert found[("headwater_sweep_repaired_total",)] == 0
    assert found[("headwater_sweep_failures_total",)] == 0
    assert catalog.operation.backlog() == Backlog(0, 0)
