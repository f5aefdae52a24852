"""The Python examples of the documentation run, and print what the pages say they print.

The ``python`` blocks of a page are one program, run from top to bottom in an empty folder. A
``text`` block right after one is what that one prints. Where a page speaks of the server at
``http://127.0.0.1:8080``, one is running. A ``py`` block is a sketch that does not run by itself.
"""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests import plain_http

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
SPARK_PAGES = [ROOT / "docs" / "spark.md"]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Runs the blocks of a page in one namespace and reports what each printed.
_RUNNER = """
import contextlib, io, json, sys
namespace = {"__name__": "__main__"}
printed = []
for name, source in json.load(open(sys.argv[1])):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(source, name, "exec"), namespace)
    printed.append(output.getvalue())
json.dump(printed, open(sys.argv[2], "w"))
"""


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "headwater.cli.main", "serve", "--port", str(port)),
        *("--database-url", f"sqlite:///{tmp_path / 'headwater.db'}"),
        *("--warehouse", f"main={tmp_path / 'warehouse'}"),
    ]
    address = f"http://127.0.0.1:{port}"
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                plain_http.get(f"{address}/healthz").raise_for_status()
                break
            except httpx.TransportError:
                assert process.poll() is None, (tmp_path / "server.log").read_text()
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait()


def blocks(page: Path, server: str) -> list[tuple[str, str]]:
    return [(item.where, item.source.replace(ADDRESS, server)) for item in examples(page)]


def check(page: Path, printed: Sequence[str], server: str, room: Path) -> None:
    for item, text in zip(examples(page), printed, strict=True):
        if item.output is not None:
            actual = text.replace(server, ADDRESS).replace(str(room.resolve()), "/data")
            assert _trimmed(actual) == _trimmed(item.output), item.where


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_python_examples(page: Path, server: str, tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (tmp_path / "blocks.json").write_text(json.dumps(blocks(page, server)))
    result = subprocess.run(
        [sys.executable, "-c", _RUNNER, "../blocks.json", "../printed.json"],
        cwd=room,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    check(page, json.loads((tmp_path / "printed.json").read_text()), server, room)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", SPARK_PAGES, ids=lambda page: page.name)
def test_spark_examples(
    page: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, whose session is what the page's `local_session` finds and takes."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = []
    for where, source in blocks(page, server):
        with redirect_stdout(io.StringIO()) as output:
            exec(compile(source, where, "exec"), namespace)
        printed.append(output.getvalue())
    check(page, printed, server, tmp_path)
