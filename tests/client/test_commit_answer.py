"""Which of the four answers to a commit each thing is that can happen to its request."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread

import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.client.rest import RestCatalog
from headwater.client.transport import Timeouts
from headwater.storage.errors import (
    Conflict,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, Fate

TABLE = Identifier("sales", "orders")
MakeSnapshot = Callable[..., Snapshot]
Behave = Callable[[socket.socket], None]

_CONFIG = b'{"defaults": {}, "overrides": {"prefix": "main"}}'


def _answer(status: int, body: bytes = b"", *headers: str) -> Behave:
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", "connection: close", *headers]
    return lambda client: client.sendall("\r\n".join([*lines, "", ""]).encode() + body)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _reset_within_the_answer(client: socket.socket) -> None:
    client.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{"success"')
    _reset(client)


def _stay_silent(client: socket.socket) -> None:
    with suppress(OSError):
        client.recv(1)


def _hang_up(client: socket.socket) -> None:
    return None


class RawServer:
    """Speaks so little HTTP that everything else can be said at its socket.

    It answers for the configuration, and behaves as told when anything else is sent.
    """

    def __init__(self) -> None:
        self.behave: Behave = _hang_up
        self.read_whole = True
        self.commits = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(1 << 16)
                if not data:
                    return
                head += data
            head, _, body = head.partition(b"\r\n\r\n")
            if b"GET /v1/config" in head:
                _answer(200, _CONFIG)(client)
                return
            self.commits += 1
            lengths = [line for line in head.lower().split(b"\r\n") if b"content-length" in line]
            length = int(lengths[0].split(b":")[1]) if lengths else 0
            while self.read_whole and len(body) < length:
                body += client.recv(1 << 16)
            self.behave(client)


@pytest.fixture
def server() -> Iterator[RawServer]:
    with closing(RawServer()) as server:
        yield server


@pytest.fixture
def catalog(server: RawServer) -> Iterator[RestCatalog]:
    with _connected(server) as client:
        yield client


@contextmanager
def _connected(server: RawServer, timeouts: Timeouts | None = None) -> Iterator[RestCatalog]:
    client = RestCatalog(f"http://{server.address}", timeouts=timeouts, retries=0)
    client.connect()
    with closing(client):
        yield client


def _commit(catalog: RestCatalog, snapshot: Snapshot) -> CommitAnswer:
    return catalog.snapshots.commit(TABLE, None, snapshot, None, [])


def _error(code: int) -> bytes:
    return b'{"message": "m", "resourceType": null, "resourceName": null, "code": %d}' % code


@pytest.mark.parametrize(
    ("behave", "fate"),
    [
        pytest.param(_answer(200, b'{"success": true}'), Fate.TAKEN, id="taken"),
        pytest.param(_answer(200, b'{"success": false}'), Fate.REFUSED, id="refused"),
        pytest.param(_answer(200, b"<html>"), Fate.UNKNOWN, id="another page"),
        pytest.param(_answer(204), Fate.UNKNOWN, id="nothing said"),
        pytest.param(
            _answer(200, b"no", "content-encoding: gzip"), Fate.UNKNOWN, id="not to be read"
        ),
        pytest.param(_answer(302, b"", "location: /login"), Fate.UNKNOWN, id="elsewhere"),
        pytest.param(_answer(408), Fate.UNKNOWN, id="408 of a proxy"),
        pytest.param(_answer(429, _error(429)), Fate.NOT_SENT, id="429"),
        pytest.param(_answer(500, _error(500)), Fate.UNKNOWN, id="500"),
        pytest.param(_answer(502, b"<html>"), Fate.UNKNOWN, id="502 of a proxy"),
        pytest.param(_answer(503, _error(503)), Fate.UNKNOWN, id="503"),
        pytest.param(_answer(504), Fate.UNKNOWN, id="504"),
        pytest.param(_answer(404, _error(500)), Fate.UNKNOWN, id="500 in a 404"),
        pytest.param(_hang_up, Fate.UNKNOWN, id="hung up"),
        pytest.param(_reset, Fate.UNKNOWN, id="reset"),
        pytest.param(_reset_within_the_answer, Fate.UNKNOWN, id="reset within the answer"),
    ],
)
def test_an_answer_is_one_of_four(
    server: RawServer,
    catalog: RestCatalog,
    make_snapshot: MakeSnapshot,
    behave: Behave,
    fate: Fate,
) -> None:
    server.behave = behave
    answer = _commit(catalog, make_snapshot(1))
    assert answer.fate is fate
    assert server.commits == 1
    kinds = {Fate.NOT_SENT: Unavailable, Fate.UNKNOWN: OutcomeUnknown}
    assert (None if answer.problem is None else type(answer.problem)) == kinds.get(fate)


def test_an_answer_that_does_not_come_in_time_is_unknown(
    server: RawServer, make_snapshot: MakeSnapshot
) -> None:
    server.behave = _stay_silent
    with _connected(server, Timeouts(read=1)) as impatient:
        answer = _commit(impatient, make_snapshot(1))
    assert (answer.fate, type(answer.problem)) == (Fate.UNKNOWN, OutcomeUnknown)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (401, Forbidden), (403, Forbidden), (404, NotFound), (409, Conflict),
     (501, Unsupported)],
)  # fmt: skip
def test_a_refusal_is_raised(
    server: RawServer,
    catalog: RestCatalog,
    make_snapshot: MakeSnapshot,
    status: int,
    kind: type[HeadwaterError],
) -> None:
    server.behave = _answer(status, _error(status))
    with pytest.raises(kind):
        _commit(catalog, make_snapshot(1))


def test_a_body_that_is_too_large_for_a_proxy_was_not_looked_at(
    server: RawServer, catalog: RestCatalog, make_snapshot: MakeSnapshot
) -> None:
    server.behave = _answer(413, b"<html>")
    with pytest.raises(Unavailable) as error:
        _commit(catalog, make_snapshot(1))
    assert not isinstance(error.value, OutcomeUnknown)


def test_a_request_that_breaks_off_while_it_is_sent_may_have_been_read(
    server: RawServer, catalog: RestCatalog, make_snapshot: MakeSnapshot
) -> None:
    server.read_whole, server.behave = False, _reset
    large = make_snapshot(1, properties={"note": "x" * 30_000_000})
    assert _commit(catalog, large).fate is Fate.UNKNOWN


def test_a_server_that_is_gone_was_sent_nothing(
    server: RawServer, catalog: RestCatalog, make_snapshot: MakeSnapshot
) -> None:
    server.close()
    answer = _commit(catalog, make_snapshot(1))
    assert answer.fate is Fate.NOT_SENT
    assert type(answer.problem) is Unavailable


@pytest.mark.parametrize("url", ["http://nobody.invalid:8080", "https://{address}"])
def test_without_a_name_or_encryption_nothing_is_sent(
    server: RawServer, make_snapshot: MakeSnapshot, url: str
) -> None:
    # The server waits for a request, and the client for the beginning of the encryption.
    briefly = Timeouts(connect=0.5)
    lost = RestCatalog(url.format(address=server.address), retries=0, timeouts=briefly)
    assert _commit(lost, make_snapshot(1)).fate is Fate.NOT_SENT
    assert server.commits == 0


def test_four_answers_are_not_two() -> None:
    with pytest.raises(TypeError, match="one of four"):
        bool(CommitAnswer.of(True))
