"""Data tokens: credentials by which a caller reaches the files of one table, for a while.

A token is good for the objects below the table's directory and nothing beside it, and for reading
alone unless the caller may write. The store enforces that; the warehouse's own credentials are not
handed out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.catalog.model.data_token import client_storage_options
from headwater.catalog.model.warehouses import harmless_options
from headwater.server.recent_answers import RecentAnswers
from headwater.server.sts import Credentials, TokenService, assume_role
from headwater.storage.errors import Unsupported
from headwater.storage.files.location import Place
from headwater.storage.runtime import Runtime

__all__ = [
    "SECRET_PREFIX",
    "STS_OPTIONS",
    "DataToken",
    "DataTokens",
    "first_option",
    "own_credentials",
    "session_policy",
]

SECRET_PREFIX = "s3.sts."
"""The beginning of the options that say how short-lived credentials are had."""

_ROLE, _ENDPOINT, _EXTERNAL_ID = (
    f"{SECRET_PREFIX}{name}" for name in ("role-arn", "endpoint", "external-id")
)
STS_OPTIONS = frozenset({_ROLE, _ENDPOINT, _EXTERNAL_ID})
"""All options that begin so."""

_KEYS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "access_key": (("s3.access-key", "fs.s3.accessKeyId"), "AWS_ACCESS_KEY_ID"),
    "secret_key": (("s3.secret-key", "fs.s3.accessKeySecret"), "AWS_SECRET_ACCESS_KEY"),
    "session_token": (
        ("s3.session.token", "s3.session-token", "fs.s3.securityToken"),
        "AWS_SESSION_TOKEN",
    ),
}
_S3_ENDPOINTS = ("s3.endpoint", "fs.s3.endpoint")
_REGIONS = ("s3.region", "fs.s3.region", "s3.endpoint.region")
_READ = ("s3:GetObject",)
_WRITE = (
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)
_MOST_KEPT = 4096
_CLIENTS_RENEW_SECONDS = 3600


@dataclass(frozen=True)
class DataToken:
    """A data token; never log it.

    Attributes:
        options: Storage options, under every name that a client may look for.
        expires_at: Milliseconds since the epoch.
    """

    options: Mapping[str, str]
    expires_at: int

    def __repr__(self) -> str:
        return f"DataToken(…, expires_at={self.expires_at})"


class DataTokens:
    """Gives out data tokens, the same one again while it is young.

    Args:
        seconds: The lifetime. Clients ask anew an hour before the end, so it is more than that.
        runtime: The clock.
    """

    def __init__(self, seconds: int, runtime: Runtime) -> None:
        self._seconds = seconds
        self._runtime = runtime
        # Half the time for which no client wants another one yet.
        self._kept: RecentAnswers[DataToken] = RecentAnswers(
            _MOST_KEPT, kept_millis=(seconds - _CLIENTS_RENEW_SECONDS) * 500
        )

    def token(
        self, location: str, options: Mapping[str, str], *, caller: str, may_write: bool
    ) -> DataToken:
        """A token for the files below a location.

        Args:
            location: The table's URI.
            options: The warehouse's storage options.
            caller: The caller's name, which the store's log shows.
            may_write: True if the token is to be good for writing, too.

        Raises:
            Unsupported: The warehouse names no role whose credentials could be given.
            Forbidden, Unavailable: The store's security token service refuses, or does not answer.
        """
        expires_at = self._runtime.now_millis() + self._seconds * 1000
        place = Place.of(location)
        harmless = {
            name: value
            for name, value in harmless_options(options).items()
            if not name.startswith(SECRET_PREFIX)
        }
        if place.scheme == "file":
            return DataToken(client_storage_options(harmless), expires_at)
        key = (location, tuple(sorted(options.items())), caller, may_write)
        asked = self._runtime.monotonic()
        known = self._kept.get(key, asked)
        if known is None:
            found = self._assumed(place, options, caller, may_write)
            credentials = {
                "s3.access-key": found.access_key,
                "s3.secret-key": found.secret_key,
                "s3.session.token": found.session_token or "",
            }
            known = DataToken(client_storage_options({**harmless, **credentials}), expires_at)
            self._kept.put(key, known, asked)
        return known

    def _assumed(
        self, place: Place, options: Mapping[str, str], caller: str, may_write: bool
    ) -> Credentials:
        role = options.get(_ROLE)
        if place.scheme != "s3" or not role:
            raise Unsupported(
                "this warehouse has no data tokens: its storage options name no role whose "
                f"short-lived credentials could be given ({_ROLE}). Set it, or give clients their "
                "own credentials; the warehouse's are not handed out"
            )
        region = first_option(options, _REGIONS) or "us-east-1"
        endpoint = options.get(_ENDPOINT) or first_option(options, _S3_ENDPOINTS)
        service = TokenService(
            endpoint or f"https://sts.{region}.amazonaws.com",
            region,
            role,
            options.get(_EXTERNAL_ID),
        )
        return assume_role(
            service,
            own_credentials(options),
            policy=session_policy(place, may_write=may_write),
            session=caller,
            seconds=self._seconds,
            now_millis=self._runtime.now_millis(),
        )


def session_policy(place: Place, *, may_write: bool) -> str:
    """The policy of a session that reaches what is below a place of an object store, as JSON.

    The slash at the end keeps ``orders2`` out of reach of whoever may reach ``orders``.
    """
    bucket, _, path = place.key.partition("://")[2].partition("/")
    bucket, prefix = _literal(bucket), _literal(path)
    statements = [
        {
            "Effect": "Allow",
            "Action": list(_WRITE if may_write else _READ),
            "Resource": [f"arn:aws:s3:::{bucket}/{prefix}*"],
        },
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{bucket}"],
            "Condition": {"StringLike": {"s3:prefix": [f"{prefix}*"]}},
        },
    ]
    document = {"Version": "2012-10-17", "Statement": statements}
    return json.dumps(document, separators=(",", ":"))


def _literal(path: str) -> str:
    """A path whose characters stand for themselves in a policy."""
    return "".join(f"${{{each}}}" if each in "*?$" else each for each in path)


def first_option(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The value of the first of several names that has one."""
    return next((options[name] for name in names if options.get(name)), None)


def own_credentials(options: Mapping[str, str]) -> Credentials:
    """The warehouse's credentials, or without any those of the server's environment.

    Raises:
        Unsupported: There are none.
    """
    has_own = any(first_option(options, names) for names, _ in _KEYS.values())
    found = {
        field: first_option(options, names) if has_own else os.environ.get(variable)
        for field, (names, variable) in _KEYS.items()
    }
    access, secret = found["access_key"], found["secret_key"]
    if not access or not secret:
        raise Unsupported(
            "this warehouse's files can be opened to nobody: neither its storage options nor the "
            "server's environment have keys (s3.access-key and s3.secret-key) to do so with"
        )
    return Credentials(access, secret, found["session_token"])
