"""The parts of a request that signatures are about, and what a signature says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_plus

from starlette.types import Scope

__all__ = [
    "BODY_DIGEST",
    "BodyDigest",
    "Signature",
    "SignatureFault",
    "SignedRequest",
    "hmac_sha256",
    "is_any_of",
]

BODY_DIGEST = "body digest"
"""The key of a `BodyDigest` in the connection's state: the body must have it."""

# Paimon's Java client signs no body as empty, and up to release 1.3 as the JSON null.
_NOTHING = (
    hashlib.sha256(b"").digest(),
    hashlib.md5(b"null", usedforsecurity=False).digest(),
)
_PLAIN_KEY = re.compile(r"[\w.-]+", re.ASCII)


class SignatureFault(Exception):
    """The reason, for its caller, why a request is not taken for signed."""


@dataclass(frozen=True)
class BodyDigest:
    """The digest of a body as a signed header says it.

    Attributes:
        algorithm: Its name in `hashlib`.
        digest: Its bytes; None if the body must be empty.
    """

    algorithm: str
    digest: bytes | None

    @staticmethod
    def md5(header: str | None) -> BodyDigest:
        """The digest of a header ``Content-MD5``, which requests with a body have."""
        try:
            digest = None if header is None else base64.b64decode(header, validate=True)
        except ValueError:
            raise SignatureFault("the header 'Content-MD5' is not Base64") from None
        return BodyDigest("md5", digest)

    def is_of(self, body: bytes) -> bool:
        """True if a body has it."""
        if self.digest is None or not body:
            return not body and self.digest in (None, *_NOTHING)
        # MD5 is the clients' choice. What it must withstand is a second body for the caller's
        # digest, and of that nobody is able.
        actual = hashlib.new(self.algorithm, body, usedforsecurity=False).digest()
        return hmac.compare_digest(actual, self.digest)


@dataclass(frozen=True)
class Signature:
    """A signature that is yet to be checked.

    Attributes:
        access_key_id: The id of the key that is said to have made it.
        signed_at: The time that it was made, milliseconds since the epoch.
        body: The digest that the body must have.
        is_made_with: True for the secret that it was made with.
        security_token: The text that says what a temporary key is good for, which was signed, too;
            None if there is none.
    """

    access_key_id: str
    signed_at: int
    body: BodyDigest
    is_made_with: Callable[[str], bool]
    security_token: str | None = None


@dataclass(frozen=True)
class SignedRequest:
    """A request as it was sent.

    Attributes:
        method: Its method.
        path: Its path, with its escapes.
        query: Its query, likewise.
        headers: Its headers by their names in lower case; one that was sent twice is in `repeated`.
        repeated: The names of headers that were sent more than once.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    repeated: frozenset[str]

    @staticmethod
    def of(scope: Scope) -> SignedRequest:
        """The request of a connection."""
        names = [name.decode("latin-1") for name, _ in scope["headers"]]
        return SignedRequest(
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            frozenset(name for name in names if names.count(name) > 1),
        )

    def header(self, name: str) -> str | None:
        """A header without the spaces around it; raises SignatureFault if it was sent twice."""
        if name in self.repeated:
            raise SignatureFault(f"the header '{name}' was sent twice")
        value = self.headers.get(name)
        return None if value is None else value.strip()

    def required(self, name: str) -> str:
        """A header that every signed request has; raises SignatureFault."""
        value = self.header(name)
        if value is None:
            raise SignatureFault(f"a signed request has the header '{name}'")
        return value

    def expect(self, name: str, value: str) -> None:
        """See that a header has the one value that is known; raises SignatureFault."""
        sent = self.required(name)
        if sent != value:
            raise SignatureFault(f"the header '{name}' must be '{value}', not '{sent}'")

    def parameters(self) -> dict[str, str]:
        """The query's parameters, decoded, in the order of their names.

        Raises:
            SignatureFault: A name is not plain or comes twice, or a value is no text. What a
                signature is made of could be read in two ways otherwise.
        """
        found: dict[str, str] = {}
        for item in self.query.split("&") if self.query else ():
            key, _, value = item.partition("=")
            if not _PLAIN_KEY.fullmatch(key) or key in found:
                raise SignatureFault(f"the query's parameter '{key}' is not plain, or comes twice")
            found[key] = _decoded(value)
        return dict(sorted(found.items()))

    def decoded_segments(self) -> list[str]:
        """The segments of the path without their escapes; raises SignatureFault."""
        return [_decoded(segment) for segment in self.path.split("/")]


def _decoded(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise SignatureFault("the URL is not percent-encoded UTF-8") from None


def hmac_sha256(key: bytes, *messages: str) -> bytes:
    """A message's HMAC; of several, each is made with that of the one before it as its key."""
    for message in messages:
        key = hmac.digest(key, message.encode(), "sha256")
    return key


def is_any_of(offered: bytes, expected: Iterable[bytes]) -> bool:
    """True if it is one of those; how long that takes tells nothing of them."""
    matches = [hmac.compare_digest(offered, each) for each in expected]
    return any(matches)
