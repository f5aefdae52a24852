"""Requests to a REST catalog, and their repetition."""

from __future__ import annotations

import re
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from http import HTTPStatus
from threading import Lock
from urllib.parse import quote_plus, urlsplit

import httpx
from pydantic import BaseModel

from headwater.client.answers import Answer, ByteStream, reason_of
from headwater.client.server_clock import ServerClock
from headwater.storage.errors import Invalid, OutcomeUnknown, Unavailable
from headwater.storage.runtime import Runtime

__all__ = ["Timeouts", "Transport", "encode_path", "seconds_to_wait"]

_HEADER_VALUE = re.compile(r"([!-~]+([ \t]+[!-~]+)*)?")

# A request that was answered so was not done, as far as Paimon's clients are concerned.
_TRY_AGAIN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
# A proxy answers so while the server behind it is down; what was sent may have been done.
_OF_PROXIES = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
_MAX_WAIT = 30.0
# How long to wait at most, in seconds, before looking for a server that was out of reach.
_MAX_OUTAGE_WAIT = 2.0
# Errors that come before the first byte of a request is sent: no address for the name, nobody
# there, no encryption agreed upon, a proxy that would not let through. All others come after it.
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)


@dataclass(frozen=True)
class Timeouts:
    """How long to wait for a server, in seconds.

    Attributes:
        connect: For a connection.
        read: For a response.
        outage: How long a request is repeated while the server cannot be reached, after four
            repetitions within 1.5 s. With None the first request, by which a program connects, is
            not repeated after these; later ones are repeated for 5 s. A table's requests wait for
            its option ``commit.timeout`` instead, if that is set.
    """

    connect: float = 10.0
    read: float = 180.0
    outage: float | None = None


def encode_path(*segments: str) -> str:
    """Segments of a path, form-encoded as Paimon's Java client does it, and joined."""
    return "/".join(_encode_segment(segment) for segment in segments)


def _encode_segment(segment: str) -> str:
    # Dots alone would lead elsewhere: what is between takes such segments out.
    is_dots = segment in (".", "..")
    return "%2E" * len(segment) if is_dots else quote_plus(segment, safe="")


def seconds_to_wait(attempt: int, retry_after: float | None = None) -> float:
    """The wait before an attempt is repeated: longer each time, or as the server says.

    Args:
        attempt: The number of attempts made, from 1.
        retry_after: The seconds that the server asks for.
    """
    if retry_after is not None:
        return min(retry_after, _MAX_WAIT)
    return min(0.1 * 2.0 ** (attempt - 1), _MAX_WAIT)


class _Repetition:
    """Decides whether one request is repeated, and waits before that.

    Args:
        transport: Sends the request.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._began = transport.runtime.monotonic()
        self._end: float | None = None
        self._failed = 0

    @property
    def is_patient(self) -> bool:
        """Whether it is repeated for some time, and not only a few times."""
        return self._transport.patience > 0

    def after_failure(self, *, was_sent: bool, is_slow: bool = False) -> bool:
        """Wait after an attempt without a usable response; False if the request is not repeated."""
        left = self._seconds_left(was_sent)
        if self._failed <= self._transport.retries and not is_slow:
            return self._wait(seconds_to_wait(self._failed))
        return left > 0 and self._wait(min(seconds_to_wait(self._failed), _MAX_OUTAGE_WAIT, left))

    def after_busy(self, retry_after: float | None) -> bool:
        """Wait as the server asks for; False if the request is not repeated."""
        left = self._seconds_left(was_sent=True)
        seconds = seconds_to_wait(self._failed, retry_after)
        if self._failed <= self._transport.retries:
            return self._wait(seconds)
        return left > 0 and self._wait(min(seconds, left))

    def _seconds_left(self, was_sent: bool) -> float:
        """Count a failed attempt; how long the patience lasts from now on.

        It is counted from the first attempt without a response: from its beginning if nothing was
        sent, as a connection takes long to fail where packets are dropped.
        """
        self._failed += 1
        now = self._transport.runtime.monotonic()
        if self._end is None:
            self._end = (now if was_sent else self._began) + self._transport.patience
        return self._end - now

    def _wait(self, seconds: float) -> bool:
        self._transport.runtime.sleep(seconds)
        return True


class _Connections:
    """The connections to one server, which the copies of a transport share."""

    def __init__(self) -> None:
        self._client: httpx.Client | None = None
        self._lock = Lock()

    def client(self, url: str) -> httpx.Client:
        """The client with the connections to a server, made on first use."""
        with self._lock:
            if self._client is None:
                address = urlsplit(url)
                # Reading the certificates that are trusted takes longer than most requests. Without
                # encryption nothing asks for them, and none is trusted.
                is_plain = address.scheme == "http"
                self._client = httpx.Client(
                    verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
                    # A proxy for the world outside does not lead to this machine.
                    trust_env=address.hostname not in ("localhost", "127.0.0.1", "::1"),
                )
            return self._client

    def close(self) -> None:
        """Give back the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


@dataclass
class Transport:
    """Sends requests to one server; it pickles, and connects again where it is unpickled.

    Attributes:
        url: The server's address, without a slash at the end.
        headers: Sent with every request; hold the token.
        timeouts: The timeouts for connecting and reading.
        retries: The number of retries when the server asks for one or is out of reach.
        runtime: Waits between attempts.
        server_clock: Notes the times that answers tell.
        patience: How long a request is repeated while the server cannot be reached, in seconds,
            after the `retries`.

    Raises:
        Invalid: A header cannot be sent.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeouts: Timeouts
    retries: int
    runtime: Runtime
    server_clock: ServerClock
    patience: float = 0.0
    _connections: _Connections = field(default_factory=_Connections, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be sent, without saying it: it may be a secret."""
        for name, value in self.headers.items():
            if not _HEADER_VALUE.fullmatch(value):
                what = "the token" if name == "authorization" else f"the header '{name}'"
                raise Invalid(f"{what} must be text of visible ASCII characters in one line")

    def __getstate__(self) -> dict[str, object]:
        """All but the connections."""
        kept = {each.name for each in fields(self) if each.init}
        return {name: value for name, value in self.__dict__.items() if name in kept}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """As new."""
        self.__dict__.update(state)
        self._connections = _Connections()

    def patient(self, seconds: float) -> Transport:
        """The same with another patience, over the same connections."""
        return self._over_same_connections(replace(self, patience=seconds))

    def once(self) -> Transport:
        """The same without any repetition, over the same connections."""
        return self._over_same_connections(replace(self, patience=0.0, retries=0))

    def _over_same_connections(self, other: Transport) -> Transport:
        other._connections = self._connections
        return other

    def close(self) -> None:
        """Give back the connections; the next request makes new ones."""
        self._connections.close()

    def _connected(self) -> httpx.Client:
        return self._connections.client(self.url)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: BaseModel | None = None,
        headers: Mapping[str, str] | None = None,
        read_seconds: float | None = None,
    ) -> Answer:
        """Send a request once, without repeating it.

        Args:
            method: The method.
            path: The path.
            params: Of the query.
            body: Sent as JSON.
            headers: Sent with this request alone.
            read_seconds: The longest time to wait for the answer, if not that of `timeouts`.

        Raises:
            OutcomeUnknown: It was sent and no answer came.
            Unavailable: The server cannot be reached; nothing was sent.
        """
        request = f"{method} {self.url}{path}"
        content = None if body is None else body.model_dump_json().encode()
        timeouts = self.timeouts
        read = timeouts.read if read_seconds is None else min(timeouts.read, read_seconds)
        try:
            response = self._connected().request(
                method,
                self.url + path,
                params=params or None,
                content=content,
                headers={
                    "content-type": "application/json",
                    **_trace_context(),
                    **(headers or {}),
                    **self.headers,
                },
                timeout=httpx.Timeout(read, connect=timeouts.connect),
            )
        except _NOT_SENT as error:
            raise Unavailable(
                f"the catalog at {self.url} cannot be reached ({reason_of(error)}); "
                "check the address, and that the server runs"
            ) from error
        except httpx.RequestError as error:
            raise OutcomeUnknown(
                f"{request} was sent, but its answer was lost ({reason_of(error)})"
            ) from error
        except httpx.InvalidURL as error:
            raise Invalid(f"'{self.url}' is not the address of a catalog: {error}") from error
        self.server_clock.note(response.headers.get("date"))
        return Answer(response.status_code, response.text, response.headers, request)

    def stream(
        self, path: str, body: BaseModel, headers: Mapping[str, str] | None = None
    ) -> ByteStream:
        """Post what only reads, and get the answer's body as it comes.

        It is repeated like other reads, as long as no response has begun.

        Raises:
            HeadwaterError: The answer is an error.
            Unavailable: The server cannot be reached, or did not answer.
        """
        repetition = _Repetition(self)
        while True:
            try:
                response = self._begin_stream(path, body, headers or {})
            except Unavailable as error:
                was_sent = not isinstance(error.__cause__, _NOT_SENT)
                if not repetition.after_failure(was_sent=was_sent):
                    raise
            else:
                if isinstance(response, ByteStream):
                    return response
                if not _waits_after(response, repetition, is_repeatable=True):
                    raise response.error()

    def _begin_stream(
        self, path: str, body: BaseModel, headers: Mapping[str, str]
    ) -> ByteStream | Answer:
        request = f"POST {self.url}{path}"
        client = self._connected()
        timeouts = httpx.Timeout(self.timeouts.read, connect=self.timeouts.connect)
        try:
            response = client.send(
                client.build_request(
                    "POST",
                    self.url + path,
                    content=body.model_dump_json(by_alias=True).encode(),
                    headers={
                        "content-type": "application/json",
                        # What is compressed cannot be read before its end is there.
                        "accept-encoding": "identity",
                        **headers,
                        **self.headers,
                    },
                    timeout=timeouts,
                ),
                stream=True,
            )
            if response.status_code == HTTPStatus.OK:
                return ByteStream(response)
            try:
                response.read()
            finally:
                response.close()
        except httpx.RequestError as error:
            raise Unavailable(
                f"the catalog at {self.url} did not answer {request} ({reason_of(error)}); "
                "check the address, and that the server runs"
            ) from error
        return Answer(response.status_code, response.text, response.headers, request)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: BaseModel | None = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
    ) -> Answer:
        """Send a request, and repeat it where that does no harm.

        It is repeated while the server is out of reach or answers 429 or 503, as long as the
        patience lasts. After a lost answer, or the 502 or 504 of a proxy, only GET and DELETE are;
        a DELETE that then finds nothing has done its work. Without a patience, a server that did
        not even take the connection in time is not asked again.

        Args:
            method: The method.
            path: The path.
            params: Of the query.
            body: Sent as JSON.
            is_repeatable: Whether it does no harm to send it again after a lost response, though
                it is a POST.
        """
        is_repeatable = is_repeatable or method in ("GET", "DELETE")
        repetition = _Repetition(self)
        was_lost = False
        while True:
            try:
                answer = self.send(method, path, params=params, body=body, headers=headers)
            except Unavailable as error:
                is_lost = isinstance(error, OutcomeUnknown)
                is_slow = isinstance(error.__cause__, httpx.ConnectTimeout | httpx.PoolTimeout)
                if (is_lost and not is_repeatable) or not repetition.after_failure(
                    was_sent=is_lost, is_slow=is_slow
                ):
                    if method == "GET" and is_lost:
                        # What only reads has no outcome.
                        raise Unavailable(error.message) from error
                    raise
                was_lost = was_lost or is_lost
            else:
                if was_lost and method == "DELETE" and answer.status == HTTPStatus.NOT_FOUND:
                    return Answer(HTTPStatus.OK, "{}", {}, answer.request)
                if not _waits_after(answer, repetition, is_repeatable=is_repeatable):
                    return answer


def _waits_after(answer: Answer, repetition: _Repetition, *, is_repeatable: bool) -> bool:
    """Wait if a response means that the request is sent again; False if it is the final one."""
    if answer.status in _TRY_AGAIN:
        return repetition.after_busy(answer.retry_after)
    if answer.status in _OF_PROXIES and is_repeatable and repetition.is_patient:
        return repetition.after_failure(was_sent=True)
    return False


def _trace_context() -> Mapping[str, str]:
    """The headers that make the request a part of the caller's trace.

    They are empty unless the program uses OpenTelemetry and has a current span; it is not imported
    for this.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
