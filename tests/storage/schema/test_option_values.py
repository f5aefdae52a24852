"""Malformed options are told when they are set, by the name of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

COLUMNS = (
    DataField(0, "k", AtomicType(Root.INT, nullable=False)),
    DataField(1, "v", AtomicType(Root.INT)),
)
MALFORMED: Mapping[str, str] = {
    "snapshot.expire.limit": "0",
    "compaction.size-ratio": "much",
    "compaction.max-size-amplification-percent": "2 x",
    "compaction.optimization-interval": "1 week",
    "compaction.total-size-threshold": "large",
    "compaction.offpeak.start.hour": "noon",
    "compaction.small-file-ratio": "few",
    "compaction.force-rewrite-all-files": "maybe",
    "changelog-producer.row-deduplicate": "maybe",
    "num-sorted-run.stop-trigger": "x",
    "lookup-compact": "often",
    "clustering.incremental.mode": "some",
    "clustering.strategy": "random",
    "clustering.history-partition.idle-to-full-sort": "long",
    "zorder.var-length-contribution": "0",
    "dynamic-bucket.target-row-num": "0",
    "dynamic-bucket.max-buckets": "-2",
    "postpone.target-size-per-bucket": "0",
    "cross-partition-upsert.index-ttl": "old",
    "data-file.external-paths.strategy": "any",
    "global-index.external-path": "/no/scheme",
    "metadata.stats-mode": "most",
    "metadata.stats-mode.per.level": "0:most",
    "changelog-file.stats-mode": "most",
    "fields.v.stats-mode": "most",
    "fields.v.ignore-retract": "maybe",
    "fields.v.count-limit": "x",
    "write-buffer-size": "large",
    "commit.max-retries": "x",
    "commit.timeout": "soon",
    "file.block-size": "large",
    "file-index.in-manifest-threshold": "large",
    "manifest.merge-min-count": "few",
    "source.split.open-file-cost": "cheap",
    "write-only": "maybe",
    "scan.mode": "never",
    "scan.snapshot-id": "first",
    "scan.timestamp": "once",
    "scan.timestamp-millis": "now",
    "scan.watermark": "high",
    "incremental-between": "5",
    "incremental-between-scan-mode": "some",
    "dynamic-partition-overwrite": "maybe",
}


def keyed(options: Mapping[str, str]) -> Schema:
    return Schema(COLUMNS, primary_keys=("k",), options={"bucket": "1", **options})


@pytest.mark.parametrize("key", MALFORMED)
def test_a_malformed_option_is_told_when_it_is_set(key: str) -> None:
    with pytest.raises(Invalid, match=f"option '{key}'"):
        new_table_schema(keyed({key: MALFORMED[key]}), 0)
    made = new_table_schema(keyed({}), 0)
    with pytest.raises(Invalid, match=f"option '{key}'"):
        apply_changes(made, [SetOption(key, MALFORMED[key])], now_millis=0, has_snapshots=True)


def test_a_table_of_others_is_read_with_options_that_they_did_not_check(tmp_path: Path) -> None:
    with connect(tmp_path) as lake:
        lake.create_database("d")
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
        made = lake.create_table("d.t", schema, primary_keys=["k"], options={"bucket": "1"})
        made.write({"k": [1]})
        options = {"compaction.size-ratio": "much", "snapshot.expire.limit": "0"}
        others = replace(made.info, schema=made.schema.with_options(options))
        assert Table(lake.catalog, others).scan().to_arrow().to_pydict() == {"k": [1]}
