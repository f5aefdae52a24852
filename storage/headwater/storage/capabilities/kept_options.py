"""Options that mean nothing to this engine: it keeps them for those to which they do.

None of them changes which rows a table has, unless another option does that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.capabilities.model import Option

__all__ = ["KEPT_OPTIONS"]

_KEPT: Mapping[str, str] = {
    "memory, threads, caches and temporary files of Java's readers and writers": """
        async-file-write cache-page-size delete-file.thread-num file-operation.thread-num
        file-reader-async-threshold local-kv-db.block-size local-merge-buffer-size
        local-sort.max-num-file-handles lookup.cache-file-retention lookup.cache-max-disk-size
        lookup.cache-max-memory-size lookup.cache-rows lookup.cache-spill-compression
        lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
        lookup.cache.high-priority-pool-ratio lookup.continuous.discovery-interval
        lookup.hash-load-factor lookup.merge-buffer-size lookup.merge-records-threshold
        lookup.remote-file.enabled lookup.remote-file.level-threshold orc.write.batch-size
        page-size read.batch-size scan.manifest.parallelism scan.max-splits-per-task sort-engine
        sort-spill-buffer-size sort-spill-threshold spill-compression
        spill-compression.zstd-level write-buffer-for-append write-buffer-spill.max-disk-size
        write-buffer-spillable write-max-writers-to-spill write.batch-memory write.batch-size
        """,
    "how long a writer waits for its compaction: this engine's wait until it is done": """
        changelog-producer.lookup-wait commit.force-compact lookup-wait
        """,
    "how many files a plan of Java's compaction holds at a time": """
        compaction.file-num-limit
        """,
    "the order of rows in new files": """
        clustering.incremental.optimize-write sort-compaction.local-sample.magnification
        sort-compaction.range-strategy
        """,
    "work that others do along with a commit: call Java classes, tell Hive. A commit of this engine"
    " does none of it": """
        commit.callback.#.param commit.callbacks
        metastore.tag-to-partition metastore.tag-to-partition.preview
        partition.idle-time-to-report-statistic
        partition.mark-done-action.custom.class partition.mark-done-action.http.params
        partition.mark-done-action.http.url snapshot.watermark-idle-timeout
        tag.callback.#.param tag.callbacks visibility-callback.check-interval
        visibility-callback.enabled visibility-callback.timeout
        """,
    "commits: this engine makes none without rows, and gives each file a new name": """
        commit.discard-duplicate-files commit.force-create-snapshot
        commit.user-prefix snapshot.clean-empty-directories
        snapshot.expire.clean-empty-directories snapshot.expire.execution-mode
        snapshot.ignore-empty-commit
        """,
    "names, sizes and codecs of new files that no reader depends on": """
        manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field
        manifest.delete-file-drop-stats manifest.merge-optimize.enabled
        orc.<setting> parquet.<setting> avro.<setting>
        partition.sink-strategy target-file-row-num
        """,
    "how a read goes about it; a file that is lost or damaged is always an error": """
        chain-table.split.key-range-enabled consumer.ignore-progress
        consumer.mode continuous.discovery-interval key-value.sequence_number.enabled
        scan.fallback-branch.read-fail-fast
        scan.ignore-corrupt-files scan.ignore-lost-files
        scan.plan-auto-tag-for-read.time-retained scan.plan-sort-partition
        streaming.read.snapshot.delay
        """,
    "merge engines and changelogs that this engine refuses": """
        delete.force-produce-changelog
        """,
    "how other engines look for buckets, and rescale them": """
        cross-partition-upsert.bootstrap-parallelism
        postpone.batch-write-fixed-bucket.rescale-load-factor
        """,
    "indexes of row ids, and other engines' work on tables with data evolution": """
        bitmap-index.<setting> btree-index.<setting>
        data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
        data-evolution.reassign.skip-contiguous-row-count
        data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled
        data-evolution.row-sidecar.max-selected-rows
        data-evolution.row-sidecar.max-selection-ratio
        fields.<column>.pk-<index>.<setting> full-text-index.search-mode
        global-index.build.max-parallelism global-index.build.max-shard
        global-index.enabled global-index.row-count-per-shard global-index.search-mode
        global-index.thread-num lumina.<setting> multivalue-index.<setting>
        scalar-index.search-mode sorted-index.<setting>
        vector-index.search-mode vector-search.distribute.enabled
        vector-search.lateral-join.batch-size
        """,
    "indexes that Paimon's own writers of primary-key tables build: files that they do not cover "
    "are read without": """
        pk-bitmap.index.columns pk-btree.index.columns pk-multivalue.index.columns
        """,
    "what belongs to another option, which is refused": """
        chain-table.streaming.merge-snapshot metadata.iceberg.<setting>
        """,
    "columns of types VARIANT, BLOB and VECTOR": """
        blob-descriptor-field blob-descriptor.<setting>
        blob-field blob-view-field blob-view.resolve.enabled blob-write-null-on-fetch-failure
        blob-write-null-on-missing-file blob.copy-buffer-size blob.split-by-file-size
        blob.stored-descriptor-fields field.<column>.vector-dim lookup.blob-as-descriptor
        parquet.variant.shreddingSchema variant.inferShreddingSchema
        variant.shredding.adaptive.maxInferBufferRow
        variant.shredding.adaptive.retentionRatio variant.shredding.inferenceMode
        variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
        variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio
        variant.shreddingSchema vector-field
        """,
    "tables that are not made of Paimon's files, and materialized tables": """
        csv.<setting> format-table.commit-hive-sync-url
        format-table.repair.collect-statistics
        format-table.scan.list-parallelism format-table.statistics.parallelism
        json.<setting> materialized-table.<setting> text.<setting>
        """,
    "Flink's jobs": """
        changelog-producer.compaction-interval changelog.precommit-compact
        changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num
        commit.custom-listeners compaction.bucket-distribution-strategy end-input.watermark
        filesystem.job-level-settings.enabled log.scan.remove-normalize lookup.async
        lookup.async-thread-number lookup.bootstrap-parallelism lookup.cache
        lookup.dynamic-partition lookup.dynamic-partition.<setting> lookup.refresh.async
        lookup.refresh.<setting> partition.mark-done-action.mode
        partition.mark-done.recover-from-state precommit-compact
        read.shuffle-bucket-with-partition scan.bounded scan.dedicated-split-generation
        scan.infer-parallelism scan.infer-parallelism.max scan.max-snapshot.count
        scan.parallelism scan.partitions scan.remove-normalize scan.split-enumerator.<setting>
        scan.watermark.<setting> sink.clustering.sample-factor sink.clustering.sort-in-cluster
        sink.committer-cpu sink.committer-memory sink.committer-operator-chaining
        sink.coordinator-commit.enabled sink.cross-partition.managed-memory
        sink.key-only-deletes.enabled sink.managed.writer-buffer-memory sink.operator-uid.suffix
        sink.parallelism sink.savepoint.auto-tag sink.use-managed-memory-allocator
        sink.writer-coordinator.<setting> sink.writer-cpu sink.writer-memory
        sink.writer-refresh-detectors source.checkpoint-align.enabled
        source.checkpoint-align.timeout source.operator-uid.suffix
        streaming-read.shuffle-bucket-with-partition unaware-bucket.compaction.parallelism
        unaware-bucket.no-shuffle
        """,
    "Paimon's own Spark connector": """
        legacy-timestamp-mapping.enabled read.allow.fullScan read.changelog
        read.stream.<setting> requiredSparkConfsCheck.enabled
        source.split.target-size-with-column-pruning vector-search.lateral-join.parallelism
        write.data-evolution.<setting> write.hive-style-dynamic-partition.enabled
        write.merge-schema write.merge-schema.explicit-cast write.merge-schema.type-widening
        write.use-v2-write
        """,
}

KEPT_OPTIONS: tuple[Option, ...] = tuple(
    Option(key, reason) for reason, keys in _KEPT.items() for key in keys.split()
)
