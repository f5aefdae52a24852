"""A schema registry, as Confluent's: schemas of messages by their numbers."""

from __future__ import annotations

import json
import os

import httpx

from headwater.storage.errors import CorruptData, Forbidden, NotFound, Unavailable, Unsupported
from headwater.storage.types.data_type import Json

__all__ = ["REGISTRY_VARIABLE", "SchemaRegistry"]

REGISTRY_VARIABLE = "HEADWATER_CDC_REGISTRY_LOGIN"
"""The variable of the registry's login, as ``user:password``."""

_SECONDS = 15.0
_DENIED = (401, 403)


class SchemaRegistry:
    """Reads schemas, each once.

    Args:
        url: Where the registry is.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._schemas: dict[int, Json] = {}

    def schema(self, number: int) -> Json:
        """A schema of Avro.

        Raises:
            Forbidden: The registry rejects the login.
            NotFound: It does not have the schema.
            Unavailable: It cannot be reached.
            Unsupported: The schema is not of Avro, or refers to others.
        """
        if number not in self._schemas:
            self._schemas[number] = self._read(number)
        return self._schemas[number]

    def _read(self, number: int) -> Json:
        where = f"schema {number} of the registry at {self._url}"
        user, _, password = os.environ.get(REGISTRY_VARIABLE, "").partition(":")
        try:
            response = httpx.get(
                f"{self._url}/schemas/ids/{number}",
                auth=(user, password) if user else None,
                timeout=_SECONDS,
            )
        except httpx.HTTPError as error:
            raise Unavailable(f"cannot read {where}: {error}; check that it runs") from error
        if response.status_code in _DENIED:
            raise Forbidden(
                f"cannot read {where}: it answers {response.status_code}; put user:password into "
                f"{REGISTRY_VARIABLE}"
            )
        if response.status_code == httpx.codes.NOT_FOUND:
            raise NotFound(f"cannot read {where}: it is not there; restore the registry")
        if response.is_error:
            raise Unavailable(f"cannot read {where}: it answers {response.status_code}")
        try:
            body = response.json()
            type_, references = body.get("schemaType", "AVRO"), body.get("references")
            if type_ != "AVRO" or references:
                what = f"it is of {type_}" if type_ != "AVRO" else "it refers to other schemas"
                raise Unsupported(f"cannot read {where}: {what}; let the connector write Avro")
            schema: Json = json.loads(body["schema"])
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise CorruptData(f"cannot read {where}: the answer is not one: {error!r}") from error
        return schema
