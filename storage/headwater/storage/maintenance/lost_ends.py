"""The ends of a branch's snapshots and changelogs, compared with the hints beside them.

An expiry of snapshots writes down the earliest that is left, and one that leaves changelogs the
earliest and the latest: a file beyond what is there, and within what the hints name, was lost.
Paimon's expiry writes the hints after it deleted the files, so that one that was killed looks the
same. Source: ``ExpireSnapshotsImpl.java``, ``ExpireChangelogImpl.java``, ``HintFileUtils.java``.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.storage.errors import NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.changelog import changelog_file_ids
from headwater.storage.snapshot.files import read_hint, snapshot_file_ids

__all__ = ["damaged_hints", "late_hint", "lost_ends"]

# A hint may be read while another process writes it, or deletes what it names.
_ATTEMPTS = 3


def lost_ends(files: FileAccess, layout: TableLayout) -> Iterator[str]:
    """A sentence about each end that may be lost."""
    # The files first: an expiry writes down what is left before or after, and never less.
    snapshots = snapshot_file_ids(files, layout)
    changelogs = sorted(changelog_file_ids(files, layout))
    hinted = read_hint(files, layout.earliest_hint)
    if hinted is not None and snapshots and hinted < snapshots[0]:
        yield _sentence(layout.snapshot(hinted), hinted, snapshots[0] - 1, layout.earliest_hint)
    if not changelogs and not snapshots:
        return
    first = changelogs[0] if changelogs else snapshots[0]
    hinted = read_hint(files, layout.earliest_changelog_hint)
    if hinted is not None and hinted < first:
        yield _sentence(layout.changelog(hinted), hinted, first - 1, layout.earliest_changelog_hint)
    hinted = read_hint(files, layout.latest_changelog_hint)
    if hinted is None or not changelogs or not snapshots:
        return
    # A rollback takes changelogs back, and leaves no gap.
    first, last = changelogs[-1] + 1, min(hinted, snapshots[0] - 1)
    if first <= last:
        yield _sentence(layout.changelog(last), first, last, layout.latest_changelog_hint)


def _sentence(path: str, first: int, last: int, hint: str) -> str:
    numbers = f"number {first}" if first == last else f"numbers {first} to {last}"
    return (
        f"{path} does not exist ({numbers}), though {hint} names it: an expiry was killed, or "
        "files were lost; if no expiry was, restore them from a backup before the next one"
    )


def damaged_hints(files: FileAccess, layout: TableLayout) -> Iterator[tuple[str, str]]:
    """The URI of each hint that no reader can follow, and a sentence about it.

    A hint of what was lost, or has expired, is among `lost_ends`.
    """
    hints = (
        layout.earliest_hint,
        layout.latest_hint,
        layout.earliest_changelog_hint,
        layout.latest_changelog_hint,
    )
    for hint in hints:
        problem: str | None = None
        for _ in range(_ATTEMPTS):
            problem = _problem(files, layout, hint)
            if problem is None:
                break
        if problem is not None:
            remedy = "readers look at the files beside it until a commit or an expiry writes it"
            yield hint, f"{hint} {problem}; delete the file: {remedy}"


def _problem(files: FileAccess, layout: TableLayout, hint: str) -> str | None:
    """What is wrong with a hint, if anything is."""
    try:
        text = files.read(hint).decode(errors="replace").strip()
    except NotFound:
        return None
    if not (text.isascii() and text.isdigit()):
        return f"is damaged: expected a number, got {text[:20]!r}"
    number = int(text)
    snapshots = snapshot_file_ids(files, layout)
    changelogs = sorted(changelog_file_ids(files, layout))
    if hint == layout.latest_hint:
        is_right = not snapshots or number in snapshots
    elif hint == layout.earliest_hint:
        is_right = not snapshots or number in snapshots or number < snapshots[0]
        if is_right and snapshots and number > snapshots[0] and not _deletes(files, layout):
            return f"names number {number}, and hides snapshot {snapshots[0]} from some readers"
    elif hint == layout.earliest_changelog_hint:
        # Where all changelogs have expired, it names the earliest snapshot.
        there = [*changelogs, *snapshots]
        is_right = not there or number in there or number < there[0]
        if is_right and changelogs and number > changelogs[0] and not _deletes(files, layout):
            return f"names number {number}, and hides changelog {changelogs[0]} from some readers"
    else:
        may_be_lost = bool(changelogs and snapshots) and changelogs[-1] < number < snapshots[0]
        is_right = not changelogs or number in changelogs or may_be_lost
    return None if is_right else f"names number {number}, which does not exist"


def _deletes(files: FileAccess, layout: TableLayout) -> bool:
    """Whether a deletion is open, which writes the hints before it deletes snapshots."""
    prefix = layout.deletion("").rpartition("/")[2]
    return any(status.name.startswith(prefix) for status in files.list(layout.manifest_directory))


def late_hint(files: FileAccess, layout: TableLayout, latest: int) -> str | None:
    """A sentence about the hint of the latest snapshot if it is behind; None if it is not.

    It is written after the snapshot, and is not flushed to disk.
    """
    hinted = read_hint(files, layout.latest_hint)
    if hinted is None or hinted >= latest or not files.exists(layout.snapshot(hinted)):
        return None
    return (
        f"{layout.latest_hint} names snapshot {hinted}, and the latest is {latest}: readers that "
        "follow it look for later ones"
    )
