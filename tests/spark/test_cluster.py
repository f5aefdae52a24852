"""Executors that get the package from the program; on a standalone cluster they die, too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyspark
import pytest
from tests.conftest import spark_home

from headwater.client import connect

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("cluster_program.py")
ARTIFACT_PROGRAM = Path(__file__).with_name("artifact_program.py")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def bare_environment(place: Path) -> Path:
    """A folder of programs whose Python has what Headwater needs, but not Headwater."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    # The .pth file that makes an editable installation there is not read from there.
    (packages / "needed.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")
    found = subprocess.run(
        [place / "bin/python", "-c", "import polars, pyspark, headwater.storage"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'headwater" in found.stderr
    return place / "bin"


def archive(place: Path) -> str:
    """The package as the documentation says to pack it: with an entry for each folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--target", str(place / "packed"), str(ROOT)]
    subprocess.run(command, check=True)
    return shutil.make_archive(str(place / "headwater"), "zip", place / "packed")


def run(
    program: Path, place: Path, catalog: str, room: Path, packed: str, programs: Path
) -> subprocess.CompletedProcess[str]:
    """A program's end; its executors find `programs` before others."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": "python3",
        "SPARK_HOME": str(spark_home(place / "home")),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return subprocess.run(
        [sys.executable, program, catalog, room, packed, f"{programs}:{os.environ['PATH']}"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_server_of_spark_connect_gets_the_package_from_its_client(
    tmp_path: Path, serve: Callable[..., str]
) -> None:
    programs = bare_environment(tmp_path / "bare")
    packed = archive(tmp_path)
    room = tmp_path / "room"
    room.mkdir()
    with connect(tmp_path / "lake") as lake:
        lake.create_database("db")
        ended = run(ARTIFACT_PROGRAM, tmp_path, serve(lake.catalog), room, packed, programs)
        assert ended.returncode == 0, ended.stderr
        found = lake.table("db.t").scan().to_arrow().sort_by("id").to_pydict()
        assert found == {
            "id": list(range(10, 110)),
            "n": [int(number >= 90) for number in range(10, 110)],
        }


def test_each_write_is_one_commit_whatever_becomes_of_its_tasks(
    tmp_path: Path, serve: Callable[..., str]
) -> None:
    programs = bare_environment(tmp_path / "bare")
    packed = archive(tmp_path)
    room = tmp_path / "room"
    room.mkdir()
    with connect(tmp_path / "lake") as lake:
        lake.create_database("db")
        ended = run(PROGRAM, tmp_path, serve(lake.catalog), room, packed, programs)
        assert ended.returncode == 0, ended.stderr
        keyed = lake.table("db.keyed")
        assert [str(each.commit_kind) for each in reversed(keyed.snapshots())] == [
            "APPEND",
            "APPEND",
            "COMPACT",
            "APPEND",
        ]
        rows = keyed.scan().to_arrow().sort_by("id").to_pydict()
        assert rows == {
            "id": list(range(100, 1100)),
            "n": [int(number >= 900) for number in range(100, 1100)],
        }
        assert (room / "idle").exists()
        for event, name in (("speculated", "speculated"), ("killed", "appended")):
            assert (room / event).exists()
            table = lake.table(f"db.{name}")
            assert len(table.snapshots()) == 1
            assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(40_000))
            # What attempts left behind that were killed, or came second, is found and removed.
            table.remove_orphan_files(older_than=timedelta(0))
            present = {
                path.name for path in tmp_path.glob(f"lake/warehouse/db.db/{name}/**/data-*")
            }
            assert present == {file.name for file in table.files()}
            assert table.scan().count() == 40_000
