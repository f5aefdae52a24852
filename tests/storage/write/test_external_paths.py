"""Files that a table puts outside its folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.client.lake import Lake
from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.files.local import local_path
from headwater.storage.files.s3 import S3FileAccess
from headwater.storage.schema.change import RemoveOption

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("dt", pa.string(), nullable=False),
        ("note", pa.string()),
    ]
)
INDEXED = {"file-index.bloom-filter.columns": "note"}
pytestmark = pytest.mark.modes
PATHS, STRATEGY = "data-file.external-paths", "data-file.external-paths.strategy"


def rows(*numbers: int, note: str = "") -> pa.Table:
    made = [{"id": number, "dt": "ab"[number % 2], "note": f"{note}{number}"} for number in numbers]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    opened = connect(str(tmp_path / "lake"))
    opened.create_database("d")
    return opened


def create(
    lake: Lake, room: Path, options: Mapping[str, str] | None = None, *, keyed: bool = True
) -> Table:
    places = ",".join(f" file://{room / 'outside' / name}/" for name in ("one", "two"))
    return lake.create_table(
        "d.t",
        SCHEMA,
        primary_keys=["id", "dt"] if keyed else [],
        partition_keys=["dt"],
        options={
            "bucket": "1" if keyed else "-1",
            PATHS: places,
            STRATEGY: "round-robin",
            **(options or {}),
        },
    )


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def found(table: Table) -> list[dict[str, object]]:
    read = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert isinstance(read, list)
    return read


def own_folders(table: Table) -> set[str]:
    """The folders with files in the table's own."""
    root = Path(local_path(table.storage.layout.location))
    return {name.partition("/")[0] for name in files(root)}


@pytest.mark.parametrize("keyed", [True, False])
def test_files_lie_below_the_places_in_turn(lake: Lake, tmp_path: Path, keyed: bool) -> None:
    table = create(lake, tmp_path, keyed=keyed)
    for start in range(0, 40, 10):
        table.refresh().write(rows(*range(start, start + 10)))
    assert found(table) == rows(*range(40)).to_pylist()
    outside = files(tmp_path / "outside")
    assert len(outside) == 8
    shape = re.compile(r"(one|two)/dt=[ab]/bucket-0/data-[0-9a-f-]+-0\.parquet")
    assert all(map(shape.fullmatch, outside))
    assert own_folders(table) == {"schema", "snapshot", "manifest"}
    paths = lake.system_table("d.t$files").to_arrow().column("file_path").to_pylist()
    assert sorted(paths) == [f"file://{tmp_path}/outside/{name}" for name in outside]


def test_they_are_compacted_and_expire(lake: Lake, tmp_path: Path) -> None:
    table = create(lake, tmp_path, INDEXED)
    for note in "xyz":
        table.refresh().write(rows(*range(10), note=note))
    table.refresh().compact()
    assert found(table) == rows(*range(10), note="z").to_pylist()
    # With an index beside each data file.
    assert len(files(tmp_path / "outside")) == 16
    assert table.refresh().scan(where="note = 'z4'").count() == 1
    table.refresh().expire_snapshots(retain_max=1, retain_min=1, retain=timedelta())
    assert len(files(tmp_path / "outside")) == 4
    assert found(table) == rows(*range(10), note="z").to_pylist()
    # Nothing tells whose the other files in such a place are.
    bucket = tmp_path / "outside" / "one" / "dt=a" / "bucket-0"
    # The place that a file goes to is chosen at random: here there may be none.
    bucket.mkdir(parents=True, exist_ok=True)
    (bucket / "data-0.parquet").write_bytes(b"")
    table.refresh().remove_orphan_files(older_than=timedelta())
    assert len(files(tmp_path / "outside")) == 5
    assert found(table) == rows(*range(10), note="z").to_pylist()


def test_what_is_not_committed_goes(lake: Lake, tmp_path: Path) -> None:
    table = create(lake, tmp_path, INDEXED)
    table.write(rows(1))
    before = files(tmp_path / "outside")
    with pytest.raises(HeadwaterError):
        table.refresh().write([rows(2).to_batches()[0], pa.record_batch({"id": [1]})])
    assert files(tmp_path / "outside") == before


def test_index_files_of_buckets_lie_beside_them(lake: Lake, tmp_path: Path) -> None:
    table = create(lake, tmp_path, {"bucket": "-1", "index-file-in-data-file-dir": "true"})
    table.write(rows(*range(10)))
    table.refresh().write(rows(*range(5, 15), note="new"))
    assert sum("/index-" in name for name in files(tmp_path / "outside")) >= 2
    assert [row["id"] for row in found(table)] == list(range(15))
    assert "index" not in own_folders(table)


@pytest.mark.parametrize("keyed", [True, False])
def test_index_files_have_a_place_of_their_own(lake: Lake, tmp_path: Path, keyed: bool) -> None:
    place = f"file://{tmp_path}/indexes"
    kind = {"bucket": "-1"} if keyed else {"deletion-vectors.enabled": "true"}
    table = create(lake, tmp_path, {"global-index.external-path": place, **kind}, keyed=keyed)
    table.write(rows(*range(10)))
    table.refresh().delete("id = 3")
    assert files(tmp_path / "indexes")
    assert "index" not in own_folders(table)
    table.refresh().alter(RemoveOption("global-index.external-path"))
    table.refresh().write(rows(0, 11) if keyed else rows(11))
    assert [row["id"] for row in found(table)] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 11]


def test_entropy_spreads_files(lake: Lake, tmp_path: Path) -> None:
    create(lake, tmp_path, {STRATEGY: "entropy-inject"}).write(rows(*range(10)))
    shape = re.compile(r"(one|two)/dt=[ab]/bucket-0(/[01]{4}){3}/[01]{8}/data-.*\.parquet")
    outside = files(tmp_path / "outside")
    assert outside
    assert all(map(shape.fullmatch, outside))


def test_weights_are_shares(lake: Lake, tmp_path: Path) -> None:
    options = {STRATEGY: "weight-robin", "data-file.external-paths.weights": "1, 1000000"}
    table = create(lake, tmp_path, {**options, "target-file-size": "1 b"}, keyed=False)
    table.write(rows(*range(0, 4000, 2)))
    places = Counter(name.partition("/")[0] for name in files(tmp_path / "outside"))
    assert set(places) == {"two"}


def test_none_leaves_files_in_the_folder(lake: Lake, tmp_path: Path) -> None:
    table = create(lake, tmp_path, {STRATEGY: "none"})
    table.write(rows(1, 2))
    assert not (tmp_path / "outside").exists()
    assert own_folders(table) >= {"dt=a", "dt=b"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({STRATEGY: "random"}, "must be one of none"),
        ({STRATEGY: "specific-fs"}, "must name a scheme"),
        ({STRATEGY: "specific-fs", "data-file.external-paths.specific-fs": "oss"}, "'oss'"),
        ({STRATEGY: "weight-robin", "data-file.external-paths.weights": "1"}, "2 paths"),
        ({STRATEGY: "weight-robin", "data-file.external-paths.weights": "0,1"}, "greater than 0"),
        ({PATHS: "/no/scheme"}, "with a scheme"),
    ],
)
def test_options_that_contradict_are_refused(
    lake: Lake, tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        create(lake, tmp_path, options)
    table = create(lake, tmp_path)
    with pytest.raises(Invalid, match=problem):
        table.with_options(options).write(rows(1))
    assert table.refresh().snapshots() == []
    assert not (tmp_path / "outside").exists()


def test_places_of_another_kind_of_store(s3_endpoint: str, tmp_path: Path) -> None:
    options = {"s3.endpoint": s3_endpoint, "s3.access-key": "test", "s3.secret-key": "test"}
    lake = connect(str(tmp_path / "lake"), options=options)
    lake.create_database("d")
    specific = {STRATEGY: "specific-fs", "data-file.external-paths.specific-fs": "s3"}
    places = f"file://{tmp_path}/outside,s3://lake/data"
    table = create(lake, tmp_path, {**specific, PATHS: places})
    table.write(rows(1, 2))
    table.refresh().write(rows(2, 3, note="x"))
    table.refresh().compact()
    assert [row["note"] for row in found(table)] == ["1", "x2", "x3"]
    stored = [file.path for file in S3FileAccess(options).walk("s3://lake/data")]
    assert len(stored) == 6
    assert all("/bucket-0/data-" in path for path in stored)
    assert not (tmp_path / "outside").exists()
