"""Everything around a pipeline is killed while 20 tables change: nothing is lost or doubled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cdc.pipeline.chaos_scene import Scene
from tests.cdc.pipeline.chaos_sources import ChaosSource, MySQLChaos, PostgresChaos
from tests.conftest import mariadb_server, mysql_server, postgresql_server
from tests.object_store import with_one_bucket

_SETTINGS = (
    "--log-bin=log",
    "--server-id=1",
    "--binlog-row-metadata=FULL",
    # What the log has sent must not be lost by a crash.
    "--sync-binlog=1",
    "--innodb-flush-log-at-trx-commit=1",
)


@pytest.fixture
def mariadb_to_kill(chaos_seed: int) -> Iterator[ChaosSource]:
    with mariadb_server(*_SETTINGS, "--binlog-format=ROW") as server:
        yield MySQLChaos(server, chaos_seed)


@pytest.fixture
def mysql_to_kill(chaos_seed: int) -> Iterator[ChaosSource]:
    gtids = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
    with mysql_server(*_SETTINGS, *gtids) as server:
        yield MySQLChaos(server, chaos_seed)


@pytest.fixture
def postgresql_to_kill(chaos_seed: int) -> Iterator[ChaosSource]:
    settings = (
        *("wal_level=logical", "max_prepared_transactions=20", "wal_sender_timeout=5s"),
        # Small, so that transactions are larger.
        "logical_decoding_work_mem=64kB",
        # What the log has sent must not be lost by a crash.
        *("fsync=on", "synchronous_commit=on", "full_page_writes=on"),
    )
    with postgresql_server(*settings) as url:
        yield PostgresChaos(url, chaos_seed)


@pytest.fixture
def chaos_seed() -> int:
    """Of a test's choices, shown where it fails; CDC_SEED gives another one."""
    return int(os.environ.get("CDC_SEED", "1"))


def survives(scene: Scene, seed: int, events: int) -> None:
    """Let things happen, and check that the lake is the source then."""
    try:
        happened = scene.run(events)
        scene.finish()
        problems = [*scene.problems(), *scene.columns()]
        for problem in problems:
            print(problem)
            for statement in scene.writer.statements(problem.partition(":")[0]):
                print("   ", statement[:150])
        assert not problems, f"CDC_SEED={seed}: {problems} after {happened}"
        assert len(happened) == events
        assert scene.writer.changes > events
    finally:
        scene.close()


@pytest.mark.mariadb
def test_a_few_kills(mariadb_to_kill: ChaosSource, tmp_path: Path, chaos_seed: int) -> None:
    survives(Scene(mariadb_to_kill, tmp_path, chaos_seed), chaos_seed, 10)


@pytest.mark.cdc_postgresql
@pytest.mark.postgresql
def test_a_few_kills_of_postgresql(
    postgresql_to_kill: ChaosSource, tmp_path: Path, chaos_seed: int
) -> None:
    survives(Scene(postgresql_to_kill, tmp_path, chaos_seed), chaos_seed, 10)


@pytest.mark.cdc_chaos
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "server",
    [
        pytest.param("mariadb_to_kill", marks=pytest.mark.mariadb),
        pytest.param("mysql_to_kill", marks=pytest.mark.mysql),
        pytest.param("postgresql_to_kill", marks=pytest.mark.postgresql),
    ],
)
def test_many_kills(
    request: pytest.FixtureRequest, server: str, tmp_path: Path, chaos_seed: int
) -> None:
    events = int(os.environ.get("CDC_KILLS", "200"))
    survives(Scene(request.getfixturevalue(server), tmp_path, chaos_seed), chaos_seed, events)


@pytest.mark.cdc_chaos
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.mariadb
def test_an_object_store_that_is_lost(
    mariadb_to_kill: ChaosSource, tmp_path: Path, chaos_seed: int, s3_endpoint: str
) -> None:
    with_one_bucket(s3_endpoint, "chaos")
    events = int(os.environ.get("CDC_KILLS", "200")) // 5
    port = int(s3_endpoint.rpartition(":")[2])
    scene = Scene(mariadb_to_kill, tmp_path, chaos_seed, (port, "s3://chaos/lake"))
    survives(scene, chaos_seed, events)


@pytest.mark.cdc_chaos
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.spark
@pytest.mark.parametrize(
    "server",
    [
        pytest.param("mariadb_to_kill", marks=pytest.mark.mariadb),
        pytest.param("postgresql_to_kill", marks=pytest.mark.postgresql),
    ],
)
def test_executors_and_drivers_that_are_killed(
    request: pytest.FixtureRequest, server: str, tmp_path: Path, chaos_seed: int
) -> None:
    from tests.cdc.pipeline.chaos_spark import ChaosCluster

    events = int(os.environ.get("CDC_KILLS", "200")) // 5
    cluster = ChaosCluster(tmp_path / "spark")
    try:
        source = request.getfixturevalue(server)
        survives(Scene(source, tmp_path, chaos_seed, cluster=cluster), chaos_seed, events)
    finally:
        cluster.close()
