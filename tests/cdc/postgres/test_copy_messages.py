"""Messages of a copy as they come through a socket, in whatever parts."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.cdc.postgres.copy_messages import (
    CHUNK_BYTES,
    HEAD_BYTES,
    ServerFailure,
    SocketMessages,
    message_ends,
)
from headwater.storage.errors import CorruptData

COMMAND = "START_REPLICATION"
BEGUN = b"W" + struct.pack(">IbH", 7, 0, 0)


def message(content: bytes, kind: bytes = b"d") -> bytes:
    return kind + struct.pack(">I", len(content) + 4) + content


def error(**fields: str) -> bytes:
    texts = [f"{code}{text}".encode() + b"\0" for code, text in fields.items()]
    return message(b"".join(texts) + b"\0", b"E")


# Of bytes that messages begin with, also of others within them.
TRICKY = st.lists(
    st.sampled_from([b"d", b"w", b"k", b"\0", b"\5", b"a", message(b"w"), message(b"k")[:7]]),
    max_size=12,
).map(b"".join)
CONTENTS = st.tuples(st.sampled_from([b"w", b"k"]), TRICKY).map(b"".join)
LONG = b"w" + message(b"w" * 40) * (CHUNK_BYTES // 40)


@dataclass
class Server:
    """The other end of a socket that messages are read from."""

    socket: socket.socket
    messages: SocketMessages
    taken: list[bytes] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        """Send bytes; what comes is taken while the socket is full."""
        self.socket.setblocking(False)
        while data:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                self.take()

    def take(self) -> None:
        """Take what has come."""
        while (chunk := self.messages.take()) is not None:
            ends = [0, *chunk.ends.tolist()]
            assert len(chunk.data) >= ends[-1] + 64
            for start, end in pairwise(ends):
                data = bytes(chunk.data[start:end])
                assert data[:HEAD_BYTES] == message(data[HEAD_BYTES:])[:HEAD_BYTES]
                self.taken.append(data[HEAD_BYTES:])


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that has begun to copy."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        server = begun(theirs, ours)
        yield server
        server.messages.close()


def begun(theirs: socket.socket, ours: socket.socket, answer: bytes = BEGUN) -> Server:
    theirs.sendall(answer)
    messages = SocketMessages(ours.fileno(), COMMAND, "the test")
    assert theirs.recv(1000) == message(COMMAND.encode() + b"\0", b"Q")
    return Server(theirs, messages)


def cut(data: bytes, places: Sequence[int]) -> Iterator[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    for start, end in pairwise(bounds):
        yield data[start:end]


@given(st.lists(CONTENTS, min_size=1, max_size=20), st.integers(0, 40))
@example([b"w" + message(b"w")[:-1] + b"d", b"w"], 0)
@example([b"w"] * 100_000, 3)
def test_ends_of_messages(contents: list[bytes], missing: int) -> None:
    messages = [message(content) for content in contents]
    ends = np.cumsum([len(each) for each in messages]).tolist()
    data = np.frombuffer(b"".join(messages) + bytes(64), np.uint8)
    size = max(ends[0], ends[-1] - missing)
    assert message_ends(data, size).tolist() == [end for end in ends if end <= size]


def test_messages_of_a_copy_end_where_others_follow() -> None:
    data = message(b"w1") + message(b"k2") + message(b"", b"c") + message(b"w3")
    ends = message_ends(np.frombuffer(data + bytes(64), np.uint8), len(data))
    assert ends.tolist() == [7, 14]


@given(st.lists(CONTENTS, max_size=12), st.lists(st.integers(0, 10**6), max_size=12))
@example([b"w", LONG, b"k", LONG + b"d", b"w"], [9, 100, CHUNK_BYTES, CHUNK_BYTES + 7])
@example([b"w" * (CHUNK_BYTES - 6), b"w"], [])
@example([b"w" * (3 * CHUNK_BYTES)] * 3 + [b"k"], [3 * CHUNK_BYTES + 2])
@example([b"w" + b"d" * 60_000] * 200, [])
def test_messages_come_as_they_were_sent(contents: list[bytes], places: list[int]) -> None:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        server = begun(theirs, ours)
        for part in cut(b"".join(map(message, contents)), places):
            server.send(part)
            server.take()
        assert server.taken == contents
        assert not server.messages.has_more
        server.messages.close()


@pytest.mark.parametrize("kind", [b"d", b"N"])
def test_a_long_message_leaves_no_long_buffer(server: Server, kind: bytes) -> None:
    server.send(message(b"w" * (20 * CHUNK_BYTES), kind) + message(b"w1"))
    while server.taken[-1:] != [b"w1"]:
        server.take()
    # It takes most of a buffer, unless that is longer.
    server.send(message(b"w" * (CHUNK_BYTES // 4 * 3)))
    chunk = server.messages.take()
    assert chunk is not None
    assert isinstance(chunk.data, memoryview)
    assert memoryview(chunk.data.obj).nbytes < 2 * CHUNK_BYTES


def test_few_messages_do_not_keep_the_whole_buffer(server: Server) -> None:
    server.send(message(b"w1"))
    chunk = server.messages.take()
    assert chunk is not None
    assert isinstance(chunk.data, bytes)


def test_what_comes_between_messages_is_passed_over(server: Server) -> None:
    notice, setting = message(b"SNOTICE\0\0", b"N"), message(b"name\0value\0", b"S")
    server.send(message(b"w1") + notice + setting + message(b"w2"))
    assert server.messages.take() is not None
    assert server.messages.has_more
    server.take()
    assert server.taken == [b"w2"]


@pytest.mark.parametrize("kind", [b"c", b"C"])
def test_the_server_ends_the_copy(server: Server, kind: bytes) -> None:
    server.send(message(b"w1") + message(b"", kind))
    server.take()
    assert server.taken == [b"w1"]
    assert server.messages.ended
    server.socket.close()
    assert server.messages.take() is None


def test_an_error_of_the_server(server: Server) -> None:
    server.send(message(b"w1") + error(S="FATAL", C="57P01", M="terminating", D="by a user"))
    server.socket.close()
    with pytest.raises(ServerFailure) as failure:
        server.take()
    assert server.taken == [b"w1"]
    assert (failure.value.state, failure.value.text) == ("57P01", "terminating: by a user")


@pytest.mark.parametrize("rest", [b"", b"d", message(b"w" * 100)[:50]])
def test_a_lost_connection(server: Server, rest: bytes) -> None:
    server.send(message(b"w1") + rest)
    server.socket.close()
    with pytest.raises(ServerFailure, match="the server closed the connection") as failure:
        server.take()
    assert failure.value.state is None
    assert server.taken == [b"w1"]


def test_a_lost_connection_is_noticed_when_something_is_sent(server: Server) -> None:
    server.send(message(b"w1") + error(S="FATAL", C="57P01", M="terminating"))
    server.socket.close()
    # The reason is read first.
    server.messages.send(b"r")
    server.messages.send(b"r")
    with pytest.raises(ServerFailure, match="terminating"):
        server.take()
    assert server.taken == [b"w1"]


@pytest.mark.parametrize(
    "data", [message(b"", b"?"), b"d\0\0\0\3", b"d\xff\xff\xff\xff", b"HTTP/1.1 400"]
)
def test_what_is_not_a_message_is_refused(server: Server, data: bytes) -> None:
    server.send(message(b"w1") + data)
    with pytest.raises(CorruptData, match=r"the test sent .* where a message of its log begins"):
        server.take()
    assert server.taken == [b"w1"]


def test_messages_are_sent_when_the_server_takes_them(server: Server) -> None:
    sent = [bytes([number]) * 10_000 for number in range(100)]
    for content in sent:
        server.messages.send(content)
    expected, received = b"".join(map(message, sent)), b""
    server.socket.settimeout(10)
    while len(received) < len(expected):
        received += server.socket.recv(1 << 16)
        server.messages.take()
    assert received == expected


@pytest.mark.parametrize(
    ("answer", "state", "text"),
    [
        (error(S="ERROR", C="42704", M="slot does not exist"), "42704", "slot does not exist"),
        (b"HTTP/1.1 400 Bad Request", None, "where a message of its log begins"),
        (b"", None, "closed the connection"),
    ],
)
def test_a_copy_that_does_not_begin(answer: bytes, state: str | None, text: str) -> None:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ServerFailure, match=text) as failure:
            SocketMessages(ours.fileno(), COMMAND, "the test")
        assert failure.value.state == state


def test_messages_may_come_with_the_answer() -> None:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        server = begun(theirs, ours, message(b"SNOTICE\0\0", b"N") + BEGUN + message(b"w1"))
        assert server.messages.has_more
        server.take()
        assert server.taken == [b"w1"]
        server.messages.close()
