"""A copy of a Spark session, for work under settings that are not the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from pyspark import SparkContext

__all__ = [
    "BATCH_BYTES_SETTING",
    "NARROW_BATCH_ROWS",
    "SessionCopy",
    "interruptible",
    "narrow_sessions",
]

BATCH_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's limit of the bytes of a batch of rows for Python workers."""
NARROW_BATCH_ROWS = 2048
"""The rows of a batch where Spark counts them alone."""
_BATCH_ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
# With it Spark asks for no bytes.
_NO_LIMIT = str((1 << 31) - 1)


@dataclass
class SessionCopy:
    """A copy of a Spark session, with all its settings and some of its own.

    It is made when it is first asked for, and anew when the session's settings are others, or
    another session is asked for.

    Attributes:
        settings: The settings of its own.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _session: Any = field(default=None, repr=False)
    _found: Any = field(default=None, repr=False)
    _copy: Any = field(default=None, repr=False)

    def of(self, session: Any) -> Any:
        """The copy of a session, both as the JVM has them."""
        with self._lock:
            found = session.conf().getAll()
            if not (session.equals(self._session) and found.equals(self._found)):
                copy = session.cloneSession()
                for key, value in self.settings.items():
                    copy.conf().set(key, value)
                self._session, self._found, self._copy = session, found, copy
            return self._copy


@contextmanager
def interruptible(context: SparkContext, session: Any, copy: Any) -> Iterator[None]:
    """Let who interrupts a session's jobs, all or those of a tag, interrupt jobs of its copy.

    Spark finds a session's jobs by tags, which this thread's jobs have in the block.

    Args:
        context: Spark's.
        session: The session, as the JVM has it.
        copy: The copy.
    """
    # It has those that the session had when it was copied.
    copy.clearTags()
    named = str(session.managedJobTags().get().values().mkString(","))
    # No tag has a comma.
    before = str(context._jsc.sc().getJobTags().mkString(",")).split(",")
    wanted = {str(session.sessionJobTag()), *filter(None, named.split(","))}
    added = wanted.difference(before)
    for tag in added:
        context.addJobTag(tag)
    try:
        yield
    finally:
        for tag in added:
            context.removeJobTag(tag)


def narrow_sessions() -> SessionCopy:
    """Copies of sessions in which Spark counts the rows of batches and not their bytes."""
    return SessionCopy(
        {BATCH_BYTES_SETTING: _NO_LIMIT, _BATCH_ROWS_SETTING: str(NARROW_BATCH_ROWS)}
    )
