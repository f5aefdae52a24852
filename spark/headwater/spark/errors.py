"""Headwater's own errors, found again in what Spark makes of them.

Code of ours that runs in Spark's Python processes raises `HeadwaterError`s; Spark hands them on as
the text of one of its own exceptions, traceback and all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from headwater.storage import errors

__all__ = ["first_line", "in_users_words", "own_errors", "unlogged_errors", "users_words"]

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


# The names that PySpark gives frames in texts; those of columns that only we add, in a list of
# suggestions; the places in which Spark looked for a function; and the plan below a message.
_OF_FRAMES = re.compile(r"`?\b_pyspark_\w+`?")
_OF_COLUMNS = re.compile(r"(, )?(`\w+`\.)?`_headwater_\w+`")
_SEARCH_PATH = re.compile(r" on search path \[[^\]]*\]")
_FUNCTIONS = " among Spark's functions and those of the catalog"
_PLAN = re.compile(r";\n'?[A-Z]\w+ ?.*", re.DOTALL)


def in_users_words(error: AnalysisException, names: Sequence[str] = ()) -> AnalysisException:
    """An error of Spark's without the query's plan, nor names that its user has not written.

    Args:
        error: Spark's.
        names: The names of the tables that the query reads.
    """
    condition = error.getCondition()
    table = f"`{names[0]}`" if len(set(names)) == 1 else "`…`"
    text = _OF_COLUMNS.sub("", _OF_FRAMES.sub(table, _PLAN.sub("", str(error))))
    text = _SEARCH_PATH.sub(_FUNCTIONS, text)
    kind = ParseException if isinstance(error, ParseException) else AnalysisException
    return kind(
        message=text.removeprefix(f"[{condition}] "),
        errorClass=condition,
        messageParameters=error.getMessageParameters(),
    )


@contextmanager
def users_words() -> Iterator[None]:
    """Raise Spark's errors of analysis as `in_users_words`."""
    try:
        yield
    except AnalysisException as error:
        raise in_users_words(error) from None


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
    # By PySpark's own door: made by `logging.getLogger`, it would not take what PySpark logs.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
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
