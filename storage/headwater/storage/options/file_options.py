"""The options of a table's files: formats, names, sizes, statistics and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options.option_map import OptionMap
from headwater.storage.options.quantities import parse_bytes

__all__ = ["FileOptions"]


@dataclass(frozen=True)
class FileOptions(OptionMap):
    """Options of files."""

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
        """Whether the names of new files have the codec in them."""
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
        """Whether TIMESTAMP_LTZ in ORC files depend on the zone of the process that wrote them."""
        return self._boolean("orc.timestamp-ltz.legacy.type", True)

    def target_file_size(self, primary_key: bool) -> int:
        """Bytes at which a writer rolls to a new data file."""
        text = self.raw.get("target-file-size")
        if text is None:
            return (128 if primary_key else 256) * 1024**2
        return parse_bytes(text, "target-file-size")

    @property
    def blob_target_file_size(self) -> int:
        """Bytes at which a writer rolls to a new file of a BLOB column."""
        key = "blob.target-file-size"
        return parse_bytes(self.raw[key], key) if key in self.raw else self.target_file_size(False)

    @property
    def vector_target_file_size(self) -> int:
        """Bytes at which a writer rolls to a new file of vectors alone."""
        key = "vector.target-file-size"
        return parse_bytes(self.raw[key], key) if key in self.raw else self.target_file_size(False)

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
        """Whether the catalog keeps the table's partitions (``metastore.partitioned-table``)."""
        return self._boolean("metastore.partitioned-table", False)

    @property
    def legacy_partition_name(self) -> bool:
        """Whether a DATE partition is named by its day number, as Paimon does by default."""
        return self._boolean("partition.legacy-name", True)

    @property
    def thin_mode(self) -> bool:
        """Whether data files leave out the ``_KEY_`` columns."""
        return self._boolean("data-file.thin-mode", False)

    @property
    def index_file_in_data_file_dir(self) -> bool:
        """Whether index files lie beside the data files of their bucket."""
        return self._boolean("index-file-in-data-file-dir", False)

    @property
    def statistics_mode(self) -> str:
        """The part of a column's minimum and maximum that is kept."""
        return self.raw.get("metadata.stats-mode", "truncate(16)").strip().lower()

    @property
    def statistics_dense(self) -> bool:
        """Whether columns without statistics take no space in manifests."""
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
        """Whether file indexes are asked before files are read."""
        return self._boolean("file-index.read.enabled", True)
