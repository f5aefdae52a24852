"""Requests to a table's files that the server signs, an addition of Headwater's."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import WireModel

__all__ = [
    "MOST_PARTS",
    "SIGNED_REQUESTS",
    "FileRequestModel",
    "SignTableRequestsRequest",
    "SignTableRequestsResponse",
    "SignedRequestModel",
]

SIGNED_REQUESTS = "headwater.signed-requests.enabled"
"""The option in a server's configuration that says that clients may have requests signed."""

MOST_PARTS = 10_000
"""The number of parts that S3 makes one object of."""

_ASKED: dict[str, JsonValue] = {
    "method": "PUT",
    "path": "schema/schema-1",
    "ifAbsent": True,
    "isDeep": False,
    "after": None,
    "uploadId": None,
    "part": None,
}
_SIGNED: dict[str, JsonValue] = {
    "method": "PUT",
    "url": "https://minio:9000/lake/sales.db/orders/schema/schema-1?X-Amz-…",
    "headers": {"if-none-match": "*"},
}


class FileRequestModel(WireModel):
    """A request to the store.

    Attributes:
        method: A method of HTTP, LIST, or a step of an upload in parts: CREATE begins one, PART
            puts a part of it, COMPLETE makes the file of its parts, ABORT forgets them.
        path: The path below the table's directory; a folder's, or empty, for LIST.
        if_absent: For PUT and COMPLETE: only if there is no such file. The store sees to it.
        is_deep: For LIST: with the files in folders of the folder.
        after: For LIST: the token that the page before ended with.
        upload_id: For PART, COMPLETE and ABORT: the id that the store answered to CREATE.
        part: For PART: its number.
    """

    model_config = example(_ASKED)

    method: Literal["GET", "HEAD", "PUT", "DELETE", "LIST", "CREATE", "PART", "COMPLETE", "ABORT"]
    path: str = Field(max_length=1024)
    if_absent: bool = False
    is_deep: bool = False
    after: str | None = Field(default=None, max_length=4096)
    upload_id: str | None = Field(default=None, min_length=1, max_length=4096)
    part: int | None = Field(default=None, ge=1, le=MOST_PARTS)


class SignTableRequestsRequest(WireModel):
    """``POST …/tables/{table}/sign``.

    Attributes:
        requests: The requests, at most a thousand.
    """

    model_config = example({"requests": [_ASKED]})

    requests: list[FileRequestModel] = Field(min_length=1, max_length=1000)


class SignedRequestModel(WireModel):
    """A request as it is to be sent, with those headers.

    Attributes:
        method: The method of HTTP.
        url: The URL, which anybody who has it can use; never log it.
        headers: The headers that are signed.
    """

    model_config = example(_SIGNED)

    method: str
    url: str
    headers: dict[str, str]


class SignTableRequestsResponse(WireModel):
    """The requests, signed.

    Attributes:
        requests: The signed requests, in the order in which they were asked for.
        expires_at_millis: The time until which they are good, milliseconds since the epoch.
    """

    model_config = example({"requests": [_SIGNED], "expiresAtMillis": 1767311999000})

    requests: list[SignedRequestModel]
    expires_at_millis: int
