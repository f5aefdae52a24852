"""Routes that read large bodies in a thread, and in slices, so that other requests go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Any

from anyio import to_thread
from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope

from headwater.catalog.wire.tables import ERROR_KIND_HEADER
from headwater.server.errors import clear_unexpected, invalid_body, place_in
from headwater.server.json_slices import check_count, decode, unique
from headwater.storage.errors import Invalid

__all__ = ["MOST_ON_LOOP", "BodyRoute"]

MOST_ON_LOOP = 65_536
"""The largest body, bytes, that the event loop reads itself."""

_MAX_VALUES = 1_048_576
# Beyond so many, making a list of what is wrong takes longer than all else.
_MAX_FAULTS = 1000


class BodyRoute(APIRoute):
    """A route whose large bodies are read and validated in a thread; see `MOST_ON_LOOP`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The ordinary handler, of a request that reads its body so."""
        handle = super().get_route_handler()
        field = self.body_field
        annotation: object = None if field is None else field.field_info.annotation
        model: type[BaseModel] | None = None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation

        async def handle_body(request: Request) -> Response:
            body_request = _Request(request.scope, request.receive, model)
            try:
                return await handle(body_request)
            except Exception as error:
                clear_unexpected(error)
                raise
            finally:
                body_request.release()

        return handle_body


class _Request(Request):
    """A request of whose body a model is made.

    Args:
        scope: The connection's.
        receive: Likewise.
        model: The model; None if it is not one.
    """

    def __init__(self, scope: Scope, receive: Receive, model: type[BaseModel] | None) -> None:
        super().__init__(scope, receive)
        self._model = model

    async def json(self) -> Any:
        """The body's value, or the model; what is wrong with a large one is told here."""
        body = await self.body()
        if len(body) <= MOST_ON_LOOP:
            try:
                return json.loads(body, object_pairs_hook=unique)
            except JSONDecodeError:
                # The framework tells of it.
                raise
            except ValueError as error:
                raise _refusal(f"cannot be read: {error}") from None
        return await to_thread.run_sync(_read, body, self._model)

    def release(self) -> None:
        """Forget the body: frames of errors that were caught may refer to the request."""
        for name in ("_body", "_json"):
            self.__dict__.pop(name, None)


def _read(body: bytes, model: type[BaseModel] | None) -> object:
    try:
        text = body.decode()
        check_count(text, max(_MAX_VALUES, len(text) // 16))
        value = decode(text)
    except JSONDecodeError as error:
        raise _refusal(f"is not valid JSON: {error.msg} at {place_in(text, error.pos)}") from None
    except ValueError as error:
        raise _refusal(f"cannot be read: {error}") from None
    if model is None:
        return value
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if error.error_count() > _MAX_FAULTS:
            raise _refusal(f"has {error.error_count()} values of a wrong type") from None
        items = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise HTTPException(400, invalid_body(items), _KIND) from None


_KIND = {ERROR_KIND_HEADER: Invalid.__name__}


def _refusal(reason: str) -> HTTPException:
    return HTTPException(400, f"the request body {reason}", _KIND)
