"""Write a frame in the tasks of one Spark job, and commit what they wrote from this process.

``df.write`` of the format makes Spark start a Python process to plan the write and another to
commit it, each of which loads all that this one has loaded; no task needs them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.datasource import WriterCommitMessage

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.errors import own_errors
from headwater.spark.explained_write import overwrite_mode, stop_if_explained
from headwater.spark.options import WriteOptions
from headwater.spark.session import ended_by_interrupt, release_frame
from headwater.spark.session_copy import SessionCopy
from headwater.spark.write.change_tasks import ChangeWriter
from headwater.spark.write.narrow_rows import WideRow, rows_of_copy, with_wide_marked
from headwater.spark.write.tasks import BatchWriter, task_outcome
from headwater.storage.errors import HeadwaterError
from headwater.storage.maintenance.row_changes import LosingRows

__all__ = ["save_frame"]


def save_frame(
    session: CatalogSession,
    df: DataFrame,
    options: WriteOptions,
    placed: Callable[[DataFrame], DataFrame],
) -> None:
    """Write a frame as one commit.

    When a task ends with an error that a repetition would not mend, the others end, too, and what
    all of them wrote is deleted. When Spark gives the job up, their messages are lost, and their
    files stay without a snapshot that names them.

    Args:
        session: The catalog's.
        df: The rows.
        options: The write's.
        placed: Brings rows to where the options say that they are.

    Raises:
        HeadwaterError: As the write's tasks and its commit.
        LosingRows: As `KeyedChanges.distinct`.
    """
    if session.explains is not None:
        stop_if_explained(session, placed(df), table=options.table, mode=_mode(options))
    marked = with_wide_marked(df)
    if marked is not None:
        try:
            _save(session, placed(marked), options, session.narrow)
            return
        except WideRow:
            pass
    _save(session, placed(df), options, None)


def _mode(options: WriteOptions) -> str:
    """How the rows of a write are added, for who explains it."""
    if not options.overwrite:
        return "append"
    if options.replace_where is not None:
        return f"overwrite of partitions where {options.replace_where}"
    return overwrite_mode(options.partition, dynamic=bool(options.dynamic))


def _save(
    session: CatalogSession, frame: DataFrame, options: WriteOptions, copy: SessionCopy | None
) -> None:
    """Write rows that are in their places.

    Args:
        session: The catalog's.
        frame: The rows, with the column that tells of wide ones if there is a copy.
        options: The write's.
        copy: Copies of sessions to run the job in; None is the frame's own session.

    Raises:
        WideRow: There is a row for which the copy is not made; nothing is written.
    """

    def open_table() -> Table:
        return options.open_in(session.catalog)

    writer = (BatchWriter if options.change is None else ChangeWriter)(options, open_table)
    writer.plan()
    names = frame.columns
    # PySpark looks up each column by its name, in which dots and backquotes have a meaning.
    numbered = frame.toDF(*map(str, range(len(names))))
    work = partial(task_outcome, writer, names, copy is not None)
    outcomes = numbered.mapInArrow(work, "outcome BINARY")
    try:
        with own_errors(), ended_by_interrupt(frame.sparkSession):
            rows = outcomes.collect() if copy is None else rows_of_copy(copy, outcomes)
    finally:
        release_frame(outcomes)
    messages: list[WriterCommitMessage | None] = []
    failures: list[HeadwaterError | LosingRows | WideRow] = []
    for row in rows:
        message, error = pickle.loads(bytes(row["outcome"]))
        messages.append(message)
        if error is not None:
            failures.append(error)
    if failures:
        writer.abort(messages)
        # Wide rows may be what the other error is about. Rows that lose are written another way,
        # which mends no other error.
        raise min(
            failures, key=lambda one: (not isinstance(one, WideRow), isinstance(one, LosingRows))
        )
    # Spark runs no task for a frame that it knows to be empty.
    writer.commit(messages or [writer.nothing()])
