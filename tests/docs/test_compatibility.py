"""The page on compatibility names every operation, and every test of pypaimon's that cannot run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from tests.interop import matrix
from tests.interop.matrix_modes import TITLES
from tests.interop.paimon_spark_kinds import KINDS, PAIMON_SPARK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")


def test_every_operation_is_listed_once() -> None:
    # If not: tests/interop/seen_operations.py prints the table.
    paths = json.loads((ROOT / "openapi" / "headwater.json").read_text())["paths"]
    served = [
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        if path.startswith("/v1/")
        for method in methods
    ]
    assert re.findall(r"^\| `([A-Z]+ /v1/\S*)` \|", PAGE, re.MULTILINE) == served
    assert f"All {len(served)} operations" in PAGE


def test_what_cannot_run_is_listed_with_its_reason() -> None:
    path = ROOT / "tests" / "interop" / "pypaimon_suite" / "cannot_run.toml"
    for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
        for test in group["tests"]:
            file, _, name = test.partition("::")
            assert f"| `{file}` | `{name.split('::')[-1]}` | {group['why']} |" in PAGE


def test_the_kinds_of_tables_are_what_the_tests_of_clients_recorded() -> None:
    # If not: make test-interop, then python -m tests.interop.matrix
    begin, end = PAGE.index(matrix.BEGIN) + len(matrix.BEGIN), PAGE.index(matrix.END)
    assert PAGE[begin:end] == matrix.section()
    for client, kinds in matrix.record().items():
        assert list(kinds) == list(TITLES), client


def test_the_kinds_of_tables_that_both_engines_of_spark_change_are_those_of_the_tests() -> None:
    (row,) = re.findall(r"^\| Spark 4\.1 with Paimon's JAR for it \| (.*) \|$", PAGE, re.MULTILINE)
    version, _, how = row.partition(" | ")
    assert version == PAIMON_SPARK
    assert how.rpartition(": ")[2].split(", ") == [kind.title for kind in KINDS.values()]
