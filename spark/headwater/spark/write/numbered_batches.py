"""Batches of streaming queries, found in the history of the table that they were written to."""

from __future__ import annotations

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid

__all__ = ["is_batch_written"]


def is_batch_written(commit: TableCommit, table: str, query: str, batch_id: int) -> bool:
    """True if an earlier run of a batch has written it.

    Spark repeats the last batch alone: one before a batch that was written has other rows.

    Args:
        commit: A commit by the user who is named after the query.
        table: The table's name.
        query: The query's id.
        batch_id: The batch's number.

    Raises:
        Invalid: A later batch of the query has been written, so that this is not the query it was.
    """
    last = commit.committed_up_to().identifier
    if last is not None and last > batch_id:
        raise Invalid(
            f"table {table}: batch {last} of query {query} has been written, and this is batch "
            f"{batch_id}: the query's checkpoint is another, or an older one. Give a query with a "
            "new checkpoint an id of its own, as Spark does"
        )
    return last == batch_id
