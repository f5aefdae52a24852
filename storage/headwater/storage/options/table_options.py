"""A typed view of a table's options (``CoreOptions.java``): the names are Paimon's own."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options.choices import (
    BucketFunction,
    ChangelogProducer,
    MergeEngine,
)
from headwater.storage.options.field_options import FieldOptions
from headwater.storage.options.file_options import FileOptions
from headwater.storage.options.quantities import parse_bytes, parse_duration
from headwater.storage.options.retention_options import RetentionOptions

__all__ = ["CLUSTERING_COLUMNS", "TableOptions"]

CLUSTERING_COLUMNS = ("clustering.columns", "sink.clustering.by-columns")
"""The option that lists the columns to sort by, and its older name, which counts without it."""
_FORMER_IGNORE_DELETE = (
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)


@dataclass(frozen=True)
class TableOptions(FieldOptions, FileOptions, RetentionOptions):
    """A table's option map, typed."""

    @property
    def bucket(self) -> int:
        """Buckets of a partition; -1 when the table is not bucketed (or dynamically)."""
        value = self._integer("bucket", -1)
        if value < 1 and value not in (-1, -2):
            raise Invalid(f"option 'bucket' must be a positive number or -1, not {value}")
        return value

    @property
    def bucket_function(self) -> BucketFunction:
        """The way in which a row's bucket follows from its bucket key."""
        return self._choice("bucket-function.type", BucketFunction.DEFAULT)

    @property
    def has_nullable_keys(self) -> bool:
        """True if columns of the primary key may hold null."""
        return self._boolean("primary-key.nullable", False)

    @property
    def merge_engine(self) -> MergeEngine:
        """The way in which rows of one key become one."""
        return self._choice("merge-engine", MergeEngine.DEDUPLICATE)

    @property
    def computes_rows(self) -> bool:
        """True if merging may give values that none of the merged rows has."""
        return self.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)

    @property
    def is_chain_table(self) -> bool:
        """True if rows that retract may have to retract rows of other branches or partitions."""
        return self._boolean("chain-table.enabled", False)

    @property
    def hides_level_zero(self) -> bool:
        """True if rows are part of the table only when a compaction has taken them up."""
        return self.merge_engine is MergeEngine.FIRST_ROW or self.marks_superseded_rows

    @property
    def needs_lookup(self) -> bool:
        """True if a compaction looks a key's rows of level 0 up in the levels above.

        A row above level 0 then has taken up those of the same key on the levels above its own.
        """
        return (
            self.merge_engine is MergeEngine.FIRST_ROW
            or self.changelog_producer is ChangelogProducer.LOOKUP
            or self.deletion_vectors_enabled
            or self._boolean("force-lookup", False)
        )

    @property
    def changelog_producer(self) -> ChangelogProducer:
        """The writer of changelog files."""
        return self._choice("changelog-producer", ChangelogProducer.NONE)

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        """The columns that order rows of one key before their sequence number does."""
        text = self.raw.get("sequence.field", "")
        return tuple(name.strip() for name in text.split(",") if name.strip())

    @property
    def orders_by_snapshot(self) -> bool:
        """True if of rows of one key the one in the later snapshot is newer, whatever its number.

        Rows of files that a compaction wrote have the snapshot's id as their number; rows of others
        have their file's, in which it takes the place of those that the writer gave.
        """
        return self._boolean("sequence.snapshot-ordering", False)

    @property
    def tells_greatest_sequence(self) -> bool:
        """True if snapshots tell the greatest sequence number, where writers look for it."""
        key = "write.sequence-number-init-mode"
        text = self.raw.get(key, "scan").strip().lower()
        if text not in ("scan", "snapshot"):
            raise Invalid(f"option '{key}' must be scan or snapshot, not '{text}'")
        return text == "snapshot"

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The columns by which added rows take the place of others, without a primary key."""
        text = self.raw.get("upsert-key", "")
        return tuple(name.strip() for name in text.split(",") if name.strip())

    @property
    def sequence_descending(self) -> bool:
        """True if the smallest `sequence_fields` wins."""
        text = self.raw.get("sequence.field.sort-order", "ascending").strip().lower()
        if text not in ("ascending", "descending"):
            raise Invalid(
                f"option 'sequence.field.sort-order' must be ascending or descending, not '{text}'"
            )
        return text == "descending"

    @property
    def row_kind_field(self) -> str | None:
        """A column that names each row's kind (``+I``, ``-U``, ``+U``, ``-D``)."""
        return self.raw.get("rowkind.field")

    @property
    def ignore_delete(self) -> bool:
        """True if retracting rows are dropped on the way in."""
        for key in ("ignore-delete", *_FORMER_IGNORE_DELETE):
            if key in self.raw:
                return self._boolean(key, False)
        return False

    @property
    def ignore_update_before(self) -> bool:
        """True if ``-U`` rows are dropped on the way in."""
        return self._boolean("ignore-update-before", False)

    @property
    def write_buffer_size(self) -> int:
        """Bytes of rows that a writer holds before it writes files."""
        return parse_bytes(self.raw.get("write-buffer-size", "256 mb"), "write-buffer-size")

    @property
    def write_only(self) -> bool:
        """True if writers leave compaction to others."""
        for key in ("write-only", "write.compaction-skip"):
            if key in self.raw:
                return self._boolean(key, False)
        return False

    @property
    def dynamic_partition_overwrite(self) -> bool:
        """True if an overwrite replaces only the partitions that it has rows for."""
        return self._boolean("dynamic-partition-overwrite", True)

    @property
    def overwrite_upgrade(self) -> bool:
        """True if an overwrite puts files that need no merge on the highest level."""
        return self._boolean("overwrite-upgrade", True)

    @property
    def commit_retry_wait(self) -> tuple[int, int]:
        """Milliseconds between two tries of a commit: at first, and at most."""
        least, most = "commit.min-retry-wait", "commit.max-retry-wait"
        return (
            parse_duration(self.raw.get(least, "10 ms"), least),
            parse_duration(self.raw.get(most, "10 s"), most),
        )

    @property
    def commit_timeout(self) -> int | None:
        """Milliseconds that a commit is tried again for in all; None where nothing says so."""
        text = self.raw.get("commit.timeout")
        return None if text is None else parse_duration(text, "commit.timeout")

    @property
    def deletion_vectors_enabled(self) -> bool:
        """True if deletes are kept as deletion vectors."""
        return self._boolean("deletion-vectors.enabled", False)

    @property
    def deletion_vectors_bitmap64(self) -> bool:
        """True if new deletion vectors have the 64-bit form."""
        return self._boolean("deletion-vectors.bitmap64", False)

    @property
    def deletion_vector_index_file_target_size(self) -> int:
        """Bytes at which a new index file of deletion vectors begins."""
        key = "deletion-vector.index-file.target-size"
        return parse_bytes(self.raw.get(key, "2 mb"), key)

    @property
    def marks_superseded_rows(self) -> bool:
        """True if deletion vectors mark every row above level 0 that is not the newest of its key.

        Files above level 0 are then read without a merge, and level 0 is left to compaction
        (``CoreOptions.batchScanSkipLevel0``).
        """
        on_read = self._boolean("deletion-vectors.merge-on-read", False)
        return self.deletion_vectors_enabled and not on_read

    @property
    def merges_postponed_rows(self) -> bool:
        """True if reads merge the rows that wait for a compaction to spread them over buckets."""
        return self.bucket == -2 and self._boolean("postpone.merge-on-read", False)

    @property
    def commit_max_retries(self) -> int:
        """The number of times that a commit that met a conflict is tried again."""
        return self._integer("commit.max-retries", 10)

    @property
    def last_safe_snapshot(self) -> int | None:
        """The snapshot after which what others commit may refuse a commit; None is none.

        -1 is the last one before a user's first commit.
        """
        key = "commit.strict-mode.last-safe-snapshot"
        if not self.raw.get(key, "").strip():
            return None
        value = self._integer(key, 0)
        if value < -1:
            raise Invalid(f"option '{key}' must be a snapshot, 0 or -1, not {value}")
        return value

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        """The columns that compaction sorts rows by."""
        text = next((self.raw[key] for key in CLUSTERING_COLUMNS if key in self.raw), "")
        return tuple(name for name in map(str.strip, text.split(",")) if name)

    @property
    def overrides_key_order(self) -> bool:
        """True if files above level 0 are sorted by `clustering_columns` and not by the key.

        They say of these columns, too, what their least and greatest values are, where others say
        it of their keys. None of their keys occurs twice but in rows that are marked as deleted.
        """
        return self._boolean("pk-clustering-override", False)

    @property
    def sorted_run_trigger(self) -> int:
        """Sorted runs of a bucket at which compaction is due."""
        return self._integer("num-sorted-run.compaction-trigger", 5)

    @property
    def highest_level(self) -> int:
        """The last level of the LSM tree."""
        return self._integer("num-levels", self.sorted_run_trigger + 1) - 1

    @property
    def split_target_size(self) -> int:
        """Bytes of files that make one split of a scan."""
        return parse_bytes(
            self.raw.get("source.split.target-size", "128 mb"), "source.split.target-size"
        )

    @property
    def split_open_file_cost(self) -> int:
        """Bytes that opening a file counts for when files are packed into splits."""
        return parse_bytes(
            self.raw.get("source.split.open-file-cost", "4 mb"), "source.split.open-file-cost"
        )

    @property
    def streaming_read_overwrite(self) -> bool:
        """True if a stream of a primary-key table tells what an overwrite changed."""
        return self._boolean("streaming-read-overwrite", False)

    @property
    def streaming_read_append_overwrite(self) -> bool:
        """True if a stream of an append table gives the rows that an overwrite wrote."""
        return self._boolean("streaming-read-append-overwrite", False)

    @property
    def tracks_rows(self) -> bool:
        """True if rows have ids that stay (row tracking)."""
        return self._boolean("row-tracking.enabled", False)

    @property
    def lets_indexes_be(self) -> bool:
        """True if columns get new values though an index of row ids knows the old ones."""
        return self._word("global-index.column-update-action") == "ignore"

    @property
    def evolves_columns(self) -> bool:
        """True if the columns of a row may lie in several files (data evolution)."""
        return self._boolean("data-evolution.enabled", False)

    @property
    def blobs_as_descriptors(self) -> bool:
        """True if a BLOB is read as the place of its value."""
        return self._boolean("blob-as-descriptor", False)

    @property
    def groups_row_ids(self) -> bool:
        """True if the rows that a commit adds to a partition have row ids one after another."""
        return self._boolean("row-tracking.partition-group-on-commit", True)

    @property
    def reads_sequence_numbers(self) -> bool:
        """True if audit log and binlog have a column of sequence numbers."""
        return self._boolean("table-read.sequence-number.enabled", False)

    @property
    def full_compaction_delta_commits(self) -> int | None:
        """Commits between two full compactions; None when they are not made by number."""
        key = "full-compaction.delta-commits"
        return self._integer(key, 1) if key in self.raw else None

    @property
    def tags_mean_snapshots(self) -> bool:
        """True if changes between two tags are those of the snapshots between them."""
        return self._boolean("incremental-between-tag-to-snapshot", False)

    @property
    def bounded_watermark(self) -> int | None:
        """The watermark beyond which a stream does not go, milliseconds; None without one."""
        key = "scan.bounded.watermark"
        if not self.raw.get(key, "").strip():
            return None
        value = self._integer(key, 0)
        if value < 0:
            raise Invalid(f"option '{key}' must be 0 or more, not {value}")
        return value
