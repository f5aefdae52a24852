"""Work that follows a commit, whose failure is none of the commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["after_commit"]


@contextmanager
def after_commit(table: str, snapshot: Snapshot | None, work: str) -> Iterator[None]:
    """Have an error say that the rows are committed all the same.

    What Headwater raises on purpose is logged by the work itself, and is due again. What is left,
    such as a lack of memory or an interruption, goes on to the caller with a note.

    Args:
        table: The table's name.
        snapshot: The snapshot that the commit made; None where it is not known.
        work: The work, as the beginning of a sentence.
    """
    try:
        yield
    except BaseException as error:
        made = "" if snapshot is None else f", as snapshot {snapshot.id}"
        error.add_note(
            f"table {table}: the commit itself succeeded{made}; do not repeat it. {work} after it "
            "failed, and is due again after the next commit."
        )
        raise
