"""Short-lived credentials of an S3-compatible store, by the security token service's AssumeRole.

The request is signed here (AWS Signature Version 4): it is the only one that the server sends to a
store beside its file access, and needs no library for it.

Source: "AssumeRole" in the AWS STS API reference, "Create a signed AWS API request" in the AWS IAM
user guide.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode, urlsplit

import httpx

from headwater.storage.errors import Forbidden, Invalid, Unavailable

__all__ = ["LONGEST_SECONDS", "Credentials", "TokenService", "assume_role"]

LONGEST_SECONDS = 12 * 3600
"""The longest time for which a role's credentials are given."""

_VERSION = "2011-06-15"
_TIMEOUT_SECONDS = 10.0
_SIGNED = ("content-type", "host", "x-amz-date")
_NOT_IN_A_NAME = re.compile(r"[^\w+=,.@-]", re.ASCII)
_LONGEST_NAME = 64


@dataclass(frozen=True)
class Credentials:
    """Credentials of a store; never log them.

    Attributes:
        access_key: The access key's id.
        secret_key: The secret.
        session_token: The token that goes with short-lived ones.
    """

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TokenService:
    """A security token service, and the role whose credentials it gives.

    Attributes:
        endpoint: Its URL.
        region: The region that requests are signed for.
        role: The role's ARN.
        external_id: The id that the role asks of whoever assumes it, if any.
    """

    endpoint: str
    region: str
    role: str
    external_id: str | None = None


def assume_role(
    service: TokenService,
    own: Credentials,
    *,
    policy: str,
    session: str,
    seconds: int,
    now_millis: int,
) -> Credentials:
    """Ask for credentials of a role that are good for no more than a policy says.

    Args:
        service: The service.
        own: The credentials that the request is signed with.
        policy: The session's policy, JSON.
        session: The name of the session, which the store's log shows.
        seconds: The lifetime.
        now_millis: The time, which must be the service's within some minutes.

    Raises:
        Forbidden: The service refuses; the message has its code.
        Invalid: The endpoint is not a URL.
        Unavailable: It does not answer.
    """
    name = _NOT_IN_A_NAME.sub("-", session)[:_LONGEST_NAME]
    form = {
        "Action": "AssumeRole",
        "Version": _VERSION,
        "RoleArn": service.role,
        "RoleSessionName": name if len(name) > 1 else f"{name}-headwater",
        "DurationSeconds": str(seconds),
        "Policy": policy,
    }
    if service.external_id is not None:
        form["ExternalId"] = service.external_id
    body = urlencode(form).encode()
    headers = _signed(service, own, body, datetime.fromtimestamp(now_millis / 1000, UTC))
    try:
        answer = httpx.post(
            service.endpoint, content=body, headers=headers, timeout=_TIMEOUT_SECONDS
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(
            f"the security token service does not answer ({type(error).__name__}); try again"
        ) from error
    if answer.is_success:
        return Credentials(
            _value(answer.text, "AccessKeyId"),
            _value(answer.text, "SecretAccessKey"),
            _value(answer.text, "SessionToken"),
        )
    code = _found(answer.text, "Code") or str(answer.status_code)
    if answer.is_client_error and code != "Throttling":
        raise Forbidden(
            f"the store's security token service gives no credentials ({code}): see that the role "
            "in s3.sts.role-arn exists, trusts the server's keys, and may last so long"
        )
    raise Unavailable(f"the security token service failed ({code}); try again")


def _signed(
    service: TokenService, own: Credentials, body: bytes, now: datetime
) -> Mapping[str, str]:
    host = urlsplit(service.endpoint).netloc
    if not host:
        raise Invalid("option s3.sts.endpoint is not a URL, such as https://sts.amazonaws.com")
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "host": host,
        "x-amz-date": stamp,
    }
    names: tuple[str, ...] = _SIGNED
    if own.session_token is not None:
        headers["x-amz-security-token"] = own.session_token
        names = (*names, "x-amz-security-token")
    path = urlsplit(service.endpoint).path or "/"
    lines = "".join(f"{each}:{headers[each]}\n" for each in names)
    digest = hashlib.sha256(body).hexdigest()
    request = f"POST\n{path}\n\n{lines}\n{';'.join(names)}\n{digest}"
    scope = f"{day}/{service.region}/sts/aws4_request"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{own.secret_key}".encode()
    for part in (day, service.region, "sts", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(
        key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}".encode(), "sha256"
    ).hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={own.access_key}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return headers


def _found(text: str, element: str) -> str | None:
    found = re.search(f"<{element}>([^<]+)</{element}>", text)
    return None if found is None else html.unescape(found[1].strip())


def _value(text: str, element: str) -> str:
    found = _found(text, element)
    if found is None:
        raise Unavailable("the security token service's answer holds no credentials")
    return found
