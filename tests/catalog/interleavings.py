"""Two operations interleaved at their steps on files and SQL, the same way every time.

Each operation runs in a thread of its own, and only one thread runs at a time. An operation stops
before a step that the schedule names; a step is a call of `FileAccess`, or the beginning or commit
of a transaction. A write transaction of the other operation is waited for, as SQLite does.

`explore` finds every interleaving of a kind. It leaves out those that cannot differ: where a step
of the first operation touches nothing that the second one reads or changes, it does not matter
which of the two comes first.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Connection, Engine, event

from headwater.storage.files.access import FileStatus
from headwater.storage.files.local import LocalFileAccess, local_path

__all__ = ["Actor", "Interleaving", "Step", "SteppedFiles", "explore", "interleave", "watched_sql"]

# A safeguard against a fault of this module: an operation takes a few milliseconds.
_TIMEOUT_SECONDS = 60
_FILE_CHANGES = frozenset({"write", "put", "delete", "delete tree", "create", "make directory"})
_LISTINGS = frozenset({"list", "folders", "walk", "delete tree"})
_TABLE_NAME = re.compile(r"\bhw_[a-z_]+(?<!_)")
_CHANGING_SQL = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)


@dataclass
class Step:
    """Something that an operation does to files or SQL.

    Attributes:
        action: The type of step.
        path: The file or directory; empty for SQL.
        reads: The SQL tables that the transaction reads.
        changes: The SQL tables that it changes.
    """

    action: str
    path: str = ""
    reads: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        if self.path:
            return f"{self.action} {self.path}"
        return f"{self.action} ({', '.join(sorted(self.reads | self.changes))})"

    def commutes(self, other: Step) -> bool:
        """Whether it does not matter which of two steps of different operations comes first."""
        if bool(self.path) is not bool(other.path):
            return True
        if not self.path:
            mine, others = self.reads | self.changes, other.reads | other.changes
            return not (self.changes & others or other.changes & mine)
        if (
            not {self.action, other.action} & _FILE_CHANGES
            or self.action == other.action == "delete"
        ):
            return True
        return not (self._covers(other) or other._covers(self))

    def _covers(self, other: Step) -> bool:
        if self.path == other.path:
            return True
        return self.action in _LISTINGS and other.path.startswith(f"{self.path}/")


class _State(Enum):
    READY = auto()
    STOPPED = auto()
    WAITING = auto()
    ENDED = auto()


class Actor:
    """An operation in a thread, which stops before steps.

    Args:
        name: Its name, for messages.
        work: The operation.

    Attributes:
        steps: What it has done so far.
        commits: How many write transactions it has committed.
        writes: Whether a write transaction of it is open.
        error: What the operation raised.
    """

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.steps: list[Step] = []
        self.commits = 0
        self.writes = False
        self.error: BaseException | None = None
        self.others: Sequence[Actor] = ()
        self._work = work
        self._state = _State.READY
        self._stop: Callable[[], bool] = lambda: False
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._transactions: dict[int, Step] = {}
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def has_ended(self) -> bool:
        """Whether the operation returned or raised."""
        return self._state is _State.ENDED

    @property
    def decisions(self) -> int:
        """After how many of its write transactions the operation went on to change something."""
        commits = decisions = 0
        for step in self.steps:
            if step.action == "commit" or step.action in _FILE_CHANGES:
                decisions = commits
            commits += step.action == "commit"
        return decisions

    def advance(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Let the operation go on until it ends, or stops before a step.

        Where it waits for a write transaction of another operation, that goes on to its end.

        Args:
            stop: Whether to stop before the next step.
        """
        while not self.has_ended:
            self._stop = stop
            if self._state is _State.READY:
                self._thread.start()
            else:
                self._go.release()
            if not self._paused.acquire(timeout=_TIMEOUT_SECONDS):
                last = self.steps[-1] if self.steps else "nothing"
                raise AssertionError(f"{self.name} stands still; the last it did: {last}")
            if self._state is not _State.WAITING:
                return
            for other in self.others:
                if other.writes:
                    other.advance(lambda other=other: not other.writes)  # type: ignore[misc]

    def step(self, step: Step, *, begins_write: bool = False) -> None:
        """Stop here if the schedule says so; then take the step."""
        if self._is_ending:
            self._is_ending, self.writes = False, False
        while True:
            if self._stop():
                self._pause(_State.STOPPED)
            elif begins_write and any(other.writes for other in self.others):
                self._pause(_State.WAITING)
            else:
                break
        self.steps.append(step)
        self.writes = self.writes or begins_write

    def _pause(self, state: _State) -> None:
        self._state = state
        self._paused.release()
        self._go.acquire()

    def _run(self) -> None:
        _current.actor = self
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
            self.error = error
        self.writes = False
        self._state = _State.ENDED
        self._paused.release()

    # What SQLAlchemy tells of -----------------------------------------------------------------

    def executes(self, connection: Connection, statement: str) -> None:
        """Take note of a statement, which may begin a transaction."""
        if statement.startswith("BEGIN"):
            is_write = statement != "BEGIN"
            step = Step("write transaction" if is_write else "read transaction")
            self.step(step, begins_write=is_write)
            self._transactions[id(connection)] = step
            return
        transaction = self._transactions.get(id(connection))
        if transaction is not None:
            names = _TABLE_NAME.findall(statement)
            if _CHANGING_SQL.match(statement):
                transaction.changes.add(names[0])
            transaction.reads.update(names)

    def ends(self, connection: Connection, *, commits: bool) -> None:
        """Take note of the end of a transaction, which happens at once."""
        transaction = self._transactions.pop(id(connection), None)
        if transaction is not None and transaction.action == "write transaction":
            if commits:
                self.step(Step("commit", "", transaction.reads, transaction.changes))
                self.commits += 1
            # It is over when the operation comes to its next step.
            self._is_ending = True


_current = threading.local()


def _actor() -> Actor | None:
    return getattr(_current, "actor", None)


class SteppedFiles(LocalFileAccess):
    """The local disk, where each call of an actor is a step.

    Args:
        now_millis: The clock, which dates the files.
        changed: Takes the paths of files and directories that are changed.
        root: As for `LocalFileAccess`.
    """

    def __init__(
        self, now_millis: Callable[[], int], changed: set[str], root: str | None = None
    ) -> None:
        super().__init__(root)
        self._now_millis = now_millis
        self._changed = changed

    def _step(self, action: str, path: str) -> None:
        actor = _actor()
        if action in _FILE_CHANGES:
            self._changed.add(local_path(path))
        if actor is not None:
            actor.step(Step(action, path.rstrip("/")))

    def _date(self, path: str) -> None:
        seconds = self._now_millis() / 1000
        os.utime(local_path(path), (seconds, seconds))

    def read(self, path: str) -> bytes:
        self._step("read", path)
        return super().read(path)

    def exists(self, path: str) -> bool:
        self._step("look for", path)
        return super().exists(path)

    def size(self, path: str) -> int:
        self._step("size of", path)
        return super().size(path)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._step("write", path)
        super().write(path, data, durable=durable)
        self._date(path)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        self._step("put", path)
        written = super().write_if_absent(path, data)
        if written:
            self._date(path)
        return written

    def delete(self, path: str) -> None:
        self._step("delete", path)
        super().delete(path)

    def make_directory(self, directory: str) -> None:
        self._step("make directory", directory)
        super().make_directory(directory)

    def delete_tree(self, directory: str) -> None:
        self._step("delete tree", directory)
        super().delete_tree(directory)

    def list(self, directory: str) -> list[FileStatus]:
        self._step("list", directory)
        return super().list(directory)

    def folders(self, directory: str) -> Sequence[str]:
        self._step("folders", directory)
        return super().folders(directory)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        directory = directory.rstrip("/")
        self._step("walk", directory)
        for status in super().walk(directory, unfinished=unfinished):
            if status.path.rpartition("/")[0] != directory:
                break
            yield status
        for name in super().folders(directory):
            yield from self.walk(f"{directory}/{name}", unfinished=unfinished)

    def open_input(self, path: str) -> pa.NativeFile:
        self._step("open", path)
        return super().open_input(path)

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        self._step("create", path)
        with super().open_output(path) as output:
            yield output
        self._date(path)


@contextmanager
def watched_sql() -> Iterator[None]:
    """Let actors take note of their SQL, and do without the threads of pools, for the block."""

    def executes(connection: Connection, _: object, statement: str, *__: object) -> None:
        actor = _actor()
        if actor is not None:
            actor.executes(connection, statement)

    def commits(connection: Connection) -> None:
        actor = _actor()
        if actor is not None:
            actor.ends(connection, commits=True)

    def rolls_back(connection: Connection) -> None:
        actor = _actor()
        if actor is not None:
            actor.ends(connection, commits=False)

    hooks: Mapping[str, Callable[..., None]] = {
        "before_cursor_execute": executes,
        "commit": commits,
        "rollback": rolls_back,
    }
    for name, hook in hooks.items():
        event.listen(Engine, name, hook)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ThreadPoolExecutor, "submit", _run_at_once)
            yield
    finally:
        for name, hook in hooks.items():
            event.remove(Engine, name, hook)


def _run_at_once(
    _: ThreadPoolExecutor, work: Callable[..., Any], /, *args: object, **options: object
) -> Future[Any]:
    """Run what is submitted to a pool in the thread that submits it: steps keep their order."""
    future: Future[Any] = Future()
    try:
        future.set_result(work(*args, **options))
    except BaseException as error:  # noqa: BLE001 - as a pool does
        future.set_exception(error)
    return future


@dataclass(frozen=True)
class Interleaving:
    """What happened when two operations were interleaved.

    Attributes:
        first: The operation that was stopped first.
        second: The operation that ran while it stood still.
        stopped_at: How many steps the first one had taken then.
        meanwhile: How many steps the second one took then.
        commits: After how many write transactions the second one was stopped; None if it ran to
            its end.
        is_complete: Whether both were stopped where the schedule says, and did not end before.
    """

    first: Actor
    second: Actor
    stopped_at: int
    meanwhile: int
    commits: int | None
    is_complete: bool

    def __str__(self) -> str:
        steps = self.first.steps
        before = f"step {self.stopped_at} ({steps[self.stopped_at]})" if self.is_complete else "end"
        ran = "ran" if self.commits is None else f"ran until after commit {self.commits}"
        return f"{self.first.name} stood before its {before} while {self.second.name} {ran}"

    def next_stop(self) -> int | None:
        """The next stop of the first operation that can make a difference; None if none does.

        A step that commutes with all that the second operation did while the first one stood still
        might as well have come before that.
        """
        if not self.is_complete:
            return None
        done_meanwhile = self.second.steps[: self.meanwhile]
        for index in range(self.stopped_at, len(self.first.steps)):
            step = self.first.steps[index]
            if not all(step.commutes(other) for other in done_meanwhile):
                return index + 1
        return None


def interleave(first: Actor, second: Actor, stop_at: int, commits: int | None) -> Interleaving:
    """Run two operations, the second one while the first one stands still.

    Args:
        first: Stops before a step, and goes on when the second one stands still or has ended.
        second: Runs meanwhile, and is stopped first if `commits` says so.
        stop_at: The step before which the first one stops, counted from 0.
        commits: The second one stops before the step that follows so many write transactions, and
            goes on when the first one has ended; None lets it run to its end.
    """
    first.others, second.others = (second,), (first,)
    first.advance(lambda: len(first.steps) >= stop_at)
    is_complete = not first.has_ended
    begun = len(first.steps)
    second.advance(lambda: commits is not None and not second.writes and second.commits >= commits)
    is_complete = is_complete and (commits is None or not second.has_ended)
    meanwhile = len(second.steps)
    first.advance()
    second.advance()
    return Interleaving(first, second, begun, meanwhile, commits, is_complete)


def explore(run: Callable[[int], Interleaving]) -> Iterator[Interleaving]:
    """Every interleaving of two operations that may differ from the others.

    Args:
        run: Interleaves them from the same starting state, with a stop of the first one.
    """
    stop_at: int | None = 0
    while stop_at is not None:
        interleaving = run(stop_at)
        yield interleaving
        stop_at = interleaving.next_stop()
