"""Damaged, missing and foreign files of every kind: an error names the file, never a wrong row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import CorruptData, HeadwaterError, NotFound, Unsupported
from headwater.storage.schema.change import AddColumn
from headwater.storage.snapshot.consumer import list_consumer_files
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.types.data_type import parse_type

pytestmark = pytest.mark.modes

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
Read = Callable[[Lake], object]


def rows_of(table: Table, **scan: Any) -> list[Any]:
    return sorted(table.scan(**scan).to_arrow().to_pylist(), key=str)


@dataclass(frozen=True)
class Kind:
    """A kind of file: the pattern of its path, and what reads it."""

    pattern: str
    read: Read


def _scan(name: str, **scan: Any) -> Read:
    return lambda lake: rows_of(lake.table(name), **scan)


def _changes(lake: Lake) -> object:
    return lake.table("db.told").changes(1, 2).to_arrow().to_pylist()


def _write(lake: Lake) -> object:
    # To a handle of its own, and the same keys: nothing changes for the cases that follow.
    table = lake.table("db.dynamic")
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    try:
        table.write({"k": [1], "v": ["new"]})
        return rows_of(table)
    finally:
        table.rollback(snapshot_id=snapshot.id)


KINDS: Mapping[str, Kind] = {
    "snapshot": Kind("archive/**/outer/snapshot/snapshot-2", _scan("db.outer")),
    "schema": Kind("lake/**/altered/schema/schema-0", _scan("db.altered")),
    "manifest list": Kind("lake/**/plain/manifest/manifest-list-*", _scan("db.plain")),
    "manifest": Kind("lake/**/plain/manifest/manifest-[0-9a-f]*", _scan("db.plain")),
    "index manifest": Kind("lake/**/marked/manifest/index-manifest-*", _scan("db.marked")),
    "deletion vectors": Kind("lake/**/marked/index/index-*", _scan("db.marked")),
    "hash index": Kind("lake/**/dynamic/index/index-*", _write),
    "file index": Kind("lake/**/indexed/bucket-0/*.index", _scan("db.indexed", where="v = 'b'")),
    "statistics": Kind(
        "lake/**/plain/statistics/stats-*",
        lambda lake: lake.table("db.plain").inspect.statistics().to_pylist(),
    ),
    "tag": Kind(
        "archive/**/outer/tag/tag-one",
        lambda lake: [
            tag.snapshot.id
            for storage in [lake.table("db.outer").storage]
            for tag in list_tag_files(storage.files, storage.layout)
        ],
    ),
    "changelog": Kind("lake/**/told/changelog/changelog-2", _changes),
    "consumer": Kind(
        "archive/**/outer/consumer/consumer-reader",
        lambda lake: [
            (each.consumer_id, each.next_snapshot)
            for storage in [lake.table("db.outer").storage]
            for each in list_consumer_files(storage.files, storage.layout)
        ],
    ),
    "parquet": Kind("lake/**/plain/bucket-0/*.parquet", _scan("db.plain")),
    "orc": Kind("lake/**/orc/bucket-0/*.orc", _scan("db.orc")),
    "avro": Kind("lake/**/avro/bucket-0/*.avro", _scan("db.avro")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("damaged")
    rows = {"k": list(range(100)), "v": ["abc"[k % 3] * 7 for k in range(100)]}
    with connect(str(place / "archive")) as archive:
        archive.create_database("db")
        outer = archive.create_table("db.outer", SCHEMA)
        outer.write(rows)
        outer.write({"k": [100], "v": ["z"]})
        outer.create_tag("one", 1)
        outer.consumer("reader").reset(2)
    with connect(str(place / "lake")) as lake:
        lake.create_database("db")
        (outside,) = (place / "archive").glob("**/outer")
        lake.register_table("db.outer", str(outside))
        for name, options in (
            ("plain", {}),
            ("altered", {}),
            ("marked", {"deletion-vectors.enabled": "true"}),
            ("indexed", {"file-index.bloom-filter.columns": "v",
                         "file-index.in-manifest-threshold": "1 b"}),
            ("orc", {"file.format": "orc"}),
            ("avro", {"file.format": "avro"}),
        ):  # fmt: skip
            table = lake.create_table(f"db.{name}", SCHEMA, options=options)
            table.write(rows)
        lake.table("db.plain").analyze()
        lake.table("db.marked").delete("k IN (3, 4)")
        lake.table("db.altered").alter(AddColumn(("added",), parse_type("INT")))
        dynamic = lake.create_table("db.dynamic", SCHEMA, primary_keys=["k"])
        dynamic.write(rows)
        options = {
            "bucket": "1",
            "changelog-producer": "input",
            "changelog.num-retained.min": "9",
            "changelog.num-retained.max": "9",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "1",
        }
        told = lake.create_table("db.told", SCHEMA, primary_keys=["k"], options=options)
        for number in range(4):
            told.write({"k": [number], "v": ["x"]})
    return place


@contextmanager
def damaged(path: Path, content: bytes | None) -> Iterator[None]:
    """A file with other content, or without a file."""
    before = path.read_bytes()
    path.unlink()
    try:
        if content is not None:
            path.write_bytes(content)
        yield
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(before)


def found_files(folder: Path, kind: Kind) -> list[Path]:
    files = sorted(folder.glob(kind.pattern))
    assert files
    return files


def contents(folder: Path, name: str, path: Path) -> Iterator[tuple[str, bytes | None]]:
    data = path.read_bytes()
    size = len(data)
    for length in sorted({0, 1, 3, size // 4, size // 2, size * 3 // 4, size - 5, size - 1}):
        if 0 <= length < size:
            yield f"cut to {length} of {size} bytes", data[:length]
    for other, kind in KINDS.items():
        if other != name and not {other, name} <= ONE_FORM:
            yield f"a file of {other}", found_files(folder, kind)[0].read_bytes()
    yield "missing", None


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_named(folder: Path, name: str) -> None:
    kind = KINDS[name]
    with connect(str(folder / "lake")) as lake:
        expected = kind.read(lake)
        for path in found_files(folder, kind):
            for what, content in contents(folder, name, path):
                result, error = None, None
                with damaged(path, content):
                    try:
                        result = kind.read(lake)
                    except (CorruptData, NotFound, Unsupported) as raised:
                        error = raised.message
                if content is None and name in LISTED:
                    continue
                if content is None and name == "changelog":
                    assert error is not None
                    assert "snapshot 2 has expired" in error
                elif error is None:
                    assert result == expected, what
                else:
                    assert path.name in error, what
        assert kind.read(lake) == expected


LISTED = ("snapshot", "tag", "consumer")
"""Kinds of files whose lack says that there is no such thing."""
ONE_FORM = {"snapshot", "tag", "changelog"}
"""Kinds of files that are snapshots: nothing but the id tells one from another."""


@pytest.mark.parametrize("name", ["snapshot", "changelog"])
def test_another_snapshot_in_its_place_is_noticed(folder: Path, name: str) -> None:
    (path,) = found_files(folder, KINDS[name])
    other = path.with_name(path.name.replace("2", "1")).read_bytes()
    with (
        connect(str(folder / "lake")) as lake,
        damaged(path, other),
        pytest.raises(CorruptData, match=rf"{path.name} holds snapshot 1, not 2"),
    ):
        KINDS[name].read(lake)


@pytest.mark.parametrize("name", KINDS)
def test_changed_bytes_raise_errors_of_headwater_alone(folder: Path, name: str) -> None:
    """Formats without checksums give other values for some: what fails, fails with a name."""
    kind = KINDS[name]
    with connect(str(folder / "lake")) as lake:
        for path in found_files(folder, kind)[:2]:
            data = path.read_bytes()
            step = max(1, len(data) // 40)
            for at in range(0, len(data), step):
                content = bytearray(data)
                content[at] ^= 0xFF
                with damaged(path, bytes(content)), suppress(HeadwaterError):
                    kind.read(lake)
