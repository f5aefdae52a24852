"""The answers of a REST catalog: bodies, errors, and rows as they come."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

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
    ResourceType,
    Unavailable,
    Unsupported,
)

__all__ = ["Answer", "ByteStream", "reason_of"]

T = TypeVar("T", bound=BaseModel)

_KINDS: Mapping[str, type[HeadwaterError]] = {
    kind.__name__: kind
    for kind in (
        NotFound,
        AlreadyExists,
        Conflict,
        Invalid,
        Forbidden,
        Unavailable,
        OutcomeUnknown,
        CorruptData,
        Unsupported,
    )
}
_CODES: Mapping[int, type[HeadwaterError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    422: Invalid,
    501: Unsupported,
}
_END_OF_ARROW = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True)
class Answer:
    """A server's answer."""

    status: int
    text: str
    headers: Mapping[str, str]
    request: str

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again, if it says so in seconds."""
        text = self.headers.get("retry-after", "").strip()
        return float(text) if text.isascii() and text.isdecimal() else None

    @property
    def is_success(self) -> bool:
        """True if it is 200, 202 or 204."""
        return self.status in (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT)

    def read(self, model: type[T]) -> T:
        """The body.

        Raises:
            HeadwaterError: The answer is an error.
            Unavailable: The body is not what a Paimon REST catalog sends.
        """
        if not self.is_success:
            raise self.error()
        try:
            return model.model_validate_json(self.text or "{}")
        except ValidationError as error:
            raise Unavailable(
                f"{self.request} was answered by something that is not a Paimon REST catalog: "
                f"{error.error_count()} fields of {model.__name__} are wrong or missing"
            ) from None

    def error(self) -> HeadwaterError:
        """The error that the answer is; the body's code counts more than the status."""
        try:
            body = ErrorResponse.model_validate_json(self.text)
        except ValidationError:
            return Unavailable(
                f"{self.request} was answered {self.status} without an error that a Paimon REST "
                "catalog would send; check the address"
            )
        resource_type = _resource_type(body.resource_type)
        kind = _KINDS.get(self.headers.get(ERROR_KIND_HEADER, ""), _CODES.get(body.code))
        if kind is None:
            # 409 says that a name is taken; about nothing in particular, that somebody was first.
            taken = AlreadyExists if resource_type is not None else Conflict
            kind = taken if body.code == HTTPStatus.CONFLICT else Unavailable
        message = body.message or f"{self.request} was answered {body.code}"
        request_id = self.headers.get("x-request-id")
        if body.code >= HTTPStatus.INTERNAL_SERVER_ERROR and request_id:
            message = f"{message} (request id {request_id})"
        return kind(message, resource_type=resource_type, resource_name=body.resource_name or None)


class ByteStream(io.RawIOBase):
    """The body of an answer as it comes, as a file that is read once.

    Args:
        response: The answer; it is closed with this.

    Attributes:
        problem: The reason why the body broke off; None as long as it has not.
    """

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self._response = response
        self._chunks = response.iter_raw()
        self._left = memoryview(b"")
        self._last = b""
        self.problem: str | None = None

    def readable(self) -> bool:
        """True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """So many bytes, fewer only at the end; with -1 all that are left.

        Raises:
            OSError: The body broke off.
        """
        parts: list[bytes] = []
        while size:
            part = self._some(size)
            if not part:
                break
            parts.append(part)
            size = size - len(part) if size > 0 else size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int) -> bytes:
        while not self._left:
            try:
                chunk = next(self._chunks, None)
            except httpx.RequestError as error:
                self.problem = reason_of(error)
                raise OSError(self.problem) from error
            if chunk is None:
                return b""
            self._last = (self._last + chunk)[-len(_END_OF_ARROW) :]
            self._left = memoryview(chunk)
        size = len(self._left) if most < 0 else most
        found = bytes(self._left[:size])
        self._left = self._left[size:]
        return found

    def expect_end(self) -> None:
        """See that the body has ended as an Arrow stream does; raises OSError."""
        if self.read(1) or self._last != _END_OF_ARROW:
            self.problem = self.problem or "the rows have no end"
            raise OSError(self.problem)

    def close(self) -> None:
        """Give back the connection."""
        if not self.closed:
            self._response.close()
        super().close()


def _resource_type(text: str | None) -> ResourceType | None:
    if not text:
        return None
    try:
        return ResourceType(text.upper())
    except ValueError:
        return ResourceType.UNKNOWN


def reason_of(error: httpx.RequestError) -> str:
    """The reason why a request failed, in words."""
    return str(error) or type(error).__name__
