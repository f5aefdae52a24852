"""The recipe for a backup in the documentation, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int64())])

# Where the shell of SQLite is not installed; what it is asked for is one statement of the library.
SQLITE_SHELL = """\
#!{python}
import sqlite3, sys
name, command = sys.argv[1:]
verb, target = command.split()
assert verb == ".backup"
source, copy = sqlite3.connect(name), sqlite3.connect(target)
source.backup(copy)
copy.close()
source.close()
"""


def recipe() -> list[str]:
    """The commands of the section, block by block."""
    section = PAGE.read_text().split("\n## Back up and restore\n")[1].split("\n## ")[0]
    return [str(block) for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL)]


@pytest.mark.modes
def test_the_recipe_restores_what_was_committed_after_the_backup(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    shell = programs / "sqlite3"
    shell.write_text(SQLITE_SHELL.format(python=sys.executable))
    shell.chmod(0o755)
    installed = Path(sys.executable).parent
    variables = {**os.environ, "PATH": f"{programs}:{installed}:{os.environ['PATH']}"}

    def run(block: str) -> list[int]:
        lines = [line for line in block.splitlines() if line]
        return [
            subprocess.run(line, shell=True, cwd=tmp_path, env=variables, check=False).returncode
            for line in lines
        ]

    with connect(tmp_path / "lake") as lake:
        lake.create_database("sales")
        table = lake.create_table("sales.orders", SCHEMA, primary_keys=["id"])
        table.write({"id": [1], "v": [1]})
    (tmp_path / "backup").mkdir()
    take, restore = recipe()
    assert run(take) == [0, 0]
    with connect(tmp_path / "lake") as lake:
        lake.table("sales.orders").write({"id": [1, 2], "v": [10, 20]})
    # The comparison says with its exit code that there is a difference.
    assert run(restore) == [0, 0, 3, 0, 0]
    with connect(tmp_path / "lake") as lake:
        rows = lake.table("sales.orders").scan().to_arrow().sort_by("id").to_pylist()
        assert rows == [{"id": 1, "v": 10}, {"id": 2, "v": 20}]
        lake.table("sales.orders").write({"id": [3], "v": [30]})
