"""Signing requests to a table's files, where a store has no security token service."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.wire.signed_requests import FileRequestModel, SignedRequestModel
from headwater.server.data_tokens import first_option, own_credentials
from headwater.server.presigned_urls import Bucket, presigned
from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place

__all__ = ["CHANGES", "RequestSigning", "can_sign"]

CHANGES = frozenset({"PUT", "DELETE", "CREATE", "PART", "COMPLETE", "ABORT"})
"""The methods that change files."""

# The store keeps an upload's id with its key, and knows it under no other.
_OF_UPLOADS = {"CREATE": "POST", "PART": "PUT", "COMPLETE": "POST", "ABORT": "DELETE"}

_ROLE = "s3.sts.role-arn"
_ENDPOINTS = ("s3.endpoint", "fs.s3.endpoint")
_REGIONS = ("s3.region", "fs.s3.region", "s3.endpoint.region")
_PATH_STYLES = ("s3.path.style.access", "s3.path-style-access")


def can_sign(catalog: Catalog | None) -> bool:
    """True if the files of a catalog are in a store whose requests can be signed, and need it."""
    return (
        isinstance(catalog, SqlCatalog)
        and Place.of(catalog.location).scheme == "s3"
        and not catalog.storage_options.get(_ROLE)
    )


class RequestSigning:
    """Signs requests to the files of one table.

    Args:
        location: The table's URI.
        options: The warehouse's storage options.
        seconds: The time for which a request is good.

    Raises:
        Unsupported: Neither the options nor the environment have keys to sign with.
    """

    def __init__(self, location: str, options: Mapping[str, str], seconds: int) -> None:
        name, _, directory = location.partition("://")[2].partition("/")
        region = first_option(options, _REGIONS) or "us-east-1"
        endpoint = first_option(options, _ENDPOINTS)
        style = first_option(options, _PATH_STYLES) or ("true" if endpoint else "false")
        is_path = style.lower() == "true"
        # As file access has it: an endpoint without path style is the bucket's own.
        if endpoint is None:
            host = f"s3.{region}.amazonaws.com"
            url = f"https://{host}/{name}" if is_path else f"https://{name}.{host}"
        else:
            url = endpoint.rstrip("/") + (f"/{name}" if is_path else "")
        self._bucket = Bucket(url, region, own_credentials(options))
        self._directory = directory
        self._seconds = seconds

    def sign(self, asked: FileRequestModel, now_millis: int) -> SignedRequestModel:
        """Sign a request; raises Invalid if it is for what is no file below the directory."""
        _check(asked)
        headers = {"if-none-match": "*"} if asked.if_absent else {}
        query: Mapping[str, str] = {}
        key, method = f"{self._directory}/{asked.path}", str(asked.method)
        if asked.method == "LIST":
            prefix = f"{key}/" if asked.path else key
            key, method = "", "GET"
            query = {
                "list-type": "2",
                "prefix": prefix,
                "encoding-type": "url",
                **({} if asked.is_deep else {"delimiter": "/"}),
                **({} if asked.after is None else {"continuation-token": asked.after}),
            }
        elif asked.method in _OF_UPLOADS:
            method, query = _OF_UPLOADS[asked.method], _of_upload(asked)
        url = presigned(
            self._bucket,
            method,
            key,
            query=query,
            headers=headers,
            seconds=self._seconds,
            now_millis=now_millis,
        )
        return SignedRequestModel(method=method, url=url, headers=headers)


def _of_upload(asked: FileRequestModel) -> Mapping[str, str]:
    """The parameters of a step of an upload, all of which are signed."""
    if asked.upload_id is None:
        return {"uploads": ""}
    part = {} if asked.part is None else {"partNumber": str(asked.part)}
    return {"uploadId": asked.upload_id, **part}


def _check(asked: FileRequestModel) -> None:
    """Refuse a request for what is not a file below a directory; raises Invalid."""
    if asked.if_absent and asked.method not in ("PUT", "COMPLETE"):
        raise Invalid("'ifAbsent' is for PUT and COMPLETE")
    if (asked.upload_id is not None) != (asked.method in ("PART", "COMPLETE", "ABORT")):
        raise Invalid("'uploadId' is for PART, COMPLETE and ABORT, which need it")
    if (asked.part is not None) != (asked.method == "PART"):
        raise Invalid("'part' is for PART, which needs it")
    if (asked.is_deep or asked.after is not None) and asked.method != "LIST":
        raise Invalid("'isDeep' and 'after' are for LIST")
    if asked.method == "LIST" and not asked.path:
        return
    # Some client or proxy on the way would resolve them.
    parts = asked.path.split("/")
    has_odd = any(ord(each) < 32 or ord(each) == 127 or each == "\\" for each in asked.path)
    if has_odd or any(part in ("", ".", "..") for part in parts):
        raise Invalid(f"{asked.path!r} is not the path of a file below the table's directory")
