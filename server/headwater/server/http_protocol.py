"""HTTP as uvicorn speaks it, within limits, and with each answer sent at once.

uvicorn writes an answer's head and its body one after the other, and the event loop sends each by
itself: two calls into the kernel and two awakenings of the client, where one of each would do. And
it reads whatever a client sends, for as long as the client likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from headwater.server.connections import Connections
from headwater.server.date_header import DATE_HEADER, DateHeader
from headwater.server.errors import error_response

__all__ = ["COUNT_REFUSAL", "HttpProtocol"]

COUNT_REFUSAL = "count_refusal"
"""The key, in the application's lifespan state, of what counts a refusal by its status."""

# A body in chunks has at most so many bytes for each of its own, beside a head's worth of others.
_CHUNK_FACTOR = 9


class HttpProtocol(HttpToolsProtocol):
    """The protocol of one connection.

    Args:
        config: The server's.
        server_state: Likewise.
        app_state: Likewise.
        _loop: The event loop.
        connections: The connections of the process, with their limits.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._open = connections
        self._limits = connections.limits
        self.timeout_keep_alive = self._limits.idle_seconds  # type: ignore[assignment]
        self._timer: asyncio.TimerHandle | None = None
        # The bytes of the request that is being read, and those of them that are its body.
        self._received = self._body = 0
        self._is_in_head = True
        self._has_begun = False
        self._heads = self._ends = 0
        self._is_ending = False
        self._count_refusal: Callable[[int], None] | None = app_state.get(COUNT_REFUSAL)
        self._date: DateHeader | None = app_state.get(DATE_HEADER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, if the limits allow another connection."""
        self._joining = _Joining(transport, self._close)
        super().connection_made(self._joining)  # type: ignore[arg-type]
        if self._open.enter(self, self.client[0] if self.client else ""):
            self._expect()
        else:
            self._refuse(
                503,
                "the server has as many connections as it takes; close those that you do not "
                "need, or retry",
                {"retry-after": "1"},
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._is_ending = True
        self._open.leave(self)
        super().connection_lost(exc)
        self._stop_timer()
        # Without these the connection is a cycle of references, which holds its last request until
        # Python's collector runs.
        self.pipeline.clear()
        self.cycle = self.scope = None  # type: ignore[assignment]
        self._joining.release()

    def eof_received(self) -> None:
        """The client says no more; the connection closes when this returns, which sends no more."""
        self._joining.flush()

    def give_way(self) -> None:
        """Close, so that another connection can be taken."""
        self._is_ending = True
        self._end()

    def shutdown(self) -> None:
        """Close as soon as what was asked for is answered."""
        if self.cycle is None or self.cycle.response_complete:
            self.give_way()
        else:
            self.cycle.keep_alive = False

    def data_received(self, data: bytes) -> None:
        """Read what the client sent."""
        while data and not self._is_ending:
            # No more of a head than it may have: what the parser is given, it keeps.
            room = self._limits.head_bytes - self._received if self._is_in_head else len(data)
            part, data = data[:room], data[room:]
            heads, ends = self._heads, self._ends
            super().data_received(part)
            # What ended a head or a request in this part does not belong to what follows.
            if (self._heads, self._ends) == (heads, ends):
                self._received += len(part)
            self._check_size()
        if not self._is_ending:
            self._expect()

    def on_message_begin(self) -> None:
        """Begin to read a request."""
        self._has_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._heads += 1
        self._is_in_head = self._has_begun = False
        self._received = self._body = 0
        self._stop_timer()
        self._open.busy(self)
        if self._date is not None:
            # uvicorn's own date is the machine's, however wrong that is.
            self.server_state.default_headers = self._date.headers()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Read the next request, if there is one."""
        # The client has done its part: for the answer there is another limit.
        self._stop_timer()
        self._is_in_head = True
        self._ends += 1
        self._received = self._body = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Keep the connection for the next request."""
        if not self.pipeline:
            self._open.idle(self)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(400, "the request is not HTTP/1.1 that this server understands")

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing is asked for any more."""
        self.give_way()

    def _check_size(self) -> None:
        most = self._limits.head_bytes
        if self._is_in_head and self._received >= most:
            self._refuse(
                431,
                f"the URL and the headers of the request are larger than the {most} bytes that "
                "this server takes; see HEADWATER_MAX_HEADER_SIZE",
            )
        elif self._received > most + _CHUNK_FACTOR * self._body:
            self._refuse(431, "the request body has more beside its chunks than this server takes")

    def _expect(self) -> None:
        """Wait for the rest of a request, but not for ever."""
        if self._is_in_head:
            # All of it together; the pause before its first byte is uvicorn's matter.
            has_begun = self._has_begun or self._received > 0 or self._heads == 0
            if has_begun and self._timer is None:
                self._timer = self.loop.call_later(self._limits.head_seconds, self._lose_patience)
            return
        self._stop_timer()
        self._timer = self.loop.call_later(self._limits.head_seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        self._timer = None
        if not self._is_in_head and self.flow.read_paused:
            self._expect()  # the client waits for the server, not the other way round
        elif not self._has_begun if self._is_in_head else self.cycle.response_complete:
            self.give_way()  # there is nothing to answer, or it is answered
        else:
            self._refuse(408, "the request did not arrive in time; see HEADWATER_HEADER_TIMEOUT")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer with an error, unless another answer is under way, and close."""
        if self._is_ending or self._joining.is_closing():
            return
        self.logger.info("answered %s to %s: %s", status, self.client, message)
        if self._count_refusal is not None:
            self._count_refusal(status)
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and (self._is_in_head or self.cycle.response_started):
            # It goes out first, and the connection closes after it.
            self._is_ending = True
            self.cycle.keep_alive = False
            return
        if is_answering:
            self.cycle.disconnected = True  # for the application, which waits for more
            self.cycle.message_event.set()
        answer = error_response(status, message, headers={"connection": "close", **(headers or {})})
        lines = [b"%s: %s\r\n" % header for header in answer.raw_headers]
        self._joining.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", bytes(answer.body)]))
        self._linger()

    def _close(self) -> None:
        """Close once what was written is sent."""
        if self._is_in_head or self._is_ending:
            self._end()
        else:
            self._linger()

    def _linger(self) -> None:
        """Close when the client has seen the answer.

        A connection closed while the client still sends is reset, and the answer is lost with it:
        so what comes is read for a while, and forgotten.
        """
        self._is_ending = True
        self._stop_timer()
        if not self._open.linger(self):
            self._end()
            return
        self._joining.say_no_more()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(self._limits.head_seconds, self._joining.abort)

    def _end(self) -> None:
        self._open.leave(self)
        self._stop_timer()
        self._joining.end()
        # A client that does not read its answer does not keep the connection.
        self._timer = self.loop.call_later(self._limits.head_seconds, self._joining.abort)


class _Joining:
    """A transport that sends what is written in one turn of the event loop together.

    Args:
        transport: The transport underneath, which does all else.
        close: Called to close the connection.
    """

    __slots__ = ("_call_soon", "_is_ended", "_parts", "_transport", "close")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self._call_soon = asyncio.get_running_loop().call_soon
        self._parts: list[bytes] = []
        self._is_ended = False
        self.close = close

    def write(self, data: bytes) -> None:
        """Send some, when the event loop has done what it is at."""
        if self._is_ended:
            return
        if not self._parts:
            self._call_soon(self.flush)
        self._parts.append(data)

    def is_closing(self) -> bool:
        """True once nothing more is sent."""
        return self._is_ended or self._transport.is_closing()

    def say_no_more(self) -> None:
        """Send what was written and its end; the client may go on."""
        self.flush()
        self._is_ended = True
        if not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()

    def end(self) -> None:
        """Close when what was written is sent."""
        self.flush()
        self._is_ended = True
        self._transport.close()

    def flush(self) -> None:
        """Send what was written."""
        data, self._parts = b"".join(self._parts), []
        # The client may have gone meanwhile.
        if data and not self.is_closing():
            self._transport.write(data)

    def release(self) -> None:
        """Forget the protocol, whose connection has ended."""
        self.close = self._transport.close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
