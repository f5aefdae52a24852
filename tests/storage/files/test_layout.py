from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.errors import Invalid
from headwater.storage.files.layout import TableLayout, escape_path_name
from headwater.storage.options import TableOptions, parse_bytes, parse_duration


@given(st.text())
def test_escaped_names_come_back(name: str) -> None:
    escaped = escape_path_name(name)
    assert unquote(escaped, errors="strict") == name
    assert "/" not in escaped


def test_directories_are_paimons() -> None:
    layout = TableLayout("file:///lake/db.db/t")
    assert layout.snapshot(3) == "file:///lake/db.db/t/snapshot/snapshot-3"
    assert layout.bucket_directory([], 0) == "file:///lake/db.db/t/bucket-0"
    assert (
        layout.bucket_directory([("dt", "2026-01-01 10:00"), ("a=b", "x/y")], 2)
        == "file:///lake/db.db/t/dt=2026-01-01 10%3A00/a%3Db=x%2Fy/bucket-2"
    )
    branch = TableLayout("file:///lake/db.db/t", "dev")
    assert branch.tag("v1") == "file:///lake/db.db/t/branch/branch-dev/tag/tag-v1"
    assert branch.manifest("m") == "file:///lake/db.db/t/manifest/m"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128 mb", 128 * 1024**2),
        ("64kb", 65536),
        ("1024", 1024),
        ("2 G", 2 * 1024**3),
        ("7b", 7),
        ("1 tebibytes", 1024**4),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 h", 3_600_000),
        ("30 min", 1_800_000),
        ("10s", 10_000),
        ("500 ms", 500),
        ("2 days", 172_800_000),
        ("5 minutes", 300_000),
        ("1 second", 1000),
        ("9 millis", 9),
        ("7000 micros", 7),
    ],
)
def test_durations(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "1 week",
        "-1 h",
        "5 ss",
        "1 mins",
        "2 us",
        "\u0663 h",
        "9" * 19,
        "9" * 16 + " d",
        "9" * 5000,
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Invalid, match="option 'for'"):
        parse_duration(text, "for")


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"bucket": "-3"}, "bucket"),
        ({"bucket": "two"}, "bucket"),
        ({"merge-engine": "magic"}, "merge_engine"),
        ({"ignore-delete": "yes"}, "ignore_delete"),
        ({"snapshot.time-retained": "long"}, "snapshot_time_retained"),
        ({"sequence.field.sort-order": "up"}, "sequence_descending"),
    ],
)
def test_malformed_options_are_named(options: dict[str, str], read: str) -> None:
    with pytest.raises(Invalid, match=next(iter(options))):
        getattr(TableOptions(options), read)
