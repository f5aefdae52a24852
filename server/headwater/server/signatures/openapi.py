"""The signatures of Paimon's DLF clients for public endpoints.

``acs`` is that of ``dlf.signing-algorithm=openapi`` (Paimon: ``DLFOpenApiSigner``), and
``ACS4-HMAC-SHA256`` that of ``openapi-v4`` (pypaimon: ``DLFOpenApiV4Signer``).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import UTC, datetime
from urllib.parse import quote

from headwater.server.signatures.dlf4 import KEY_PREFIX, PRODUCT, REQUEST_TYPE, same_paths
from headwater.server.signatures.signed_request import (
    BodyDigest,
    Signature,
    SignatureFault,
    SignedRequest,
    hmac_sha256,
    is_any_of,
)

__all__ = ["read", "read_v4"]

_ACS = re.compile(r"([\w-]{1,64}):([A-Za-z0-9+/]{27}=)", re.ASCII)
_ACS4 = re.compile(
    rf"Credential=([\w-]{{1,64}})/(\d{{8}})/([\w.-]{{1,64}})/{PRODUCT}/{REQUEST_TYPE},"
    r"SignedHeaders=([a-z0-9;-]+),Signature=([0-9a-f]{64})",
    re.ASCII,
)
_V4_DATE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SECURITY_TOKEN = "x-acs-security-token"
_NEEDED = frozenset({"host", "x-acs-date", "x-acs-content-sha256"})


def read(request: SignedRequest, credential: str) -> Signature:
    """Read the signature ``acs`` of a request; arguments and errors are those of `dlf4.read`.

    It is made of the decoded URL. One in which a separator was escaped is refused: it would have
    the signature of another.
    """
    found = _ACS.fullmatch(credential)
    if found is None:
        raise SignatureFault("the header 'Authorization' is not that of the scheme 'acs'")
    key_id, signature = found.groups()
    request.expect("x-acs-signature-method", "HMAC-SHA1")
    request.expect("x-acs-signature-version", "1.0")
    date = request.required("date")
    digest = request.header("content-md5")
    kind = request.header("content-type") if digest is not None else None
    lines = [
        request.method,
        request.header("accept") or "",
        digest or "",
        kind or "",
        date,
        *(f"{name}:{request.required(name)}" for name in _acs_headers(request)),
        _decoded_url(request),
    ]
    text = "\n".join(lines).encode()

    def is_made_with(secret: str) -> bool:
        expected = hmac.digest(secret.encode(), text, "sha1")
        return is_any_of(base64.b64decode(signature), [expected])

    at = _millis(date, "%a, %d %b %Y %H:%M:%S GMT")
    token = request.header(_SECURITY_TOKEN) or None
    return Signature(key_id, at, BodyDigest.md5(digest), is_made_with, token)


def read_v4(request: SignedRequest, credential: str) -> Signature:
    """Read the signature ``ACS4-HMAC-SHA256`` of a request; as `dlf4.read`.

    The header ``x-acs-content-sha256`` signs the body.
    """
    found = _ACS4.fullmatch(credential)
    if found is None:
        raise SignatureFault("the header 'Authorization' is not that of ACS4-HMAC-SHA256")
    key_id, date, region, names, signature = found.groups()
    signed = names.split(";")
    if signed != sorted(set(signed)) or not {*_NEEDED, *_acs_headers(request)} <= set(signed):
        raise SignatureFault("the signature leaves out a header that must be signed")
    at = request.required("x-acs-date")
    if not _V4_DATE.fullmatch(at) or at[:10].replace("-", "") != date:
        raise SignatureFault("the header 'x-acs-date' is not the time of the signature")
    digest = request.required("x-acs-content-sha256")
    if not _DIGEST.fullmatch(digest):
        raise SignatureFault("the header 'x-acs-content-sha256' is no SHA-256")
    headers = [f"{name}:{request.required(name)}" for name in signed]
    query = "&".join(
        f"{key}={quote(value, safe='~')}" for key, value in request.parameters().items()
    )
    canonical = [
        "\n".join([request.method, path, query, *headers, "", names, digest])
        for path in same_paths(request.path)
    ]

    def is_made_with(secret: str) -> bool:
        key = hmac_sha256((KEY_PREFIX + secret).encode(), date, region, PRODUCT, REQUEST_TYPE)
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in canonical]
        expected = [hmac_sha256(key, f"ACS4-HMAC-SHA256\n{each}") for each in hashes]
        return is_any_of(bytes.fromhex(signature), expected)

    body = BodyDigest("sha256", bytes.fromhex(digest))
    token = request.header(_SECURITY_TOKEN) or None
    return Signature(key_id, _millis(at, "%Y-%m-%dT%H:%M:%SZ"), body, is_made_with, token)


def _acs_headers(request: SignedRequest) -> list[str]:
    return sorted(name for name in request.headers if name.startswith("x-acs-"))


def _decoded_url(request: SignedRequest) -> str:
    segments = request.decoded_segments()
    parameters = request.parameters()
    if any("/" in each or "?" in each for each in segments) or any(
        "&" in value for value in parameters.values()
    ):
        raise SignatureFault(
            "a signature of the scheme 'acs' does not tell '/' and '?' in a name, or '&' in a "
            "parameter, from those of the URL: set dlf.signing-algorithm=default in the client"
        )
    pairs = (f"{key}={value}" if value else key for key, value in parameters.items())
    path = "/".join(segments)
    return f"{path}?{'&'.join(pairs)}" if parameters else path


def _millis(date: str, form: str) -> int:
    try:
        moment = datetime.strptime(date, form).replace(tzinfo=UTC)
    except ValueError:
        raise SignatureFault(f"'{date}' is no time") from None
    return int(moment.timestamp()) * 1000
