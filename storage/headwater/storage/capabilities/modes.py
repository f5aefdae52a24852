"""States of a table's data that this engine refuses, whatever the options say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["MODES", "Mode"]


@dataclass(frozen=True)
class Mode:
    """A state of a table's data that this engine refuses.

    Attributes:
        refused: The refused data, for the documentation.
        sentence: The end of the message: what Headwater does not do, and what to do instead.
    """

    refused: str
    sentence: str


MODES: Mapping[str, Mode] = {
    "rewritten files in a difference": Mode(
        "the difference of two snapshots (mode `diff`) without a primary key",
        "and without a primary key new rows cannot be told from rows that were moved; read the "
        "changes between the snapshots instead (mode delta)",
    ),
    "ignored deletes across partitions": Mode(
        "writing it without a fixed number of buckets, if the primary key lacks a partition column "
        "and `ignore-delete` is set",
        "and ignores deletes ('ignore-delete' is true), so that a key which moves to another "
        "partition would stay in the one it leaves, too; leave the option out, set 'bucket' to a "
        "number of buckets, or make every partition column part of the primary key",
    ),
    "shared overwrite across partitions": Mode(
        "overwriting some partitions of it from Spark with dynamic buckets, a primary key that "
        "lacks a partition column and a merge engine other than deduplicate",
        "which merges a row where its key is, and no task knows which partitions the others "
        "replace; overwrite them with the SDK, or the whole table",
    ),
    "appends by upsert-key": Mode(
        "appending to it, if it has an `upsert-key`, otherwise than by `INSERT`, `MERGE` and "
        "`SparkLake.write` of Spark: by the SDK, `df.write`, `for_batch`, streams, `COPY INTO`",
        "by which new rows take the place of those that there are: write them with INSERT or "
        "SparkLake.write of Spark, or merge them",
    ),
    "difference across partitions": Mode(
        "the difference of two snapshots (mode `diff`) with dynamic buckets and a primary key that "
        "lacks a partition column",
        "whose keys move between partitions and buckets, so that a difference read bucket by "
        "bucket would not tell a row that moved from one that was deleted; read the changes "
        "between the snapshots instead (mode delta or changelog)",
    ),
    "sorting of column files": Mode(
        "sorting or clustering a table with data evolution",
        "whose files of some columns are found by row ids that follow each other; compact it "
        "without an order",
    ),
    "difference of column files": Mode(
        "the difference of two snapshots (mode `diff`) with data evolution",
        "whose files of some columns are no rows by which snapshots differ; read the rows that "
        "were added between them instead (mode delta)",
    ),
    "new values among changes": Mode(
        "changes between two snapshots",
        "which changes are not told row by row; leave them out with skip_overwrites=True",
    ),
    "overwrite among changes": Mode(
        "changes between two snapshots",
        "whose changes are not known row by row; leave it out with skip_overwrites=True",
    ),
}
"""By name."""
