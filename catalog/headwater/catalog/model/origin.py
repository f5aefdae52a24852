"""The origin of a change: the request that asks for it, as the records name it.

The server sets it for each request, and it follows the request into the thread that answers it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

__all__ = ["ORIGIN", "Origin", "coming_from", "current_origin"]


class Origin(NamedTuple):
    """A request.

    Attributes:
        address: The network address of its client; None if unknown.
        request_id: Its id.
    """

    address: str | None
    request_id: str


ORIGIN: ContextVar[Origin | None] = ContextVar("headwater_origin", default=None)
"""The origin of what is done now; None in a program without a server between."""


def current_origin() -> Origin | None:
    """The origin of what is done now; None in a program without a server between."""
    return ORIGIN.get()


@contextmanager
def coming_from(origin: Origin | None) -> Iterator[None]:
    """Do what the block does on a request."""
    token = ORIGIN.set(origin)
    try:
        yield
    finally:
        ORIGIN.reset(token)
