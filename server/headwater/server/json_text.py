"""JSON as it is written: a value goes in and out without a parser's changing a byte of it.

Clients add fields to their snapshots from release to release, with numbers of any length: what is
parsed and printed again may differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NoReturn, TypeAlias, Union

from fastapi import Depends, Request
from starlette.responses import Response

from headwater.server.json_slices import SlicedJson
from headwater.storage.errors import Invalid

__all__ = ["BodyText", "Raw", "json_response", "member_text"]

_SPACE = " \t\n\r"


@dataclass(frozen=True)
class Raw:
    """A value that is JSON already."""

    text: str


_Value: TypeAlias = Union[str, int, Raw, Sequence["_Value"], Mapping[str, "_Value"], None]  # noqa: UP007


def json_response(document: Mapping[str, _Value]) -> Response:
    """A successful answer."""
    return Response(_render(document), media_type="application/json")


def _render(value: _Value) -> str:
    match value:
        case Raw():
            return value.text
        case Mapping():
            fields = (f"{json.dumps(name)}:{_render(item)}" for name, item in value.items())
            return "{" + ",".join(fields) + "}"
        case str() | int() | None:
            return json.dumps(value)
    return "[" + ",".join(_render(item) for item in value) + "]"


async def _body_text(request: Request) -> str:
    # The framework has read the body by now, or does here: it is kept in the request.
    try:
        return (await request.body()).decode()
    except UnicodeDecodeError:
        raise Invalid("the request body is not UTF-8") from None


BodyText: TypeAlias = Annotated[str, Depends(_body_text)]


def member_text(body: str, name: str) -> str:
    """The text of a member of a JSON object, which names each member once.

    Raises:
        Invalid: The text is not an object, lacks the member, or has a number that JSON lacks.
    """
    try:
        found = _find(body, name)
    except (ValueError, IndexError, StopIteration, RecursionError) as error:
        raise Invalid(f"the request body is not valid JSON: {error}") from error
    if found is None:
        raise Invalid(f"field '{name}': it is missing")
    return found


def _find(body: str, name: str) -> str | None:
    sliced = SlicedJson(body, decoder=_DECODER)
    at = _after(body, _skip(body, 0), "{")
    found: str | None = None
    while True:
        key, end = _DECODER.raw_decode(body, at)
        at = _after(body, _skip(body, end), ":")
        _, end = sliced.value(at)
        if key == name:
            found = body[at:end]
        at = _skip(body, end)
        if body[at] == "}":
            return found
        at = _after(body, at, ",")


def _after(body: str, at: int, expected: str) -> int:
    if body[at] != expected:
        raise ValueError(f"'{expected}' expected at character {at}")
    return _skip(body, at + 1)


def _skip(body: str, at: int) -> int:
    while body[at] in _SPACE:
        at += 1
    return at


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number in JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
