"""Modes of primary-key tables, and what their tables hold by a plain dictionary.

Where what Paimon shows depends on which files happen to be merged first, as for a row that takes
something back from a key that has no row, `Model.taken` leaves the change out, or gives it values
for which it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st

__all__ = ["CHANGES", "MODES", "PARTITIONS", "Change", "Key", "Mode", "Model", "Rows", "Values"]

Key: TypeAlias = tuple[str | None, int | None]


class Values(NamedTuple):
    """The columns beside the key; `s` is the sequence field, where there is one."""

    v: int | None
    note: str | None
    s: int | None


class Change(NamedTuple):
    """A row as it is written."""

    key: Key
    kind: str
    values: Values

    @property
    def retracts(self) -> bool:
        """True if it takes something back."""
        return self.kind in ("-U", "-D")


Rows: TypeAlias = dict[Key, Values]


@dataclass(frozen=True)
class Engine:
    """A merge engine and the options that say what becomes of rows that retract.

    Attributes:
        options: The options.
        ignores: True if rows that retract are dropped, False if some are merged.
        retracts: The kinds of them that may be written.
        once: True if a write has a key at most once: its rows are merged with each other before
            they meet older ones, which then differs from merging them in their order. So are rows
            that wait for one compaction.
    """

    options: Mapping[str, str]
    ignores: bool = False
    retracts: tuple[str, ...] = ("-U", "-D")
    once: bool = False

    @property
    def name(self) -> str:
        """Its option ``merge-engine``."""
        return self.options["merge-engine"]

    @property
    def has_group(self) -> bool:
        """True if `v` counts only with a newer `s`."""
        return "fields.s.sequence-group" in self.options

    @property
    def is_sequenced(self) -> bool:
        """True if rows are ordered by `s`."""
        return "sequence.field" in self.options

    @property
    def sums(self) -> bool:
        """True if `v` is a sum."""
        return self.options.get("fields.v.aggregate-function") == "sum"

    @property
    def removes(self) -> bool:
        """True if a ``-D`` row ends its key's row."""
        return any("remove-record-on" in key for key in self.options)


_CLUSTERED = {"clustering.columns": "note,v"}
_SUM = {"fields.v.aggregate-function": "sum"}
_PARTIAL = {"merge-engine": "partial-update"}
_GROUP = {**_PARTIAL, "fields.s.sequence-group": "v"}
_IGNORE = {"ignore-delete": "true"}
_ENGINES: Mapping[str, Engine] = {
    "newest": Engine({"merge-engine": "deduplicate"}),
    "newest by s": Engine({"merge-engine": "deduplicate", "sequence.field": "s"}),
    "newest, never deleted": Engine({"merge-engine": "deduplicate", **_IGNORE}, ignores=True),
    "first": Engine({"merge-engine": "first-row"}, retracts=()),
    "first, never deleted": Engine({"merge-engine": "first-row", **_IGNORE}, ignores=True),
    "updated": Engine(_PARTIAL, retracts=()),
    "updated, never deleted": Engine({**_PARTIAL, **_IGNORE}, ignores=True),
    "updated, removed": Engine(
        {**_PARTIAL, "partial-update.remove-record-on-delete": "true"}, once=True
    ),
    "updated by s": Engine(_GROUP, once=True),
    "updated by s, removed": Engine(
        {**_GROUP, "partial-update.remove-record-on-sequence-group": "s"}, once=True
    ),
    "summed by s": Engine({**_GROUP, **_SUM}, once=True),
    "summed": Engine({"merge-engine": "aggregation", **_SUM}),
    "summed, removed": Engine(
        {"merge-engine": "aggregation", **_SUM, "aggregation.remove-record-on-delete": "true"},
        once=True,
    ),
}


@dataclass(frozen=True)
class Mode:
    """A mode of a table.

    Attributes:
        merges: The name of its engine here.
        producer: Its changelog producer.
        bucket: Its option ``bucket``.
        format: Its file format.
        vectors: Its option ``deletion-vectors.enabled``.
        across: True if its primary key lacks the partition's column.
        nullable: Its option ``primary-key.nullable``.
        clustered: True if files above level 0 are sorted by other columns than the key.
    """

    merges: str
    producer: str
    bucket: str
    format: str
    vectors: bool
    across: bool
    nullable: bool
    clustered: bool = False

    @property
    def engine(self) -> Engine:
        """Its merge engine."""
        return _ENGINES[self.merges]

    @property
    def options(self) -> dict[str, str]:
        """The table's options."""
        return {
            "changelog-producer": self.producer,
            "bucket": self.bucket,
            "file.format": self.format,
            "deletion-vectors.enabled": str(self.vectors).lower(),
            "primary-key.nullable": str(self.nullable).lower(),
            **self.engine.options,
            **({"pk-clustering-override": "true", **_CLUSTERED} if self.clustered else {}),
            "postpone.batch-write-fixed-bucket": "false",
        }

    @property
    def is_possible(self) -> bool:
        """True if Paimon has such tables."""
        engine = self.engine
        if self.across and (self.bucket != "-1" or engine.is_sequenced):
            return False
        if self.across and engine.name == "deduplicate" and engine.ignores:
            return False  # the row of a key that moves would stay where it was
        if self.clustered:
            picks = engine.name == "first-row" or (self.vectors and engine.name == "deduplicate")
            if not picks or engine.is_sequenced or self.producer not in ("none", "input"):
                return False
        if engine.name == "first-row":
            return self.producer in ("none", "lookup") and self.clustered >= self.vectors
        return not (self.vectors and self.producer == "full-compaction")

    @property
    def waits(self) -> bool:
        """True if written rows wait for a compaction that somebody asks for."""
        return self.bucket == "-2"

    @property
    def hides_level_zero(self) -> bool:
        """True if rows are shown only by a compaction's snapshot, which follows a write."""
        return self.vectors or self.engine.name == "first-row"

    @property
    def has_complete_changelog(self) -> bool:
        """True if the changelog has each row before and after each change."""
        return self.producer in ("lookup", "full-compaction")

    @property
    def tells_what_is_written(self) -> bool:
        """True if the changelog of a write's snapshot has its rows as they are given."""
        return self.producer == "input" and not (self.across or self.waits)


PARTITIONS = st.sampled_from(["a", "b", None])
_KEYS = st.tuples(PARTITIONS, st.none() | st.integers(0, 9))
_VALUES = st.builds(
    Values,
    st.none() | st.integers(0, 9),
    st.none() | st.sampled_from(["", "x", "yy"]),
    st.none() | st.integers(-2, 2),
)
CHANGES = st.lists(
    st.builds(Change, _KEYS, st.sampled_from(["+I", "+I", "+U", "-U", "-D"]), _VALUES),
    min_size=1,
    max_size=15,
)
MODES = st.builds(
    Mode,
    st.sampled_from(list(_ENGINES)),
    st.sampled_from(["none", "input", "lookup", "full-compaction"]),
    st.sampled_from(["1", "2", "-1", "-2"]),
    st.sampled_from(["parquet", "avro", "orc"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
).filter(lambda mode: mode.is_possible)


@dataclass
class Model:
    """The rows of a table, whatever it shows of them yet.

    Attributes:
        mode: The table's mode.
        rows: The rows.
        newest: The greatest value that `s` has had.
        merged_together: The keys of the rows that are merged before they meet older ones.
    """

    mode: Mode
    rows: Rows = field(default_factory=dict)
    newest: int = 0
    merged_together: set[object] = field(default_factory=set)

    def taken(self, changes: Iterable[Change]) -> list[Change]:
        """Merge changes in their order, and return those to be written."""
        engine = self.mode.engine
        written: list[Change] = []
        if not self.mode.waits:
            self.merged_together.clear()
        for (p, number), kind, values in changes:
            key: Key = (p, number) if self.mode.nullable else (p or "a", number or 0)
            if kind in ("-U", "-D") and engine.name != "deduplicate":
                key = self._near(key)
            if engine.once:
                unique = key[1] if self.mode.across else key
                if unique in self.merged_together:
                    continue
                self.merged_together.add(unique)
            change = self._fitting(Change(key, kind, values))
            if change is None:
                continue
            written.append(change)
            if self.drops(change):
                continue
            self._merge(change)
            self.newest = max(self.newest, change.values.s or 0)
        return written

    def _near(self, key: Key) -> Key:
        """The key, or that of a row that is there if it has none."""
        if self._place(key) is not None or not self.rows:
            return key
        return list(self.rows)[(key[1] or 0) % len(self.rows)]

    def drops(self, change: Change) -> bool:
        """True if the table does not keep a change that is written."""
        return change.retracts and self.mode.engine.ignores

    def _place(self, key: Key) -> Key | None:
        """The key of the row that a change meets."""
        if not self.mode.across:
            return key if key in self.rows else None
        return next((each for each in self.rows if each[1] == key[1]), None)

    def _fitting(self, change: Change) -> Change | None:
        """The change with values that fit the row that is there, if it can be made."""
        engine = self.mode.engine
        if change.retracts and not engine.ignores:
            if change.kind not in engine.retracts:
                return None
            if self._place(change.key) is None and engine.name != "deduplicate":
                return None
        v, note, s = change.values
        place = self._place(change.key)
        if place is None:
            # Of a row that was deleted, `s` may be known still, or not.
            s = self.newest + 1
        elif s is not None:
            s += self.rows[place].s or 0
        if engine.has_group and s is None:
            v = None
        if change.retracts and engine.name != "deduplicate":
            note = None
            if not engine.has_group:
                s = None
                if not engine.sums or (engine.removes and change.kind == "-D"):
                    v = None
        return change._replace(values=Values(v, note, s))

    def _merge(self, change: Change) -> None:
        engine, rows = self.mode.engine, self.rows
        place = self._place(change.key)
        if place is None:
            if not change.retracts:
                rows[change.key] = change.values
            return
        old, new = rows[place], change.values
        if engine.name == "deduplicate":
            if engine.is_sequenced and _rank(new.s) < _rank(old.s):
                return
            del rows[place]  # in another partition, too: the key moves
            if not change.retracts:
                rows[change.key] = new
        elif engine.name == "partial-update":
            self._update(place, change)
        elif engine.name == "aggregation":
            if change.kind == "-D" and engine.removes:
                del rows[place]
            else:
                total = _summed(old.v, new.v, -1 if change.retracts else 1)
                rows[place] = _filled(old, new)._replace(v=total)

    def _update(self, place: Key, change: Change) -> None:
        engine, rows = self.mode.engine, self.rows
        old, new = rows[place], change.values
        filled = old if change.retracts else _filled(old, new)
        if not engine.has_group:
            if change.kind == "-D" and engine.removes:
                del rows[place]
            else:
                rows[place] = filled
            return
        v, s = old.v, old.s
        if new.s is not None:
            is_late = _rank(new.s) < _rank(old.s)
            if change.kind == "-D" and engine.removes and not is_late:
                del rows[place]
                return
            if engine.sums:
                v = _summed(old.v, new.v, -1 if change.retracts else 1)
            elif not is_late:
                v = None if change.retracts else new.v
            s = old.s if is_late else new.s
        rows[place] = Values(v, filled.note, s)


def _filled(old: Values, new: Values) -> Values:
    """The new values, and the old ones where there are none."""
    return Values(
        old.v if new.v is None else new.v,
        old.note if new.note is None else new.note,
        old.s if new.s is None else new.s,
    )


def _summed(old: int | None, new: int | None, sign: int) -> int | None:
    if new is None:
        return old
    return sign * new + (old or 0)


def _rank(s: int | None) -> tuple[bool, int]:
    return (s is not None, s or 0)
