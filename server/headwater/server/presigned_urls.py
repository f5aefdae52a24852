"""URLs that are one request to an S3-compatible store, signed, for a while.

Source: "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)" in the Amazon S3
API reference.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from headwater.server.sts import Credentials
from headwater.storage.errors import Invalid

__all__ = ["Bucket", "presigned"]

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class Bucket:
    """A bucket, as it is reached.

    Attributes:
        url: Its URL, without a slash at the end.
        region: The region that requests are signed for.
        credentials: The credentials that they are signed with.
    """

    url: str
    region: str
    credentials: Credentials


def presigned(
    bucket: Bucket,
    method: str,
    key: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    seconds: int,
    now_millis: int,
) -> str:
    """The URL of a request that the store takes for one of the bucket's owner.

    Args:
        bucket: The bucket.
        method: The method, which is signed.
        key: The object; empty for the bucket itself.
        query: Parameters beside those of the signature.
        headers: The headers, by names in lower case, that must be sent as they are here.
        seconds: The time for which it is good.
        now_millis: The time, which must be the store's within some minutes.

    Raises:
        Invalid: The bucket's URL is none.
    """
    parts = urlsplit(bucket.url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Invalid("option s3.endpoint is not a URL, such as https://minio:9000")
    moment = datetime.fromtimestamp(now_millis / 1000, UTC)
    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    scope = f"{day}/{bucket.region}/s3/aws4_request"
    sent = {"host": parts.netloc, **headers}
    names = ";".join(sorted(sent))
    parameters = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{bucket.credentials.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": names,
    }
    if bucket.credentials.session_token is not None:
        parameters["X-Amz-Security-Token"] = bucket.credentials.session_token
    encoded = sorted(
        (quote(name, safe=""), quote(each, safe="")) for name, each in parameters.items()
    )
    text = "&".join(f"{name}={each}" for name, each in encoded)
    path = f"{parts.path}/{quote(key)}" if key else parts.path or "/"
    lines = "".join(f"{name}:{sent[name]}\n" for name in sorted(sent))
    request = f"{method}\n{path}\n{text}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    signing_key = f"AWS4{bucket.credentials.secret_key}".encode()
    for part in scope.split("/"):
        signing_key = hmac.digest(signing_key, part.encode(), "sha256")
    signed = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashed}"
    signature = hmac.digest(signing_key, signed.encode(), "sha256").hex()
    return f"{parts.scheme}://{parts.netloc}{path}?{text}&X-Amz-Signature={signature}"
