"""The one mapping from Headwater's errors to HTTP, and the JSON body of every error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from traceback import clear_frames
from typing import TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from headwater.catalog.wire.tables import ERROR_KIND_HEADER, ErrorResponse
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)

__all__ = [
    "REQUEST_ID_HEADER",
    "clear_unexpected",
    "error_response",
    "install_error_handlers",
    "invalid_body",
    "known_error_response",
    "place_in",
    "status_of",
]

Handler: TypeAlias = Callable[[Request, Exception], Awaitable[JSONResponse]]

_LOG = logging.getLogger("headwater.server.requests")

REQUEST_ID_HEADER = "x-request-id"

# Nobody reads more of them.
_MAX_FAULTS = 20
_MAX_START_LENGTH, _MAX_END_LENGTH = 3000, 1000

_STATUS: Mapping[type[HeadwaterError], int] = {
    NotFound: 404,
    AlreadyExists: 409,
    Conflict: 409,
    Invalid: 400,
    Forbidden: 403,
    Unavailable: 503,
    # Paimon's Java client repeats what was answered 503, whatever it was.
    OutcomeUnknown: 500,
    CorruptData: 500,
    Unsupported: 501,
}


def status_of(error: HeadwaterError) -> int:
    """The HTTP status, and the body's code, of an error."""
    return _STATUS[_kind(error)]


def _kind(error: HeadwaterError) -> type[HeadwaterError]:
    """The error's class among those that clients know."""
    return next(kind for kind in type(error).__mro__ if kind in _STATUS)


def error_response(
    status: int,
    message: str,
    *,
    resource_type: str | None = None,
    resource_name: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error as clients expect it: always JSON, always with all four fields."""
    body = ErrorResponse(
        message=_shortened(message),
        resource_type=resource_type,
        resource_name=resource_name,
        code=status,
    )
    return JSONResponse(body.model_dump(), status_code=status, headers=dict(headers or {}))


def _shortened(message: str) -> str:
    """A message without the middle of what a client sent, if that is very long."""
    if len(message) <= _MAX_START_LENGTH + _MAX_END_LENGTH:
        return message
    return f"{message[:_MAX_START_LENGTH]} … {message[-_MAX_END_LENGTH:]}"


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error of `app` with `error_response`."""
    app.add_exception_handler(HeadwaterError, _dropping_tracebacks(_known_error))
    app.add_exception_handler(RequestValidationError, _dropping_tracebacks(_invalid_request))
    app.add_exception_handler(HTTPException, _dropping_tracebacks(_framework_error))
    app.add_exception_handler(Exception, _unexpected_error)


def _dropping_tracebacks(handle: Handler) -> Handler:
    """Make a handler drop the tracebacks of an error and of the errors that led to it.

    The frame that waited for a thread refers to the error that was raised there. With its
    traceback that is a cycle of references, and what its frames refer to, such as the request's
    body, would stay in memory until Python's collector runs.
    """

    async def handle_error(request: Request, error: Exception) -> JSONResponse:
        response = await handle(request, error)
        for link in _chain_of(error):
            link.__traceback__ = None
        return response

    return handle_error


def clear_unexpected(error: Exception) -> None:
    """Clear the frames of an error that no handler of ours takes, whose traceback is logged later.

    See `_dropping_tracebacks`. Handled errors are left alone: several requests may share one, and
    clearing the frame of a coroutine ends it.
    """
    if not isinstance(error, HeadwaterError | RequestValidationError | HTTPException):
        for link in _chain_of(error):
            clear_frames(link.__traceback__)


def _chain_of(error: BaseException) -> Sequence[BaseException]:
    """An error, and those that it was raised from or while handling."""
    chain = [error]
    for link in chain:
        causes = (link.__cause__, link.__context__)
        chain += [cause for cause in causes if cause is not None and cause not in chain]
    return chain


async def _known_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HeadwaterError)
    return known_error_response(error)


def known_error_response(error: HeadwaterError) -> JSONResponse:
    """The answer to a request that ended in one of Headwater's own errors."""
    # The header tells Headwater's own client which class it was: several share a status.
    headers = {ERROR_KIND_HEADER: _kind(error).__name__}
    if status_of(error) == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    return error_response(
        status_of(error),
        _shown(error),
        resource_type=error.resource_type,
        resource_name=error.resource_name,
        headers=headers,
    )


def _shown(error: HeadwaterError) -> str:
    """The message without what is the operator's alone, which is logged."""
    message = error.message
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, HeadwaterError) and cause.private and cause.private in message:
            _LOG.warning("%s", message)
            return message.replace(cause.private, "the server's log has the reason")
        cause = cause.__cause__
    return message


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    message = invalid_body(error.errors(), error.body)
    return error_response(400, message, headers={ERROR_KIND_HEADER: Invalid.__name__})


def invalid_body(faults: Sequence[Mapping[str, object]], body: object = None) -> str:
    """The message about a request's faults, the first of them.

    Args:
        faults: The faults, as pydantic tells them.
        body: The body that is no JSON.
    """
    sentences = [_sentence(fault, body) for fault in faults[:_MAX_FAULTS]]
    if len(faults) > _MAX_FAULTS:
        sentences.append(f"and {len(faults) - _MAX_FAULTS} more like these")
    return "; ".join(sentences)


def _sentence(item: Mapping[str, object], body: object) -> str:
    location = item.get("loc")
    parts = [str(part) for part in location] if isinstance(location, tuple | list) else []
    where, names = (parts[0], parts[1:]) if parts else ("request", [])
    if item.get("type") == "json_invalid":
        context = item.get("ctx")
        reason = context.get("error") if isinstance(context, dict) else item.get("msg")
        return f"the request body is not valid JSON: {reason} at {_position(names, body)}"
    message = str(item.get("msg", "")).removeprefix("Value error, ")
    if where == "body":
        what = f"field '{'.'.join(names)}'" if names else "the request body"
        return f"{what}: {message}"
    return f"{where} parameter '{'.'.join(names)}': {message}"


def _position(names: list[str], body: object) -> str:
    at = int(names[0]) if names and names[0].isdigit() else 0
    return place_in(body, at) if isinstance(body, str) else f"character {at}"


def place_in(body: str, at: int) -> str:
    """The line and the column of a character of a body, for a message."""
    line = body.count("\n", 0, at) + 1
    column = at - (body.rfind("\n", 0, at) + 1) + 1
    return f"line {line}, column {column}"


async def _framework_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    # The framework's own would be put together with the header 'Host', whatever that is.
    path = request.scope["path"]
    match error.status_code:
        case 404:
            message = f"there is no {request.method} {path} here; see /openapi.json for what is"
        case 405:
            message = f"{path} does not take {request.method}; see /openapi.json for what it does"
        case _:
            message = str(error.detail)
    return error_response(error.status_code, message, headers=error.headers)


async def _unexpected_error(request: Request, error: Exception) -> JSONResponse:
    # The framework raises the error again after this answer, so that the log has its traceback.
    request_id = str(getattr(request.state, "request_id", "unknown"))
    return error_response(
        500,
        f"internal error; the server's log has the details under request id {request_id}",
        headers={REQUEST_ID_HEADER: request_id},
    )
