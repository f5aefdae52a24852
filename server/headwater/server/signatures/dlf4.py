"""``DLF4-HMAC-SHA256``, the default of Paimon's DLF clients (Paimon: ``DLFDefaultSigner``)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus

from headwater.server.signatures.signed_request import (
    BodyDigest,
    Signature,
    SignatureFault,
    SignedRequest,
    hmac_sha256,
    is_any_of,
)

__all__ = ["KEY_PREFIX", "PRODUCT", "REQUEST_TYPE", "read", "same_paths"]

KEY_PREFIX = "aliyun_v4"
PRODUCT = "DlfNext"
REQUEST_TYPE = "aliyun_v4_request"

_ALGORITHM = "DLF4-HMAC-SHA256"
_CREDENTIAL = re.compile(
    rf"Credential=([\w-]{{1,64}})/(\d{{8}})/([\w.-]{{1,64}})/{PRODUCT}/{REQUEST_TYPE},"
    r"Signature=([0-9a-f]{64})",
    re.ASCII,
)
_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_SIGNED = (
    "content-md5",
    "content-type",
    "x-dlf-content-sha256",
    "x-dlf-date",
    "x-dlf-security-token",
    "x-dlf-version",
)


def read(request: SignedRequest, credential: str) -> Signature:
    """Read the signature of a request.

    Its body is signed by the header ``Content-MD5``, which is there if there is a body.

    Args:
        request: The request.
        credential: The header ``Authorization`` after the name of the scheme.

    Raises:
        SignatureFault: It is not one.
    """
    found = _CREDENTIAL.fullmatch(credential)
    if found is None:
        raise SignatureFault(f"the header 'Authorization' is not that of {_ALGORITHM}")
    key_id, date, region, signature = found.groups()
    request.expect("x-dlf-version", "v1")
    request.expect("x-dlf-content-sha256", "UNSIGNED-PAYLOAD")
    at = request.required("x-dlf-date")
    if not _DATE.fullmatch(at) or at[:8] != date:
        raise SignatureFault("the header 'x-dlf-date' is not the time of the signature")
    digest = request.header("content-md5")
    # A request without a body has no type that is signed. The type of one is JSON to this server,
    # and has been put in its place, whatever was sent.
    names = [name for name in _SIGNED if name != "content-type" or digest is not None]
    sent = {name: request.header(name) for name in names}
    lines = [f"{name}:{value}" for name, value in sent.items() if value is not None]
    canonical = [
        "\n".join([request.method, path, query, *lines, "UNSIGNED-PAYLOAD"])
        for path in same_paths(request.path)
        for query in _same_queries(request.parameters())
    ]
    scope = f"{date}/{region}/{PRODUCT}/{REQUEST_TYPE}"

    def is_made_with(secret: str) -> bool:
        key = hmac_sha256((KEY_PREFIX + secret).encode(), date, region, PRODUCT, REQUEST_TYPE)
        expected = [
            hmac_sha256(key, "\n".join([_ALGORITHM, at, scope, _sha256(text)]))
            for text in canonical
        ]
        return is_any_of(bytes.fromhex(signature), expected)

    token = request.header("x-dlf-security-token") or None
    return Signature(key_id, _millis(at), BodyDigest.md5(digest), is_made_with, token)


def same_paths(path: str) -> Iterable[str]:
    """The ways in which clients sign a path that arrived so; pypaimon sends %7E as ``~``."""
    return dict.fromkeys([path, path.replace("~", "%7E")])


def _same_queries(parameters: Mapping[str, str]) -> Iterable[str]:
    """The ways in which clients sign parameters: with Java's escapes, and with Python's."""
    return dict.fromkeys(_query(parameters, escape) for escape in (_as_java, _as_python))


def _query(parameters: Mapping[str, str], escape: Callable[[str], str]) -> str:
    pairs = parameters.items()
    return "&".join(f"{key}={escape(value)}" if value else key for key, value in pairs)


def _as_java(value: str) -> str:
    return quote_plus(value, safe="*").replace("~", "%7E")


def _as_python(value: str) -> str:
    return quote(value, safe="")


def _millis(at: str) -> int:
    try:
        moment = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise SignatureFault(f"'{at}' is no time") from None
    return int(moment.timestamp()) * 1000


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
