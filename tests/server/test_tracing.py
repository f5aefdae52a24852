"""Traces, as a collector receives them by OTLP over HTTP."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests import plain_http
from tests.conftest import NewSqlite
from tests.processes import address_in

from headwater.catalog.sql import SqlCatalog
from headwater.client import connect
from headwater.server.metrics import Metrics
from headwater.server.sweep import Sweeps
from headwater.server.trace_settings import TraceSettings, load_trace_settings
from headwater.server.tracing import Tracing
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unavailable
from headwater.storage.steps import current_step, step, together, watching_steps

pytest.importorskip("opentelemetry.sdk", reason="needs pip install 'headwater[tracing]'")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

Serve = Callable[..., str]
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SECRET = "hw_a-secret-of-the-caller"


class Collector:
    """Receives spans; each is a dictionary with its name, ids, attributes and links."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        self.spans: list[dict[str, Any]] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                collector.bodies.append(body)
                collector.paths.append(self.path)
                collector.headers.append(dict(self.headers.items()))
                for resource in request.resource_spans:
                    collector.resources.append(_attributes(resource.resource.attributes))
                    for scope in resource.scope_spans:
                        collector.spans += [_span(span) for span in scope.spans]
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str) -> dict[str, Any]:
        (found,) = [span for span in self.spans if span["name"] == name]
        return found

    def path_to(self, span: Mapping[str, Any]) -> Sequence[str]:
        """The names of the spans above one, the nearest first."""
        by_id = {each["id"]: each for each in self.spans}
        names = []
        while (above := by_id.get(span["parent"])) is not None:
            names.append(above["name"])
            span = above
        return names


def _attributes(pairs: Any) -> dict[str, Any]:
    return {
        pair.key: (
            [item.string_value for item in pair.value.array_value.values]
            if (kind := pair.value.WhichOneof("value")) == "array_value"
            else getattr(pair.value, kind)
        )
        for pair in pairs
    }


def _span(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "id": span.span_id.hex(),
        "trace": span.trace_id.hex(),
        "parent": span.parent_span_id.hex(),
        "links": [link.span_id.hex() for link in span.links],
        "attributes": _attributes(span.attributes),
        "status": span.status.code,
        "events": len(span.events),
    }


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


class Traced:
    """A server whose steps are traced until it is told to send them."""

    def __init__(self, catalog: SqlCatalog, serve: Serve, collector: Collector, **settings: Any):
        self._stack = ExitStack()
        self.tracing = Tracing(TraceSettings(endpoint=collector.endpoint, **settings))
        self._stack.enter_context(watching_steps(self.tracing))
        self.address = serve(catalog, parts={"tracing": self.tracing})

    def sent(self) -> None:
        """Stop, and send what there is."""
        self._stack.close()
        self.tracing.close()


@pytest.fixture
def catalog(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    """As a server opens it: with calls to storage watched."""
    from headwater.catalog.sql.database.drivers import open_engine
    from headwater.catalog.sql.database.engine import SqlDatabase
    from headwater.storage.runtime import SYSTEM_RUNTIME

    database = SqlDatabase(open_engine(new_sqlite(tmp_path / "headwater.db")), SYSTEM_RUNTIME)
    opened = SqlCatalog.on(
        database,
        warehouse="main",
        location=str(tmp_path / "lake"),
        watch_files=Metrics().count_files,
    )
    opened.begin()
    yield opened
    opened.close()


def _table(address: str, schema: dict[str, object], name: str = "orders") -> str:
    databases = f"{address}/v1/main/databases"
    plain_http.post(databases, json={"name": "sales"})
    body = {"identifier": {"database": "sales", "object": name}, "schema": schema}
    plain_http.post(f"{databases}/sales/tables", json=body).raise_for_status()
    return f"{databases}/sales/tables/{name}"


def _commit(
    table: str, snapshot: dict[str, object], query: str = "", **headers: str
) -> httpx.Response:
    body: dict[str, object] = {"snapshot": snapshot, "statistics": [], "baseSnapshotUuid": None}
    return plain_http.post(f"{table}/commit{query}", json=body, headers=headers)


@pytest.mark.parametrize("way", ["fast", "ordinary"])
def test_a_commit_is_a_trace_of_its_steps(
    catalog: SqlCatalog,
    serve: Serve,
    collector: Collector,
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
    way: str,
) -> None:
    traced = Traced(catalog, serve, collector)
    table = _table(traced.address, schema)
    answer = _commit(
        table,
        snapshot(1),
        "" if way == "fast" else "?way=ordinary",
        **{
            "traceparent": f"00-{TRACE}-{CALLER}-01",
            "x-request-id": "seek-me",
            "authorization": f"Bearer {SECRET}",
        },
    )
    assert answer.json() == {"success": True}
    traced.sent()
    mine = [span for span in collector.spans if span["trace"] == TRACE]
    names = {span["name"] for span in mine}
    request = collector.named("POST /v1/{prefix}/databases/{database}/tables/{table}/commit")
    assert request["parent"] == CALLER
    assert request["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/v1/{prefix}/databases/{database}/tables/{table}/commit",
        "http.response.status_code": 200,
        "headwater.operation": "commitTable",
        "headwater.warehouse": "main",
        "headwater.request_id": "seek-me",
    }
    assert {"commit", "commit: decide", "commit: follow", "database write"} <= names
    assert {"storage write_if_absent", "storage write"} <= names
    assert ("request batching" in names) == (way == "fast")
    put = next(span for span in mine if span["name"] == "storage write_if_absent")
    above = collector.path_to(put)
    lane = ["request batching"] * (way == "fast")
    assert above == ["database write", "commit: follow", "commit", *lane, request["name"]]
    assert put["attributes"]["headwater.warehouse"] == "main"
    ids = {span["attributes"].get("headwater.request_id") for span in mine}
    # Of a batch, which may be several requests', the span has a list.
    assert ids - {None} == {"seek-me"}
    assert collector.paths[0] == "/v1/traces"
    assert collector.resources[0]["service.name"] == "headwater"


def test_no_span_holds_a_secret_or_a_name_of_a_path(
    catalog: SqlCatalog, serve: Serve, collector: Collector, schema: dict[str, object]
) -> None:
    traced = Traced(catalog, serve, collector)
    table = _table(traced.address, schema)
    headers = {"authorization": f"Bearer {SECRET}", "baggage": "key=a-piece-of-baggage"}
    plain_http.get(f"{table}?filter=a-literal", headers=headers)
    plain_http.get(f"{traced.address}/v1/main/databases/a-missing-name", headers=headers)
    plain_http.post(f"{traced.address}/v1/main/databases", content=b"{a-broken-body")
    plain_http.request("PROPFIND", f"{traced.address}/nowhere")
    traced.sent()
    sent = b"".join(collector.bodies)
    hidden = (SECRET, "a-literal", "a-missing-name", "a-broken-body", "a-piece-of", "nowhere")
    assert [text for text in hidden if text.encode() in sent] == []
    assert b"/lake" not in sent
    statuses = {
        span["attributes"]["http.response.status_code"]
        for span in collector.spans
        if "http.response.status_code" in span["attributes"]
    }
    assert statuses == {200, 400, 404}
    assert {span["events"] for span in collector.spans} == {0}
    assert any(span["name"] == "_OTHER" for span in collector.spans)


def test_the_sdk_passes_on_the_trace_of_its_caller(
    catalog: SqlCatalog, serve: Serve, collector: Collector
) -> None:
    from opentelemetry import context, trace

    traced = Traced(catalog, serve, collector)
    caller = trace.NonRecordingSpan(
        trace.SpanContext(int(TRACE, 16), int(CALLER, 16), True, trace.TraceFlags(1))
    )
    with connect(traced.address) as lake:
        lake.create_database("sales")
        token = context.attach(trace.set_span_in_context(caller))
        try:
            table = lake.create_table("sales.t", pa.schema([("a", pa.int64())]))
            table.write(pa.table({"a": [1]}))
        finally:
            context.detach(token)
    traced.sent()
    routes = {
        span["attributes"]["headwater.operation"]
        for span in collector.spans
        if span["parent"] == CALLER and span["trace"] == TRACE
    }
    assert {"createTable", "commitTable"} <= routes
    created = collector.named("POST /v1/{prefix}/databases")
    assert created["parent"] == ""
    assert created["trace"] != TRACE


def test_a_caller_that_does_not_record_is_not_recorded(
    catalog: SqlCatalog, serve: Serve, collector: Collector
) -> None:
    traced = Traced(catalog, serve, collector)
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-00"}
    plain_http.get(f"{traced.address}/v1/main/databases", headers=headers)
    traced.sent()
    assert collector.spans == []


def test_none_is_recorded_of_a_ratio_of_nothing(
    catalog: SqlCatalog, serve: Serve, collector: Collector
) -> None:
    traced = Traced(catalog, serve, collector, sample_ratio=0.0, service_name="other")
    plain_http.get(f"{traced.address}/v1/main/databases")
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    plain_http.get(f"{traced.address}/v1/main/databases", headers=headers)
    traced.sent()
    assert {span["trace"] for span in collector.spans} == {TRACE}
    assert collector.resources[0]["service.name"] == "other"


def test_what_is_done_for_several_is_linked_with_each(collector: Collector) -> None:
    tracing = Tracing(TraceSettings(endpoint=collector.endpoint, headers={"x-key": "k"}))  # type: ignore[dict-item]
    scope = {"type": "http", "method": "GET", "headers": [], "state": {}}
    with watching_steps(tracing):
        with tracing.request(scope), step("one"):
            first = current_step()
        with tracing.request(scope), step("two"):
            second = current_step()
            with together("batch", [first, second, None], offers=2), step("inner"):
                pass
        with step("nobody's"):  # of no trace
            pass
        with together("lonely", []), step("inside"):
            pass
    tracing.close()
    batch, one = collector.named("batch"), collector.named("one")
    two = collector.named("two")
    assert batch["parent"] == one["id"] or batch["parent"] == two["id"]
    other = two if batch["parent"] == one["id"] else one
    assert batch["links"] == [other["id"]]
    assert batch["attributes"]["headwater.together"] == 2
    assert collector.named("inner")["parent"] == batch["id"]
    names = {span["name"] for span in collector.spans}
    assert names.isdisjoint({"nobody's", "lonely", "inside"})
    assert collector.headers[0]["x-key"] == "k"


@pytest.mark.parametrize(
    ("error", "status"), [(NotFound("a secret"), 0), (Unavailable("a secret"), 2), (KeyError(), 2)]
)
def test_of_an_error_its_class_is_told(collector: Collector, error: Exception, status: int) -> None:
    tracing = Tracing(TraceSettings(endpoint=collector.endpoint))
    scope = {"type": "http", "method": "GET", "headers": [], "state": {}}
    with watching_steps(tracing), tracing.request(scope), pytest.raises(type(error)), step("work"):
        raise error
    tracing.close()
    work = collector.named("work")
    assert work["attributes"]["error.type"] == type(error).__name__
    assert work["status"] == status
    assert collector.named("GET")["status"] == 0
    assert b"a secret" not in b"".join(collector.bodies)


def test_commits_at_the_same_time_each_lead_to_their_batch(
    catalog: SqlCatalog,
    serve: Serve,
    collector: Collector,
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> None:
    traced = Traced(catalog, serve, collector)
    tables = [_table(traced.address, schema, f"t{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda table: _commit(table, snapshot(1)), tables))
    assert all(answer.json() == {"success": True} for answer in answers)
    traced.sent()
    commits = [span for span in collector.spans if span["name"] == "commit"]
    lanes = [
        span
        for span in collector.spans
        if span["name"] == "request batching"
        and span["attributes"]["headwater.operation"] == "commitTable"
    ]
    assert len(lanes) == 4
    reached = {commit["parent"] for commit in commits} | {
        link for commit in commits for link in commit["links"]
    }
    assert reached == {lane["id"] for lane in lanes}
    assert sum(commit["attributes"]["headwater.offers"] for commit in commits) == 4


def test_a_collector_that_is_away_holds_up_no_request(
    catalog: SqlCatalog, serve: Serve, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.close()
    traced = Traced(catalog, serve, collector)
    assert plain_http.get(f"{traced.address}/v1/main/databases").status_code == 200
    traced.sent()
    assert "Failed to export" in caplog.text


def test_a_sweep_is_a_trace_of_its_own(catalog: SqlCatalog, collector: Collector) -> None:
    tracing = Tracing(TraceSettings(endpoint=f"{collector.endpoint}/somewhere"))
    with watching_steps(tracing):
        Sweeps(Metrics()).sweep({"main": catalog})
        catalog.operation.check_storage()  # of no trace
    tracing.close()
    sweep = collector.named("sweep")
    assert sweep["parent"] == ""
    assert {span["trace"] for span in collector.spans} == {sweep["trace"]}
    assert "database read" in {span["name"] for span in collector.spans}
    assert collector.paths == ["/somewhere"]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"SAMPLE_RATIO": "0.5"}, "SAMPLE_RATIO is set, but traces are off"),
        ({"HEADERS": '{"a": "b"}'}, "HEADERS is set, but traces are off"),
        ({"ENDPOINT": "collector:4318"}, "ENDPOINT is not the address of a collector"),
        ({"ENDPOINT": "http://me:pass@collector"}, "ENDPOINT is not the address"),
        ({"ENDPOINT": "http://collector", "SAMPLE_RATIO": "2"}, "SAMPLE_RATIO"),
        ({"ENDPOINT": "http://collector", "HEADERS": "a=b"}, "cannot be read"),
        ({"ENDPOINT": "http://collector", "SAMPLER": "all"}, "SAMPLER is no"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], says: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"HEADWATER_TRACES_{name}", value)
    with pytest.raises(Invalid, match=says) as caught:
        load_trace_settings()
    assert "pass" not in caught.value.message


def test_a_name_that_is_nearly_right_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_TRACE_ENDPOINT", "http://collector")
    with pytest.raises(Invalid, match="HEADWATER_TRACE_ENDPOINT is no"):
        load_trace_settings()


def test_traces_that_are_disabled_elsewhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert load_trace_settings().endpoint is None
    with pytest.raises(HeadwaterError, match="OTEL_SDK_DISABLED switches traces off"):
        load_trace_settings({"endpoint": "http://collector"})


@pytest.mark.modes
def test_the_sdk_imports_no_opentelemetry(tmp_path: Path) -> None:
    program = f"""
import sys
from headwater.client import connect
with connect({str(tmp_path / "lake")!r}) as lake:
    lake.create_database("a")
import headwater.client.rest
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == "[]", ended.stderr


@pytest.mark.modes
def test_without_an_endpoint_opentelemetry_s_sdk_is_not_imported(tmp_path: Path) -> None:
    program = f"""
import sys, threading, os, signal
from headwater.server.run import run
from headwater.server.settings import load_settings
from headwater.client import connect
import headwater.server.run as module
real = module._listen
def look():
    with connect(address) as lake:
        lake.create_database("a")
    # FastAPI imports the API by itself, where it is installed.
    parts = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.proto")
    print(sorted(name for name in sys.modules if name.startswith(parts)))
    os.kill(os.getpid(), signal.SIGTERM)
from contextlib import contextmanager
@contextmanager
def listening(settings):
    global address
    with real(settings) as listener:
        address = module._address(listener)
        threading.Timer(0, look).start()
        yield listener
module._listen = listening
run(load_settings({{"port": 0, "database_url": "sqlite:///{tmp_path}/h.db",
                    "warehouses": {{"main": "{tmp_path}/lake"}}}}))
"""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=inherited, capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == "[]", ended.stderr


@pytest.mark.modes
def test_a_server_as_it_is_started_sends_its_traces(tmp_path: Path, collector: Collector) -> None:
    command = [
        *(sys.executable, "-m", "headwater.cli.main", "serve", "--port", "0"),
        *("--database-url", f"sqlite:///{tmp_path}/h.db", "--warehouse", f"main={tmp_path}/lake"),
    ]
    variables = {**os.environ, "HEADWATER_TRACES_ENDPOINT": collector.endpoint}
    for count in (1, 2):
        with subprocess.Popen(
            [*command, "--workers", str(count)], env=variables, stderr=subprocess.PIPE, text=True
        ) as server:
            assert server.stderr is not None
            address = address_in(server.stderr)
            told = (str(json.loads(line).get("message")) for line in server.stderr)
            for _ in range(count):
                next(line for line in told if line == "Application startup complete.")
            plain_http.get(f"{address}/v1/main/databases", headers={"x-request-id": f"n{count}"})
            server.send_signal(signal.SIGTERM)
            server.stderr.read()
        ids = {span["attributes"].get("headwater.request_id") for span in collector.spans}
        assert f"n{count}" in ids
