"""The statistics of a column that an option asks for (``StatsCollectorFactories.java``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from headwater.storage.errors import Invalid

__all__ = ["StatisticsKeep", "StatisticsMode"]


class StatisticsKeep(StrEnum):
    """The kinds of statistics."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


_TRUNCATE = re.compile(r"truncate\((\d+)\)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class StatisticsMode:
    """The part of a column's range that is kept.

    Attributes:
        keep: ``none``, ``counts`` (of nulls), ``truncate`` (long strings and bytes) or ``full``.
        length: With ``truncate``: code points of strings, bytes of binary values.
    """

    keep: StatisticsKeep
    length: int = 0

    @staticmethod
    def parse(text: str, key: str = "metadata.stats-mode") -> StatisticsMode:
        """Read Paimon's notation: ``none``, ``counts``, ``truncate(16)``, ``full``.

        Args:
            text: The value.
            key: The option, for the error.

        Raises:
            Invalid: The text is none of these.
        """
        found = _TRUNCATE.fullmatch(text.strip())
        if found is not None and int(found[1]) > 0:
            return StatisticsMode(StatisticsKeep.TRUNCATE, int(found[1]))
        try:
            keep = StatisticsKeep(text.strip().lower())
        except ValueError:
            keep = StatisticsKeep.TRUNCATE
        if keep is StatisticsKeep.TRUNCATE:
            raise Invalid(
                f"option '{key}': '{text}' is not a statistics mode, which are none, counts, "
                "truncate(n) with n > 0, full"
            )
        return StatisticsMode(keep)
