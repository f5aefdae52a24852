"""The steps of a job: plan, run, commit, and plan again after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.commit.vector_messages import released_vectors
from headwater.storage.errors import (
    Conflict,
    CorruptData,
    HeadwaterError,
    NotFound,
    ResourceType,
)
from headwater.storage.jobs.executor import Executor
from headwater.storage.snapshot.snapshot import CommitOperation, Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["Job", "commit_or_delete", "reading", "run_job", "until_no_conflict"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Job(Protocol[Task]):
    """Work on a table that tasks do and one commit makes part of it; it pickles."""

    @property
    def storage(self) -> TableStorage:
        """The table."""
        ...

    @property
    def retries(self) -> int:
        """The number of times that it is planned again after a conflict."""
        ...

    def plan(self, base: Snapshot) -> Sequence[Task]:
        """The tasks that a snapshot leaves to do, the longest first."""
        ...

    def run(self, task: Task) -> Sequence[CommitMessage]:
        """Do a task; one that fails deletes what it wrote."""
        ...

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        """Commit what the tasks did."""
        ...


def run_job(
    job: Job[Task],
    pointer: SnapshotPointer,
    executor: Executor,
    commit: TableCommit | None = None,
    operation: CommitOperation | None = None,
) -> Snapshot | None:
    """Do a job as one commit.

    Args:
        job: The work.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        commit: Commits on behalf of a user; None is a user of the job's own.
        operation: The statement that a user of the job's own commits.

    Returns:
        The snapshot made; None when there was nothing to do.

    Raises:
        Conflict: Other commits changed the same files each time.
        OutcomeUnknown: The commit may have happened; its files are kept.
        HeadwaterError: A task failed, or the commit was refused; no file is left behind.
    """

    def attempt() -> Snapshot | None:
        base = pointer.latest()
        if base is None:
            return None
        with reading(job.storage, pointer, base):
            tasks = job.plan(base)
            messages = _run(job, executor, tasks, base) if tasks else []
        if not messages:
            return None
        own = commit or TableCommit(
            job.storage, pointer, job.storage.runtime.new_uuid(), operation=operation
        )
        return commit_or_delete(own, messages, lambda: job.commit(own, messages, base))

    return until_no_conflict(job.retries, attempt)


def _run(
    job: Job[Task], executor: Executor, tasks: Sequence[Task], base: Snapshot
) -> list[CommitMessage]:
    """The messages of all tasks; when one fails, the others' files are deleted."""
    messages: list[CommitMessage] = []
    try:
        for done in executor.run(job.run, tasks):
            messages += done
        messages += released_vectors(job.storage, base, messages)
    except BaseException:
        for message in messages:
            delete_message_files(job.storage, message)
        raise
    return messages


@contextmanager
def reading(
    storage: TableStorage, pointer: SnapshotPointer, base: Snapshot | None
) -> Iterator[None]:
    """Read a snapshot that others may let expire meanwhile, which then is a conflict.

    Raises:
        Conflict: A file is missing or damaged, and the snapshot is not the latest any more.
    """
    try:
        yield
    except (CorruptData, NotFound) as error:
        # Spark hands errors of its workers on without the kind of thing that they are about.
        if isinstance(error, NotFound) and error.resource_type not in (None, ResourceType.SNAPSHOT):
            raise
        # The latest snapshot never expires.
        if base is None or pointer.latest() == base:
            raise
        raise Conflict(
            f"table {storage.name}: snapshot {base.id} expired while it was read, or is damaged: "
            f"{error.message}; try again, and let 'snapshot.time-retained' be longer than any "
            "work on the table"
        ) from error


def commit_or_delete(
    commit: TableCommit, messages: Sequence[CommitMessage], work: Callable[[], Result]
) -> Result:
    """Commit messages; delete their files when the commit certainly did not happen."""
    try:
        return work()
    except OutcomeUnknown:
        raise
    except HeadwaterError:
        commit.abort(messages, is_certain=True)
        raise


def until_no_conflict(retries: int, attempt: Callable[[], Result]) -> Result:
    """Repeat an attempt that another commit got in the way of, at most so many times."""
    while True:
        try:
            return attempt()
        except Conflict:
            if retries <= 0:
                raise
            retries -= 1
