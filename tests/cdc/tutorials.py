"""The tutorials of the page on change data capture, run as they are written."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from collections.abc import Callable, Set
from contextlib import redirect_stdout
from pathlib import Path

import pytest

__all__ = ["Headwater", "run_tutorial"]

PAGE = Path(__file__).parents[2] / "docs" / "cdc.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = frozenset({"ini", "sql", "python", "sh", "console", "text"})

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def run_tutorial(
    heading: str,
    server: tuple[str, str],
    run_statement: Callable[[str], object],
    headwater: Headwater,
    monkeypatch: pytest.MonkeyPatch,
    languages: Set[str] = _LANGUAGES,
) -> None:
    """Run the blocks of a section, and compare what they print.

    Args:
        heading: The section's heading.
        server: The server's address on the page, and the one to use.
        run_statement: Runs a statement of SQL as the administrator.
        headwater: Runs the command line.
        monkeypatch: Sets variables of the environment.
        languages: The languages that the section's blocks are in.
    """
    namespace: dict[str, object] = {}
    printed = ""
    seen = set()
    for language, block in _blocks(heading):
        source = block.replace(*server)
        seen.add(language)
        if language == "sql":
            for statement in filter(str.strip, source.split(";\n")):
                run_statement(statement.strip().removesuffix(";"))
        elif language == "sh":
            for variable in shlex.split(source)[1:]:
                monkeypatch.setenv(*variable.split("=", 1))
        elif language == "console":
            _, *arguments = shlex.split(source)
            result = headwater(*arguments)
            assert result.returncode == 0, result.stderr
            printed = result.stdout
        elif language == "python":
            with redirect_stdout(io.StringIO()) as output:
                exec(compile(source, PAGE.name, "exec"), namespace)
            printed = output.getvalue()
        elif language == "text":
            assert printed.strip().splitlines() == source.strip().splitlines()
    assert seen == languages


def _blocks(heading: str) -> list[tuple[str, str]]:
    """The blocks of a section: what language each is in, and its text."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index(f"## {heading}\n")
    return _BLOCK.findall(text[begin : text.index("\n## ", begin + 1)])
