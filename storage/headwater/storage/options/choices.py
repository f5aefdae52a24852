"""The options that name one of some ways (``CoreOptions.java``)."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BucketFunction", "ChangelogProducer", "MergeEngine", "NullKeys"]


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
