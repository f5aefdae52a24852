"""The Python examples of the documentation run, and print what the pages say they print.

The ``python`` blocks of a page are one program, run from top to bottom in an empty folder. A
``text`` block right after one is what that one prints. Where a page speaks of the server at
``http://127.0.0.1:8080``, one is running. A ``py`` block is a sketch that does not run by itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.run_blocks import print_what_blocks_print, run_blocks
from tests.processes import run_function, serving

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8080"
PYTHON_PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "sdk.md",
    ROOT / "docs" / "branches.md",
    ROOT / "docs" / "server.md",
    ROOT / "docs" / "tables.md",
    ROOT / "docs" / "views.md",
]
SPARK_PAGES = [
    ROOT / "docs" / "spark.md",
    ROOT / "docs" / "spark-sql.md",
    ROOT / "docs" / "from-delta-and-iceberg.md",
]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A block of Python and, if the page shows it, what it prints."""

    where: str
    source: str
    output: str | None


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    blocks = list(_BLOCK.finditer(text))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python":
            continue
        line = text.count("\n", 0, block.start()) + 2
        directly = following is not None and not text[block.end() : following.start()].strip()
        output = following[2] if following and directly and following[1] == "text" else None
        # Leading lines, so that an error names the line of the page.
        found.append(Example(f"{page.name}:{line}", "\n" * (line - 1) + block[2], output))
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server as the pages start it, on a port of its own."""
    settings = {
        "port": 0,
        "database_url": f"sqlite:///{tmp_path / 'headwater.db'}",
        "warehouses": {"main": str(tmp_path / "warehouse")},
    }
    with serving(settings) as address:
        yield address


def blocks(page: Path, server: str) -> list[tuple[str, str]]:
    return [(item.where, item.source.replace(ADDRESS, server)) for item in examples(page)]


def check(page: Path, printed: Sequence[str], server: str, room: Path) -> None:
    for item, text in zip(examples(page), printed, strict=True):
        if item.output is not None:
            actual = text.replace(server, ADDRESS).replace(str(room.resolve()), "/data")
            assert _trimmed(actual) == _trimmed(item.output), item.where


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


# They are run by `make check`.
@pytest.mark.modes
@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_python_examples(page: Path, server: str, tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    result = run_function(
        print_what_blocks_print, blocks(page, server), folder=room, variables=os.environ
    )
    assert result.returncode == 0, result.stderr[-4000:]
    check(page, json.loads(result.stdout), server, room)


# Statement by statement they take minutes.
@pytest.mark.modes
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", SPARK_PAGES, ids=lambda page: page.name)
def test_spark_examples(
    page: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, whose session is what the page's `local_session` finds and takes."""
    monkeypatch.chdir(tmp_path)
    check(page, run_blocks(blocks(page, server)), server, tmp_path)
