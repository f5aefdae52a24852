"""Changes of a source at certain times of a pipeline that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.cdc.pipeline.conftest import Follower

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.state import TablePhase, TableState

_LAST = "last_change"


class _ChangingProgress(ProgressLog):
    """Makes a change whenever all tables stream, and stops the pipeline behind the last one."""

    def __init__(
        self, follower: Follower, pipeline: Pipeline, changes: tuple[Callable[[], None], ...]
    ) -> None:
        super().__init__()
        self._origin, self._pipeline = follower.origin, pipeline
        self._changes = list(changes)

    def states(self, states: Mapping[TableName, TableState]) -> None:
        super().states(states)
        if self._origin.table(_LAST) in states:
            self._pipeline.stop()
        elif self._changes and all(
            state.phase is TablePhase.STREAMING for state in states.values()
        ):
            self._changes.pop(0)()
            if not self._changes:
                self._origin.run(f"CREATE TABLE {_LAST} (id INT PRIMARY KEY)")


def follow_changes(follower: Follower, *changes: Callable[[], None]) -> None:
    """Follow the source while it changes, until the lake has all of it.

    Args:
        follower: A pipeline that has all that the source has.
        changes: Each is made when the pipeline runs and all of its tables stream.
    """
    pipeline = follower.pipeline()
    pipeline.progress = _ChangingProgress(follower, pipeline, changes)
    pipeline.run()
    # The last states were not recorded.
    follower.once()
