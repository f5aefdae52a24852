"""Plain HTTP to the servers of the suites, past any proxy of the environment.

httpx by itself reads the machine's certificates for every client, even for one that speaks no TLS:
thirty milliseconds of a processor each.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpx

_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# Longer than any request takes on a machine that has too much to do.
_PATIENCE_SECONDS = 120.0


class Client(httpx.Client):
    """A client with connections of its own; its settings are those of httpx."""

    def __init__(self, *, timeout: float = _PATIENCE_SECONDS, **settings: Any) -> None:
        super().__init__(verify=_NO_CERTIFICATES, trust_env=False, timeout=timeout, **settings)


def request(
    method: str, url: str, *, timeout: float = _PATIENCE_SECONDS, **parts: Any
) -> httpx.Response:
    """Send one request; `parts` are those of httpx, and the timeout is in seconds."""
    with Client(timeout=timeout) as client:
        return client.request(method, url, **parts)


def get(url: str, **parts: Any) -> httpx.Response:
    """Send one GET, as `request` does."""
    return request("GET", url, **parts)


def post(url: str, **parts: Any) -> httpx.Response:
    """Send one POST, as `request` does."""
    return request("POST", url, **parts)
