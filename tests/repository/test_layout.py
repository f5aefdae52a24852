"""The repository's own rules: what must not be in the tree, and what must."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = ("storage", "catalog", "client", "server", "spark", "cdc", "cli", "migrations")


def tracked() -> list[Path]:
    """Files that git knows or would add, relative to the checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.skip("not a git checkout")
    return [Path(line) for line in result.stdout.splitlines() if (ROOT / line).is_file()]


def test_no_root_claims_the_namespace() -> None:
    stray = [
        str(path.relative_to(ROOT))
        for root in ROOTS
        for path in (ROOT / root).glob("headwater/__init__.py*")
    ]
    assert not stray, f"{stray}: one such file hides the seven other roots from an editable install"


@pytest.mark.parametrize("root", ROOTS)
def test_each_root_is_a_typed_package(root: str) -> None:
    package = ROOT / root / "headwater" / root
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()


@pytest.mark.parametrize("root", ROOTS)
def test_the_build_and_the_fences_know_each_root(root: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = project["tool"]["hatch"]["build"]
    assert root in build["dev-mode-dirs"]
    assert f"{root}/headwater" in build["targets"]["wheel"]["packages"]
    assert root in project["tool"]["mypy"]["files"]
    assert f"headwater.{root}" in project["tool"]["importlinter"]["root_packages"]
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert f"headwater.{root}" in {name for layer in layers for name in layer.split(" | ")}


def test_constraints_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines == sorted(lines, key=str.upper)
    assert [
        line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)
    ] == []


def test_nothing_names_where_packages_come_from() -> None:
    options = re.compile(r"--(extra-)?index-url|--find-links|--trusted-host|PIP_INDEX_URL|UV_INDEX")
    here = Path(__file__).relative_to(ROOT)
    texts = (path for path in tracked() if path != here and path.suffix not in {".png", ".parquet"})
    assert [
        str(path)
        for path in texts
        if options.search((ROOT / path).read_text(encoding="utf-8", errors="replace"))
    ] == []
