"""The protocol of what says which rows a change takes, and what they become."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.predicate.filter import Predicate

__all__ = ["Matched", "RowMatcher"]


@dataclass(frozen=True)
class Matched:
    """The rows of a batch that match.

    Attributes:
        taken: Their numbers in the batch, each once.
        added: Their new versions, with the table's columns; None when they are deleted.
        gone: With `added`, the numbers of other rows that are deleted; files that are written
            anew are written without them.
    """

    taken: npt.NDArray[np.int64]
    added: pa.Table | None = None
    gone: npt.NDArray[np.int64] | None = None


class RowMatcher(Protocol):
    """Says which rows change, and into what."""

    @property
    def predicate(self) -> Predicate | None:
        """A condition that every row that changes fulfils; files that cannot are left out."""
        ...

    @property
    def changed(self) -> Collection[str] | None:
        """The columns that get new values; None if the rows that match go."""
        ...

    def match(self, rows: pa.RecordBatch) -> Matched:
        """The rows of a batch that change; a row may be asked for twice."""
        ...

    def rest(self) -> pa.Table | None:
        """Rows to add when all batches have been matched; None for none."""
        ...
