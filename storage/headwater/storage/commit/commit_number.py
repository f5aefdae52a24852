"""The number under which a job commits, so that it commits the same rows once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from headwater.storage.commit.own_history import BATCH_IDENTIFIER
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid

__all__ = ["CommitNumber", "checked_user", "last_number"]

MAX_USER_LENGTH = 255


@dataclass(frozen=True)
class CommitNumber:
    """A job's number of a commit.

    Attributes:
        user: The commit user; None for a commit without a number.
        identifier: The number; ``BATCH_IDENTIFIER`` for a commit without one.
    """

    user: str | None = None
    identifier: int = BATCH_IDENTIFIER

    @classmethod
    def checked(cls, table: str, user: str | None, identifier: int | None) -> Self:
        """A number as a caller passes it.

        Args:
            table: The table's name in error messages.
            user: The commit user.
            identifier: The number.

        Raises:
            Invalid: One is missing, the name is unusable, or the number is out of range.
        """
        if user is None and identifier is None:
            return cls()
        if user is None or identifier is None:
            missing = "commit_user" if user is None else "commit_identifier"
            raise Invalid(
                f"cannot write to {table}: {missing} is missing; commit_user and commit_identifier "
                "belong together"
            )
        if not 0 <= identifier < BATCH_IDENTIFIER:
            raise Invalid(
                f"cannot write to {table}: commit_identifier {identifier} is out of range; use a "
                f"number from 0 to {BATCH_IDENTIFIER - 1}"
            )
        return cls(checked_user(table, user), identifier)

    @property
    def is_given(self) -> bool:
        """Whether the commit has a number."""
        return self.user is not None

    def last_committed(self, commit: TableCommit) -> int | None:
        """The user's last number, if that is this one or a later one; else this is to be done.

        Args:
            commit: Commits as the user.

        Raises:
            Invalid: It cannot be known, as snapshots have expired that nothing remembers, or the
                user has only made commits without a number.
        """
        if not self.is_given:
            return None
        last = commit.committed_up_to()
        subject = f"cannot write commit {self.identifier} of {self.user!r} to {commit.storage.name}"
        if last.identifier == BATCH_IDENTIFIER:
            raise Invalid(
                f"{subject}: the commits of this user have no numbers; use another commit_user"
            )
        if last.identifier is None:
            if not (last.whole_history or last.is_remembered):
                raise Invalid(
                    f"{subject}: snapshots have expired, and nothing remembers whether it was one "
                    "of them; use a table whose snapshots a Headwater catalog keeps, or write "
                    "without commit_identifier"
                )
            return None
        return last.identifier if last.identifier >= self.identifier else None


def last_number(commit: TableCommit) -> int | None:
    """The last number of the user of commits; None if none of them has a number."""
    last = commit.committed_up_to().identifier
    return None if last == BATCH_IDENTIFIER else last


def checked_user(table: str, user: str) -> str:
    """The name of a commit user; raises Invalid if it is unusable."""
    if not user.strip() or not user.isprintable() or len(user) > MAX_USER_LENGTH:
        raise Invalid(
            f"table {table}: commit_user {user[:MAX_USER_LENGTH]!r} is not usable; use 1 to "
            f"{MAX_USER_LENGTH} printable characters"
        )
    return user
