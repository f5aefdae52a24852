"""Tags and consumers that the change feed tells of and storage does not have.

They are on storage alone, where every engine makes and deletes them: one whose file is gone may
have been deleted by somebody who did not ask the catalog. Only what was made through the catalog is
known, and for as long as the feed keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headwater.catalog.model.events import (
    MOST_EVENTS,
    Event,
    EventFilter,
    Events,
    EventType,
    Outcome,
)
from headwater.catalog.table.display import time_text
from headwater.storage.errors import CorruptData
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.snapshot.consumer import consumer_statuses
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.table_storage import TableStorage

__all__ = ["lost_references"]

_TAG, _CONSUMER = "tag", "consumer"
_Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Made:
    """A reference that somebody made: when, to which snapshot, and for how long (milliseconds)."""

    at: int
    snapshot: int
    retained: int | None


def lost_references(events: Events, table_id: str, storage: TableStorage) -> list[str]:
    """A sentence about each tag and consumer that may be lost.

    Args:
        events: The change feed.
        table_id: The table's id.
        storage: The table.

    Raises:
        Forbidden: The caller may not read the feed.
    """
    made: dict[_Key, _Made] = {}
    for event in _events_of(events, table_id):
        _follow(made, event)
    missing: list[str] = []
    for branch in sorted({branch for _, branch, _ in made}):
        layout = TableLayout(storage.layout.location, branch)
        there = {key for key in made if key[1] == branch}
        missing += _missing(made, there, replace(storage, layout=layout))
    return missing


def _events_of(events: Events, table_id: str) -> Iterator[Event]:
    after = 0
    while True:
        page = events.read(after=after, limit=MOST_EVENTS, only=EventFilter(object_id=table_id))
        yield from (event for event in page.events if event.outcome is Outcome.DONE)
        if page.is_end:
            return
        after = page.next_after


def _follow(made: dict[_Key, _Made], event: Event) -> None:
    """Change what there is as an event says."""
    branch = str(event.details.get("branch", MAIN_BRANCH))
    tag, consumer = event.details.get("tag"), event.details.get("consumer")
    snapshot, retained = event.details.get("snapshot"), event.details.get("retained")
    match event.type:
        case EventType.CREATE_TAG | EventType.REPLACE_TAG | EventType.CREATE_BRANCH if isinstance(
            tag, str
        ) and isinstance(snapshot, int):
            kept = retained if isinstance(retained, int) else None
            made[_TAG, branch, tag] = _Made(event.at, snapshot, kept)
        case EventType.RENAME_TAG if (_TAG, branch, tag) in made:
            made[_TAG, branch, str(event.details["to"])] = made.pop((_TAG, branch, str(tag)))
        case EventType.DELETE_TAG if isinstance(tag, str):
            made.pop((_TAG, branch, tag), None)
        case EventType.RESET_CONSUMER if isinstance(consumer, str):
            position = event.details.get("next")
            made.pop((_CONSUMER, branch, consumer), None)
            if isinstance(position, int):
                made[_CONSUMER, branch, consumer] = _Made(event.at, position, None)
        case EventType.ROLLBACK_TABLE if isinstance(snapshot, int):
            # It takes later tags away, and no consumer back.
            for key in [key for key in made if key[:2] == (_TAG, branch)]:
                if made[key].snapshot > snapshot:
                    del made[key]
        case EventType.DROP_BRANCH | EventType.RENAME_BRANCH | EventType.FORWARD_BRANCH:
            # What a branch has that took another's place, or has another name, is not followed.
            _forget(made, branch)
        case EventType.REPLACE_TABLE:
            made.clear()


def _forget(made: dict[_Key, _Made], branch: str) -> None:
    for key in [key for key in made if key[1] == branch]:
        del made[key]


def _missing(made: dict[_Key, _Made], keys: set[_Key], storage: TableStorage) -> Iterator[str]:
    layout, now = storage.layout, storage.runtime.now_millis()
    suffix = "" if layout.branch == MAIN_BRANCH else f" of branch {layout.branch}"
    try:
        tags = list_tag_files(storage.files, layout)
    except CorruptData:
        tags = []  # told of as a damage
    names = {tag.name for tag in tags}
    # A tag that was given another name names the same snapshot.
    others = {tag.snapshot.id for tag in tags if (_TAG, layout.branch, tag.name) not in made}
    consumers = {name for name, _ in consumer_statuses(storage.files, layout)}
    expires = storage.schema.table_options.consumer_expiration is not None
    for kind, _, name in sorted(keys):
        one = made[kind, layout.branch, name]
        is_over = one.retained is not None and one.at + one.retained <= now
        if kind == _TAG and not (name in names or one.snapshot in others or is_over):
            yield (
                f"{layout.tag(name)} does not exist, though tag '{name}'{suffix} of snapshot "
                f"{one.snapshot} was made on {time_text(one.at)}: unless an engine deleted it on "
                f"storage, restore the file or make the tag again; to be told no more, make the "
                f"tag and delete it"
            )
        if kind == _CONSUMER and not (name in consumers or expires):
            yield (
                f"{layout.consumer(name)} does not exist, though consumer '{name}'{suffix} was set "
                f"to snapshot {one.snapshot} on {time_text(one.at)}: unless an engine deleted it "
                f"on storage, restore the file or set the consumer again; to be told no more, run "
                f"'headwater consumer delete'"
            )
