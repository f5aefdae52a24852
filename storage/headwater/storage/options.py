"""A typed view of a table's options (``CoreOptions.java``): the names are Paimon's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from headwater.storage.errors import Invalid

__all__ = [
    "BucketFunction",
    "ChangelogProducer",
    "MergeEngine",
    "TableOptions",
    "parse_bytes",
    "parse_duration",
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


RECORD_EXPIRE_TIME = "record-level.expire-time"
RECORD_TIME_FIELD = "record-level.time-field"
"""The option that names the column by which rows expire."""

_BYTE_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _names in enumerate((("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb")), 1):
    _BYTE_UNITS |= dict.fromkeys(_names, 1024**_power)
_BYTE_UNITS |= {"kibibytes": 1024, "mebibytes": 1024**2, "gibibytes": 1024**3}

_TIME_UNITS: Mapping[str, float] = {
    "ns": 1e-6, "us": 1e-3, "µs": 1e-3, "": 1, "ms": 1, "s": 1000, "sec": 1000,
    "m": 60_000, "min": 60_000, "h": 3_600_000, "hour": 3_600_000,
    "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip

_FORMER_IGNORE_DELETE = (
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)

# Java's long.
_LONGEST = 2**63 - 1

_QUANTITY = re.compile(r"^\s*(\d+)\s*([a-zµ]*)\s*$", re.IGNORECASE)


def _quantity(text: str, units: Mapping[str, float], key: str, example: str) -> int:
    match = _QUANTITY.match(text)
    unit = match[2].lower() if match else ""
    factor = units.get(unit, units.get(unit.rstrip("s")))
    if match is None or factor is None:
        raise Invalid(f"option '{key}': '{text}' is not a quantity such as '{example}'")
    # By its length first: Python reads no number of thousands of digits.
    quantity = int(int(match[1]) * factor) if len(match[1]) < 25 else _LONGEST + 1
    if quantity > _LONGEST:
        raise Invalid(f"option '{key}': '{text}' is more than can be counted")
    return quantity


def parse_bytes(text: str, key: str = "size") -> int:
    """Bytes from Paimon's notation: ``128 mb``, ``64kb``, ``1024``."""
    return _quantity(text, _BYTE_UNITS, key, "128 mb")


def parse_duration(text: str, key: str = "duration") -> int:
    """Milliseconds from Paimon's notation: ``1 h``, ``30 min``, ``500 ms``."""
    return _quantity(text, _TIME_UNITS, key, "1 h")


_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True)
class TableOptions:
    """A table's option map, typed.

    Attributes:
        raw: The map itself.
    """

    raw: Mapping[str, str]

    def _integer(self, key: str, default: int) -> int:
        text = self.raw.get(key)
        if text is None:
            return default
        try:
            number = int(text.strip())
        except ValueError:
            raise Invalid(f"option '{key}' must be an integer, not '{text}'") from None
        if abs(number) > _LONGEST:
            raise Invalid(f"option '{key}': {number} is more than can be counted")
        return number

    def _boolean(self, key: str, default: bool) -> bool:
        text = self.raw.get(key)
        if text is None:
            return default
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
        raise Invalid(f"option '{key}' must be true or false, not '{text}'")

    def _choice(self, key: str, default: _Choice) -> _Choice:
        text = self.raw.get(key)
        if text is None:
            return default
        kind = type(default)
        try:
            return kind(text.strip().lower())
        except ValueError:
            names = ", ".join(kind)
            raise Invalid(f"option '{key}' must be one of {names}; not '{text}'") from None

    def _word(self, key: str) -> str | None:
        text = self.raw.get(key)
        return None if text is None else text.strip().lower()

    def _by_level(self, key: str) -> dict[int, str]:
        """An option such as ``0:avro,3:parquet``."""
        found: dict[int, str] = {}
        for item in filter(str.strip, self.raw.get(key, "").split(",")):
            level, colon, value = item.partition(":")
            if not colon or not level.strip().isdecimal() or not value.strip():
                raise Invalid(
                    f"option '{key}': '{item.strip()}' is not a level and a value such as '0:avro'"
                )
            found[int(level)] = value.strip().lower()
        return found

    def aggregate_function(self, column: str) -> str | None:
        """The function by which a column's values are merged; None where nothing says so."""
        default = self.raw.get("fields.default-aggregate-function")
        return self.raw.get(f"fields.{column}.aggregate-function", default)

    def ignores_retractions(self, column: str) -> bool:
        """True if rows that retract count for nothing in a column."""
        return self._boolean(f"fields.{column}.ignore-retract", False)

    def is_distinct(self, column: str) -> bool:
        """True if a column's function keeps one of equal elements."""
        return self._boolean(f"fields.{column}.distinct", False)

    def list_agg_delimiter(self, column: str) -> str:
        """The text between a column's texts, as ``listagg`` joins them."""
        return self.raw.get(f"fields.{column}.list-agg-delimiter", ",")

    def nested_key(self, column: str) -> tuple[str, ...]:
        """The fields by which the rows of a column's nested tables are told apart."""
        return self._names(f"fields.{column}.nested-key")

    def nested_key_null_strategy(self, column: str) -> NullKeys:
        """The fate of such rows with a null among these fields."""
        return self._choice(f"fields.{column}.nested-key-null-strategy", NullKeys.MERGE)

    def nested_sequence_fields(self, column: str) -> tuple[str, ...]:
        """The fields that tell which of two such rows is newer."""
        return self._names(f"fields.{column}.nested-sequence-field")

    def count_limit(self, column: str) -> int | None:
        """The number of such rows at which no more are added; None for no limit."""
        key = f"fields.{column}.count-limit"
        return self._integer(key, 0) if key in self.raw else None

    def map_time_field(self, column: str) -> str | None:
        """The field of a column's nested rows that holds their time; None is the last."""
        return self.raw.get(f"fields.{column}.ts-field")

    def _names(self, key: str) -> tuple[str, ...]:
        text = self.raw.get(key)
        return () if text is None else tuple(name.strip() for name in text.split(","))

    @property
    def removes_record_on_delete(self) -> bool:
        """True if a ``-D`` row ends its key's row rather than retracts values."""
        return self._boolean("aggregation.remove-record-on-delete", False)

    @property
    def partial_update_removes_on_delete(self) -> bool:
        """True if a ``-D`` row ends its key's row with ``merge-engine=partial-update``."""
        return self._boolean("partial-update.remove-record-on-delete", False)

    @property
    def removing_sequence_fields(self) -> tuple[str, ...]:
        """The sequence fields with which a ``-D`` row of their group ends its key's row."""
        text = self.raw.get("partial-update.remove-record-on-sequence-group")
        return () if text is None else tuple(text.split(","))

    @property
    def record_expire_time(self) -> int | None:
        """Milliseconds after which a row is too old; None is never."""
        text = self.raw.get(RECORD_EXPIRE_TIME)
        return None if text is None else parse_duration(text, RECORD_EXPIRE_TIME)

    @property
    def record_time_field(self) -> str | None:
        """The column that holds the time of each row."""
        return self.raw.get(RECORD_TIME_FIELD)

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
    def merge_engine(self) -> MergeEngine:
        """The way in which rows of one key become one."""
        return self._choice("merge-engine", MergeEngine.DEDUPLICATE)

    @property
    def computes_rows(self) -> bool:
        """True if merging may give values that none of the merged rows has."""
        return self.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)

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
    def snapshot_expire_limit(self) -> int:
        """Snapshots that one expiry removes at most."""
        return self._integer("snapshot.expire.limit", 50)

    @property
    def file_format(self) -> str:
        """The format of new data files."""
        value = self.raw.get("file.format", "parquet").strip().lower()
        return value

    @property
    def file_format_per_level(self) -> Mapping[int, str]:
        """The formats of new data files on LSM levels that have one of their own."""
        return self._by_level("file.format.per.level")

    @property
    def changelog_file_format(self) -> str | None:
        """The format of new changelog files; None is that of data files on their level."""
        return self._word("changelog-file.format")

    @property
    def file_compression(self) -> str:
        """The codec of new data files."""
        return self.raw.get("file.compression", "zstd").strip().lower()

    @property
    def file_compression_per_level(self) -> Mapping[int, str]:
        """The codecs of new data files on LSM levels that have one of their own."""
        return self._by_level("file.compression.per.level")

    @property
    def changelog_file_compression(self) -> str | None:
        """The codec of new changelog files; None is that of data files on their level."""
        return self._word("changelog-file.compression")

    @property
    def zstd_level(self) -> int:
        """The level of the zstd codec."""
        return self._integer("file.compression.zstd-level", 1)

    @property
    def data_file_prefix(self) -> str:
        """The beginning of the names of new data files."""
        return self._name_part("data-file.prefix", "data-")

    @property
    def changelog_file_prefix(self) -> str:
        """The beginning of the names of new changelog files."""
        return self._name_part("changelog-file.prefix", "changelog-")

    def _name_part(self, key: str, default: str) -> str:
        text = self.raw.get(key, default)
        if "/" in text:
            raise Invalid(f"option '{key}' begins the names of files; '{text}' has a '/' in it")
        return text

    @property
    def data_directory(self) -> str:
        """The folder of data files below the table's own; empty for the table's own."""
        key = "data-file.path-directory"
        text = self.raw.get(key, "")
        parts = text.split("/")
        if text and (":" in text or any(part in ("", ".", "..") for part in parts)):
            raise Invalid(f"option '{key}' must be a folder such as 'data' or 'a/b', not '{text}'")
        return text

    @property
    def names_codec_of_files(self) -> bool:
        """True if the names of new files have the codec in them."""
        return self._boolean("file.suffix.include.compression", False)

    @property
    def statistics_mode_per_level(self) -> Mapping[int, str]:
        """The statistics modes of new data files on LSM levels that have one of their own."""
        return self._by_level("metadata.stats-mode.per.level")

    @property
    def changelog_statistics_mode(self) -> str | None:
        """The statistics mode of new changelog files; None is that of data files on their level."""
        return self._word("changelog-file.stats-mode")

    @property
    def file_block_size(self) -> int | None:
        """Bytes of a row group or stripe of new data files; None is the format's default."""
        text = self.raw.get("file.block-size")
        return None if text is None else parse_bytes(text, "file.block-size")

    @property
    def legacy_orc_timestamps(self) -> bool:
        """True if TIMESTAMP_LTZ in ORC files depend on the zone of the process that wrote them."""
        return self._boolean("orc.timestamp-ltz.legacy.type", True)

    def target_file_size(self, primary_key: bool) -> int:
        """Bytes at which a writer rolls to a new data file."""
        text = self.raw.get("target-file-size")
        if text is None:
            return (128 if primary_key else 256) * 1024**2
        return parse_bytes(text, "target-file-size")

    @property
    def manifest_target_file_size(self) -> int:
        """Bytes at which manifests are merged into a new one."""
        key = "manifest.target-file-size"
        # As in Java, a size of 0 gives each entry a manifest of its own.
        return max(1, parse_bytes(self.raw.get(key, "8 mb"), key))

    @property
    def manifest_merge_min_count(self) -> int:
        """The number of small manifests that makes a merge worth it."""
        return self._integer("manifest.merge-min-count", 30)

    @property
    def manifest_full_compaction_size(self) -> int:
        """Bytes of changed manifests at which all are rewritten."""
        key = "manifest.full-compaction-threshold-size"
        return parse_bytes(self.raw.get(key, "16 mb"), key)

    @property
    def manifest_compression(self) -> str:
        """The Avro codec of manifests."""
        value = self.raw.get("manifest.compression", "zstd").strip().lower()
        return "zstandard" if value == "zstd" else "null" if value in ("none", "null") else value

    @property
    def partition_default_name(self) -> str:
        """The directory value of a null or blank partition value."""
        return self.raw.get("partition.default-name", "__DEFAULT_PARTITION__")

    @property
    def partitions_in_catalog(self) -> bool:
        """True if the catalog keeps the table's partitions (``metastore.partitioned-table``)."""
        return self._boolean("metastore.partitioned-table", False)

    @property
    def legacy_partition_name(self) -> bool:
        """True if a DATE partition is named by its day number, as Paimon does by default."""
        return self._boolean("partition.legacy-name", True)

    @property
    def thin_mode(self) -> bool:
        """True if data files leave out the ``_KEY_`` columns."""
        return self._boolean("data-file.thin-mode", False)

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
    def index_file_in_data_file_dir(self) -> bool:
        """True if index files lie beside the data files of their bucket."""
        return self._boolean("index-file-in-data-file-dir", False)

    @property
    def statistics_mode(self) -> str:
        """The part of a column's minimum and maximum that is kept."""
        return self.raw.get("metadata.stats-mode", "truncate(16)").strip().lower()

    @property
    def statistics_dense(self) -> bool:
        """True if columns without statistics take no room in manifests."""
        return self._boolean("metadata.stats-dense-store", True)

    @property
    def statistics_first_columns(self) -> int | None:
        """The number of columns that have statistics, from the first; None is all."""
        value = self._integer("metadata.stats-keep-first-n-columns", -1)
        return value if value >= 0 else None

    @property
    def file_index_threshold(self) -> int:
        """Bytes of a data file's indexes up to which they stand in the manifest."""
        key = "file-index.in-manifest-threshold"
        return parse_bytes(self.raw.get(key, "500 b"), key)

    @property
    def reads_file_indexes(self) -> bool:
        """True if file indexes are asked before files are read."""
        return self._boolean("file-index.read.enabled", True)

    @property
    def snapshot_retained_min(self) -> int:
        """Snapshots that expiry always keeps."""
        return self._integer("snapshot.num-retained.min", 10)

    @property
    def snapshot_retained_max(self) -> int:
        """Snapshots beyond which expiry removes even young ones."""
        return self._integer("snapshot.num-retained.max", 2**31 - 1)

    @property
    def snapshot_time_retained(self) -> int:
        """Milliseconds that expiry keeps a snapshot."""
        return parse_duration(
            self.raw.get("snapshot.time-retained", "1 h"), "snapshot.time-retained"
        )

    @property
    def changelog_retained_min(self) -> int:
        """Latest snapshots whose changelogs expiry always keeps."""
        return self._integer("changelog.num-retained.min", self.snapshot_retained_min)

    @property
    def changelog_retained_max(self) -> int:
        """Latest snapshots before which expiry removes even young changelogs."""
        return self._integer("changelog.num-retained.max", self.snapshot_retained_max)

    @property
    def changelog_time_retained(self) -> int:
        """Milliseconds that expiry keeps a changelog."""
        key = "changelog.time-retained"
        text = self.raw.get(key)
        return self.snapshot_time_retained if text is None else parse_duration(text, key)

    @property
    def changelogs_outlive_snapshots(self) -> bool:
        """True if any of these keeps a changelog longer than its snapshot."""
        return (
            self.changelog_retained_max > self.snapshot_retained_max
            or self.changelog_retained_min > self.snapshot_retained_min
            or self.changelog_time_retained > self.snapshot_time_retained
        )

    @property
    def consumer_expiration(self) -> int | None:
        """Milliseconds after which an idle consumer no longer holds back expiry; None is never."""
        text = self.raw.get("consumer.expiration-time")
        return None if text is None else parse_duration(text, "consumer.expiration-time")

    @property
    def tag_time_retained(self) -> int | None:
        """The default retention of a new tag, milliseconds; None means for ever."""
        text = self.raw.get("tag.default-time-retained")
        return None if text is None else parse_duration(text, "tag.default-time-retained")

    @property
    def consumer_changelog_only(self) -> bool:
        """True if consumers hold back changelogs alone, and not snapshots."""
        # Where changelogs go with their snapshots, there is nothing else to hold back.
        return self._boolean("consumer.changelog-only", False) and self.changelogs_outlive_snapshots

    @property
    def commit_max_retries(self) -> int:
        """The number of times that a commit that met a conflict is tried again."""
        return self._integer("commit.max-retries", 10)

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
        return self._integer(key, 0) if self.raw.get(key, "").strip() else None
