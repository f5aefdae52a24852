"""Write a frame in the tasks of one Spark job, and commit what they wrote from this process.

``df.write`` of the format makes Spark start a Python process to plan the write and another to
commit it, each of which loads all that this one has loaded; no task needs them.
"""

from __future__ import annotations

import pickle
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.datasource import WriterCommitMessage

from headwater.spark.catalog_session import CatalogSession
from headwater.spark.errors import own_errors
from headwater.spark.options import WriteOptions
from headwater.spark.session import release_frame
from headwater.spark.write.change_tasks import ChangeWriter
from headwater.spark.write.tasks import BatchWriter, task_outcome
from headwater.storage.errors import HeadwaterError

__all__ = ["save_frame"]


def save_frame(session: CatalogSession, frame: DataFrame, options: WriteOptions) -> None:
    """Write a frame, whose rows are where the options say, as one commit.

    When a task ends with an error that a repetition would not mend, the others end, too, and what
    all of them wrote is deleted. When Spark gives the job up, their messages are lost, and their
    files stay without a snapshot that names them.

    Raises:
        HeadwaterError: As the write's tasks and its commit.
    """
    open_table = partial(session.catalog.table, options.table)
    writer = (BatchWriter if options.change is None else ChangeWriter)(options, open_table)
    writer.plan()
    names = frame.columns
    # PySpark looks up each column by its name, in which dots and backquotes have a meaning.
    numbered = frame.toDF(*map(str, range(len(names))))
    outcomes = numbered.mapInArrow(partial(task_outcome, writer, names), "outcome BINARY")
    try:
        with own_errors():
            rows = outcomes.collect()
    finally:
        release_frame(outcomes)
    messages: list[WriterCommitMessage | None] = []
    failure: HeadwaterError | None = None
    for row in rows:
        message, error = pickle.loads(bytes(row["outcome"]))
        messages.append(message)
        failure = failure or error
    if failure is not None:
        writer.abort(messages)
        raise failure
    # Spark runs no task for a frame that it knows to be empty.
    writer.commit(messages or [writer.nothing()])
