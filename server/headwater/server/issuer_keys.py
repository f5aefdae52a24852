"""The public keys of an OpenID Connect issuer, found by its discovery document, as they rotate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from headwater.server.settings import is_safe_address
from headwater.storage.errors import Unavailable
from headwater.storage.runtime import Runtime

__all__ = ["REFRESH_SECONDS", "RETRY_SECONDS", "IssuerKeys"]

REFRESH_SECONDS = 300
"""The time after which keys are fetched anew: one that the issuer withdraws is good for as long."""

RETRY_SECONDS = 10
"""The least time between two fetches, whatever tokens are shown: they may be made up."""

# An issuer that is away does not lock out those whom it has let in, for this long.
_STALE_SECONDS = 3600
_TIMEOUT_SECONDS = 5.0
_LARGEST_DOCUMENT = 1_048_576


@dataclass(frozen=True)
class _Keys:
    """The keys by their id, and when they were fetched, seconds of the monotonic clock."""

    by_id: Mapping[str, Key]
    fetched: float


class IssuerKeys:
    """The keys with which an issuer signs, fetched when they are needed and no more often.

    Args:
        issuer: The issuer's URL.
        runtime: The clock.
    """

    def __init__(self, issuer: str, runtime: Runtime) -> None:
        self._issuer = issuer
        self._runtime = runtime
        self._client: httpx.Client | None = None
        self._keys: _Keys | None = None
        self._tried: float | None = None
        self._lock = Lock()

    def known(self, key_id: str) -> Key | None:
        """A key that is at hand and young enough."""
        keys = self._keys
        if keys is None or self._runtime.monotonic() - keys.fetched >= REFRESH_SECONDS:
            return None
        return keys.by_id.get(key_id)

    def find(self, key_id: str) -> Key | None:
        """A key by its id; None if the issuer has none of that id.

        It may fetch the keys, which takes a while.

        Raises:
            Unavailable: The issuer does not answer, and its keys are not known or too old.
        """
        with self._lock:
            # Somebody else may have fetched it meanwhile.
            found = self.known(key_id)
            now = self._runtime.monotonic()
            if found is not None:
                return found
            if self._tried is None or now - self._tried >= RETRY_SECONDS:
                self._tried = now
                try:
                    self._keys = _Keys(self._fetch(), now)
                except Unavailable:
                    if self._keys is None or now - self._keys.fetched >= _STALE_SECONDS:
                        raise
            if self._keys is None or now - self._keys.fetched >= _STALE_SECONDS:
                raise Unavailable(f"the issuer {self._issuer} did not answer; retry")
            return self._keys.by_id.get(key_id)

    def _fetch(self) -> Mapping[str, Key]:
        if self._client is None:
            self._client = httpx.Client(timeout=_TIMEOUT_SECONDS, follow_redirects=False)
        document = self._document(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise Unavailable(f"what {self._issuer} says of itself is about another issuer")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or not is_safe_address(address):
            raise Unavailable(f"the issuer {self._issuer} names no https address of its keys")
        listed = self._document(address).get("keys")
        keys: dict[str, Key] = {}
        for each in listed if isinstance(listed, list) else ():
            key = _public_key(each)
            if key is not None and key.kid:
                keys[key.kid] = key
        return keys

    def _document(self, address: str) -> Mapping[str, Any]:
        assert self._client is not None
        try:
            with self._client.stream("GET", address) as answer:
                answer.raise_for_status()
                body = b""
                for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) > _LARGEST_DOCUMENT:
                        raise Unavailable(f"{address} answers more than a document of keys")
            document = json.loads(body)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            raise Unavailable(f"{address} did not answer as an issuer does: {error}") from error
        if not isinstance(document, dict):
            raise Unavailable(f"{address} did not answer as an issuer does: it is no JSON object")
        return document


def _public_key(value: object) -> Key | None:
    """A key for signatures that only the issuer can make; None for any other."""
    if not isinstance(value, dict) or value.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    if value.get("use", "sig") != "sig":
        return None
    try:
        return JWKRegistry.import_key(value)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
