"""Requests signed as Paimon's DLF clients sign them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus, unquote_plus

REGION = "cn-hangzhou"


@dataclass(frozen=True)
class AccessKeyOf:
    """An access key as its holder has it; a temporary one has a security token."""

    id: str
    secret: str
    token: str | None = None


@dataclass(frozen=True)
class Request:
    """A request before it is signed."""

    method: str
    path: str
    parameters: Mapping[str, str]
    body: bytes
    at_millis: int

    @property
    def url(self) -> str:
        """The path and the query."""
        query = "&".join(f"{key}={quote_plus(value)}" for key, value in self.parameters.items())
        return f"{self.path}?{query}" if query else self.path

    @property
    def moment(self) -> datetime:
        """The time of the signature."""
        return datetime.fromtimestamp(self.at_millis // 1000, UTC)


Sign = Callable[[AccessKeyOf, Request], dict[str, str]]


def default(key: AccessKeyOf, request: Request) -> dict[str, str]:
    """The headers of ``DLF4-HMAC-SHA256``."""
    headers = {
        "x-dlf-date": request.moment.strftime("%Y%m%dT%H%M%SZ"),
        "x-dlf-content-sha256": "UNSIGNED-PAYLOAD",
        "x-dlf-version": "v1",
        **_typed(request.body),
        **_token("x-dlf-security-token", key),
    }
    query = "&".join(
        f"{name}={quote_plus(value, safe='*').replace('~', '%7E')}" if value else name
        for name, value in sorted(request.parameters.items())
    )
    lines = [f"{name}:{value}" for name, value in sorted(headers.items())]
    canonical = "\n".join([request.method, request.path, query, *lines, "UNSIGNED-PAYLOAD"])
    scope = f"{headers['x-dlf-date'][:8]}/{REGION}/DlfNext/aliyun_v4_request"
    text = f"DLF4-HMAC-SHA256\n{headers['x-dlf-date']}\n{scope}\n{_sha256(canonical)}"
    signature = hmac.digest(_signing_key(key, scope), text.encode(), "sha256").hex()
    headers["authorization"] = f"DLF4-HMAC-SHA256 Credential={key.id}/{scope},Signature={signature}"
    return headers


def openapi(key: AccessKeyOf, request: Request) -> dict[str, str]:
    """The headers of the scheme ``acs``."""
    typed = _typed(request.body)
    signed = {
        **_token("x-acs-security-token", key),
        "x-acs-signature-method": "HMAC-SHA1",
        "x-acs-signature-nonce": "a-nonce",
        "x-acs-signature-version": "1.0",
        "x-acs-version": "2026-01-18",
    }
    date = request.moment.strftime("%a, %d %b %Y %H:%M:%S GMT")
    query = "&".join(
        f"{name}={value}" if value else name for name, value in sorted(request.parameters.items())
    )
    resource = unquote_plus(request.path) + (f"?{query}" if query else "")
    lines = [
        request.method,
        "application/json",
        typed.get("content-md5", ""),
        typed.get("content-type", ""),
        date,
        *(f"{name}:{value}" for name, value in signed.items()),
        resource,
    ]
    signature = hmac.digest(key.secret.encode(), "\n".join(lines).encode(), "sha1")
    return {
        **typed,
        **signed,
        "date": date,
        "accept": "application/json",
        "authorization": f"acs {key.id}:{base64.b64encode(signature).decode()}",
    }


def openapi_v4(key: AccessKeyOf, request: Request, host: str = "127.0.0.1") -> dict[str, str]:
    """The headers of ``ACS4-HMAC-SHA256``."""
    digest = hashlib.sha256(request.body).hexdigest()
    headers = {
        "host": host,
        "x-acs-content-sha256": digest,
        "x-acs-date": request.moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-acs-signature-nonce": "a-nonce",
        **_token("x-acs-security-token", key),
    }
    if request.body:
        headers["content-type"] = "application/json"
    names = ";".join(sorted(headers))
    lines = [f"{name}:{value}" for name, value in sorted(headers.items())]
    query = "&".join(
        f"{name}={quote(value, safe='~')}" for name, value in sorted(request.parameters.items())
    )
    canonical = "\n".join([request.method, request.path, query, *lines, "", names, digest])
    scope = f"{request.moment:%Y%m%d}/{REGION}/DlfNext/aliyun_v4_request"
    text = f"ACS4-HMAC-SHA256\n{_sha256(canonical)}"
    signature = hmac.digest(_signing_key(key, scope), text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"ACS4-HMAC-SHA256 Credential={key.id}/{scope},SignedHeaders={names},Signature={signature}"
    )
    return headers


def _token(name: str, key: AccessKeyOf) -> dict[str, str]:
    return {} if key.token is None else {name: key.token}


def _typed(body: bytes) -> dict[str, str]:
    if not body:
        return {}
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    return {"content-md5": digest, "content-type": "application/json"}


def _signing_key(key: AccessKeyOf, scope: str) -> bytes:
    part = f"aliyun_v4{key.secret}".encode()
    for each in scope.split("/"):
        part = hmac.digest(part, each.encode(), "sha256")
    return part


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
