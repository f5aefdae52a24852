"""The kinds of tables and reads that Headwater shares with other clients, and what each must give.

Every client goes through the same steps with each of them (`test_matrix.py`); what came of it is
the record, and the table of ``docs/compatibility.md`` (`matrix.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

__all__ = [
    "MODES",
    "READS",
    "SCHEMA",
    "TITLES",
    "WITHOUT_STREAMS",
    "WRONG",
    "Mode",
    "Read",
    "batch",
]

SCHEMA = pa.schema(
    [
        pa.field("day", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("v", pa.int64()),
        ("name", pa.string()),
    ]
)
Row: TypeAlias = tuple[object, ...]


def batch(version: int, keys: range, *, moves: bool = False) -> pa.Table:
    """Rows with these keys and values of this version, some of them null.

    With `moves`, each version of a key is of another day than the one before.
    """
    later = version if moves else 0
    columns = {
        "day": [f"2026-01-{1 + (k + later) % 2:02d}" for k in keys],
        "k": list(keys),
        "v": [None if k % 7 == version % 7 else version * 1000 + k for k in keys],
        "name": [None if k % 5 == version % 5 else f"{version}:{k}" for k in keys],
    }
    return pa.table(columns, schema=SCHEMA)


# How rows of one key become one -------------------------------------------------------------------


def _merged(rows: Iterable[Row], merge: Callable[[Row, Row], Row]) -> list[Row]:
    kept: dict[object, Row] = {}
    for row in rows:
        kept[row[1]] = merge(kept[row[1]], row) if row[1] in kept else row
    return list(kept.values())


def _every(rows: Iterable[Row]) -> list[Row]:
    return list(rows)


def _last(rows: Iterable[Row]) -> list[Row]:
    return _merged(rows, lambda old, new: new)


def _first(rows: Iterable[Row]) -> list[Row]:
    return _merged(rows, lambda old, new: old)


def _filled(rows: Iterable[Row]) -> list[Row]:
    return _merged(
        rows,
        lambda old, new: tuple(o if n is None else n for o, n in zip(old, new, strict=True)),
    )


def _greatest(rows: Iterable[Row]) -> list[Row]:
    """The row with the greatest ``v``; among equals, or without one, the last written."""
    return _merged(rows, lambda old, new: old if _rank(old[2]) > _rank(new[2]) else new)


def _rank(value: object) -> int:
    return value if isinstance(value, int) else -1


def _smallest(rows: Iterable[Row]) -> list[Row]:
    """The row with the smallest ``v``, which no null is; among equals the last written."""
    return _merged(rows, lambda old, new: new if _inverse(new[2]) >= _inverse(old[2]) else old)


def _inverse(value: object) -> float:
    return -value if isinstance(value, int) else -math.inf


def _summed(rows: Iterable[Row]) -> list[Row]:
    def add(old: Row, new: Row) -> Row:
        present = [value for value in (old[2], new[2]) if isinstance(value, int)]
        total = sum(present) if present else None
        return (new[0], new[1], total, old[3] if new[3] is None else new[3])

    return _merged(rows, add)


# The kinds ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mode:
    """A kind of table that each side writes, reads, and goes on with.

    Attributes:
        title: Its name in the documentation.
        options: Its options.
        merge: The rows that written rows become.
        is_keyed: True for a primary key of the day and ``k``.
        moves: True for a primary key of ``k`` alone, whose rows change their days.
        branch: The branch that is written and read; None for the table.
        compacts: True if rows are the table's only when a compaction, by Headwater, took them up.
        deletes: True if Headwater deletes some rows, too.
        together: True if the first batches are written as one, with all rows of a key in it.
    """

    title: str
    options: Mapping[str, str] = field(default_factory=dict)
    merge: Callable[[Iterable[Row]], list[Row]] = _last
    is_keyed: bool = True
    moves: bool = False
    branch: str | None = None
    compacts: bool = False
    deletes: bool = False
    together: bool = False


_ONE = {"bucket": "2"}
_SUMS = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "fields.name.aggregate-function": "last_non_null_value",
}
_FIRST = {"merge-engine": "first-row", "changelog-producer": "lookup"}

MODES: Mapping[str, Mode] = {
    "append": Mode("append table, without buckets", merge=_every, is_keyed=False),
    "append-buckets": Mode(
        "append table, fixed buckets", {"bucket": "2", "bucket-key": "k"}, _every, is_keyed=False
    ),
    "append-vectors": Mode(
        "append table, deletion vectors", {"deletion-vectors.enabled": "true"}, _every,
        is_keyed=False, deletes=True,
    ),
    "fixed": Mode("primary key, fixed buckets", _ONE, deletes=True),
    "dynamic": Mode("primary key, dynamic buckets", {"bucket": "-1"}),
    "across": Mode("primary key across partitions", {"bucket": "-1"}, moves=True),
    "postpone": Mode("primary key, postponed buckets", {"bucket": "-2"}, compacts=True),
    "sequence": Mode(
        "primary key, `sequence.field`", {**_ONE, "sequence.field": "v"}, merge=_greatest
    ),
    "sequence-descending": Mode(
        "primary key, `sequence.field.sort-order` `descending`",
        {**_ONE, "sequence.field": "v", "sequence.field.sort-order": "descending"}, _smallest,
        together=True,
    ),
    "thin": Mode("primary key, thin data files", {**_ONE, "data-file.thin-mode": "true"}),
    "partial-update": Mode(
        "merge engine `partial-update`", {**_ONE, "merge-engine": "partial-update"}, _filled
    ),
    "aggregation": Mode("merge engine `aggregation`", {**_ONE, **_SUMS}, _summed),
    "first-row": Mode("merge engine `first-row`", {**_ONE, **_FIRST}, _first, compacts=True),
    "changelog-input": Mode(
        "changelog producer `input`", {**_ONE, "changelog-producer": "input"}
    ),
    "changelog-lookup": Mode(
        "changelog producer `lookup`", {**_ONE, "changelog-producer": "lookup"}
    ),
    "changelog-full": Mode(
        "changelog producer `full-compaction`", {**_ONE, "changelog-producer": "full-compaction"}
    ),
    "keyed-vectors": Mode(
        "primary key, deletion vectors", {**_ONE, "deletion-vectors.enabled": "true"},
        compacts=True,
    ),
    "avro": Mode("Avro files", {**_ONE, "file.format": "avro"}),
    "orc": Mode("ORC files", {**_ONE, "file.format": "orc"}),
    "avro-append": Mode(
        "Avro files, append table", {"file.format": "avro"}, merge=_every, is_keyed=False
    ),
    "orc-append": Mode(
        "ORC files, append table", {"file.format": "orc"}, merge=_every, is_keyed=False
    ),
    "bloom-filter": Mode(
        "file index `bloom-filter`", {"file-index.bloom-filter.columns": "k,name"},
        merge=_every, is_keyed=False,
    ),
    "bitmap": Mode(
        "file index `bitmap`", {"file-index.bitmap.columns": "name"}, merge=_every, is_keyed=False
    ),
    "branch": Mode("a branch, primary key", _ONE, branch="b"),
    "branch-append": Mode("a branch, append table", merge=_every, is_keyed=False, branch="b"),
}  # fmt: skip
"""By name."""


@dataclass(frozen=True)
class Read:
    """A way to read a table that Headwater wrote.

    Attributes:
        title: Its name in the documentation.
        options: The options of the read; ``{first}`` and ``{last}`` are the times of the first
            snapshot and of the third, in milliseconds.
        table_options: Options that the table has.
        stream: True if the changes are streamed, and compared with their kinds.
        producer: The table's ``changelog-producer``.
    """

    title: str
    options: Mapping[str, str] = field(default_factory=dict)
    table_options: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    producer: str = "none"


READS: Mapping[str, Read] = {
    "snapshot-id": Read("time travel by snapshot id", {"scan.snapshot-id": "1"}),
    "tag": Read("time travel by tag", {"scan.tag-name": "one"}),
    "timestamp": Read("time travel by timestamp", {"scan.timestamp-millis": "{first}"}),
    "version": Read("time travel by version", {"scan.version": "one"}),
    "incremental": Read(
        "changes between snapshots", {"incremental-between": "1,3"}, producer="input"
    ),
    "incremental-timestamp": Read(
        "changes between timestamps", {"incremental-between-timestamp": "{first},{last}"},
        producer="input",
    ),
    "fallback": Read(
        "partitions of a fallback branch", table_options={"scan.fallback-branch": "live"}
    ),
    "stream-none": Read("stream, without a changelog", stream=True),
    "stream-input": Read("stream, changelog producer `input`", stream=True, producer="input"),
    "stream-lookup": Read("stream, changelog producer `lookup`", stream=True, producer="lookup"),
    "stream-full": Read(
        "stream, changelog producer `full-compaction`", stream=True, producer="full-compaction"
    ),
}  # fmt: skip
"""By name."""

TITLES: Mapping[str, str] = {
    **{name: mode.title for name, mode in MODES.items()},
    "variant": "columns of type VARIANT",
    **{name: read.title for name, read in READS.items()},
}
"""All kinds, in the order of the documentation."""

_NO_FALLBACK = (
    "it reads the table alone, where the partitions that it lacks are the fallback branch's "
    "(`CoreOptions.SCAN_FALLBACK_BRANCH`, `FallbackReadFileStoreTable.java`)"
)
_NO_INCREMENTAL = (
    "it does not know `incremental-between` and reads the latest snapshot, where the changes "
    "between two were asked for (`CoreOptions.INCREMENTAL_BETWEEN`)"
)
_ASCENDING_BUFFER = (
    "of several rows of one key in one write it keeps the one with the greatest sequence field, "
    "where the smallest is asked for; of rows in several files, the smallest. Releases from 2.0 on "
    "keep the smallest of both (`SortBufferWriteBuffer.java`)"
)
WRONG: Mapping[tuple[str, str, str], str] = {
    ("Paimon Java 1.3.1", "sequence-descending", "writes"): _ASCENDING_BUFFER,
    ("Paimon Java 1.4.2", "sequence-descending", "writes"): _ASCENDING_BUFFER,
    ("pypaimon 2.1.0", "incremental", "reads"): _NO_INCREMENTAL,
    ("pypaimon 2.1.0", "fallback", "reads"): _NO_FALLBACK,
    ("pypaimon-rust 0.4.0", "fallback", "reads"): _NO_FALLBACK,
}
"""By client, kind and direction: the rule that a client breaks, and where it is written."""
WITHOUT_STREAMS = ("pypaimon-rust",)
"""Clients that have no streams to read."""
