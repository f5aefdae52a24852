"""The options of a table that say when it is compacted, and how much (``CoreOptions.java``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options import TableOptions, parse_bytes, parse_duration
from headwater.storage.options.choices import SortStrategy

__all__ = ["CompactionOptions"]

# docs/decisions/0013-compaction-picks.md tells what other values cost.
_MERGE_SIZE_RATIO = 300


@dataclass(frozen=True)
class CompactionOptions(TableOptions):
    """A table's option map, typed, as compactions need it."""

    def check(self) -> None:
        """Read each of these options, so that a malformed one is told before there is work for it.

        Raises:
            Invalid: One is malformed.
        """
        for name, member in vars(CompactionOptions).items():
            if isinstance(member, property):
                getattr(self, name)
        self.off_peak_ratio(0)
        self.small_file_size(True)
        self.compared_columns(())

    @property
    def sorted_run_stop_trigger(self) -> int:
        """Sorted runs of a bucket beyond which a writer must not leave it uncompacted."""
        trigger = self.sorted_run_trigger
        return max(trigger, self._integer("num-sorted-run.stop-trigger", trigger + 3))

    @property
    def full_compaction_delta_commits(self) -> int | None:
        """Commits after which a writer compacts all there is; None is never."""
        count = self._integer("full-compaction.delta-commits", 0)
        return count if count > 0 else None

    @property
    def max_size_amplification(self) -> int:
        """Percent of the oldest run's size that the others may have together."""
        return self._integer("compaction.max-size-amplification-percent", 200)

    @property
    def size_ratio(self) -> int:
        """Percent by which the next run may be greater than those before it, and still join."""
        return self._integer("compaction.size-ratio", 1)

    @property
    def merge_size_ratio(self) -> int:
        """As `size_ratio`, for the runs of a primary-key table.

        Unless it is set, a run joins that is up to four times as large: Paimon's 1 lets all levels
        fill up to about the same size, and then each commit rewrites one of them.
        """
        return self._integer("compaction.size-ratio", _MERGE_SIZE_RATIO)

    def off_peak_ratio(self, hour: int) -> int:
        """Percent that is added to the size ratio in an hour of the day, from 0 to 23."""
        start = self._integer("compaction.offpeak.start.hour", -1)
        end = self._integer("compaction.offpeak.end.hour", -1)
        ratio = self._integer("compaction.offpeak-ratio", 0)
        if start == end or -1 in (start, end):
            return 0
        # The hours may go on after midnight.
        is_off_peak = start <= hour < end if start < end else hour < end or start <= hour
        return ratio if is_off_peak else 0

    @property
    def compacts_blobs(self) -> bool:
        """True if files of BLOB columns are joined, too."""
        return self._boolean("blob-compaction.enabled", False)

    @property
    def rewrites_all_files(self) -> bool:
        """True if a compaction rewrites files that it could leave, or only move up."""
        return self._boolean("compaction.force-rewrite-all-files", False)

    @property
    def skips_expired_partitions(self) -> bool:
        """True if a compaction that is asked for leaves out partitions that expire next."""
        return self._boolean("compaction.skip-expired-partitions", False)

    @property
    def optimization_interval(self) -> int | None:
        """Milliseconds after which all runs are compacted again; None is never."""
        key = "compaction.optimization-interval"
        text = self.raw.get(key)
        return None if text is None else parse_duration(text, key)

    @property
    def total_size_threshold(self) -> int | None:
        """Bytes of a bucket below which all its runs are compacted each time."""
        return self._bytes("compaction.total-size-threshold")

    @property
    def incremental_size_threshold(self) -> int | None:
        """Bytes below the highest level above which all runs are compacted."""
        return self._bytes("compaction.incremental-size-threshold")

    @property
    def append_file_trigger(self) -> int:
        """Small files of a bucket of an append table at which compaction is due."""
        return max(2, self._integer("compaction.min.file-num", 5))

    @property
    def delete_ratio_threshold(self) -> float:
        """The part of an append file's rows beyond which, if deleted, it is rewritten."""
        key = "compaction.delete-ratio-threshold"
        text = self.raw.get(key, "0.2")
        try:
            return float(text)
        except ValueError as error:
            raise Invalid(f"option '{key}' must be a number, not '{text}'") from error

    @property
    def forces_up_level_zero(self) -> bool:
        """True if no file is to stay on level 0."""
        return self.needs_lookup or self._boolean("compaction.force-up-level-0", False)

    @property
    def is_due_by_more_than_runs(self) -> bool:
        """True if a compaction may be due however few runs a bucket has."""
        return (
            self.forces_up_level_zero
            or self.optimization_interval is not None
            or self.total_size_threshold is not None
            or self.incremental_size_threshold is not None
        )

    @property
    def lookup_interval(self) -> int | None:
        """The number of runs on level 0 at which a lookup compacts them; None is any."""
        mode = (self._word("lookup-compact") or "radical").strip()
        if mode not in ("radical", "gentle"):
            raise Invalid(f"option 'lookup-compact' must be radical or gentle, not '{mode}'")
        if mode == "radical" or not self.needs_lookup:
            return None
        default = self.sorted_run_trigger * 2
        return max(self.sorted_run_trigger, self._integer("lookup-compact.max-interval", default))

    def compared_columns(self, columns: Iterable[str]) -> frozenset[str] | None:
        """The columns by which a changelog tells whether a row changed; None if it always did."""
        if not self._boolean("changelog-producer.row-deduplicate", False):
            return None
        text = self.raw.get("changelog-producer.row-deduplicate-ignore-fields", "")
        return frozenset(columns) - {name.strip() for name in text.split(",")}

    def small_file_size(self, primary_key: bool) -> int:
        """Bytes below which a file is rewritten when it could only move up."""
        key = "compaction.small-file-ratio"
        text = self.raw.get(key, "0.7")
        try:
            ratio = float(text)
        except ValueError:
            raise Invalid(f"option '{key}' must be a number, not '{text}'") from None
        return int(self.target_file_size(primary_key) * ratio)

    @property
    def z_order_text_bytes(self) -> int:
        """Bytes of text and binary values that count on a Z-order curve."""
        key = "zorder.var-length-contribution"
        count = self._integer(key, 8)
        if count < 1:
            raise Invalid(f"option '{key}' must be at least 1, not {count}")
        return count

    @property
    def clusters_incrementally(self) -> bool:
        """True if compaction sorts the rows of an append table by `clustering_columns`."""
        return self._boolean("clustering.incremental", False)

    @property
    def keeps_append_order(self) -> bool:
        """True if the rows of an append table's bucket stay in the order of writing."""
        return self._boolean("bucket-append-ordered", True)

    @property
    def clustering_strategy(self) -> SortStrategy:
        """The order it gives them."""
        key = "clustering.strategy"
        if not self._word(key):
            key = "sink.clustering.strategy"
        chosen = self._word(key) or "auto"
        if chosen == "auto":
            count = len(self.clustering_columns)
            if count == 1:
                return SortStrategy.ORDER
            return SortStrategy.ZORDER if count < 5 else SortStrategy.HILBERT
        try:
            return SortStrategy(chosen)
        except ValueError:
            names = ", ".join(SortStrategy)
            raise Invalid(
                f"option '{key}' must be auto or one of {names}; not '{chosen}'"
            ) from None

    @property
    def clusters_globally(self) -> bool:
        """True if files of a level do not overlap; else each is sorted by itself."""
        key = "clustering.incremental.mode"
        mode = self._word(key) or "global-sort"
        if mode not in ("global-sort", "local-sort"):
            raise Invalid(f"option '{key}' must be global-sort or local-sort, not '{mode}'")
        return mode == "global-sort"

    @property
    def history_partition_idle(self) -> int | None:
        """Milliseconds without writes after which a partition is clustered fully; None never."""
        key = "clustering.history-partition.idle-to-full-sort"
        text = self.raw.get(key)
        return None if text is None else parse_duration(text, key)

    @property
    def history_partition_limit(self) -> int:
        """Such partitions that one compaction clusters at most."""
        return self._integer("clustering.history-partition.limit", 5)

    def _bytes(self, key: str) -> int | None:
        text = self.raw.get(key)
        return None if text is None else parse_bytes(text, key)
