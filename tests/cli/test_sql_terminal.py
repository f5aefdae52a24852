"""The SQL shell as somebody at a terminal has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import LEAST_JAVA, java_version

from headwater.client import connect

pexpect = pytest.importorskip("pexpect", reason="the development environment has it: make setup")

pytestmark = [pytest.mark.spark, pytest.mark.modes]

PROMPT, MORE = r"headwater> ", r"      \.\.\.> "
YEARS = "range(0, 1000000000000000, 1, 1)"
UP, CONTROL_D = "\x1b[A", "\x04"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """What was typed at another time."""
    file = tmp_path / "state" / "headwater" / "sql_history"
    file.parent.mkdir(parents=True)
    file.write_text("SELECT 6 AS six;\n", encoding="utf-8")
    return file


@pytest.fixture
def terminal(tmp_path: Path, history: Path) -> Iterator[Any]:
    """The shell at its first prompt, over a table ``db.long_name`` of three rows."""
    if java_version() < LEAST_JAVA:
        pytest.skip(f"needs Java {LEAST_JAVA} or newer")
    with connect(tmp_path / "lake") as lake:
        lake.create_database("db")
        schema = pa.schema([("id", pa.int64())])
        lake.create_table("db.long_name", schema).write(pa.table({"id": [1, 2, 3]}, schema=schema))
    variables = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")},
        "XDG_STATE_HOME": str(history.parents[1]),
        # Nothing but the text.
        "TERM": "dumb",
        "JAVA_TOOL_OPTIONS": f"{os.environ['JAVA_TOOL_OPTIONS']} -Djava.io.tmpdir={tmp_path}",
    }
    arguments = ["-m", "headwater.cli.main", "sql", "--catalog", str(tmp_path / "lake")]
    arguments += ["--format", "csv", "--cores", "1", "--memory", "512m"]
    child = pexpect.spawn(
        sys.executable,
        arguments,
        cwd=str(tmp_path),
        env=variables,
        timeout=120,
        encoding="utf-8",
        dimensions=(50, 200),
    )
    child.expect(PROMPT)
    yield child
    child.close(force=True)


def test_a_terminal_has_lines_history_completion_and_interruptions(
    terminal: Any, history: Path, tmp_path: Path
) -> None:
    terminal.send(UP)
    terminal.expect("SELECT 6 AS six;")
    terminal.send("\r")
    terminal.expect("six\r\n6\r\n")
    terminal.expect(PROMPT)

    # Statements go on up to their semicolon, and end with Ctrl-C.
    terminal.sendline("SELECT count(*) AS n")
    terminal.expect(MORE)
    terminal.sendline("FROM db.long_name; SELECT 'one;")
    terminal.expect(MORE)
    terminal.sendline("two' AS text;")
    terminal.expect('n\r\n3\r\ntext\r\n"one;\r\ntwo"\r\n')
    terminal.expect(PROMPT)
    terminal.sendline("SELECT 'half")
    terminal.expect(MORE)
    terminal.sendintr()
    terminal.expect(PROMPT)

    terminal.send("SELECT sum(id) AS s FROM db.lo\t")
    terminal.expect("db.long_name")
    terminal.send(" limi\t")
    terminal.expect("limit")
    terminal.sendline(" 1;")
    terminal.expect("s\r\n6\r\n")
    terminal.expect(PROMPT)

    # A query that would run for years, once it says that it runs.
    marker = "SELECT reflect('java.io.File', 'createTempFile', 'running', '.txt') AS text"
    terminal.sendline(
        f"SELECT count(*) AS n FROM {YEARS} WHERE id > (SELECT len(text) FROM ({marker}));"
    )
    while not list(tmp_path.glob("running*.txt")):
        assert terminal.expect([pexpect.TIMEOUT, PROMPT], timeout=0.05) == 0
    terminal.sendintr()
    terminal.expect("headwater: interrupted\r\n")
    terminal.expect(PROMPT)
    terminal.sendline("SELECT 8 AS eight;")
    # Nor does Spark tell what it thinks of the interruption.
    terminal.expect("^[^\r]*\r\neight\r\n8\r\n")
    terminal.expect(PROMPT)
    terminal.sendline("SELECT * FROM db.nothing;")
    terminal.expect("headwater: [^\r]*db.nothing[^\r]*\r\nheadwater> ")

    terminal.send(CONTROL_D)
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus == 0
    lines = history.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "SELECT 6 AS six;"
    assert "SELECT 8 AS eight;" in lines
