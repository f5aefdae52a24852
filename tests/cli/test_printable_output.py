"""Names of other engines that would mislead a terminal, as the command prints them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.cli.printable_stream import printable_output, unescaped
from headwater.client import connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]

NAME = "a\u202eb\u2028c\x85d"
ESCAPED = r"a\u202eb\u2028c\x85d"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A catalog whose table has a tag, a consumer and a partition of such a name."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("sales")
        schema = pa.schema([("n", pa.int64()), ("dt", pa.string())])
        table = lake.create_table("sales.log", schema, partition_keys=["dt"])
        table.write({"n": [1], "dt": [NAME]})
        lake.catalog.tags.create(table.identifier, "v1")
        directory = Path(lake.catalog.tables.get(table.identifier).path.removeprefix("file://"))
    (directory / "tag" / "tag-v1").rename(directory / "tag" / f"tag-{NAME}")
    (directory / "consumer").mkdir(exist_ok=True)
    (directory / "consumer" / f"consumer-{NAME}").write_text('{"nextSnapshot": 1}')
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("arguments", "column"),
    [
        (["tag", "list", "sales.log"], "tag"),
        (["consumer", "list", "sales.log"], "consumer"),
        (["partition", "list", "sales.log"], "partition"),
    ],
)
def test_listings_escape_names(
    headwater: Headwater, lake: Path, arguments: list[str], column: str
) -> None:
    rows = headwater(*arguments, HEADWATER_CATALOG=str(lake))
    assert rows.returncode == 0, rows.stderr
    assert ESCAPED in rows.stdout
    assert len(rows.stdout.splitlines()) == 2
    document = headwater(*arguments, "--json", HEADWATER_CATALOG=str(lake))
    assert document.stdout.isascii()
    assert NAME in json.loads(document.stdout)[column]


def test_messages_and_errors_escape_names(headwater: Headwater, lake: Path) -> None:
    missing = headwater("tag", "create", "sales.log", f"{NAME}!", HEADWATER_CATALOG=str(lake))
    assert (missing.returncode, len(missing.stderr.splitlines())) == (1, 1)
    assert ESCAPED in missing.stderr
    deleted = headwater("tag", "delete", "sales.log", NAME, HEADWATER_CATALOG=str(lake))
    assert (deleted.returncode, len(deleted.stdout.splitlines())) == (0, 1)
    assert r"a\u202eb\u2028c\u0085d" in deleted.stdout


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shown", [_Terminal(), StringIO()])
def test_only_data_for_programs_is_not_escaped(
    monkeypatch: pytest.MonkeyPatch, shown: StringIO
) -> None:
    monkeypatch.setattr(sys, "stdout", shown)
    with printable_output():
        print(f"\x1b[1mbold\x1b[0m\tand {NAME}\x1b]0;title\x07")
        assert sys.stdout.isatty() == shown.isatty()
        unescaped(sys.stdout).write("a\u2028b\n")
    lines = shown.getvalue().split("\n")
    assert lines[0].startswith("\x1b[1mbold\x1b[0m\tand a\\u202eb")
    assert lines[0].endswith("\\u001b]0;title\\u0007")
    assert lines[1] == ("a\\u2028b" if shown.isatty() else "a\u2028b")
