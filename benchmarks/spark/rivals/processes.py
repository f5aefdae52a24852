"""Engines in processes of their own, with the Python and the JARs that they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.spark.processor import Spent
from benchmarks.spark.rivals.engine import Job
from benchmarks.spark.rivals.program import MARK

__all__ = ["EngineProcess", "delta", "headwater", "paimon"]

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("program.py")
_SPARK_41 = ROOT / ".interop" / "paimon-spark" / "bin" / "python"
_PAIMON_JAR = ROOT / ".interop" / "paimon-java" / "paimon-spark-4.1_2.13-2.0.0.jar"
_DELTA = ("delta-spark_4.1_2.13", "delta-storage")
_DELTA_VERSION = "4.1.0"
_REPOSITORY = Path.home() / ".m2" / "repository"


class EngineProcess:
    """An engine's process, which answers one request after another.

    Args:
        name: The engine's name in results.
        process: The process.
    """

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def ask(self, method: str, *arguments: str) -> tuple[Spent, object]:
        """Have a method of the engine called.

        Returns:
            What it took the engine's processes, and what it returned.

        Raises:
            SystemExit: It failed; its error is on stderr.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([method, *arguments]), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(MARK):
                found = json.loads(line.removeprefix(MARK))
                return Spent(found["wall"], found["processor"]), found["answer"]
        raise SystemExit(f"{self.name} ended while it was asked to {method} {arguments}")


@contextmanager
def _started(name: str, engine: str, python: Path, job: Job) -> Iterator[EngineProcess]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [str(python), str(PROGRAM), engine, json.dumps(asdict(job))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield EngineProcess(name, process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


@contextmanager
def headwater(folder: Path, cores: int, memory: str) -> Iterator[EngineProcess]:
    """Headwater, with the Spark of this environment."""
    job = Job(str(folder / "headwater"), str(folder / "source"), "", cores, memory)
    with _started("Headwater", "headwater", Path(sys.executable), job) as engine:
        yield engine


@contextmanager
def delta(folder: Path, cores: int, memory: str) -> Iterator[EngineProcess]:
    """Delta Lake; its JARs are Maven's."""
    jars = ",".join(str(_maven_jar("io.delta", name, _DELTA_VERSION)) for name in _DELTA)
    job = Job(str(folder / "delta"), str(folder / "source"), jars, cores, memory)
    with _started("Delta Lake", "delta", _spark_41(), job) as engine:
        yield engine


@contextmanager
def paimon(folder: Path, cores: int, memory: str) -> Iterator[EngineProcess]:
    """Spark with Paimon's JAR, which the tests beside other clients use, too."""
    if not _PAIMON_JAR.exists():
        raise SystemExit(f"no {_PAIMON_JAR}: run tests/interop/environments")
    job = Job(str(folder / "paimon"), str(folder / "source"), str(_PAIMON_JAR), cores, memory)
    with _started("Paimon's Spark", "paimon", _spark_41(), job) as engine:
        yield engine


def _spark_41() -> Path:
    if not _SPARK_41.exists():
        raise SystemExit(f"no {_SPARK_41}: run tests/interop/environments")
    return _SPARK_41


def _maven_jar(group: str, name: str, version: str) -> Path:
    """A JAR in Maven's own folder, fetched if need be."""
    folder = _REPOSITORY.joinpath(*group.split("."), name, version)
    path = folder / f"{name}-{version}.jar"
    if not path.exists():
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
        artifact = f"-Dartifact={group}:{name}:{version}"
        subprocess.run(["mvn", "-q", "-B", plugin, artifact, "-Dtransitive=false"], check=True)
    return path
