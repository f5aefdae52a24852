"""The names under which policies restrict whoever the catalog acts for."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.principal import current_principal

__all__ = ["policy_subjects"]


def policy_subjects() -> Sequence[str] | None:
    """The caller's name and groups; None for the owner of the catalog, whom no policy restricts.

    The owner is the program that opened the catalog, or whoever reaches a server that asks for no
    token.
    """
    principal = current_principal()
    return None if principal is None else sorted(principal.grantees)
