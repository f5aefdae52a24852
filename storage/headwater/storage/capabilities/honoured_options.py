"""Options that this engine follows in all their values."""

from __future__ import annotations

from headwater.storage.capabilities.model import Option

__all__ = ["HONOURED_OPTIONS", "QUERY_AUTH"]

QUERY_AUTH = "query-auth.enabled"
"""The option that has clients ask the catalog which rows and values they may show."""


def _honoured(key: str, note: str, *aliases: str) -> Option:
    return Option(key, note, is_honoured=True, aliases=aliases)


HONOURED_OPTIONS: tuple[Option, ...] = (
    _honoured(QUERY_AUTH, "whether the catalog may hide rows and columns from a query"),
    # Rows and their keys.
    _honoured("primary-key", "the primary key, where the schema names none"),
    _honoured("partition", "the partition columns, as an option"),
    _honoured("path", "the place of an external table"),
    _honoured("auto-create", "refused at creation: there is a catalog"),
    _honoured("row-tracking.enabled", "whether rows have ids that stay, and versions"),
    _honoured(
        "row-tracking.partition-group-on-commit",
        "whether the rows that a commit adds to a partition get ids one after another",
    ),
    _honoured("bucket-key", "the columns that a row's bucket is computed from"),
    _honoured("dynamic-bucket.target-row-num", "the keys that a dynamic bucket is for"),
    _honoured("dynamic-bucket.initial-buckets", "the number of them that a partition begins with"),
    _honoured("dynamic-bucket.max-buckets", "the number of them that it may have"),
    _honoured(
        "dynamic-bucket.assigner-parallelism",
        "the number of tasks that look for keys, each with buckets of its own",
    ),
    _honoured(
        "cross-partition-upsert.index-ttl",
        "the age of files that are not searched for keys any more, where a key may be in any "
        "partition",
    ),
    _honoured(
        "postpone.batch-write-fixed-bucket",
        "whether a batch write spreads rows over buckets at once, where `bucket` is -2",
    ),
    _honoured("postpone.default-bucket-num", "the number of buckets of a new partition there"),
    _honoured("postpone.target-row-num-per-bucket", "or the rows that each of them is for"),
    _honoured("postpone.target-size-per-bucket", "or the bytes of rows that each is for"),
    _honoured(
        "postpone.merge-on-read",
        "whether reads merge rows that wait for a compaction to spread them over buckets",
    ),
    _honoured(
        "postpone.batch-write-fixed-bucket.max-parallelism",
        "how many buckets a batch write gives a partition at most by these",
    ),
    _honoured(
        "primary-key.nullable",
        "whether key columns hold nulls, which are equal to each other and before other values",
    ),
    _honoured("sequence.field", "the columns that order the rows of one key"),
    _honoured(
        "upsert-key",
        "without a primary key, the columns by which each INSERT of Spark is a merge",
    ),
    _honoured("sequence.field.sort-order", "whether the greatest or the smallest wins"),
    _honoured(
        "write.sequence-number-init-mode",
        "whether snapshots tell the greatest sequence number, from which others' writers go on",
    ),
    _honoured("rowkind.field", "the column that holds each row's kind"),
    _honoured(
        "ignore-delete",
        "whether rows that delete are dropped when they are written",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ),
    _honoured("ignore-update-before", "whether `-U` rows are dropped when they are written"),
    _honoured("fields.<column>.ignore-retract", "whether retractions count in a column"),
    _honoured("fields.<column>.distinct", "whether `listagg` and `collect` drop what is there"),
    _honoured("fields.<column>.list-agg-delimiter", "the text between those that `listagg` joins"),
    _honoured("fields.<column>.nested-key", "the key of the rows in nested tables"),
    _honoured("fields.<column>.nested-key-null-strategy", "what becomes of such rows without it"),
    _honoured("fields.<column>.nested-sequence-field", "which of such rows is newer"),
    _honoured("fields.<column>.count-limit", "how many such rows are kept"),
    _honoured("fields.<column>.ts-field", "the time of the rows in `merge_map_with_keytime`"),
    _honoured(
        "aggregation.remove-record-on-delete",
        "whether a `-D` row ends its key's row instead of taking values back",
    ),
    _honoured(
        "fields.<column>.sequence-group",
        "the columns that `partial-update` updates only from rows with newer values in this one",
    ),
    _honoured(
        "partial-update.remove-record-on-delete",
        "whether a `-D` row ends its key's row; without it such rows are refused",
    ),
    _honoured(
        "partial-update.remove-record-on-sequence-group",
        "the sequence fields with which a `-D` row of their group does so",
    ),
    _honoured("record-level.expire-time", "the age at which a compaction drops a row"),
    _honoured("record-level.time-field", "the column that holds the time of each row"),
    _honoured("dynamic-partition-overwrite", "which partitions an overwrite replaces"),
    _honoured("streaming-read-append-overwrite", "whether a stream gives rows of overwrites"),
    # The time that a read is of.
    _honoured("scan.mode", "where a read begins", "log.scan"),
    _honoured("scan.bounded.watermark", "the watermark at which a stream ends"),
    _honoured("scan.snapshot-id", "the snapshot that is read"),
    _honoured("scan.tag-name", "the tag that is read"),
    _honoured("scan.timestamp", "the time that is read, in the process's time zone"),
    _honoured("scan.timestamp-millis", "the same", "log.scan.timestamp-millis"),
    _honoured("scan.watermark", "the watermark whose snapshot is read"),
    _honoured("scan.version", "the tag, snapshot or watermark that is read"),
    _honoured("scan.creation-time-millis", "the time at which a read begins"),
    _honoured("scan.file-creation-time-millis", "the age of the files that are read"),
    # The part of history whose changes are read.
    _honoured("incremental-between", "the snapshots or tags whose changes are read"),
    _honoured("incremental-between-timestamp", "the times between which changes are read"),
    _honoured("incremental-to-auto-tag", "the tag up to which changes are read"),
    _honoured("incremental-between-scan-mode", "the files that changes are read from"),
    _honoured("incremental-between-tag-to-snapshot", "whether tags are taken as snapshots"),
    _honoured("table-read.sequence-number.enabled", "whether audit logs show sequence numbers"),
    # Chain tables.
    _honoured("chain-table.enabled", "whether the rows are made of those of two branches"),
    _honoured("chain-table.chain-partition-keys", "which partition columns order a chain"),
    _honoured("scan.fallback-snapshot-branch", "the branch of a chain table's whole partitions"),
    _honoured("scan.fallback-delta-branch", "the branch of a chain table's changes"),
    # Schemas.
    _honoured("add-column-before-partition", "where new columns go"),
    _honoured("alter-column-null-to-not-null.disabled", "whether a column may become NOT NULL"),
    _honoured("disable-explicit-type-casting", "which types a column may change to"),
    _honoured("deletion-vectors.modifiable", "whether `deletion-vectors.enabled` may change"),
    # Partitions.
    _honoured("partition.default-name", "the folder of a null or blank partition value"),
    _honoured("partition.legacy-name", "how partition values become folder names"),
    _honoured("metastore.partitioned-table", "whether the catalog keeps the partitions"),
    _honoured("partition.expiration-time", "the age at which a partition expires"),
    _honoured("partition.expiration-strategy", "the time that its age is counted from"),
    _honoured("partition.expiration-max-num", "how many partitions one expiry drops at most"),
    _honoured("partition.expiration-batch-size", "how many of them one commit drops"),
    _honoured("partition.expiration-check-interval", "how often writers drop partitions"),
    _honoured("end-input.check-partition-expire", "whether each batch write does"),
    _honoured("partition.end-input-to-done", "whether a batch write marks its partitions"),
    _honoured("partition.timestamp-pattern", "how a partition's values become a time"),
    _honoured("partition.timestamp-formatter", "the form of that time"),
    _honoured(
        "partition.timestamp-format.strict",
        "whether rows are refused whose partition's values do not have that form",
    ),
    _honoured(
        "partition.idle-time-to-done", "how long after its last rows a partition is complete"
    ),
    _honoured("partition.time-interval", "the time that a partition stands for"),
    # Files.
    _honoured("file.compression", "the codec of new data files; a format refuses those it lacks"),
    _honoured("file.compression.per.level", "the same for each level"),
    _honoured("changelog-file.compression", "the codec of changelog files"),
    _honoured("avro.codec", "the codec of new Avro files"),
    _honoured("orc.compress", "the codec of new ORC files"),
    _honoured("orc.timestamp-ltz.legacy.type", "how TIMESTAMP_LTZ in ORC files is read"),
    _honoured("file.block-size", "the size of a Parquet row group or an ORC stripe"),
    _honoured("fields.<column>.map.storage-layout", "whether new files keep a MAP by its keys"),
    _honoured(
        "fields.<column>.map.shared-shredding.max-columns",
        "the most columns that keys get in a file",
    ),
    _honoured(
        "fields.<column>.map.shared-shredding.column-placement-policy",
        "the way in which they find these columns",
    ),
    _honoured("file.compression.zstd-level", "the level of the codec zstd"),
    _honoured("data-file.prefix", "the beginning of the names of data files"),
    _honoured("changelog-file.prefix", "the beginning of the names of changelog files"),
    _honoured("file.suffix.include.compression", "whether files' names have the codec in them"),
    _honoured("data-file.path-directory", "a folder for data files below the table's own"),
    _honoured(
        "data-file.external-paths.strategy",
        "whether new files are put outside the table's folder, and in which of the places",
    ),
    _honoured("data-file.external-paths", "these places, as URIs"),
    _honoured("data-file.external-paths.specific-fs", "the scheme of those that are chosen"),
    _honoured("data-file.external-paths.weights", "the share of the files that each gets"),
    _honoured("global-index.external-path", "the place of new index files, as a URI"),
    _honoured("target-file-size", "the size at which a new data file begins"),
    _honoured("blob.target-file-size", "the same for files of a BLOB column"),
    _honoured("vector.target-file-size", "the same for files of vectors alone"),
    _honoured("blob-compaction.enabled", "whether a compaction joins files of BLOBs, too"),
    _honoured("blob-as-descriptor", "whether a BLOB is read as the place of its value"),
    _honoured("data-file.thin-mode", "whether files leave out the `_KEY_` columns"),
    _honoured("index-file-in-data-file-dir", "whether index files lie beside data files"),
    _honoured(
        "global-index.column-update-action",
        "whether columns with an index of row ids get new values: not, unless it is `IGNORE`",
    ),
    _honoured("data-evolution.enabled", "whether the columns of a row may lie in several files"),
    _honoured("deletion-vectors.enabled", "whether deleted rows are marked in files of their own"),
    _honoured("deletion-vectors.bitmap64", "whether new deletion vectors have the 64-bit form"),
    _honoured("deletion-vectors.merge-on-read", "whether reads merge level 0, too"),
    _honoured(
        "deletion-vector.index-file.target-size", "the size at which a new file of them begins"
    ),
    _honoured("compaction.delete-ratio-threshold", "the deleted part at which a file is rewritten"),
    _honoured("write-buffer-size", "the size of the rows that a writer holds"),
    _honoured("overwrite-upgrade", "whether an overwrite's files go to the highest level"),
    _honoured("num-levels", "the number of levels"),
    # Changelogs.
    _honoured("changelog-producer", "who writes changelog files: writers, or compactions"),
    _honoured(
        "changelog-producer.row-deduplicate", "whether an update to the same values is left out"
    ),
    _honoured(
        "changelog-producer.row-deduplicate-ignore-fields", "columns that are not compared for it"
    ),
    # Compaction.
    _honoured("write-only", "whether writers leave compaction to others", "write.compaction-skip"),
    _honoured("num-sorted-run.stop-trigger", "the runs at which a writer insists on compacting"),
    _honoured("full-compaction.delta-commits", "the commits after which writers compact all"),
    _honoured(
        "num-sorted-run.compaction-trigger",
        "the number of sorted runs at which compaction is due, and of levels unless that is set",
    ),
    _honoured(
        "compaction.max-size-amplification-percent",
        "how large newer runs may be together before all are compacted",
    ),
    _honoured(
        "compaction.size-ratio",
        "by what percentage an older run may be greater and still be compacted, too: unless it is "
        "set, 300 with a primary key, where Paimon has 1",
    ),
    _honoured("compaction.offpeak-ratio", "what is added to that in hours of little load"),
    _honoured("compaction.offpeak.start.hour", "the first of these hours, in local time"),
    _honoured("compaction.offpeak.end.hour", "the hour that ends them"),
    _honoured("compaction.force-rewrite-all-files", "whether files are rewritten that need not be"),
    _honoured(
        "compaction.skip-expired-partitions",
        "whether compactions that are asked for leave out partitions that expire next",
    ),
    _honoured("compaction.optimization-interval", "the time after which all runs are compacted"),
    _honoured("compaction.total-size-threshold", "the size below which all runs always are"),
    _honoured("compaction.incremental-size-threshold", "the size of newer runs at which all are"),
    _honoured("compaction.force-up-level-0", "whether files stay on level 0"),
    _honoured("compaction.small-file-ratio", "how small files are that are rewritten"),
    _honoured("compaction.min.file-num", "the small files of an append table that are too many"),
    _honoured("zorder.var-length-contribution", "the bytes of text that count on a Z-order curve"),
    _honoured(
        "pk-clustering-override",
        "whether a primary-key table's files are sorted by `clustering.columns` and not by key",
    ),
    _honoured(
        "bucket-append-ordered",
        "whether rows of a bucket without a key stay in their order; 'false' lets them be sorted",
    ),
    _honoured("clustering.incremental", "whether compaction sorts the rows of an append table"),
    _honoured(
        "clustering.columns",
        "the columns that these two sort by; writers leave rows in their order",
        "sink.clustering.by-columns",
    ),
    _honoured(
        "clustering.strategy", "the order: `order`, `zorder`, `hilbert`", "sink.clustering.strategy"
    ),
    _honoured("clustering.incremental.mode", "whether the files of a level overlap"),
    _honoured(
        "clustering.history-partition.idle-to-full-sort",
        "how long after its last rows a partition is sorted as a whole",
    ),
    _honoured(
        "clustering.history-partition.limit", "how many such partitions one compaction sorts"
    ),
    _honoured("lookup-compact", "whether a lookup compaction waits for more runs on level 0"),
    _honoured("lookup-compact.max-interval", "how many it waits for"),
    _honoured("force-lookup", "whether a compaction looks keys up in higher levels"),
    _honoured("source.split.target-size", "the size of a split"),
    _honoured("source.split.open-file-cost", "the least size that a file counts for in a split"),
    _honoured(
        "file-index.<index>.<setting>",
        "`….columns`: the columns with an index in each data file; and the indexes' settings",
    ),
    _honoured("file-index.in-manifest-threshold", "the size up to which they lie in manifests"),
    _honoured("file-index.read.enabled", "whether a read asks them"),
    # Statistics and manifests.
    _honoured("metadata.stats-mode.per.level", "the same for each level"),
    _honoured("changelog-file.stats-mode", "the same for changelog files"),
    _honoured("metadata.stats-mode", "which statistics of its columns a file has"),
    _honoured("fields.<column>.stats-mode", "the same for one column"),
    _honoured("metadata.stats-dense-store", "whether columns without statistics take no space"),
    _honoured("metadata.stats-keep-first-n-columns", "how many columns have statistics"),
    _honoured("manifest.target-file-size", "the size of a manifest"),
    _honoured("manifest.merge-min-count", "the number of small manifests that are merged"),
    _honoured("manifest.full-compaction-threshold-size", "the size at which all are merged"),
    # Commits and history.
    _honoured("commit.max-retries", "how often a commit that met a conflict is tried again"),
    _honoured("commit.min-retry-wait", "the wait before the first of these"),
    _honoured("commit.max-retry-wait", "the longest wait between them"),
    _honoured("commit.timeout", "the time after which a commit is not tried again"),
    _honoured(
        "commit.strict-mode.last-safe-snapshot",
        "the snapshot after which other users' compactions and overwrites of a partition refuse "
        "commits to it, and their new rows overwrites",
    ),
    _honoured("snapshot.num-retained.min", "how many snapshots expiry keeps at least"),
    _honoured("snapshot.num-retained.max", "how many it keeps at most"),
    _honoured("snapshot.time-retained", "how long it keeps a snapshot"),
    _honoured("snapshot.expire.limit", "how many snapshots one expiry removes at most"),
    _honoured("changelog.num-retained.min", "for how many snapshots expiry keeps changelogs"),
    _honoured("changelog.num-retained.max", "for how many it keeps them at most"),
    _honoured("changelog.time-retained", "how long it keeps a changelog"),
    _honoured("consumer.expiration-time", "how long an idle consumer holds back expiry"),
    _honoured("consumer.changelog-only", "whether consumers hold back changelogs alone"),
    _honoured("tag.default-time-retained", "how long a new tag is kept"),
    _honoured("tag.automatic-creation", "by which clock commits make tags"),
    _honoured("tag.creation-period", "the time that such a tag stands for"),
    _honoured("tag.creation-period-duration", "the same as a duration"),
    _honoured("tag.creation-delay", "how long after that time it is made"),
    _honoured("tag.period-formatter", "the form of its name"),
    _honoured("tag.automatic-completion", "whether times without commits get tags"),
    _honoured("tag.num-retained-max", "how many such tags are kept"),
    _honoured("tag.time-expire-enabled", "whether commits delete tags whose time is over"),
    _honoured("tag.create-success-file", "whether a tag has a success file"),
    _honoured("tag.batch.customized-name", "the name of the tag of a batch"),
    _honoured("sink.process-time-zone", "the zone of tags' names by the clock"),
    _honoured("sink.watermark-time-zone", "the zone of tags' names by watermarks"),
    # Format tables.
    _honoured(
        "format-table.implementation",
        "whether format tables name partitions as Paimon does (`paimon`) or as Spark (`engine`)",
    ),
    _honoured(
        "format-table.partition-path-only-value",
        "whether the directories of a format table's partitions lack the columns' names",
    ),
    _honoured("format-table.file.compression", "the codec of a format table's new files"),
    _honoured(
        "csv.field-delimiter",
        "what ends a field, in format tables of CSV",
        "field-delimiter",
        "seq",
        "delimiter",
    ),
    _honoured("csv.line-delimiter", "what ends a line there"),
    _honoured("csv.quote-character", "what stands around fields there", "quote"),
    _honoured("csv.escape-character", "what stands before a quote in a field there", "escape"),
    _honoured("csv.include-header", "whether files begin with the columns' names there", "header"),
    _honoured("csv.null-literal", "the text of a field without a value there", "nullvalue"),
    _honoured("csv.mode", "what becomes of malformed rows there", "mode"),
    _honoured("json.line-delimiter", "what ends a line, in format tables of JSON"),
    _honoured("json.ignore-parse-errors", "whether malformed rows are left out there"),
    _honoured("text.line-delimiter", "what ends a line, in format tables of text"),
)
