"""Branches of a table: lines of schemas and snapshots of their own, over shared data files.

A branch is named in a table's name, ``t$branch_b``; whatever takes a table's name takes a
branch's. The rules are those of ``FileSystemBranchManager.java``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol
from urllib.parse import unquote

from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.printable import has_unprintable

__all__ = ["Branches", "branch_of", "check_branch_name"]

# With "branch-" before it, within the 255 bytes of a file name.
_MAX_BRANCH_BYTES = 200


class Branches(Protocol):
    """The branches of one warehouse's tables.

    Methods raise `NotFound` about a ``TABLE``, ``BRANCH``, ``TAG`` or ``SNAPSHOT``, and
    `Unsupported` for an external table, whose branches are in its files.
    """

    def list(self, identifier: Identifier) -> Sequence[str]:
        """The names of a table's branches in their order, without ``main``."""
        ...

    def create(
        self,
        identifier: Identifier,
        branch: str,
        *,
        from_tag: str | None = None,
        from_snapshot: int | None = None,
    ) -> None:
        """Begin a branch with the schemas of the table, or branch, that is named.

        Args:
            identifier: The table, or the branch of it to start from.
            branch: The new branch.
            from_tag: Begin with what this tag names, and with the tag. The tag keeps the files
                from being expired by engines that do not look at branches.
            from_snapshot: Begin with this snapshot. With neither, the branch begins empty.

        Raises:
            AlreadyExists: There is a branch of that name.
            Invalid: It cannot be the name of a branch.
        """
        ...

    def rename(self, identifier: Identifier, branch: str, new_name: str) -> None:
        """Give a branch another name; its files move.

        Raises:
            AlreadyExists: There is a branch of the new name.
            Invalid: It cannot be the name of a branch, or the main branch is meant.
        """
        ...

    def fast_forward(self, identifier: Identifier, branch: str) -> None:
        """Make the table, or branch, that is named hold what another branch holds.

        What both have in common stays; what came after it goes away, tags included, and the other
        branch's schemas, snapshots and tags take its place. A branch without a snapshot changes
        nothing.

        Raises:
            Invalid: A branch cannot be forwarded to itself, nor anything to the main branch.
        """
        ...

    def drop(self, identifier: Identifier, branch: str) -> None:
        """Drop a branch and its own files; data files stay until they expire.

        Raises:
            Invalid: It is the main branch, or one that the table's options refer to.
        """
        ...


def branch_of(identifier: Identifier, branch: str) -> Identifier:
    """The name of a branch of a table, whichever of its branches was named."""
    name = identifier.table if branch == MAIN_BRANCH else f"{identifier.table}$branch_{branch}"
    return replace(identifier, name=name)


def check_branch_name(branch: str, *, is_new: bool = True) -> None:
    """Reject a name that a branch must not have (``BranchManager.java``).

    Args:
        branch: The name.
        is_new: False for a branch that another engine may have made.

    Raises:
        Invalid: The branch's files would lie elsewhere, or it is new and misleads people.
    """
    if not branch.strip() or branch != branch.strip():
        raise Invalid(f"'{branch}' is not a branch name: it is empty or has spaces at an end")
    if branch == MAIN_BRANCH:
        raise Invalid(f"'{MAIN_BRANCH}' is the main branch; choose another name")
    if all(unicodedata.category(character) == "Nd" for character in branch):
        raise Invalid(f"'{branch}' is not a branch name: it must not be a number")
    for character in unquote(branch):
        if character in "/\\$" or unicodedata.category(character) in ("Cc", "Cs"):
            raise Invalid(
                f"{branch!r} is not a branch name: it must not contain a slash, a backslash, "
                "a dollar sign or a control character"
            )
    if is_new and has_unprintable(branch):
        raise Invalid(
            f"{branch!r} is not a branch name: it must not contain a format or separator character"
        )
    if len(branch.encode()) > _MAX_BRANCH_BYTES:
        raise Invalid(f"the branch name '{branch[:40]}…' is longer than {_MAX_BRANCH_BYTES} bytes")
