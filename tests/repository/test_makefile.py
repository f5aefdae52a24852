"""The Makefile explains itself, and says in one sentence what a machine lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what `make` reads, without an environment."""
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def make(checkout: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=checkout,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def fake(directory: Path, name: str, script: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_help_lists_every_documented_target(checkout: Path) -> None:
    result = make(checkout, "help")
    assert result.returncode == 0
    for target in (
        "demo",
        "test",
        "check",
        "bench",
        "test-interop",
        "test-postgresql",
        "test-mariadb",
        "test-mysql",
    ):
        assert target in result.stdout


def test_without_mysql_it_says_how_to_name_one(checkout: Path) -> None:
    (checkout / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "mysql-server", checkout / "tests" / "mysql-server")
    for needed in ("bash", "dirname"):
        (checkout / "bin").mkdir(exist_ok=True)
        (checkout / "bin" / needed).symlink_to(str(shutil.which(needed)))
    result = subprocess.run(
        [checkout / "tests" / "mysql-server"],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert result.stderr.count("\n") == 1
    assert "no apt-get here: install MySQL yourself, and name its server with" in result.stderr


@pytest.mark.parametrize("target", ["demo", "test"])
@pytest.mark.parametrize("script", ["exit 127", "echo 'openjdk version \"11.0.2\"' >&2"])
def test_without_a_new_enough_java_it_says_what_to_install(
    checkout: Path, target: str, script: str
) -> None:
    fake(checkout / "jdk" / "bin", "java", script)
    result = make(checkout, target, JAVA_HOME=str(checkout / "jdk"))
    assert result.returncode != 0
    sentences = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(sentences) == 1
    assert "needs Java 17 or newer: install it" in sentences[0]
    assert not (checkout / ".venv").exists()


def test_with_an_old_python_it_says_what_to_install(checkout: Path) -> None:
    old = fake(checkout / "old", "python3", "exit 1")
    result = make(checkout, "setup", f"PYTHON={old}")
    assert result.returncode != 0
    sentences = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(sentences) == 1
    assert "needs Python 3.11 or newer: install it" in sentences[0]
    assert not (checkout / ".venv").exists()
