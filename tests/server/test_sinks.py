"""Sinks get every event, in order, whatever fails; and one process at a time delivers to each."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import plain_http
from tests.conftest import NewSqlite
from tests.processes import ServerProcess, address_in

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.events.feed import EventFeed
from headwater.catalog.sql.events.sink_position import SinkPosition
from headwater.server.metrics import Metrics
from headwater.server.settings import load_settings
from headwater.server.sinks import delivery as delivery_module
from headwater.server.sinks.delivery import Delivery, Sink
from headwater.server.sinks.file_sink import FileSink
from headwater.server.sinks.settings import sinks_of
from headwater.server.sinks.webhook_sink import WebhookSink
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME

SOURCE = "/headwater"
HOUR = 3_600_000


@dataclass(frozen=True)
class Post:
    """A request that a receiver got."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def ids(self) -> list[int]:
        told = json.loads(self.body)
        return [int(each["id"]) for each in (told if isinstance(told, list) else [told])]


@dataclass
class Receiver:
    """An HTTP server that gets posts and answers them as it is told to."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    answer: Callable[[int], int | None] = lambda number: 204
    """Given the number of a post, from 0 on: a status, or None to close the connection."""

    @property
    def ids(self) -> list[int]:
        return [each for post in self.posts for each in post.ids]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with lock:
                number = len(found.posts)
                found.posts.append(Post(self.path, headers, body))
            status = found.answer(number)
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("content-length", "0")
            self.send_header("location", f"{found.url}/elsewhere")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            del arguments

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/events"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def catalog(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    url = new_sqlite(tmp_path / "headwater.db")
    with closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))) as opened:
        yield opened


@pytest.fixture
def feed(catalog: SqlCatalog) -> EventFeed:
    for number in range(8):
        catalog.databases.create(f"d{number}")
    return EventFeed(catalog.operation.database)


def _position(catalog: SqlCatalog, sink: str, owner: str = "one") -> SinkPosition:
    return SinkPosition(catalog.operation.database, sink, owner, HOUR)


def _delivery(catalog: SqlCatalog, feed: EventFeed, sink: Sink, owner: str = "one") -> Delivery:
    return Delivery(
        feed, _position(catalog, sink.name, owner), sink, Metrics().deliveries, SYSTEM_RUNTIME
    )


def _ignore(value: object) -> None:
    del value


def _last(feed: EventFeed) -> int:
    return feed.bounds().numbered


def _deliver_all(catalog: SqlCatalog, feed: EventFeed, sink: Sink) -> list[float]:
    """Deliver until there is nothing left, without the waits, which are returned."""
    delivery, waits = _delivery(catalog, feed, sink), []
    taken = _position(catalog, sink.name).take()
    assert taken is not None
    while taken.position < _last(feed):
        waits.append(delivery.turn())
        taken = _position(catalog, sink.name).take()
        assert taken is not None
    delivery.end()
    return waits


@contextmanager
def _webhook(receiver: Receiver, *, secret: str | None = None, batch: int = 1) -> Iterator[Sink]:
    sink = WebhookSink(receiver.url, SOURCE, SYSTEM_RUNTIME, secret=secret, batch=batch)
    with closing(sink):
        yield sink


@pytest.mark.parametrize("batch", [1, 3])
def test_a_receiver_that_fails_gets_all_events_in_their_order(
    catalog: SqlCatalog, feed: EventFeed, receiver: Receiver, batch: int
) -> None:
    # Fails, ends the connection after it has taken the events, redirects, and is overloaded.
    answers: dict[int, int | None] = {0: 500, 2: None, 3: 307, 5: 429, 6: 404}
    receiver.answer = lambda number: answers.get(number, 200)
    with _webhook(receiver, batch=batch) as sink:
        waits = _deliver_all(catalog, feed, sink)
    # 1 s after the first failure, twice as much after each that follows.
    assert [wait for wait in waits if wait] == [1.0, 1.0, 2.0, 1.0, 2.0]
    taken = [post for number, post in enumerate(receiver.posts) if number not in answers]
    assert [each for post in taken for each in post.ids] == list(range(1, _last(feed) + 1))
    assert max(len(post.ids) for post in receiver.posts) == batch
    types = {post.headers["content-type"] for post in receiver.posts}
    assert types == {f"application/cloudevents{'-batch' * (batch > 1)}+json"}
    assert {post.path for post in receiver.posts} == {"/events"}
    # What is posted again says so.
    assert receiver.posts[0].headers["webhook-id"] == receiver.posts[1].headers["webhook-id"]


def test_a_cloud_event_says_who_did_what(
    catalog: SqlCatalog, feed: EventFeed, receiver: Receiver
) -> None:
    with _webhook(receiver, secret="a-secret") as sink:
        _deliver_all(catalog, feed, sink)
    post = receiver.posts[-1]
    told: dict[str, Any] = json.loads(post.body)
    event = feed.read(after=_last(feed) - 1).events[0]
    data = told.pop("data")
    assert (data["offset"], data["type"], data["at"]) == (event.offset, "createDatabase", event.at)
    assert told.pop("time").endswith("Z")
    assert told == {
        "specversion": "1.0",
        "id": str(event.offset),
        "source": SOURCE,
        "type": "headwater.createDatabase",
        "subject": "main/d7",
        "datacontenttype": "application/json",
        "partitionkey": event.subject.id,
    }
    signed = ".".join(
        [post.headers["webhook-id"], post.headers["webhook-timestamp"], post.body.decode()]
    )
    digest = hmac.new(b"a-secret", signed.encode(), hashlib.sha256).digest()
    assert post.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()


def test_a_file_gets_a_line_for_each_event(
    catalog: SqlCatalog, feed: EventFeed, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    _deliver_all(catalog, feed, FileSink(path, SOURCE))
    assert path.stat().st_mode & 0o777 == 0o600
    lines = path.read_text().splitlines()
    assert [int(json.loads(line)["id"]) for line in lines] == list(range(1, _last(feed) + 1))
    # Somebody died while writing the next line; and later the file is put away.
    path.write_text(path.read_text() + '{"specversion":"1.0","id"')
    catalog.databases.create("late")
    _deliver_all(catalog, feed, FileSink(path, SOURCE))
    *before, last = path.read_text().splitlines()
    assert (before, int(json.loads(last)["id"])) == (lines, _last(feed))
    path.rename(tmp_path / "events.1")
    catalog.databases.create("later")
    _deliver_all(catalog, feed, FileSink(path, SOURCE))
    (line,) = path.read_text().splitlines()
    assert int(json.loads(line)["id"]) == _last(feed)


def test_a_file_that_cannot_be_written_is_tried_again(
    catalog: SqlCatalog, feed: EventFeed, tmp_path: Path
) -> None:
    path = tmp_path / "gone" / "events.jsonl"
    sink = FileSink(path, SOURCE)
    with pytest.raises(Invalid, match="setting 'event_file'"):
        sink.check()
    delivery = _delivery(catalog, feed, sink)
    assert [delivery.turn() for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    path.parent.mkdir()
    assert delivery.turn() == 0
    assert delivery.turn() == 1.0
    assert len(path.read_text().splitlines()) == _last(feed)


def test_whoever_lost_the_lease_moves_nothing_and_writes_no_file(
    catalog: SqlCatalog, feed: EventFeed, tmp_path: Path
) -> None:
    database = catalog.operation.database
    path = tmp_path / "events.jsonl"
    sink = FileSink(path, SOURCE)
    paused = SinkPosition(database, sink.name, "paused", 0)
    lease = paused.take()
    assert lease is not None
    other = _delivery(catalog, feed, sink, "other")
    assert other.turn() == 0
    written = path.read_text()
    events = feed.read(limit=3).events
    with pytest.raises(Conflict):
        sink.deliver(events, lambda offset: _ignore(paused.advance(lease, offset)))
    assert path.read_text() == written
    paused.give_back(lease)
    # The lease is still the other's.
    assert _position(catalog, sink.name, "third").take() is None
    assert paused.take() is None
    # Even if it had the same name: the fence has grown.
    with pytest.raises(Conflict):
        _position(catalog, sink.name, "other").advance(lease, 1)
    other.end()
    taken = _position(catalog, sink.name, "third").take()
    assert taken is not None
    assert (taken.position, taken.fence) == (_last(feed), lease.fence + 2)


def test_a_sink_that_comes_too_late_goes_on_with_what_is_left(
    catalog: SqlCatalog, feed: EventFeed, receiver: Receiver
) -> None:
    events = feed.read().events
    feed.expire(events[4].at + HOUR + 1, HOUR)
    kept = [event.offset for event in feed.read().events]
    assert kept != [event.offset for event in events]
    catalog.databases.create("late")
    with _webhook(receiver) as sink:
        _deliver_all(catalog, feed, sink)
    assert receiver.ids == [*kept, _last(feed)]


def _serve_with_short_lease(settings: Mapping[str, object]) -> None:
    from headwater.server.run import run

    delivery_module.LEASE_SECONDS = 1.0
    delivery_module._OTHERS_SECONDS = 0.1
    delivery_module._IDLE_SECONDS = 0.05
    run(load_settings(settings))


def _address(process: ServerProcess) -> str:
    address = address_in(process.stderr)
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return address


@pytest.mark.modes
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("sink", ["webhook", pytest.param("file", marks=pytest.mark.slow)])
def test_another_server_goes_on_when_the_one_that_delivers_is_killed(
    tmp_path: Path, receiver: Receiver, sink: str
) -> None:
    path = tmp_path / "events.jsonl"
    settings: dict[str, object] = {
        "port": 0,
        "database_url": f"sqlite:///{tmp_path}/headwater.db",
        "warehouses": {"main": str(tmp_path / "lake")},
        **({"event_file": str(path)} if sink == "file" else {"event_webhook": receiver.url}),
    }
    enough = threading.Event()
    with ServerProcess(settings, _serve_with_short_lease) as first:
        one = _address(first)
        plain_http.post(f"{one}/v1/main/databases", json={"name": "first"})

        def kill_the_first(number: int) -> int | None:
            if number == 6:
                # It has got the event, and nobody will know.
                os.kill(first.pid, signal.SIGKILL)
                return None
            return 204

        receiver.answer = kill_the_first
        for number in range(10):
            with suppress(httpx.TransportError):  # it may be dead by now
                plain_http.post(f"{one}/v1/main/databases", json={"name": f"d{number}"})
        if sink == "file":
            os.kill(first.pid, signal.SIGKILL)
        # Only now: had the first to wait for a processor for longer than its lease, another would
        # deliver once more what it has under way.
        assert first.wait() == -signal.SIGKILL
        with ServerProcess(settings, _serve_with_short_lease) as second:
            two = _address(second)
            for number in range(20):
                plain_http.post(f"{two}/v1/main/databases", json={"name": f"d{number}"})
            feed_path = f"{two}/management/v1/warehouses/main/events?limit=1000"

            def got() -> list[int]:
                if sink == "webhook":
                    return receiver.ids
                lines = path.read_text().splitlines(keepends=True) if path.exists() else []
                return [int(json.loads(line)["id"]) for line in lines if line.endswith("\n")]

            # A page may end before events that another reader is about to number.
            page = {"isEnd": False}
            while not page["isEnd"]:
                page = plain_http.get(feed_path).json()
            last = page["nextAfter"]
            while last not in got():
                assert second.poll() is None
                enough.wait(0.05)
            second.send_signal(signal.SIGTERM)
            second.wait()
    ids = got()
    firsts = list(dict.fromkeys(ids))
    assert firsts == list(range(1, last + 1))
    if sink == "webhook":
        # Twice came only what was under way.
        assert len(ids) == last + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"event_webhook": "ftp://host/"}, "event_webhook is not an https URL"),
        ({"event_webhook": "http://example.org/hook"}, "event_webhook is not an https URL"),
        ({"event_webhook": "https://me:secret-word@host/"}, "event_webhook is not an https URL"),
        ({"event_webhook_secret": "secret-word"}, "needs an event_webhook"),
        ({"event_webhook": "https://host/", "event_webhook_secret": ""}, "secret is empty"),
        ({"event_webhook_batch": 0}, "event_webhook_batch"),
        ({"event_source": "two words"}, "event_source"),
        ({"event_retention": "0 s"}, "longer than nothing"),
    ],
)
def test_mistakes_in_the_settings_stop_the_server(
    settings: Mapping[str, object], message: str
) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        load_settings(settings)
    assert "secret-word" not in str(refused.value)


def test_the_settings_name_the_sinks(tmp_path: Path) -> None:
    assert sinks_of(load_settings({}), SYSTEM_RUNTIME) == []
    both = {
        "event_file": str(tmp_path / "events.jsonl"),
        "event_webhook": "https://host/hook?token=secret-word",
    }
    settings = load_settings(both)
    assert "secret-word" not in repr(settings)
    sinks = sinks_of(settings, SYSTEM_RUNTIME)
    assert [sink.name for sink in sinks] == ["file", "webhook"]
    for sink in sinks:
        sink.close()
    with pytest.raises(Invalid, match="cannot be written"):
        sinks_of(load_settings({"event_file": str(tmp_path)}), SYSTEM_RUNTIME)
