"""Requests to a REST catalog, and their repetition."""

from __future__ import annotations

import re
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
_LONGEST_WAIT = 30.0
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
    """The times to wait for a server, in seconds.

    Attributes:
        connect: For a connection.
        read: For an answer.
    """

    connect: float = 10.0
    read: float = 180.0


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
        return min(retry_after, _LONGEST_WAIT)
    return min(0.1 * 2.0 ** (attempt - 1), _LONGEST_WAIT)


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

    Raises:
        Invalid: A header cannot be sent.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeouts: Timeouts
    retries: int
    runtime: Runtime
    server_clock: ServerClock
    _client: httpx.Client | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

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
        self._client, self._lock = None, Lock()

    def close(self) -> None:
        """Give back the connections; the next request makes new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                address = urlsplit(self.url)
                # Reading the certificates that are trusted takes longer than most requests. Without
                # encryption nothing asks for them, and none is trusted.
                is_plain = address.scheme == "http"
                self._client = httpx.Client(
                    verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
                    # A proxy for the world outside does not lead to this machine.
                    trust_env=address.hostname not in ("localhost", "127.0.0.1", "::1"),
                )
            return self._client

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

        It is repeated, as long as no answer has begun, where the server is out of reach or answers
        429 or 503.

        Raises:
            HeadwaterError: The answer is an error.
            Unavailable: The server cannot be reached, or did not answer.
        """
        attempt = 1
        while True:
            retry_after: float | None = None
            try:
                found = self._begin_stream(path, body, headers or {})
            except Unavailable:
                if attempt > self.retries:
                    raise
            else:
                if isinstance(found, ByteStream):
                    return found
                if found.status not in _TRY_AGAIN or attempt > self.retries:
                    raise found.error()
                retry_after = found.retry_after
            self.runtime.sleep(seconds_to_wait(attempt, retry_after))
            attempt += 1

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
    ) -> Answer:
        """Send a request, and repeat it where that does no harm.

        It is repeated when the server is out of reach or answers 429 or 503. After a lost answer,
        only GET and DELETE are; a DELETE that then finds nothing has done its work. A server that
        did not even take the connection in time is not asked again.
        """
        is_idempotent = method in ("GET", "DELETE")
        was_lost = False
        attempt = 1
        while True:
            retry_after: float | None = None
            try:
                answer = self.send(method, path, params=params, body=body, headers=headers)
            except Unavailable as error:
                is_lost = isinstance(error, OutcomeUnknown)
                is_slow = isinstance(error.__cause__, httpx.ConnectTimeout | httpx.PoolTimeout)
                if attempt > self.retries or is_slow or (is_lost and not is_idempotent):
                    if method == "GET" and is_lost:
                        # What only reads has no outcome.
                        raise Unavailable(error.message) from error
                    raise
                was_lost = was_lost or is_lost
            else:
                if was_lost and method == "DELETE" and answer.status == HTTPStatus.NOT_FOUND:
                    return Answer(HTTPStatus.OK, "{}", {}, answer.request)
                if answer.status not in _TRY_AGAIN or attempt > self.retries:
                    return answer
                retry_after = answer.retry_after
            self.runtime.sleep(seconds_to_wait(attempt, retry_after))
            attempt += 1


def _trace_context() -> Mapping[str, str]:
    """The headers that make the request a part of the caller's trace.

    There are none unless the program uses OpenTelemetry and has a current span; it is not imported
    for this.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
