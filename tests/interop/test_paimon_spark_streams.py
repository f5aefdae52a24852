"""Streams and consumer ids of Headwater's Spark engine and of Spark with Paimon's JAR."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.client.lake import Lake

from .conftest import Service
from .spark_engines import Engines, SparkEngine, both_engines

pytestmark = [pytest.mark.interop_java, pytest.mark.spark, pytest.mark.timeout(900)]

PROPERTIES = {
    "appended": "'bucket' = '-1'",
    "keyed": "'primary-key' = 'k', 'bucket' = '2', 'changelog-producer' = 'input'",
    "looked_up": "'primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'lookup'",
}
CREATE = "CREATE TABLE {name} (k BIGINT NOT NULL, v STRING) TBLPROPERTIES ({properties})"
INSERT = "INSERT INTO {name} SELECT id, concat('{word}-', id) FROM range({first}, {end})"


@pytest.fixture(scope="module")
def engines(
    spark: SparkSession, service: Service, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> Engines:
    return both_engines(spark, service, tmp_path_factory.mktemp("paimon-spark"))


@pytest.mark.parametrize("kind", PROPERTIES)
def test_streams_of_both_pass_on_what_both_write(
    engines: Engines, kind: str, tmp_path: Path
) -> None:
    """Two chains of two streams each; in one Paimon's stream comes first, in the other ours."""
    paimon, headwater = engines.paimon, engines.headwater
    source, *copies = [f"interop.{kind}_{which}" for which in ("source", "p", "ph", "h", "hp")]
    for name in (source, *copies):
        paimon.query(CREATE.format(name=name, properties=PROPERTIES[kind]))
    streams: tuple[tuple[SparkEngine, str, str], ...] = (
        (paimon, source, copies[0]),
        (headwater, copies[0], copies[1]),
        (headwater, source, copies[2]),
        (paimon, copies[2], copies[3]),
    )
    changes = {} if kind == "appended" else {"include-row-kind": "true"}
    written = 0
    writers: tuple[SparkEngine, ...] = (headwater, paimon, headwater, paimon)
    for turn, writer in enumerate(writers):
        # Some of the keys are those of the turn before.
        first, end = turn * 20, turn * 20 + 30
        writer.query(INSERT.format(name=source, word=f"turn{turn}", first=first, end=end))
        written += end - first
        expected = headwater.query(f"SELECT * FROM {source}")
        for doer, read, target in streams:
            name = target.rpartition(".")[2]
            options = {} if doer is paimon else {**changes, "consumer-id": f"of_{name}"}
            doer.follow(read, target, tmp_path / name, options)
            for reader in (paimon, headwater):
                found = reader.query(f"SELECT * FROM {target}")
                assert found == expected, f"{reader.name} reads {target} after turn {turn}"
    assert len(expected) == (written if kind == "appended" else 90)
    for doer, read, target in streams:
        checkpoint = tmp_path / target.rpartition(".")[2]
        options = {} if doer is paimon else changes
        assert doer.follow(read, target, checkpoint, options) == 0, f"{read} was read to its end"


def test_consumers_of_either_are_the_others_too(engines: Engines, tmp_path: Path) -> None:
    paimon, headwater = engines.paimon, engines.headwater
    source, target = "interop.consumed", "interop.consumer"
    for name in (source, target):
        headwater.query(CREATE.format(name=name, properties=PROPERTIES["appended"]))
    for turn in range(4):
        writer: SparkEngine = (paimon, headwater)[turn % 2]
        writer.query(INSERT.format(name=source, word=f"turn{turn}", first=0, end=10))

    def consumers() -> list[list[object]]:
        found = headwater.query("SELECT * FROM interop.`consumed$consumers`")
        assert paimon.query("SELECT * FROM interop.`consumed$consumers`") == found
        return found

    def follow(checkpoint: str) -> int:
        options = {"consumer-id": "copy"}
        return headwater.follow(source, target, tmp_path / checkpoint, options)

    assert follow("first") == 40
    assert consumers() == [["copy", 5]]
    paimon.query(
        f"CALL sys.reset_consumer(table => '{source}', consumerId => 'copy', nextSnapshotId => 3)"
    )
    assert consumers() == [["copy", 3]]
    # What the consumer has not read stays, whoever expires snapshots.
    paimon.query(
        f"CALL sys.expire_snapshots(table => '{source}', retain_max => 1, retain_min => 1)"
    )
    snapshots = headwater.query("SELECT snapshot_id FROM interop.`consumed$snapshots`")
    assert snapshots == [[3], [4]]
    assert follow("second") == 20
    assert consumers() == [["copy", 5]]
    headwater.query(
        f"CALL sys.reset_consumer(table => '{source}', consumerId => 'copy', nextSnapshotId => 4)"
    )
    assert consumers() == [["copy", 4]]
    paimon.query(f"CALL sys.clear_consumers(table => '{source}', includingConsumers => 'co.*')")
    assert consumers() == []
