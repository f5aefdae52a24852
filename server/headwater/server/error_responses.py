"""The errors that routes can answer, for the API's description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.catalog.wire.tables import ErrorResponse

__all__ = ["Failure", "failures"]

_EXAMPLES: dict[str, tuple[int, str, str | None, str | None]] = {
    "invalid": (400, "field 'name': Field required", None, None),
    "unauthorised": (401, "the token is not one of this catalog's", None, None),
    "protected": (403, "table sales.orders is protected and cannot be dropped", "TABLE",
                  "sales.orders"),
    "not read": (403, "this server does not read at s3://elsewhere/orders", None, None),
    "no manager": (403, "the token of 'ada' is not for this, but for scope write", None, None),
    "not allowed": (403, "s3://elsewhere is in no place that this server allows for warehouses",
                    None, None),
    "too many requests": (429, "'ada' sends more requests than this server takes "
                          "(HEADWATER_MAX_REQUESTS_PER_SECOND); nothing was done, try again in 1 s",
                          None, None),
    "internal": (500, "internal error; the server's log has the details under request id 7d1…",
                 None, None),
    "unavailable": (503, "the database did not answer; try again", None, None),
    "not ready": (503, "not ready: no answer from database; the log says why", None, None),
    "no database": (404, "database 'sales' does not exist", "DATABASE", "sales"),
    "no table": (404, "table sales.orders does not exist", "TABLE", "orders"),
    "no partition": (404, "table sales.orders has no partition dt=7", "PARTITION", "dt=7"),
    "no column": (404, "column 'amount' does not exist", "COLUMN", "amount"),
    "no snapshot": (404, "snapshot 7 of table sales.orders does not exist", "SNAPSHOT", "7"),
    "no tag": (404, "tag 'v1' of table sales.orders does not exist", "TAG", "v1"),
    "no branch": (404, "table sales.orders has no branch 'b'", "BRANCH", "b"),
    "no view": (404, "view sales.recent does not exist", "VIEW", "recent"),
    "no function": (404, "function sales.area does not exist", "FUNCTION", "area"),
    "no dialect": (404, "view sales.recent has no query for 'flink'", "DIALECT", "flink"),
    "no definition": (404, "function sales.area has no definition for 'flink'", "DEFINITION",
                      "flink"),
    "database exists": (409, "database 'sales' exists already", "DATABASE", "sales"),
    "table exists": (409, "table sales.orders exists already", "TABLE", "orders"),
    "partition exists": (409, "partition dt=7 exists already", "PARTITION", "dt=7"),
    "column exists": (409, "column 'amount' exists already", "COLUMN", "amount"),
    "tag exists": (409, "tag 'v1' exists already", "TAG", "v1"),
    "branch exists": (409, "table sales.orders has a branch 'b' already", "BRANCH", "b"),
    "schema in use": (409, "Cannot rollback to schema 0, schema 1 is still referenced", None, None),
    "busy": (409, "table sales.orders is being changed by others; retry", None, None),
    "consumer in use": (409, "table sales.orders: consumer 'billing' is in use by 'job-7f3a'", None,
                        None),
    "view exists": (409, "view sales.recent exists already", "VIEW", "recent"),
    "dialect exists": (409, "view sales.recent has a query for 'flink' already", "DIALECT",
                       "flink"),
    "function exists": (409, "function sales.area exists already", "FUNCTION", "area"),
    "definition exists": (409, "function sales.area has a definition for 'flink' already",
                          "DEFINITION", "flink"),
    "no warehouse": (404, "warehouse 'lake' does not exist in the catalog's database", None, None),
    "warehouse exists": (409, "there is a warehouse 'lake' already", None, None),
    "warehouse in use": (409, "warehouse 'lake' is not empty", None, None),
    "moved on": (409, "the latest snapshot is 9, not 8", None, None),
    "no partitions here": (501, "the partitions of this table are in its files", "TABLE",
                           "sales.orders"),
    "unsupported": (501, "this server does not do that yet", None, None),
}  # fmt: skip

_ALWAYS = ("invalid", "unauthorised", "too many requests", "internal", "unavailable")

_DESCRIPTIONS = {
    400: "The request is wrong.",
    401: "The token is missing or wrong.",
    403: "The caller may not do that, or it is not allowed at all.",
    404: "A resource named in the request does not exist.",
    409: "The name is taken, or another request came first.",
    429: "The caller sends too many requests; nothing was done.",
    500: "The server failed; the outcome is unknown.",
    501: "This server does not do that.",
    503: "A service behind this server did not answer; retrying is safe.",
}


_SCHEMA = {"$ref": f"#/components/schemas/{ErrorResponse.__name__}"}


@dataclass(frozen=True)
class Failure:
    """An example of an error that one resource alone has."""

    name: str
    code: int
    message: str
    resource_type: str | None = None
    resource_name: str | None = None


def failures(*names: str | Failure) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, as FastAPI takes them.

    Args:
        names: Examples beyond those that every route has, such as ``no table``; an example that
            only one resource has is given whole.
    """
    responses: dict[int | str, dict[str, Any]] = {}
    asked = {_named(name) for name in (*_ALWAYS, *names)}
    for failure in sorted(asked, key=lambda failure: (failure.code, failure.name)):
        example = ErrorResponse(
            message=failure.message,
            resource_type=failure.resource_type,
            resource_name=failure.resource_name,
            code=failure.code,
        )
        response = responses.setdefault(
            failure.code,
            {
                "description": _DESCRIPTIONS[failure.code],
                # Not as a "model": the framework would make a validator for each of a route's
                # errors, and none of them is ever used.
                "content": {"application/json": {"examples": {}, "schema": dict(_SCHEMA)}},
            },
        )
        examples = response["content"]["application/json"]["examples"]
        examples[failure.name] = {"value": example.model_dump()}
    return responses


def _named(name: str | Failure) -> Failure:
    return name if isinstance(name, Failure) else Failure(name, *_EXAMPLES[name])
