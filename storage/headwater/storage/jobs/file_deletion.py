"""Deletion of many files, some of them a task."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.files.access import FileAccess
from headwater.storage.jobs.executor import Executor, LocalExecutor

__all__ = ["FILE_DELETION", "delete_files"]

# Most of a deletion's time is spent waiting for the store.
FILE_DELETION = LocalExecutor(threads=8)
"""Deletes files in this process."""
_PATHS_A_TASK = 50


def delete_files(files: FileAccess, paths: Sequence[str], executor: Executor) -> None:
    """Delete files, some of them a task."""
    tasks = [paths[at : at + _PATHS_A_TASK] for at in range(0, len(paths), _PATHS_A_TASK)]
    deque(executor.run(_Delete(files).run, tasks), maxlen=0)


@dataclass(frozen=True)
class _Delete:
    files: FileAccess

    def run(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.files.delete(path)
