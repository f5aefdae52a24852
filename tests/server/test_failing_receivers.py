"""A receiver of events that is slow, refuses, or breaks off: nothing is lost or held up."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests import plain_http
from tests.processes import serving

from headwater.server.settings import load_settings
from headwater.server.sinks import delivery, webhook_sink

# One of the processes that share the tests starts what servers are forked off.
pytestmark = pytest.mark.xdist_group("processes")

TAKEN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Answer = Callable[[int, Callable[[bytes], None]], None]


@dataclass
class Receiver:
    """A server that takes posts and answers as it is told to, byte by byte if need be.

    Attributes:
        port: Its port.
        answer: Answers a post, given its number from 0 on and what sends bytes; the connection is
            closed afterwards.
        ids: The events that were posted, in their order.
        came: Set whenever a post comes.
    """

    answer: Answer
    port: int = 0
    ids: list[int] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)

    @property
    def firsts(self) -> list[int]:
        """Each event at its first coming."""
        return list(dict.fromkeys(self.ids))


@contextmanager
def _receiving(receiver: Receiver) -> Iterator[Receiver]:
    numbers = count()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            told = json.loads(self.rfile.read(length))
            receiver.ids.append(int(told["id"]))
            receiver.came.set()
            with suppress(OSError):  # the server may have stopped waiting
                receiver.answer(next(numbers), self._send)

        def _send(self, data: bytes) -> None:
            self.wfile.write(data)
            self.wfile.flush()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _serve_impatiently(settings: dict[str, Any], patience: str) -> None:
    """Serve, with that patience, in seconds, and short waits between attempts."""
    from headwater.server.run import run

    webhook_sink._TIMEOUT_SECONDS = float(patience)
    delivery._IDLE_SECONDS = delivery._FIRST_RETRY_SECONDS = 0.02
    delivery._LAST_RETRY_SECONDS = 0.1
    run(load_settings(settings))


@contextmanager
def _server(tmp_path: Path, receiver: Receiver, patience: float = 120) -> Iterator[httpx.Client]:
    settings = {
        "port": 0,
        "database_url": f"sqlite:///{tmp_path}/headwater.db",
        "warehouses": {"main": str(tmp_path / "lake")},
        "event_webhook": f"http://127.0.0.1:{receiver.port}/",
        "event_file": str(tmp_path / "events.jsonl"),
    }
    with (
        serving(settings, _serve_impatiently, str(patience)) as address,
        plain_http.Client(base_url=address) as client,
    ):
        yield client


def _make_databases(client: httpx.Client, names: range) -> None:
    for number in names:
        answer = client.post("/v1/main/databases", json={"name": f"d{number}"})
        assert answer.status_code == 200


def _last(client: httpx.Client) -> int:
    path = "/management/v1/warehouses/main/events?limit=1000"
    return int(client.get(path).json()["nextAfter"])


def _metrics(client: httpx.Client) -> Mapping[tuple[str, str], float]:
    text = client.get("/metrics").text
    return {
        (sample.name.removeprefix("headwater_"), sample.labels.get("sink", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if is_so():
            return
        pause.wait(0.02)
    pytest.fail("it did not come to that")


def _all_come(client: httpx.Client, receiver: Receiver, tmp_path: Path) -> None:
    """Wait until both sinks have all events, in their order, and nothing is left."""
    _until(lambda: _metrics(client)["events_undelivered", "webhook"] == 0)
    # Only now: events get their numbers a moment after they are made.
    last = _last(client)
    assert receiver.firsts == list(range(1, last + 1))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [int(json.loads(line)["id"]) for line in lines] == list(range(1, last + 1))
    assert _metrics(client)["events_undelivered_oldest_seconds", "webhook"] == 0


@pytest.mark.parametrize("drips", [False, pytest.param(True, marks=pytest.mark.modes)])
def test_a_receiver_that_is_slow_and_recovers(tmp_path: Path, drips: bool) -> None:
    recovered = threading.Event()

    def answer(number: int, send: Callable[[bytes], None]) -> None:
        if recovered.is_set():
            send(TAKEN)
            return
        if drips:
            # Each byte comes before the patience for one is at its end.
            send(b"HTTP/1.1 200 OK\r\nx: ")
            while not recovered.wait(0.05):
                send(b"x")
        recovered.wait()

    with _receiving(Receiver(answer)) as receiver, _server(tmp_path, receiver, 0.3) as client:
        receiver.came.wait()
        # The receiver has answered nothing yet: these do not wait for it.
        _make_databases(client, range(10))
        _until(lambda: len(receiver.ids) >= 3 and _last(client) == 11)
        found = _metrics(client)
        assert set(receiver.ids) == {1}
        assert found["events_undelivered", "webhook"] == 11
        assert found["events_undelivered_oldest_seconds", "webhook"] > 0
        assert found["event_delivery_failures_total", "webhook"] >= 1
        # It holds up its own events and nothing else.
        _until(lambda: _metrics(client)["events_undelivered", "file"] == 0)
        recovered.set()
        _all_come(client, receiver, tmp_path)


def test_a_receiver_that_refuses_for_ever(tmp_path: Path) -> None:
    status = [b"400 Bad Request"]

    def answer(number: int, send: Callable[[bytes], None]) -> None:
        send(b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % status[0])

    with _receiving(Receiver(answer)) as receiver, _server(tmp_path, receiver) as client:
        for number, line in enumerate((b"400 Bad Request", b"403 Forbidden", b"410 Gone")):
            status[0] = line
            _make_databases(client, range(3 * number, 3 * number + 3))
            tried = len(receiver.ids)
            _until(lambda tried=tried: len(receiver.ids) > tried + 2)  # type: ignore[misc]
        assert set(receiver.ids) == {1}
        assert _metrics(client)["events_undelivered", "webhook"] == 10
        assert ("events_delivered_total", "webhook") not in _metrics(client)
        # Somebody has put it right.
        status[0] = b"204 No Content"
        _all_come(client, receiver, tmp_path)


def test_a_receiver_that_breaks_off(tmp_path: Path) -> None:
    parts = [
        b"",
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        # The status is there, and with it the events.
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf",
        b"HTTP/1.1 500 Oops\r\ncontent-length: 100\r\n\r\nhalf",
        b"no HTTP at all\r\n\r\n",
    ]

    def answer(number: int, send: Callable[[bytes], None]) -> None:
        send(parts[number] if number < len(parts) else TAKEN)

    with _receiving(Receiver(answer)) as receiver, _server(tmp_path, receiver) as client:
        _make_databases(client, range(5))
        _all_come(client, receiver, tmp_path)
    # Three answers without a status, two with one, and two that are no success.
    assert receiver.ids == [1, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6]
