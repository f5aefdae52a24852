"""Docstrings, and their entries for arguments, name a thing or tell what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = ("storage", "catalog", "client", "server", "spark", "cli", "migrations")
QUESTIONS = ("What", "How", "Whether", "Where", "Who", "Whoever", "Whose", "When", "Why", "Which")
ENTRY = re.compile(rf"\s+\w+: ({'|'.join(QUESTIONS)})\b")


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("root", ROOTS)
def test_no_docstring_begins_like_a_question(root: str) -> None:
    files = sorted((ROOT / root / "headwater").rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in files
        for line, text in _docstrings(path)
        if text.split(maxsplit=1)[0] in QUESTIONS
    ]
    assert found == []


@pytest.mark.parametrize("root", ROOTS)
def test_no_argument_is_described_by_a_question(root: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / root / "headwater").rglob("*.py"))
        for _, text in _docstrings(path)
        for line in text.splitlines()
        if ENTRY.match(line)
    ]
    assert found == []


@pytest.mark.parametrize("root", ROOTS)
def test_every_package_says_what_it_is_in_its_docstring(root: str) -> None:
    packages = sorted((ROOT / root / "headwater").rglob("__init__.py"))
    assert packages
    silent = [
        str(path.relative_to(ROOT))
        for path in packages
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []
