"""The API's description, made from the application itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from headwater.catalog.wire.tables import ErrorResponse, WireModel
from headwater.server.api_description.descriptions import make_readable
from headwater.server.authentication import OPEN_PATHS

__all__ = ["describe"]

_CONTRACT_VERSION = "1"
_RESPONSES = "#/components/responses/"


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an application.

    Unlike the framework's own: a wrong request is 400 and never 422, every operation but those in
    `OPEN_PATHS` wants a token, and error responses that say the same are written once.
    """
    document = get_openapi(
        title=app.title,
        version=_CONTRACT_VERSION,
        description=app.description,
        license_info=app.license_info,
        routes=app.routes,
    )
    components = document["components"]
    components["schemas"].pop("HTTPValidationError", None)
    components["schemas"].pop("ValidationError", None)
    errors = ErrorResponse.model_json_schema(mode="serialization")
    schemas = {**components["schemas"], ErrorResponse.__name__: errors}
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    shared: dict[str, Any] = {}
    components["responses"] = shared
    for model in _models(WireModel):
        extra = model.model_config.get("json_schema_extra")
        if model.__name__ in components["schemas"] and isinstance(extra, dict):
            # As it was written: the framework leaves nulls out.
            components["schemas"][model.__name__].update(extra)
    for path, operation in _operations(document):
        operation["security"] = [] if path in OPEN_PATHS else [{"bearer": []}]
        responses = operation["responses"]
        responses.pop("422", None)
        for status, response in responses.items():
            if status != "200":
                responses[status] = {"$ref": _RESPONSES + _share(shared, status, response)}
    make_readable(document)
    return document


def _models(base: type[WireModel]) -> Iterator[type[WireModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def _share(shared: dict[str, Any], status: str, response: dict[str, Any]) -> str:
    examples = response["content"]["application/json"]["examples"]
    name = "".join(word.capitalize() for word in [status, *" ".join(examples).split()])
    shared[name] = response
    return name
