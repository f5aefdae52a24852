"""The credential of a request: whose it is, its end, and what finds it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headwater.catalog.model.principal import Principal

__all__ = ["CREDENTIAL", "Credential", "Parent", "ParentKind"]

CREDENTIAL = "credential"
"""The key of a request's `Credential` in the connection's state."""


class ParentKind(StrEnum):
    """The kinds of credential that temporary keys are made of.

    Attributes:
        RECORD: A token or an access key of the database, by its record's id.
        SIGNED: A token that an issuer signed, itself: nothing less says that it is good still.
        CONFIGURED: A token of the settings, by its hash.
    """

    RECORD = "record"
    SIGNED = "signed"
    CONFIGURED = "configured"


@dataclass(frozen=True)
class Parent:
    """The credential that a temporary key is made of.

    Attributes:
        kind: Its kind.
        value: The text that finds it.
    """

    kind: ParentKind
    value: str = field(repr=False)


@dataclass(frozen=True)
class Credential:
    """A credential that lets its caller in.

    Attributes:
        principal: The caller.
        expires_at: Its end, milliseconds since the epoch; None is never.
        parent: The text that finds it again; None if no temporary key may be made of it.
    """

    principal: Principal
    expires_at: int | None = None
    parent: Parent | None = None
