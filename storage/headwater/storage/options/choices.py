"""The options that name one of some ways (``CoreOptions.java``)."""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "BucketFunction",
    "ChangelogProducer",
    "KeyPlacement",
    "MapLayout",
    "MergeEngine",
    "NullKeys",
    "SortStrategy",
]


class MergeEngine(StrEnum):
    """The way in which rows of one primary key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class BucketFunction(StrEnum):
    """The way in which a row's bucket follows from its bucket key."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


class ChangelogProducer(StrEnum):
    """The writer of a primary-key table's changelog files."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class NullKeys(StrEnum):
    """The fate of a nested row whose key holds a null (``nested-key-null-strategy``)."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


class MapLayout(StrEnum):
    """The form of a MAP column in new files (``fields.<column>.map.storage-layout``)."""

    DEFAULT = "default"
    SHARED_SHREDDING = "shared-shredding"


class KeyPlacement(StrEnum):
    """The way in which the keys of a map find columns of a file.

    It is ``fields.<column>.map.shared-shredding.column-placement-policy``.
    """

    PLAIN = "plain"
    SEQUENTIAL = "sequential"
    LRU = "lru"


class SortStrategy(StrEnum):
    """The order that a sort compaction gives rows."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"
