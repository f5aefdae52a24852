"""Requests to a Paimon REST server: the handshake, the paths of its warehouse, typed answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.tables import TABLE_ID, TABLE_ID_HEADER, ConfigResponse, Empty
from headwater.client.answers import ByteStream
from headwater.client.server_clock import ServerClock
from headwater.client.transport import Timeouts, Transport, encode_path
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.runtime import Runtime

__all__ = [
    "DATA_TOKENS",
    "HEADER_PREFIX",
    "TABLE_DEFAULT_PREFIX",
    "Handshake",
    "Requests",
    "paging",
    "table_headers",
    "table_path",
    "without_prefix",
]

HEADER_PREFIX = "header."
TABLE_DEFAULT_PREFIX = "table-default."
# Set by a server that hands out data tokens.
DATA_TOKENS = "data-token.enabled"

# What is asked once more while another answer is missing is not waited for as long as that was.
_ONCE_SECONDS = 10.0

_TABLE_ID = re.compile(TABLE_ID)

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class Handshake:
    """The server's configuration and the caller's options, merged.

    Attributes:
        prefix: The prefix of every path.
        options: The merged options.
        transport: Sends the headers that the options ask for.
    """

    prefix: str
    options: Mapping[str, str]
    transport: Transport


class Requests:
    """Speaks to a server, on first use and no sooner; pickles without its connections.

    Args:
        url: The server's address, with ``http://`` or ``https://``.
        warehouse: The warehouse's name; a server with one warehouse needs none.
        token: The bearer token.
        options: The caller's own options; ``header.*`` become request headers.
        timeouts: The timeouts for the server.
        retries: The number of retries when the server asks for one or is out of reach.
        runtime: Clock and names.

    Raises:
        Invalid: The address is not one.
    """

    def __init__(
        self,
        url: str,
        *,
        warehouse: str | None,
        token: str | None,
        options: Mapping[str, str] | None,
        timeouts: Timeouts | None,
        retries: int,
        runtime: Runtime,
    ) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise Invalid(f"'{url}' is not the address of a catalog: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f"'{url}' is not the address of a catalog; write http://host:port")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise Invalid(
                f"the catalog's address must be no more than {parts.scheme}://host:port/path; "
                "give a token as token="
            )
        self.url = url.rstrip("/")
        self.asked_for = warehouse
        # Its own: it is compared with this server's alone.
        clock = runtime.new_clock()
        self.runtime = runtime.with_clock(clock)
        self._own = dict(options or {})
        self._authorization = {} if token is None else {"authorization": f"Bearer {token}"}
        self._transport = Transport(
            self.url,
            {**_headers(self._own), **self._authorization},
            timeouts or Timeouts(),
            retries,
            self.runtime,
            ServerClock(clock, self.url),
            (timeouts or Timeouts()).outage or 0.0,
        )
        self._handshake: Handshake | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, object]:
        """All but the lock; connections are left out by the transport."""
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """As it was, not connected."""
        self.__dict__.update(state)
        self._lock = Lock()

    @property
    def patience(self) -> float:
        """How long a request is repeated while the server cannot be reached, in seconds."""
        return self._transport.patience

    def patient(self, seconds: float) -> Requests:
        """The same with another patience, over the same connections."""
        return self._sent_by(lambda transport: transport.patient(seconds))

    def once(self) -> Requests:
        """The same without any repetition of a request, over the same connections."""
        return self._sent_by(Transport.once)

    def _sent_by(self, change: Callable[[Transport], Transport]) -> Requests:
        changed = copy(self)
        changed._transport = change(self._transport)
        with self._lock:
            made = self._handshake
        if made is not None:
            changed._handshake = replace(made, transport=change(made.transport))
        return changed

    def connected(self, *, is_once: bool = False) -> Handshake:
        """The handshake with the server, made on first use.

        Args:
            is_once: Whether the request for it is not repeated, as the caller repeats its own.
        """
        with self._lock:
            if self._handshake is None:
                transport = self._transport.once() if is_once else self._transport
                self._handshake = self._shake_hands(transport)
            return self._handshake

    def _shake_hands(self, transport: Transport) -> Handshake:
        params = {"warehouse": self.asked_for} if self.asked_for else None
        config = transport.request("GET", "/v1/config", params=params).read(ConfigResponse)
        options = config.merge(self._own)
        prefix = options.get("prefix", "")
        if not prefix:
            raise Unavailable(
                f"{self.url}/v1/config names no prefix; it is not a Paimon REST catalog's"
            )
        settled = replace(self._transport, headers={**_headers(options), **self._authorization})
        self._transport.close()
        return Handshake(prefix, options, settled)

    def close(self) -> None:
        """Give back connections; later calls make new ones."""
        self._transport.close()
        with self._lock:
            handshake = self._handshake
        if handshake is not None:
            handshake.transport.close()

    def path(self, *segments: str) -> str:
        """The path below the warehouse's prefix."""
        return f"/v1/{encode_path(self.connected().prefix, *segments)}"

    def get(
        self,
        model: type[T],
        params: Mapping[str, str] | None,
        *segments: str,
        of: Identifier | None = None,
    ) -> T:
        """Read something.

        Args:
            model: The response.
            params: Of the query.
            segments: Of the path, below the warehouse's prefix.
            of: The table that the request is about; its id, if it has one, is sent along.
        """
        transport, headers = self.connected().transport, table_headers(of)
        path = self.path(*segments)
        return transport.request("GET", path, params=params, headers=headers).read(model)

    def get_once(self, model: type[T], *segments: str, of: Identifier | None = None) -> T:
        """Read something without repeating the request, nor waiting long for its answer."""
        transport, headers = self.connected(is_once=True).transport, table_headers(of)
        path = self.path(*segments)
        response = transport.send("GET", path, headers=headers, read_seconds=_ONCE_SECONDS)
        return response.read(model)

    def post(
        self,
        model: type[T],
        body: BaseModel,
        *segments: str,
        of: Identifier | None = None,
        is_repeatable: bool = False,
    ) -> T:
        """Change something.

        Args:
            model: The response.
            body: Sent as JSON.
            segments: Of the path, below the warehouse's prefix.
            of: As for `get`.
            is_repeatable: Whether doing it twice comes to the same as once.
        """
        transport, headers = self.connected().transport, table_headers(of)
        path = self.path(*segments)
        return transport.request(
            "POST", path, body=body, headers=headers, is_repeatable=is_repeatable
        ).read(model)

    def post_for_stream(
        self, body: BaseModel, *segments: str, of: Identifier | None = None
    ) -> ByteStream:
        """Ask for what comes as a stream of bytes; the request changes nothing."""
        transport = self.connected().transport
        return transport.stream(self.path(*segments), body, table_headers(of))

    def manage(
        self,
        method: str,
        model: type[T],
        *segments: str,
        params: Mapping[str, str] | None = None,
        body: BaseModel | None = None,
        of: Identifier | None = None,
    ) -> T:
        """Use Headwater's own management API, which other servers lack, about the warehouse."""
        handshake, headers = self.connected(), table_headers(of)
        path = f"/management/v1/warehouses/{encode_path(handshake.prefix, *segments)}"
        answer = handshake.transport.request(
            method, path, params=params, body=body, headers=headers
        )
        return answer.read(model)

    def manage_all(
        self,
        model: type[T],
        *segments: str,
        method: str = "GET",
        params: Mapping[str, str] | None = None,
        body: BaseModel | None = None,
    ) -> T:
        """Use Headwater's own management API about what is not of one warehouse."""
        transport = self.connected().transport
        path = f"/management/v1/{encode_path(*segments)}"
        return transport.request(method, path, params=params, body=body).read(model)

    def delete(self, *segments: str, of: Identifier | None = None) -> None:
        """Delete something; arguments as for `get`."""
        transport, headers = self.connected().transport, table_headers(of)
        transport.request("DELETE", self.path(*segments), headers=headers).read(Empty)


def table_path(identifier: Identifier) -> tuple[str, str, str, str]:
    """The segments of a table's path."""
    return "databases", identifier.database, "tables", identifier.name


def table_headers(identifier: Identifier | None) -> Mapping[str, str]:
    """The headers of a request about a table: its id, where the identifier is bound to one.

    A Headwater server gives no id of another form, and other servers read no header.
    """
    table_id = None if identifier is None else identifier.table_id
    if table_id is None or not _TABLE_ID.fullmatch(table_id):
        return {}
    return {TABLE_ID_HEADER: table_id}


def without_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The options whose names begin so, without that."""
    return {
        key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)
    }


def _headers(options: Mapping[str, str]) -> dict[str, str]:
    return without_prefix(options, HEADER_PREFIX)


def paging(
    max_results: int | None, page_token: str | None, **patterns: str | None
) -> dict[str, str]:
    """The parameters of a listing; raises Invalid for a page that can hold nothing."""
    if max_results is not None and max_results < 1:
        raise Invalid(f"a page must hold at least 1 entry, not {max_results}")
    asked = {
        "maxResults": None if max_results is None else str(max_results),
        "pageToken": page_token,
        **patterns,
    }
    return {key: value for key, value in asked.items() if value}
