"""A table's roots as storage lists them: the files that refer to others, in all branches.

Other engines expire snapshots, make tags and branches and set consumers on storage, and do not ask
the catalog. What is planned from files is good only if the list of roots is the same before and
after.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.storage.files.access import FileAccess, FileStatus
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout

__all__ = ["Roots", "list_roots"]

_NUMBERED = {"snapshot": "snapshot-", "changelog": "changelog-"}
_NAMED = {"tag": "tag-", "consumer": "consumer-"}


@dataclass(frozen=True)
class Roots:
    """The roots and consumers of a table.

    Attributes:
        numbered: The ids of snapshots and changelogs, by branch and directory.
        named: Tags with the time of their last change in ms, consumers with None, which move all
            the time.
        branches: The branches that have files.
    """

    numbered: dict[tuple[str, str], frozenset[int]]
    named: frozenset[tuple[str, str, str, int | None]]
    branches: frozenset[str]

    def is_unchanged(self, later: Roots) -> bool:
        """Whether a later list has the same roots; new snapshots and changelogs do not count."""
        if self.named != later.named or self.branches != later.branches:
            return False
        if not self.numbered.keys() <= later.numbered.keys():
            return False
        return all(
            {number for number in later.numbered[key] if number <= max(ids)} == ids
            for key, ids in self.numbered.items()
        )


def list_roots(files: FileAccess, location: str) -> Roots:
    """List the roots and consumers of a table's branches."""
    layout = TableLayout(location)
    numbered: dict[tuple[str, str], set[int]] = {}
    named: set[tuple[str, str, str, int | None]] = set()
    branches = {MAIN_BRANCH}
    for directory in (*_NUMBERED, *_NAMED):
        statuses = files.list(f"{layout.branch_location}/{directory}")
        _add(statuses, MAIN_BRANCH, directory, numbered, named)
    prefix = f"{location}/branch/branch-"
    for status in files.walk(f"{location}/branch"):
        branch, _, inner = status.path.removeprefix(prefix).partition("/")
        if not status.path.startswith(prefix) or not inner:
            continue
        branches.add(branch)
        directory, _, name = inner.partition("/")
        if name and "/" not in name:
            _add([status], branch, directory, numbered, named)
    return Roots(
        {key: frozenset(ids) for key, ids in numbered.items()},
        frozenset(named),
        frozenset(branches),
    )


def _add(
    statuses: Iterable[FileStatus],
    branch: str,
    directory: str,
    numbered: dict[tuple[str, str], set[int]],
    named: set[tuple[str, str, str, int | None]],
) -> None:
    for status in statuses:
        prefix = _NUMBERED.get(directory)
        number = "" if prefix is None else status.name.removeprefix(prefix)
        if prefix is not None and number != status.name and number.isdecimal():
            numbered.setdefault((branch, directory), set()).add(int(number))
        prefix = _NAMED.get(directory)
        if prefix is not None and status.name.startswith(prefix):
            changed = status.modified_millis if directory == "tag" else None
            named.add((branch, directory, status.name.removeprefix(prefix), changed))
