"""The caller of the catalog: a name, groups, and the limits of the credential that was shown.

The server sets it for each request, and it follows the request into the thread that answers it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

__all__ = [
    "GROUP_PREFIX",
    "RESERVED_NAMES",
    "Principal",
    "Scope",
    "acting_as",
    "current_name",
    "current_principal",
]

GROUP_PREFIX = "group:"
"""The beginning of a group's name where a principal is expected: ``group:analysts``."""


RESERVED_NAMES = frozenset({"configured", "anybody"})
"""The names by which records and logs call callers that have none of their own."""


class Scope(StrEnum):
    """The kinds of request that a credential is good for.

    Attributes:
        READ: Requests that change nothing, and moves of consumers, as far as permissions go.
        WRITE: All requests of a catalog, as far as permissions go.
        ADMINISTER: All requests of a catalog; permissions are not asked.
        MANAGE: The management of warehouses, tokens and groups.
    """

    READ = "read"
    WRITE = "write"
    ADMINISTER = "administer"
    MANAGE = "manage"


_IMPLIED = {
    Scope.READ: frozenset({Scope.READ, Scope.WRITE, Scope.ADMINISTER}),
    Scope.WRITE: frozenset({Scope.WRITE, Scope.ADMINISTER}),
    Scope.ADMINISTER: frozenset({Scope.ADMINISTER}),
    Scope.MANAGE: frozenset({Scope.MANAGE}),
}


@dataclass(frozen=True)
class Principal:
    """Somebody who calls.

    Attributes:
        name: The name that permissions are granted to and that records show.
        groups: The groups that it belongs to, without `GROUP_PREFIX`.
        scopes: The kinds of request that its credential is good for.
        warehouses: The only warehouses that its credential is good for; None means all.
        asks_permission: True if each request needs a permission.
    """

    name: str
    groups: frozenset[str] = frozenset()
    scopes: frozenset[Scope] = frozenset({Scope.ADMINISTER})
    warehouses: frozenset[str] | None = None
    asks_permission: bool = False

    def has(self, scope: Scope) -> bool:
        """True if its credential is good for a kind of request."""
        return not self.scopes.isdisjoint(_IMPLIED[scope])

    def reaches(self, warehouse: str) -> bool:
        """True if its credential is good for a warehouse."""
        return self.warehouses is None or warehouse in self.warehouses

    @cached_property
    def grantees(self) -> frozenset[str]:
        """The names by which a permission reaches it: its own and its groups'."""
        groups = {GROUP_PREFIX + group for group in self.groups}
        # Whoever is called like a group is not that group.
        return frozenset(groups if self.name.startswith(GROUP_PREFIX) else groups | {self.name})


_PRINCIPAL: ContextVar[Principal | None] = ContextVar("headwater_principal", default=None)


def current_principal() -> Principal | None:
    """The acting principal; None in a program that uses the catalog without a server between.

    A server that needs no credentials has none either.
    """
    return _PRINCIPAL.get()


def current_name() -> str | None:
    """The acting principal's name, for the catalog's records; None when nobody is known."""
    principal = _PRINCIPAL.get()
    return None if principal is None else principal.name


@contextmanager
def acting_as(principal: Principal | str | None) -> Iterator[None]:
    """Act on somebody's behalf within the block; a name alone is that of an administrator."""
    if isinstance(principal, str):
        principal = Principal(principal)
    token = _PRINCIPAL.set(principal)
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)
