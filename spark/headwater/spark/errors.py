"""Headwater's own errors, found again in what Spark makes of them.

Code of ours that runs in Spark's Python processes raises `HeadwaterError`s; Spark hands them on as
the text of one of its own exceptions, traceback and all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headwater.storage import errors

__all__ = ["first_line", "own_errors", "unlogged_errors"]

_KINDS: dict[str, type[errors.HeadwaterError]] = {
    kind.__name__: kind
    for kind in (
        errors.OutcomeUnknown,
        errors.NotFound,
        errors.AlreadyExists,
        errors.Conflict,
        errors.Invalid,
        errors.Forbidden,
        errors.Unavailable,
        errors.CorruptData,
        errors.Unsupported,
    )
}
_RAISED = re.compile(
    rf"^headwater\.[\w.]+\.(?P<kind>{'|'.join(_KINDS)}): (?P<message>.+)$", re.MULTILINE
)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise the `HeadwaterError` that made Spark fail, with Spark's exception as its cause."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raised = list(_RAISED.finditer(str(error)))
        if not raised:
            raise
        last = raised[-1]
        raise _KINDS[last["kind"]](last["message"].strip()) from error


@contextmanager
def unlogged_errors() -> Iterator[None]:
    """Leave errors of queries to who shows them: PySpark logs each with its whole trace."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def first_line(error: errors.HeadwaterError | PySparkException | Py4JJavaError) -> str:
    """An error in one line, without the traces that Spark adds."""
    if isinstance(error, errors.HeadwaterError):
        return " ".join(error.message.split())
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage() or error.java_exception).split("\n", 1)[0]
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
