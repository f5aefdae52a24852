"""The ends of a branch's lines of snapshots and changelogs, compared with the hints beside them.

Whoever expires snapshots notes the earliest that is left, and whoever leaves changelogs notes the
earliest and the latest: a file beyond what is there, and within what is noted, was lost. Paimon's
expiry writes the notes after it deleted the files, so that one that was killed looks the same.
Source: ``ExpireSnapshotsImpl.java``, ``ExpireChangelogImpl.java``.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.changelog import changelog_file_ids
from headwater.storage.snapshot.files import read_hint, snapshot_file_ids

__all__ = ["lost_ends"]


def lost_ends(files: FileAccess, layout: TableLayout) -> Iterator[str]:
    """A sentence about each end of a line that may be lost."""
    # The files first: an expiry notes what is left before or after, and never less.
    snapshots = snapshot_file_ids(files, layout)
    changelogs = sorted(changelog_file_ids(files, layout))
    noted = read_hint(files, layout.earliest_hint)
    if noted is not None and snapshots and noted < snapshots[0]:
        yield _sentence(layout.snapshot(noted), noted, snapshots[0] - 1, layout.earliest_hint)
    if not changelogs and not snapshots:
        return
    first = changelogs[0] if changelogs else snapshots[0]
    noted = read_hint(files, layout.earliest_changelog_hint)
    if noted is not None and noted < first:
        yield _sentence(layout.changelog(noted), noted, first - 1, layout.earliest_changelog_hint)
    noted = read_hint(files, layout.latest_changelog_hint)
    if noted is None or not changelogs or not snapshots:
        return
    # A rollback takes changelogs back, and leaves no gap.
    first, last = changelogs[-1] + 1, min(noted, snapshots[0] - 1)
    if first <= last:
        yield _sentence(layout.changelog(last), first, last, layout.latest_changelog_hint)


def _sentence(path: str, first: int, last: int, hint: str) -> str:
    numbers = f"number {first}" if first == last else f"numbers {first} to {last}"
    return (
        f"{path} does not exist ({numbers}), though {hint} tells of it: an expiry was killed, or "
        "files were lost; if no expiry was, restore them from a backup before the next one"
    )
