"""The tutorial of the page on change data capture, run as it is written, on MariaDB."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from headwater.cdc.mysql.server import Address, MySQLServer

PAGE = Path(__file__).parents[3] / "docs" / "cdc.md"
SERVER = "127.0.0.1:3306"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def tutorial() -> list[tuple[str, str]]:
    """The blocks of the tutorial: what language each is in, and its text."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index("## A tutorial")
    return _BLOCK.findall(text[begin : text.index("\n## ", begin + 1)])


@pytest.fixture
def administrator(shop_source: Address) -> Iterator[MySQLServer]:
    """A server without the shop and without its reader."""
    address = Address(shop_source.host, shop_source.port, "root", "")
    with MySQLServer(address) as server:
        server.rows("DROP DATABASE IF EXISTS shop")
        yield server
        server.rows("DROP DATABASE IF EXISTS shop")
        server.rows("DROP USER IF EXISTS reader")


@pytest.mark.mariadb
def test_the_tutorial_runs_as_it_is_written(
    headwater: Headwater, administrator: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, object] = {}
    printed = ""
    languages = set()
    for language, block in tutorial():
        source = block.replace(SERVER, str(administrator.address))
        languages.add(language)
        if language == "sql":
            for statement in filter(str.strip, source.split(";\n")):
                administrator.rows(statement.strip().removesuffix(";"))
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
    assert languages == {"ini", "sql", "python", "sh", "console", "text"}
