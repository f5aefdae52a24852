"""The options of a table that say which buckets new rows go to (``CoreOptions.java``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options import TableOptions, parse_bytes, parse_duration

__all__ = ["AssignmentOptions"]


@dataclass(frozen=True)
class AssignmentOptions(TableOptions):
    """A table's option map, typed, as writers need it that look for buckets."""

    @property
    def postpones_batches(self) -> bool:
        """True if a batch write, too, leaves its rows for a compaction to spread over buckets."""
        return not self._boolean("postpone.batch-write-fixed-bucket", True)

    @property
    def postpone_default_buckets(self) -> int | None:
        """Buckets of a partition that has none yet; None when nothing says so."""
        return self._count("postpone.default-bucket-num")

    @property
    def postpone_target_rows(self) -> int | None:
        """Rows that a bucket of a new partition is meant for; None when nothing says so."""
        return self._count("postpone.target-row-num-per-bucket")

    @property
    def postpone_target_size(self) -> int:
        """Bytes of rows in memory that a bucket of a new partition is meant for."""
        key = "postpone.target-size-per-bucket"
        size = parse_bytes(self.raw.get(key, "1 gb"), key)
        if size < 1:
            raise Invalid(f"option '{key}' must be positive, not '{self.raw[key]}'")
        return size

    @property
    def postpone_most_buckets(self) -> int:
        """Buckets that a new partition is given at most by the number or size of its rows."""
        return self._count("postpone.batch-write-fixed-bucket.max-parallelism") or 2048

    @property
    def dynamic_target_rows(self) -> int:
        """Keys that a dynamic bucket is meant for."""
        return self._count("dynamic-bucket.target-row-num") or 2_000_000

    @property
    def dynamic_most_buckets(self) -> int | None:
        """Dynamic buckets of a partition at most; None when nothing limits them."""
        key = "dynamic-bucket.max-buckets"
        return None if self.raw.get(key, "-1").strip() == "-1" else self._count(key)

    @property
    def dynamic_classes(self) -> int:
        """Dynamic buckets that a new partition is spread over from the beginning.

        Each is filled by a task of its own, so the number of tasks is one of buckets as well. As in
        Paimon's Spark writer, the initial buckets are no more than the tasks if both are given.
        """
        buckets = self._count("dynamic-bucket.initial-buckets")
        tasks = self._count("dynamic-bucket.assigner-parallelism")
        if buckets is None or tasks is None:
            return buckets or tasks or 1
        return min(buckets, tasks)

    @property
    def key_index_age(self) -> int | None:
        """Milliseconds after which files are not searched for the partitions of keys any more."""
        key = "cross-partition-upsert.index-ttl"
        return parse_duration(self.raw[key], key) if key in self.raw else None

    def _count(self, key: str) -> int | None:
        if key not in self.raw:
            return None
        number = self._integer(key, 1)
        if number < 1:
            raise Invalid(f"option '{key}' must be at least 1, not {number}")
        return number
