"""On whose behalf the catalog is used, for its own records: who made, changed or dropped a thing.

The server sets it for each request, and it follows the request into the thread that answers it. It
grants nothing: whether somebody may do a thing is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["acting_as", "current_principal"]

_PRINCIPAL: ContextVar[str | None] = ContextVar("headwater_principal", default=None)


def current_principal() -> str | None:
    """The acting principal; None in a program that uses the catalog without a server between."""
    return _PRINCIPAL.get()


@contextmanager
def acting_as(name: str | None) -> Iterator[None]:
    """Act on somebody's behalf within the block."""
    token = _PRINCIPAL.set(name)
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)
