"""Tags of the lake's tables at one batch, so that a reader sees all of them at one position.

A batch is complete when all followed tables have it, and none of them has rows of a later position.
Until the next plan is recorded nothing but compactions changes the tables: each table's latest
snapshot is tagged, and a restart after an interruption tags the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import PipelineState, TablePhase, TableState
from headwater.cdc.pipeline.targets import Targets
from headwater.storage.errors import AlreadyExists, Conflict, NotFound, Unavailable

__all__ = ["BatchTags", "tag_name"]

# Their rows are not those of the batch, and may not be for long.
_BEHIND = (TablePhase.QUARANTINED, TablePhase.CATCHING_UP)

States = Mapping[TableName, TableState]


class BatchTags:
    """Tags complete batches, and deletes the oldest tags.

    Args:
        settings: The pipeline's.
        targets: The lake's tables.
        state: Keeps the numbers of the batches that are tagged.
    """

    def __init__(self, settings: PipelineSettings, targets: Targets, state: PipelineState) -> None:
        self._settings, self._targets, self._state = settings, targets, state

    def tag(self, number: int, states: States, *, is_complete: bool = True) -> None:
        """Tag the tables after a batch, if it is complete, and one is to be tagged.

        Args:
            number: The batch's number.
            states: The tables after it.
            is_complete: Whether no table waits to be followed.

        Raises:
            Unavailable: The lake is not there.
        """
        every = self._settings.tag_batches
        if every is None:
            return
        stored = self._state.tagged()
        tagged = [old for old in stored if old > 0]
        # A batch whose tags an earlier process has begun to create.
        begun = [-old for old in stored if old < 0]
        is_resumed = begun == [number]
        if not is_resumed and tagged and number - tagged[-1] < every:
            return
        # A table of the lake may have the rows of several.
        behind = {state.target for state in states.values() if state.phase in _BEHIND}
        present = [state for state in states.values() if state.phase is not TablePhase.GONE]
        chosen = [state for state in present if state.target not in behind]
        if is_resumed:
            # It was complete. The repeated batch does not know how far its tables were read, and
            # tables may have joined since.
            is_complete = True
            chosen = [state for state in chosen if not _has_joined(state)]
        else:
            is_complete &= not any(state.is_read or state.is_ahead for state in chosen)
        if not chosen or not is_complete:
            self._expire(begun, states, tagged)
            return
        count = self._settings.tag_num_retained_max
        # Without a number, the last one says when the next one is due.
        kept = [number] if count is None else [*tagged, number][-count:]
        expired = [] if count is None else [old for old in tagged if old not in kept]
        if not is_resumed:
            expired += begun
            # Before any table has the tag, so that it is completed, or deleted, after a kill.
            self._state.save_tagged([*tagged, *(-old for old in begun), -number])
        create = partial(self._create, tag_name(self._settings.name, number))
        try:
            _on_all(self._targets.writers, create, {state.target for state in chosen})
        except Conflict as error:
            raise Unavailable(error.message) from error
        self._expire(expired, states, kept)

    def _expire(self, numbers: Sequence[int], states: States, kept: Sequence[int]) -> None:
        """Delete the tags of batches, and note those that stay."""
        targets = {state.target for state in states.values() if state.target}
        try:
            for number in numbers:
                delete = partial(self._delete, tag_name(self._settings.name, number))
                _on_all(self._targets.writers, delete, targets)
        except Conflict as error:
            raise Unavailable(error.message) from error
        if self._state.tagged() != list(kept):
            self._state.save_tagged(kept)

    def _create(self, name: str, target: str) -> None:
        table = self._targets.open(target)
        # A table without rows may have no snapshot; AlreadyExists is of an interrupted process.
        if table.latest_snapshot() is None:
            return
        try:
            table.create_tag(name)
        except AlreadyExists:
            return

    def _delete(self, name: str, target: str) -> None:
        try:
            self._targets.open(target).delete_tag(name)
        except NotFound:
            # The table began later, or is gone, or somebody has deleted it.
            return


def _has_joined(state: TableState) -> bool:
    """Whether a table has just joined; one that a repeated batch read has a position to settle."""
    is_unread = state.reading is not None and state.reading.settles is None
    return state.phase is TablePhase.SNAPSHOT and is_unread


def tag_name(pipeline: str, number: int) -> str:
    """The tag of a batch."""
    return f"cdc-{pipeline}-{number}"


def _on_all(executor: Executor, action: partial[None], targets: set[str]) -> None:
    """Do something with all tables, side by side; raises the first error."""
    for future in [executor.submit(action, target) for target in sorted(targets)]:
        future.result()
