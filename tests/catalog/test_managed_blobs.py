"""Columns of type BLOB in tables with a primary key, whose values lie in packs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.modes import essential

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, CorruptData, Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.formats.blob_descriptor import descriptor
from headwater.storage.formats.blob_references import parsed_references
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.write import WritePlan
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import AddColumn
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.types.data_type import DataField, parse_type

FIELDS = (
    DataField(0, "k", parse_type("BIGINT NOT NULL")),
    DataField(1, "b", parse_type("BLOB")),
    DataField(2, "s", parse_type("STRING")),
    DataField(3, "c", parse_type("BLOB")),
)
ARROW = pa.schema(
    [("k", pa.int64()), ("b", pa.large_binary()), ("s", pa.string()), ("c", pa.large_binary())]
)
Row = dict[str, object]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


def make(
    lake: Lake, options: Mapping[str, str] | None = None, partition_keys: Sequence[str] = ()
) -> Table:
    keys = (*partition_keys, "k")
    schema = Schema(FIELDS, primary_keys=keys, partition_keys=tuple(partition_keys))
    return lake.create_table("db.t", schema, options={"bucket": "1", **(options or {})})


def rows(keys: range, tag: str = "v") -> pa.Table:
    columns = {
        "k": list(keys),
        "b": [None if k % 4 == 3 else f"{tag}{k}".encode() * (k % 9) for k in keys],
        "s": [f"{tag}{k}" for k in keys],
        "c": [None if k % 5 == 3 else f"{tag} of {k}".encode() for k in keys],
    }
    return pa.table(columns, schema=ARROW)


def by_key(*parts: pa.Table) -> dict[int, Row]:
    return {row["k"]: row for part in parts for row in part.to_pylist()}


def found(table: Table) -> dict[int, Row]:
    return by_key(table.scan().to_arrow())


def files_of(table: Table) -> list[DataFile]:
    snapshot = table.refresh().latest_snapshot()
    assert snapshot is not None
    return [entry.file for entry in live_entries(table.storage, snapshot)]


def paths(table: Table, pattern: str) -> list[Path]:
    return sorted(Path(local_path(table.storage.layout.location)).rglob(pattern))


def packs(table: Table) -> list[Path]:
    return paths(table, "*.managed.blob")


def named(table: Table) -> set[str]:
    """The names of the packs that the live data files name."""
    lists = paths(table, "*.blobref")
    live = {name for file in files_of(table) for name in file.extra_files}
    return {
        uri.rpartition("/")[2]
        for path in lists
        if path.name in live
        for uri in parsed_references(path.read_bytes(), str(path))
    }


class Damaged:
    """Packs that cannot be read within the block."""

    def __init__(self, table: Table) -> None:
        self._whole = {path: path.read_bytes() for path in packs(table)}

    def __enter__(self) -> None:
        for path, data in self._whole.items():
            path.write_bytes(b"x" * len(data))

    def __exit__(self, *error: object) -> None:
        for path, data in self._whole.items():
            path.write_bytes(data)


ALWAYS: Sequence[Mapping[str, str]] = [
    {"file.format": "orc", "blob.target-file-size": "60 b"},
    {"merge-engine": "partial-update", "data-file.thin-mode": "true"},
    {"bucket": "-1", "write-buffer-size": "2 kb"},
]
MODES: Sequence[Mapping[str, str]] = [
    *ALWAYS,
    {"file.format": "avro", "deletion-vectors.enabled": "true", "bucket": "2"},
    {"merge-engine": "first-row"},
    {"bucket": "-2"},
]


@pytest.mark.parametrize(
    "options", essential(MODES, ALWAYS), ids=lambda options: "-".join(options.values())
)
def test_values_come_back_whatever_becomes_of_their_rows(
    lake: Lake, options: Mapping[str, str]
) -> None:
    table = make(lake, options)
    engine, waits = options.get("merge-engine"), options.get("bucket") == "-2"
    table.write(rows(range(30)))
    table.write(rows(range(20, 40), "w"))
    expected = by_key(rows(range(30)))
    for key, row in by_key(rows(range(20, 40), "w")).items():
        if engine == "first-row":
            expected.setdefault(key, row)
        elif engine == "partial-update":
            new = {name: value for name, value in row.items() if value is not None}
            expected[key] = {**dict.fromkeys(ARROW.names), **expected.get(key, {}), **new}
        else:
            expected[key] = row
    with Damaged(table):
        if waits or engine == "first-row":
            table.compact(full=True)
        table.update({"s": "updated"}, where="k < 5")
        table.delete("k IN (6, 26) OR (b IS NULL AND k < 8)")
        table.merge({"k": [8, 39], "s": ["merged", "merged"]}, on=["k"], when_matched="update")
        table.compact(full=True)
    for key in (3, 6, 7, 26):
        del expected[key]
    for key in range(5):
        if key in expected:
            expected[key]["s"] = "updated"
    expected[8]["s"] = expected[39]["s"] = "merged"
    assert found(table) == expected
    before = packs(table)
    assert named(table) <= {path.name for path in before}
    table.update({"b": b"new value", "c": None}, where="k = 9")
    expected[9] |= {"b": b"new value", "c": None}
    assert found(table) == expected
    assert set(packs(table)) > set(before)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than=timedelta(0))
    assert found(table) == expected
    assert not table.check_files(deep=True).damages
    assert table.scan(where="b IS NULL").count() == sum(
        row["b"] is None for row in expected.values()
    )


def test_packs_belong_to_no_file_and_lists_to_theirs(lake: Lake) -> None:
    table = make(lake, {"write-only": "true", "merge-engine": "partial-update"})
    table.write(rows(range(8)))
    (file,) = files_of(table)
    assert file.extra_files == (f"{file.file_name}.blobref",)
    # One pack for each column: values of several rows lie in it.
    assert named(table) == {path.name for path in packs(table)}
    assert len(packs(table)) == 2
    table.write(pa.table({"k": [1, 2]}))
    (_, empty) = sorted(files_of(table), key=lambda file: file.row_count, reverse=True)
    (path,) = paths(table, empty.extra_files[0])
    assert parsed_references(path.read_bytes(), "") == []
    with Damaged(table):
        # Values are not read, nor written again.
        table.compact(full=True)
    assert len(packs(table)) == 2
    assert len(paths(table, "*.blobref")) == 3
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(paths(table, "*.blobref")) == 1
    assert found(table) == by_key(rows(range(8)))


def test_values_that_a_write_supersedes_are_not_stored(lake: Lake) -> None:
    table = make(lake)
    table.write({"k": [1, 1, 1], "b": [b"first" * 99, b"second" * 99, b"third"]})
    assert sum(path.stat().st_size for path in packs(table)) < 60
    assert found(table)[1]["b"] == b"third"


def test_rows_that_retract_others_hold_no_values(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(3)))
    before = packs(table)
    table.write(rows(range(1, 2)), row_kinds=pa.array(["-D"]))
    table.delete("k = 0")
    assert packs(table) == before
    assert found(table).keys() == {2}
    told = table.with_options({"blob-as-descriptor": "true"}).scan().to_arrow()
    assert told["b"].null_count == 0


def test_a_column_that_holds_no_null_is_written_and_not_taken_back(lake: Lake) -> None:
    fields = (FIELDS[0], DataField(1, "b", parse_type("BLOB NOT NULL")))
    table = lake.create_table("db.t", Schema(fields, primary_keys=("k",)), options={"bucket": "1"})
    table.write({"k": [1, 2], "b": [b"one", b""]})
    with pytest.raises(Invalid, match="'b' of type BLOB is NOT NULL"):
        table.delete("k = 1")
    assert {key: row["b"] for key, row in found(table).items()} == {1: b"one", 2: b""}


def test_streams_changes_and_time_travel_give_values(lake: Lake) -> None:
    table = make(lake, {"write-only": "true"})
    table.write(rows(range(4)))
    first = table.latest_snapshot()
    assert first is not None
    table.create_tag("first")
    table.write(rows(range(2), "w"))
    table.delete("k = 3")
    assert by_key(table.scan(tag="first").to_arrow()) == by_key(rows(range(4)))
    changes = table.changes(since=first.id).to_arrow().to_pylist()
    told = {(row["k"], row["_ROW_KIND"]): (row["b"], row["c"]) for row in changes}
    new = by_key(rows(range(2), "w"))
    assert told == {
        (0, "+I"): (new[0]["b"], new[0]["c"]),
        (1, "+I"): (new[1]["b"], new[1]["c"]),
        (3, "-D"): (None, None),
    }
    table.rollback(tag="first")
    assert found(table) == by_key(rows(range(4)))


def test_rows_move_between_partitions_with_their_values(lake: Lake) -> None:
    schema = Schema(FIELDS, primary_keys=("k",), partition_keys=("s",))
    for engine in ("deduplicate", "partial-update"):
        lake.drop_table("db.t", ignore_if_not_exists=True)
        options = {"bucket": "-1", "merge-engine": engine}
        table = lake.create_table("db.t", schema, options=options)
        table.write(rows(range(6)))
        table.write({"k": [1], "s": ["elsewhere"], "b": [b"moved"]})
        expected = by_key(rows(range(6)))
        old = expected[1]["c"] if engine == "partial-update" else None
        expected[1] |= {"s": "v1" if old else "elsewhere", "b": b"moved", "c": old}
        assert found(table) == expected
        with Damaged(table):
            table.update({"s": "another"}, where="k = 2")
        expected[2]["s"] = "another"
        assert found(table) == expected


def test_a_value_is_read_by_its_range_and_compared_with_its_checksum(lake: Lake) -> None:
    table = make(lake, {"blob.target-file-size": "1 b"})
    table.write(rows(range(3)))
    (one,) = (path for path in packs(table) if b"v1" in path.read_bytes()[:8])
    data = one.read_bytes()
    one.write_bytes(data.replace(b"v1", b"v!"))
    assert table.scan(["b"], "k = 2").to_arrow()["b"].to_pylist() == [b"v2v2"]
    with pytest.raises(CorruptData, match=f"{one.name}: the entry at byte 0 is damaged"):
        table.scan(["b"]).to_arrow()
    assert not table.check_files().damages
    assert [one.name in damage.problem for damage in table.check_files(deep=True).damages] == [True]
    one.unlink()
    with pytest.raises(CorruptData, match=one.name):
        table.scan(["b"]).to_arrow()
    assert [one.name in damage.problem for damage in table.check_files().damages] == [True]
    assert table.scan(["s"]).to_arrow().num_rows == 3


def test_many_large_values_are_read_some_at_a_time(lake: Lake) -> None:
    table = make(lake)
    size = 2 * 1024**2
    table.write({"k": list(range(40)), "b": [bytes([k]) * size for k in range(40)]})
    sizes = []
    for batch in table.scan(["k", "b"]).to_batches():
        keys = batch.column("k").to_pylist()
        assert [value[:1] for value in batch.column("b").to_pylist()] == [bytes([k]) for k in keys]
        sizes.append(batch.nbytes)
    assert len(sizes) > 2
    assert max(sizes) < 34 * 1024**2


def test_descriptors_are_no_values(lake: Lake) -> None:
    table = make(lake, {"merge-engine": "partial-update"})
    table.write(rows(range(3)))
    places = table.with_options({"blob-as-descriptor": "true"}).scan(["b"], "k = 1").to_arrow()
    (place,) = places["b"].to_pylist()
    (length,) = struct.unpack("<i", place[9:13])
    uri = place[13 : 13 + length].decode()
    offset, size = struct.unpack("<qq", place[13 + length :])
    assert Path(local_path(uri)).read_bytes()[offset : offset + size] == b"v1"
    changes: Sequence[Mapping[str, object]] = [{"b": place}, {"c": descriptor("/etc/passwd", 4, 5)}]
    for change in changes:
        with pytest.raises(Invalid, match="a value is a descriptor"):
            table.write({"k": [9], **{name: [value] for name, value in change.items()}})
        with pytest.raises(Invalid, match="a value is a descriptor"):
            table.update(change, where="k = 1")
    with pytest.raises(Invalid, match="cannot be matched by column 'b'"):
        table.merge({"k": [1], "b": [place]}, on=["b"])
    with pytest.raises(Invalid, match="'s' cannot be set"):
        table.update({"s": pc.binary_length(pc.field("b"))}, where="k = 1")
    assert found(table) == by_key(rows(range(3)))


def test_a_descriptor_that_leads_out_of_the_table_is_not_followed(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(2)))
    elsewhere = lake.create_table(
        "db.u", Schema(FIELDS, primary_keys=("k",)), options={"bucket": "1"}
    )
    elsewhere.write(rows(range(2)))
    (mine,), (other,) = files_of(table), files_of(elsewhere)
    (path,) = paths(table, mine.file_name)
    path.write_bytes(paths(elsewhere, other.file_name)[0].read_bytes())
    with pytest.raises(
        Unsupported, match=r"says that its value lies in .*no file of BLOBs of this"
    ):
        table.scan(["b"]).to_arrow()
    assert table.scan(["s"]).to_arrow().num_rows == 2


def test_what_is_not_committed_leaves_no_pack(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(2)))
    first = SnapshotIdentity.of(table.latest_snapshot())
    table.write(rows(range(3)))
    before = paths(table, "data-*")
    plan = WritePlan(table.storage, unchanged_since=first).upon(table.latest_snapshot())
    with suppress(ZeroDivisionError), plan.writer() as writer:
        writer.write(rows(range(5)))
        writer.finish()
        assert paths(table, "data-*") != before
        raise ZeroDivisionError
    assert paths(table, "data-*") == before
    with plan.writer() as writer:
        writer.write(rows(range(5)))
        messages = writer.finish()
    with pytest.raises(Conflict):
        plan.commit(TableCommit(table.storage, table.pointer, "user"), messages, LocalExecutor())
    assert paths(table, "data-*") == before


def test_a_column_is_added_and_another_dropped(lake: Lake) -> None:
    schema = Schema(FIELDS[:3], primary_keys=("k",))
    table = lake.create_table("db.t", schema, options={"bucket": "1"})
    table.write(rows(range(4)).select(["k", "b", "s"]))
    table.alter(AddColumn(("c",), parse_type("BLOB")))
    table.write(rows(range(2, 6), "w"))
    table.compact(full=True)
    expected = by_key(rows(range(4)), rows(range(2, 6), "w"))
    for key in range(2):
        expected[key]["c"] = None
    assert found(table) == expected


def test_a_clone_is_refused(lake: Lake) -> None:
    table = make(lake)
    lake.clone_table(table, "db.empty")
    table.write(rows(range(2)))
    with pytest.raises(Unsupported, match="create the other table, and write this one's rows"):
        lake.clone_table(table, "db.cloned")
    other = lake.create_table("db.other", Schema(FIELDS, primary_keys=("k",)))
    other.write(table.scan().to_arrow())
    lake.drop_table("db.t")
    assert found(other) == by_key(rows(range(2)))
