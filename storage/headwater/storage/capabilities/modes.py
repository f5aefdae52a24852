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
    "deletion vectors in a difference": Mode(
        "the difference of two snapshots (mode `diff`)",
        "which a difference of snapshots would not see; read the changes between them instead "
        "(mode delta or changelog)",
    ),
    "rewritten files in a difference": Mode(
        "the difference of two snapshots (mode `diff`) without a primary key",
        "and without a primary key new rows cannot be told from rows that were moved; read the "
        "changes between the snapshots instead (mode delta)",
    ),
    "keys across partitions": Mode(
        "writing it without a fixed number of buckets",
        "so a key may move to another partition, which Headwater does not yet look for; set "
        "'bucket' to a number of buckets or to -2, or use another Paimon engine",
    ),
    "overwrite among changes": Mode(
        "changes between two snapshots",
        "whose changes are not known row by row; leave it out with skip_overwrites=True",
    ),
}
"""By name."""
