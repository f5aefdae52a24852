"""What handles show in a terminal and in a notebook, and the progress of long work."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from tests.terminals import run_on_terminal

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.schema.change import SetOption

COLUMNS = pa.schema([pa.field("id", pa.int64(), False), ("p", pa.string()), ("v", pa.int32())])


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table(
        "sales.t",
        COLUMNS,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options={"bucket": "2"},
    )
    made.write({"id": [1, 2], "p": ["a", "b"], "v": [1, 2]})
    return made


class _Cells(HTMLParser):
    """The texts of a fragment of HTML, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _texts(thing: Lake | Table) -> list[str]:
    parser = _Cells()
    parser.feed(thing._repr_html_())
    return parser.texts


def test_a_table_shows_its_columns_keys_and_options(table: Table) -> None:
    assert repr(table).splitlines() == [
        "Table sales.t",
        "  column  type             comment",
        "  id      BIGINT NOT NULL",
        "  p       STRING NOT NULL",
        "  v       INT",
        "  primary key: p, id",
        "  partitioned by: p",
        "  options: bucket=2",
    ]
    assert _texts(table)[:6] == [
        "Table sales.t",
        "column",
        "type",
        "comment",
        "id",
        "BIGINT NOT NULL",
    ]


def test_markup_in_names_and_options_stays_text(table: Table) -> None:
    table.alter(SetOption("comment.by", "<script>alert(1)</script>"))
    assert "<script>" not in table._repr_html_()
    assert any("<script>alert(1)</script>" in text for text in _texts(table))


def test_characters_that_mislead_are_escaped(table: Table) -> None:
    table.alter(SetOption("comment.by", "\u202eada\u2028"))
    for text in (repr(table), table._repr_html_()):
        assert r"comment.by=\u202eada\u2028" in text
        assert "\u202e" not in text


def test_values_of_secret_options_are_not_shown(table: Table) -> None:
    there = table.with_options({"s3.secret-key": "hunter2", "s3.endpoint": "http://store"})
    assert "hunter2" not in repr(there) + there._repr_html_()
    assert "http://store" in repr(there)


def test_a_scan_shows_what_it_would_read(table: Table) -> None:
    scan = table.scan(columns=["v", "id"], where="p = 'a' AND v > 0")
    lines = repr(scan).splitlines()
    assert lines[:4] == [
        "Scan of sales.t",
        "  column  Arrow type",
        "  v       int32",
        "  id      int64",
    ]
    assert lines[4].startswith("  of: snapshot 1 of 2")
    assert lines[5] == "  where: (`p` = 'a') AND (`v` > 0)"
    assert "Scan of sales.t" in scan._repr_html_()
    assert "snapshots 1 to 1" in repr(table.changes(since=0))


def test_snapshots_show_themselves_as_a_table(table: Table) -> None:
    table.delete("v = 1")
    snapshots = table.snapshots()
    title, header, newest, oldest = repr(snapshots).splitlines()
    assert title == "2 snapshots"
    assert header.split()[:2] == ["id", "committed"]
    assert (newest.split()[0], oldest.split()[0]) == ("2", "1")
    assert snapshots._repr_html_().count("<tr>") == 3


def test_a_lake_shows_its_warehouse(lake: Lake) -> None:
    assert repr(lake).startswith(f"Lake {lake.warehouse}\n  catalog: ")
    assert f"Lake {lake.warehouse}" in _texts(lake)


_WORK = """
import sys
from collections.abc import Iterator
from threading import Event

from headwater.catalog.table.progress import WatchedExecutor, progress_bar
from headwater.storage.jobs.executor import LocalExecutor

shown = Event()
write = sys.stderr.write

def noticed(text):
    if "reading" in text:
        shown.set()
    return write(text)

sys.stderr.write = noticed
with progress_bar("reading", 4) as advance:
    advance(1)
    assert not sys.stderr.isatty() or shown.wait(60)
print(list(WatchedExecutor("compacting", LocalExecutor()).run(str, [1, 2])))
"""


def test_progress_is_shown_in_a_terminal_alone() -> None:
    command = [sys.executable, "-c", _WORK]
    piped = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (piped.stdout, piped.stderr) == ("['1', '2']\n", "")
    drawn, output = run_on_terminal(command, {"COLUMNS": "100"}, stdout=False)
    assert output == "['1', '2']\n"
    assert b"reading" in drawn
    assert b"25%" in drawn
