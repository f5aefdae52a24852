"""The rules for names of principals and groups."""

from __future__ import annotations

from headwater.catalog.model.principal import GROUP_PREFIX, RESERVED_NAMES
from headwater.storage.errors import Invalid
from headwater.storage.printable import has_unprintable

__all__ = ["check_new_grantee", "check_principal_name"]

_MAX_NAME_LENGTH = 255


def check_principal_name(name: str, whose: str) -> None:
    """Refuse what cannot be a name.

    Args:
        name: The name.
        whose: Its holder for the message, such as ``token's``.

    Raises:
        Invalid: It is empty, too long or confusing, or begins like a group.
    """
    # It stands in log lines and in permissions.
    if not name or name != name.strip() or len(name) > _MAX_NAME_LENGTH:
        raise Invalid(
            f"'{name[:40]}' is not a {whose} name: it must have 1 to {_MAX_NAME_LENGTH} characters "
            "and no space at either end"
        )
    if has_unprintable(name):
        raise Invalid(
            f"{name!r} is not a {whose} name: it has a control, format or separator character"
        )
    if name in RESERVED_NAMES:
        raise Invalid(f"'{name}' is not a {whose} name: it is the name of callers without one")
    if name.startswith(GROUP_PREFIX):
        raise Invalid(
            f"'{name}' is not a {whose} name: '{GROUP_PREFIX}' is how permissions name a group"
        )


def check_new_grantee(principal: str) -> None:
    """Reject a principal or group that a new grant or policy must not name; raises Invalid."""
    if has_unprintable(principal):
        raise Invalid(
            f"{principal!r} cannot be a principal: it has a control, format or separator character"
        )
