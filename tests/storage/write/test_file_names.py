"""The names, folders and statistics of new files, as options have them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid
from headwater.storage.files.local import local_path
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.manifest.statistics import column_statistics
from headwater.storage.options.statistics_mode import StatisticsMode
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import SetOption

SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False),
     pa.field("v", pa.string())]
)  # fmt: skip
UUID = r"[0-9a-f-]{36}"


def make(room: Path, options: Mapping[str, str], *, keyed: bool = True) -> Table:
    lake = connect(str(room))
    lake.create_database("d", ignore_if_exists=True)
    return lake.create_table(
        "d.t",
        SCHEMA,
        partition_keys=["p"],
        primary_keys=["p", "k"] if keyed else [],
        options={"bucket": "1", "bucket-key": "k", **options},
    )


def rows(numbers: range, text: str = "v") -> pa.Table:
    made = [{"p": "a", "k": k, "v": f"{text}{k}" * 20} for k in numbers]
    return pa.Table.from_pylist(made, SCHEMA)


def found(table: Table) -> pa.Table:
    return table.refresh().scan().to_arrow().sort_by("k")


def root(table: Table) -> Path:
    return Path(local_path(table.storage.layout.location))


def names(table: Table, folder: str = "p=a/bucket-0") -> list[str]:
    return sorted(os.listdir(root(table) / folder))


def live_files(table: Table) -> list[DataFile]:
    latest = max(table.refresh().snapshots(), key=lambda snapshot: snapshot.id)
    storage = table.storage
    return [entry.file for entry in live_entries(storage, latest)]


@pytest.mark.parametrize("keyed", [True, False])
def test_prefixes_and_codecs_in_names(tmp_path: Path, keyed: bool) -> None:
    options = {
        "data-file.prefix": "rows_",
        "changelog-file.prefix": "",
        **({"changelog-producer": "input"} if keyed else {}),
        "file.suffix.include.compression": "true",
        "changelog-file.format": "avro",
        "file.compression": "zstd",
    }
    table = make(tmp_path, options, keyed=keyed)
    table.write(rows(range(3)))
    patterns = [rf"rows_{UUID}-0\.zst\.parquet"]
    if keyed:
        patterns.insert(0, rf"{UUID}-0\.zst\.avro")
    for name, pattern in zip(names(table), patterns, strict=True):
        assert re.fullmatch(pattern, name)
    table.refresh().write(rows(range(2, 5)))
    assert found(table).num_rows == (5 if keyed else 6)
    table.refresh().compact()
    assert found(table).num_rows == (5 if keyed else 6)
    (file,) = live_files(table)
    assert re.fullmatch(rf"rows_{UUID}-\d+\.zst\.parquet", file.file_name)


@pytest.mark.parametrize(
    ("codec", "extension"),
    [("none", ".orc"), ("snappy", ".snappy.orc"), ("lz4", ".lz4.orc"), ("zlib", ".zlib.orc")],
)
def test_names_of_codecs(tmp_path: Path, codec: str, extension: str) -> None:
    options = {
        "file.format": "orc",
        "file.compression": codec,
        "file.suffix.include.compression": "true",
    }
    table = make(tmp_path, options)
    table.write(rows(range(3)))
    (name,) = names(table)
    assert name.removeprefix("data-")[36:] == f"-0{extension}"
    assert found(table).equals(rows(range(3)))


def test_data_files_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    options = {"data-file.path-directory": "rows/here", "changelog-producer": "input"}
    table = make(tmp_path, options)
    table.write(rows(range(3)))
    table.refresh().write(rows(range(2, 6), "w"))
    assert len(names(table, "rows/here/p=a/bucket-0")) == 4
    assert not (root(table) / "p=a").exists()
    assert found(table).slice(2).equals(rows(range(2, 6), "w"))
    assert table.refresh().changes(0).to_arrow().num_rows == 7
    table.refresh().compact()
    assert found(table).num_rows == 6
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    (file,) = live_files(table)
    assert names(table, "rows/here/p=a/bucket-0") == [file.file_name]
    # What nothing refers to goes, and what is no place of data stays.
    strays = {"rows/here/p=a/bucket-0/data-stray.parquet", "p=a/bucket-0/data-stray.parquet"}
    for stray in strays:
        path = root(table) / stray
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (0, 0))
    gone = table.refresh().remove_orphan_files(older_than=timedelta(days=1))
    assert [item.name for item in gone.files] == ["data-stray.parquet"]
    assert names(table, "rows/here/p=a/bucket-0") == [file.file_name]
    assert found(table).num_rows == 6
    elsewhere = SetOption("data-file.path-directory", "elsewhere")
    with pytest.raises(Invalid, match=r"data-file\.path-directory"):
        table.refresh().alter(elsewhere)


@pytest.mark.parametrize("folder", ["/abs", "a/../b", "a//b", "s3://b/x", "a/"])
def test_folders_elsewhere_are_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(Invalid, match=r"data-file\.path-directory"):
        make(tmp_path, {"data-file.path-directory": folder}).write(rows(range(1)))


def test_statistics_by_level_and_of_changelogs(tmp_path: Path) -> None:
    options = {
        "metadata.stats-mode": "none",
        "metadata.stats-mode.per.level": "0:counts, 5:full",
        "fields.p.stats-mode": "none",
        "changelog-producer": "input",
    }
    table = make(tmp_path, options)
    table.write(rows(range(3)))
    table.refresh().write(rows(range(3, 5)))
    values = rows(range(3)).select(["k", "v"])
    fields = table.storage.schema.columns(["k", "v"])
    first = live_files(table)[0]
    assert first.value_stats_cols == ("k", "v")
    assert first.value_stats == column_statistics(values, fields, StatisticsMode.parse("counts"))
    table.refresh().compact()
    (last,) = live_files(table)
    everything = rows(range(5)).select(["k", "v"])
    assert last.level == 5
    assert last.value_stats == column_statistics(everything, fields, StatisticsMode.parse("full"))
    assert found(table).equals(rows(range(5)))
    assert table.refresh().scan(where="k = 4").to_arrow().num_rows == 1
    for key in ("metadata.stats-mode.per.level", "changelog-file.stats-mode"):
        for text in ("0:some", "5:some", "x"):
            broken = table.refresh().with_options({key: text})
            with pytest.raises(Invalid, match=r"stats-mode|statistics mode"):
                broken.write(rows(range(1)))
