"""Bounds on the warehouses that are managed over HTTP.

The server works with its own rights and, where a warehouse has no keys of its own, with its own
credentials. So the settings say in which places a warehouse may lie, and to which endpoints the
server may send requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from headwater.server.data_tokens import SECRET_PREFIX
from headwater.server.settings import ServerSettings
from headwater.storage.errors import Forbidden, Invalid
from headwater.storage.files.location import Place

__all__ = ["check_bounds"]

# Paimon Java's name of the option, and pypaimon's.
_ENDPOINTS = ("s3.endpoint", "fs.s3.endpoint", "s3.sts.endpoint")
_KEYS = (("s3.access-key", "fs.s3.accessKeyId"), ("s3.secret-key", "fs.s3.accessKeySecret"))
# An endpoint is made of it where none is given.
_REGIONS = ("s3.region", "fs.s3.region", "s3.endpoint.region")
_REGION = re.compile(r"[A-Za-z0-9-]+")
_PORTS = {"http": 80, "https": 443}


def check_bounds(settings: ServerSettings, location: str, options: Mapping[str, str]) -> None:
    """Refuse a warehouse that the settings do not allow.

    Args:
        settings: The server's.
        location: The warehouse's.
        options: Its storage options, all of them.

    Raises:
        Forbidden: Its place or its endpoint is not among those that are allowed.
        Invalid: The location, the endpoint or the region is malformed.
    """
    place = Place.of(location)
    if not any(Place.of(allowed).holds(place) for allowed in settings.allowed_locations):
        raise Forbidden(
            f"{place.uri} is in no place that this server allows for warehouses; name one in its "
            "setting allowed_locations (HEADWATER_ALLOWED_LOCATIONS)"
        )
    own = settings.plain_storage_options()
    allowed = {_origin(each) for each in settings.allowed_endpoints}
    allowed |= {_origin(own[name]) for name in _ENDPOINTS if own.get(name)}
    for name in _ENDPOINTS:
        if options.get(name) and _origin(options[name]) not in allowed:
            raise Forbidden(
                f"option {name}: this server does not allow that endpoint; name it in its setting "
                "allowed_endpoints (HEADWATER_ALLOWED_ENDPOINTS)"
            )
    if any(name.startswith(SECRET_PREFIX) for name in options) and not all(
        any(options.get(name) for name in names) for names in _KEYS
    ):
        raise Forbidden(
            f"options {SECRET_PREFIX}* need keys of the warehouse's own (s3.access-key and "
            "s3.secret-key): the server's credentials assume no role that a caller names"
        )
    for name in _REGIONS:
        if options.get(name) and not _REGION.fullmatch(options[name]):
            raise Invalid(f"option {name}: a region has only letters, digits and dashes")


def _origin(endpoint: str) -> tuple[str, str, int | None]:
    """The scheme, host and port of an endpoint: where requests are sent."""
    try:
        parts: SplitResult = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        parts, port = SplitResult("", "", "", "", ""), None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise Invalid("an endpoint is a URL without credentials, such as https://minio:9000")
    return parts.scheme, parts.hostname.rstrip("."), port or _PORTS[parts.scheme]
