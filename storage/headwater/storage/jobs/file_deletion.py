"""Deletion of many files, some of them a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.storage.files.access import FileAccess
from headwater.storage.jobs.executor import Executor, LocalExecutor

__all__ = ["delete_files"]

# Most of a deletion's time is spent waiting for the store.
_THREADS = 8
_PATHS_A_TASK = 50


def delete_files(
    files: FileAccess, paths: Sequence[str], executor: Executor | None
) -> Iterator[int]:
    """Delete files; the numbers of those deleted, as tasks end.

    Args:
        files: Access to the storage.
        paths: The files.
        executor: Runs the tasks; None is this process, with some threads.
    """
    tasks = [paths[at : at + _PATHS_A_TASK] for at in range(0, len(paths), _PATHS_A_TASK)]
    yield from (executor or LocalExecutor(_THREADS)).run(_Delete(files).run, tasks)


@dataclass(frozen=True)
class _Delete:
    files: FileAccess

    def run(self, paths: Sequence[str]) -> int:
        for path in paths:
            self.files.delete(path)
        return len(paths)
