"""The endpoint of an object store: the URL to which requests are sent."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from headwater.storage.errors import Invalid

__all__ = ["origin"]

_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[A-Za-z0-9:/._~@\[\]-]+")


def origin(endpoint: str) -> tuple[str, str, int, str]:
    """The scheme, host, port and path of an endpoint: equal where requests go to one place.

    Raises:
        Invalid: It is no URL, has credentials, or could be read in different ways.
    """
    # What libraries strip, or read in different ways, is refused.
    if not _PLAIN.fullmatch(endpoint):
        raise _no_endpoint()
    try:
        parts: SplitResult = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise _no_endpoint() from None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise _no_endpoint()
    path = parts.path.rstrip("/")
    return parts.scheme, parts.hostname.rstrip("."), port or _PORTS[parts.scheme], path


def _no_endpoint() -> Invalid:
    return Invalid("an endpoint is a URL without credentials, such as https://minio:9000")
