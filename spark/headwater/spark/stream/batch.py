"""Writes of one micro-batch that happen once, however often Spark repeats the batch.

Spark calls the function of ``foreachBatch`` again with a batch that it cannot know to be done:
after a crash between the function and the note of it in the checkpoint. A write of it is committed
by a user that is named after the query, with the batch's number, so that its repetition is found
in the table's history and left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.catalog_session import CatalogSession
from headwater.spark.write.frame import write_frame
from headwater.spark.write.numbered_batches import is_batch_written
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid

__all__ = ["BatchLake", "running_query"]

_QUERY_ID = "sql.streaming.queryId"


class BatchLake:
    """A catalog within one micro-batch. Made by `SparkLake.for_batch`.

    Args:
        session: The catalog's.
        query: The id of the streaming query.
        batch_id: The batch's number.
    """

    def __init__(self, session: CatalogSession, query: str, batch_id: int) -> None:
        if not query.strip():
            raise Invalid("the id of a streaming query must not be blank")
        if batch_id < 0:
            raise Invalid(f"a batch's number is 0 or more, not {batch_id}")
        self._session = session.for_stream()
        self._query = query
        self._batch_id = batch_id
        self._writes: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"BatchLake(batch {self._batch_id} of query {self._query})"

    def write(
        self,
        df: DataFrame,
        name: str,
        mode: str = "append",
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
    ) -> bool:
        """Write a frame as one commit, as `SparkLake.write` does, unless an earlier run did.

        The writes of a batch to one table are told apart by their order, which must be the same
        in each run.

        Args:
            df: The rows, as `SparkLake.write` takes them.
            name: ``database.table``.
            mode: ``append`` or ``overwrite``.
            partition: As for `SparkLake.write`.
            dynamic: As for `SparkLake.write`.

        Returns:
            False if an earlier run of the batch has written it.

        Raises:
            Invalid: The frame does not fit the table; or a later batch of the query has been
                written to it, so that this is not the query it was.
            Conflict, OutcomeUnknown: As `Table.write`.
        """
        table = self._session.catalog.table(name)
        number = self._writes.get(table.name, 0)
        self._writes[table.name] = number + 1
        user = f"spark-batch-{self._query}-{number}"
        commit = TableCommit(table.storage, table.pointer, user)
        if is_batch_written(commit, table.name, self._query, self._batch_id):
            return False
        write_frame(
            self._session,
            df,
            table,
            mode,
            partition=partition,
            dynamic=dynamic,
            numbered=(user, self._batch_id),
        )
        return True


def running_query(spark: SparkSession) -> str:
    """The id of the streaming query whose batch is being processed.

    Raises:
        Invalid: It cannot be told: this is not a function of ``foreachBatch``, or the session is
            one of Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    if query is None:
        raise Invalid(
            "the streaming query is not known here: call for_batch in the function of "
            "foreachBatch, or pass the query's id, which must be another for another checkpoint"
        )
    return str(query)
