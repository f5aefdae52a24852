"""A writer that changes the rows and the tables of a source, all from a seed."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Event, Semaphore, Thread
from typing import ClassVar, Generic, Protocol, TypeVar

__all__ = ["ChaosWriter", "Session"]


class Session(Protocol):
    """A connection to a source."""

    def close(self) -> None:
        """End it."""


S = TypeVar("S", bound=Session)


class ChaosWriter(ABC, Generic[S]):
    """Changes a source, a transaction or statement at a time, as often as it is allowed.

    Args:
        seed: Of its choices.
        connect: Connects to the source.
        has_schema_changes: Whether it changes columns and tables besides rows.

    Attributes:
        failures: The exceptions of statements that fail, and of connections that are lost.
    """

    failures: ClassVar[tuple[type[Exception], ...]]

    def __init__(
        self, seed: int, connect: Callable[[], S], *, has_schema_changes: bool = True
    ) -> None:
        self._random = random.Random(seed)
        self._connect = connect
        self._has_schema_changes = has_schema_changes
        self._allowed, self._stop = Semaphore(0), Event()
        self._is_given_up = False
        self._session: S | None = None
        self._log: list[str] = []
        self._prepared: list[str] = []
        self.changes = 0
        self.errors: list[str] = []
        self._thread = Thread(target=self._write, daemon=True)

    def __enter__(self) -> ChaosWriter[S]:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._is_given_up = kind is not None
        self._stop.set()
        self._allowed.release()
        self._thread.join()

    def allow(self, changes: int) -> None:
        """Let it make so many further changes."""
        if changes:
            self._allowed.release(changes)

    def statements(self, table: str) -> list[str]:
        """The statements that named a table, in the order in which they were sent."""
        return [statement for statement in self._log if table in statement]

    # What each kind of source has -------------------------------------------------------------

    @abstractmethod
    def _execute(self, session: S, statement: str) -> None:
        """Run a statement; one of `failures` if it fails."""

    @abstractmethod
    def _repair(self, session: S) -> None:
        """Give tables their names back where a statement was interrupted."""

    @abstractmethod
    def _change_rows(self, session: S) -> None:
        """Change rows in a transaction."""

    @abstractmethod
    def _change_schema(self, session: S) -> None:
        """Change columns or tables."""

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare a transaction on a connection of its own, which ends."""

    @abstractmethod
    def _end_all_prepared(self, session: S) -> None:
        """Commit each transaction that is prepared, or roll it back."""

    # The thread -------------------------------------------------------------------------------

    def _write(self) -> None:
        while not self._stop.is_set():
            self._allowed.acquire()
            if self._stop.is_set():
                break
            try:
                self._change(self._connected())
                self.changes += 1
            except self.failures as error:
                self.errors.append(str(error))
                self._lose()
        while not self._is_given_up:
            try:
                self._end_prepared(self._connected(), is_last=True)
                self._repair(self._connected())
                break
            except self.failures as error:
                self.errors.append(str(error))
                self._lose()
        self._lose()

    def _connected(self) -> S:
        while self._session is None:
            try:
                self._session = self._connect()
                self._repair(self._session)
            except self.failures:
                self._lose()
                if self._is_given_up:
                    raise
        return self._session

    def _lose(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _run(self, session: S, *statements: str) -> None:
        for statement in statements:
            self._log.append(statement)
            try:
                self._execute(session, statement)
            except self.failures as error:
                self._log.append(f"-- the statement before failed: {error}")
                raise

    def _change(self, session: S) -> None:
        self._end_prepared(session)
        chance = self._random.random()
        if self._has_schema_changes and chance < 0.05:
            self._change_schema(session)
        elif chance < 0.07:
            self._prepare()
        else:
            self._change_rows(session)

    def _end_prepared(self, session: S, *, is_last: bool = False) -> None:
        if not is_last and (not self._prepared or self._random.random() < 0.6):
            return
        self._end_all_prepared(session)
        self._prepared.clear()
