"""Processes of Spark that are killed in the middle of a MERGE, an UPDATE or a compaction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.conftest import LEAST_JAVA, java_version, spark_home
from tests.spark.conftest import data_files
from tests.spark.dying_tasks import CASES, MARK, ROWS, Case, Outcome

from headwater.client import Lake, connect

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("dying_tasks.py")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("local", marks=pytest.mark.modes),
        pytest.param("cluster", marks=pytest.mark.slow),
    ],
)
def test_a_change_whose_process_is_killed_happens_once_or_not_at_all(
    tmp_path: Path, serve: Callable[..., str], kind: str, subtests: pytest.Subtests
) -> None:
    if java_version() < LEAST_JAVA:
        pytest.skip(f"needs Java {LEAST_JAVA} or newer")
    room = tmp_path / "room"
    room.mkdir()
    with connect(tmp_path / "lake") as lake:
        lake.create_database("db")
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(spark_home(tmp_path / "home")),
        }
        ended = subprocess.run(
            [sys.executable, PROGRAM, kind, serve(lake.catalog), room],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [line for line in ended.stdout.splitlines() if line.startswith(MARK)]
        for line in lines:
            found = json.loads(line.removeprefix(MARK))
            outcome = Outcome(Case(**found["case"]), found["error"], found["died"])
            with subtests.test(outcome.case.name):
                _check(lake, tmp_path / "lake" / "warehouse", kind, outcome)
        assert len(lines) == len(CASES[kind]), ended.stderr[-3000:]


def _check(lake: Lake, warehouse: Path, kind: str, outcome: Outcome) -> None:
    case = outcome.case
    table = lake.table(case.name)
    assert outcome.died
    found = table.scan().to_arrow().sort_by("id")
    rows = list(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))
    assert rows == EXPECTED[case.statement]
    assert len([each for each in table.snapshots() if each.id > 3]) == 1
    # Without a cluster no task is run again.
    assert (outcome.error is None) == (kind == "cluster"), outcome.error
    place = warehouse / case.name.replace(".", ".db/")
    written = set(data_files(place))
    orphans = table.remove_orphan_files(older_than=timedelta(0))
    removed = {Path(file.path).name for file in orphans.files}
    assert removed & written
    assert set(data_files(place)) == written - removed
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.id).to_arrow()
    assert table.scan().to_arrow().sort_by("id") == found


def _merged() -> list[tuple[int, int]]:
    kept = [(id, 0) for id in range(ROWS // 2)]
    matched = [(id, 1) for id in range(ROWS // 2, ROWS) if id % 5]
    return [*kept, *matched, *((id, 1) for id in range(ROWS, ROWS + 10) if id % 5)]


EXPECTED = {
    "merge": _merged(),
    "update": [(id, 0 if id % 2 else id) for id in range(ROWS)],
    "compact": [(id, 0) for id in range(ROWS)],
}
