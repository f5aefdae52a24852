"""Bounds on the warehouses that are managed over HTTP.

The server works with its own rights and, where a warehouse has no keys of its own, with its own
credentials. So the settings say in which places a warehouse may lie, and to which endpoints the
server may send requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.server.data_tokens import SECRET_PREFIX, STS_OPTIONS
from headwater.server.endpoint import origin
from headwater.server.settings import ServerSettings
from headwater.storage.errors import Forbidden, Invalid
from headwater.storage.files.location import Place

__all__ = ["check_bounds"]

# Every name that anybody, a client with a data token included, may take for an endpoint's.
_ENDPOINT = re.compile(r"(.*[._-])?endpoint", re.IGNORECASE)
_KEYS = (("s3.access-key", "fs.s3.accessKeyId"), ("s3.secret-key", "fs.s3.accessKeySecret"))
# Likewise: an endpoint is made of it where none is given.
_REGION_NAME = re.compile(r"(.*[._-])?region", re.IGNORECASE)
_REGION = re.compile(r"[A-Za-z0-9-]+")


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
    allowed = {origin(each) for each in settings.allowed_endpoints}
    allowed |= {origin(own[name]) for name in own if _ENDPOINT.fullmatch(name) and own[name]}
    for name in options:
        is_endpoint = _ENDPOINT.fullmatch(name) and options[name]
        if is_endpoint and origin(options[name]) not in allowed:
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
    unknown = sorted(
        name for name in options if name.startswith(SECRET_PREFIX) and name not in STS_OPTIONS
    )
    if unknown:
        known = ", ".join(sorted(STS_OPTIONS))
        raise Invalid(f"option {unknown[0]} is not known; there are {known}")
    for name in options:
        is_region = _REGION_NAME.fullmatch(name) and options[name]
        if is_region and not _REGION.fullmatch(options[name]):
            raise Invalid(f"option {name}: a region has only letters, digits and dashes")
