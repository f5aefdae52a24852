"""Random histories of primary-key tables, by this engine and Paimon's Java library in turns.

Each step is done to two tables: to one by a side that is drawn, to the other by Java. After it both
sides read the same rows from either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.schema.change import (
    AddColumn,
    RenameColumn,
    SchemaChange,
    UpdateColumnType,
)
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type, to_arrow

from .conftest import TOKEN, Service
from .java_steps import JavaSteps

HISTORIES = 10
STEPS = 7
KINDS = ("+I", "-U", "+U", "-D")
TYPES = ("INT", "BIGINT", "STRING", "DECIMAL(10,2)", "BOOLEAN")
WIDER = {"INT": "BIGINT", "BOOLEAN": "STRING", "BIGINT": "STRING", "DECIMAL(10,2)": "STRING"}
FUNCTIONS = ("last_value", "first_non_null_value", "max", "min")


@dataclass
class Drawn:
    """A table's definition.

    Attributes:
        columns: Names and types; the last is the sequence field, where there is one.
        options: Its options.
        kinds: The kinds that its rows may have.
    """

    columns: dict[str, str]
    options: dict[str, str] = field(default_factory=dict)
    kinds: Sequence[str] = ("+I",)


def draw(random: Random) -> Drawn:
    """A definition."""
    values = {f"c{at}": random.choice(TYPES) for at in range(random.randrange(2, 5))}
    drawn = Drawn({"p": "STRING", "k": "BIGINT", **values, "seq": "BIGINT"})
    options = drawn.options
    options["bucket"] = random.choice(["1", "2", "-1"])
    options["dynamic-bucket.target-row-num"] = random.choice(["5", "1000"])
    options["file.format"] = random.choice(["parquet", "orc", "avro"])
    options["metadata.stats-mode"] = random.choice(["none", "counts", "truncate(2)", "full"])
    options["num-sorted-run.compaction-trigger"] = random.choice(["2", "3", "5"])
    options["target-file-size"] = random.choice(["1 kb", "128 mb"])
    options["data-file.thin-mode"] = random.choice(["true", "false"])
    engine = random.choice(["deduplicate", "partial-update", "aggregation", "first-row"])
    producers = ["none", "lookup"]
    if engine != "first-row":
        producers += ["input", "full-compaction"]
        if random.random() < 0.4 and engine != "partial-update":
            options["sequence.field"] = "seq"
            options["sequence.field.sort-order"] = random.choice(["ascending", "descending"])
    options["merge-engine"] = engine
    options["changelog-producer"] = producer = random.choice(producers)
    if engine != "first-row" and producer != "full-compaction" and random.random() < 0.4:
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = random.choice(["true", "false"])
    if engine == "aggregation":
        for name, kind in values.items():
            sums = kind in ("INT", "BIGINT") or kind.startswith("DECIMAL")
            function = "sum" if sums and random.random() < 0.5 else random.choice(FUNCTIONS)
            options[f"fields.{name}.aggregate-function"] = function
            if function not in ("sum", "last_value"):
                options[f"fields.{name}.ignore-retract"] = "true"
    if engine == "partial-update":
        options["fields.seq.sequence-group"] = "c0"
    if engine == "first-row":
        options["ignore-delete"] = "true"
    drawn.kinds = KINDS
    return drawn


@dataclass
class History:
    """Two tables and what is done to them."""

    random: Random
    lake: Lake
    java: JavaSteps
    drawn: Drawn
    shared: str
    twin: str
    log: list[str] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return self.lake.table(self.shared)

    def _do(
        self, what: str, theirs: Callable[[str], None], ours: Callable[[Table], object]
    ) -> None:
        by_us = self.random.random() < 0.6
        self.log.append(f"{what} by {'us' if by_us else 'Java'}")
        theirs(self.twin)
        if by_us:
            ours(self.table)
        else:
            theirs(self.shared)

    def write(self) -> None:
        data, kinds = self._rows()
        numbers = pa.array([KINDS.index(kind) for kind in kinds], pa.int8())
        self._do(
            f"write {data.num_rows} rows",
            lambda name: self.java.write(name, data, kinds),
            lambda table: table.write(data, row_kinds=numbers),
        )

    def compact(self) -> None:
        self._do("compact", self.java.compact_all, lambda table: table.compact())

    def overwrite(self) -> None:
        partition = {"p": self.random.choice("ab")}
        data, _ = self._rows(partition["p"])
        self._do(
            f"overwrite {partition}",
            lambda name: self.java.overwrite(name, data, partition),
            lambda table: table.overwrite(data, partition),
        )

    def alter(self) -> None:
        columns, options = self.drawn.columns, self.drawn.options
        free = [
            name
            for name in columns
            if name not in ("p", "k", "seq", "c0")
            and f"fields.{name}.aggregate-function" not in options
        ]
        name, new = self.random.choice([*free, ""]), f"n{len(self.log)}"
        change: SchemaChange
        if not name:
            columns[new] = "INT"
            steps, change = ("add", new, "INT"), AddColumn((new,), parse_type("INT"))
        elif self.random.random() < 0.5 or columns[name] not in WIDER:
            self.drawn.columns = {new if each == name else each: columns[each] for each in columns}
            steps, change = ("rename", name, new), RenameColumn((name,), new)
        else:
            columns[name] = wider = WIDER[columns[name]]
            steps, change = ("type", name, wider), UpdateColumnType((name,), parse_type(wider))
        self._do(
            f"{steps}",
            lambda table: self.java.alter(table, steps),
            lambda table: table.alter(change),
        )

    def _rows(self, partition: str | None = None) -> tuple[pa.Table, list[str]]:
        random = self.random
        count = random.choice([1, 5, 20])
        rows = [
            {
                **{name: _value(random, kind) for name, kind in self.drawn.columns.items()},
                "p": partition or random.choice("ab"),
                "k": random.randrange(10),
            }
            for _ in range(count)
        ]
        schema = pa.schema(
            [(name, to_arrow(parse_type(kind))) for name, kind in self.drawn.columns.items()]
        )
        kinds = self.drawn.kinds if random.random() < 0.5 else ("+I",)
        return pa.Table.from_pylist(rows, schema), [random.choice(kinds) for _ in rows]

    def check_rows(self) -> None:
        """Both sides read the same rows from both tables."""
        found = self.java.texts(self.shared)
        assert texts(self.table.scan().to_arrow()) == found, self.log
        assert self.java.texts(self.twin) == found, self.log

    def check_streams(self) -> None:
        """Both sides stream the same changes, and the table's past is the same to both."""
        options = self.drawn.options
        for snapshot in self.table.snapshots():
            then = self.java.texts(self.shared, {"scan.snapshot-id": str(snapshot.id)})
            assert texts(self.table.scan(snapshot_id=snapshot.id).to_arrow()) == then, self.log
        engine, producer = options["merge-engine"], options["changelog-producer"]
        if producer == "none" and engine != "deduplicate":
            return
        theirs = [sorted(plan) for plan in self.java.change_texts(self.shared) if plan]
        latest = self.table.latest_snapshot()
        assert latest is not None
        told = (
            self.table.changes(at, at + 1, skip_overwrites=True).to_arrow()
            for at in range(latest.id)
        )
        assert [kinds_and_texts(each) for each in told if each.num_rows] == theirs, self.log


def _value(random: Random, kind: str) -> object:
    if random.random() < 0.25:
        return None
    if kind == "BOOLEAN":
        return random.random() < 0.5
    if kind.startswith("DECIMAL"):
        return Decimal(random.randrange(-300, 300)) / 100
    return random.choice(["a", "b", "", "é"]) if kind == "STRING" else random.randrange(6)


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def kinds_and_texts(table: pa.Table) -> list[tuple[str, str]]:
    kinds = table["_ROW_KIND"].to_pylist()
    return sorted(zip(kinds, _texts(table.drop_columns("_ROW_KIND")), strict=True))


def texts(table: pa.Table) -> list[str]:
    """The rows as Java's casts write them, sorted."""
    return sorted(_texts(table))


def _texts(table: pa.Table) -> list[str]:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [f"{{{', '.join(map(_text, row))}}}" for row in rows]


@pytest.fixture
def java_version() -> str:
    return "2.0.0"


@pytest.mark.interop_java
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_histories_of_both_sides_are_those_of_java(
    lake: Lake, service: Service, java_gateway: JavaGateway, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    drawn = draw(random)
    # Java keeps handles, and the schemas that they had.
    uncached: Mapping[str, str] = {"cache-enabled": "false"}
    java = JavaSteps(java_gateway, "2.0.0", service.uri, TOKEN, tmp_path, uncached)
    shared, twin = (f"interop.history_{seed}_{which}" for which in ("shared", "twin"))
    fields = tuple(
        DataField(at, name, parse_type(f"{kind}{' NOT NULL' if name in ('p', 'k') else ''}"))
        for at, (name, kind) in enumerate(drawn.columns.items())
    )
    for name in (shared, twin):
        lake.drop_table(name, ignore_if_not_exists=True)
        lake.create_table(
            name,
            Schema(fields),
            primary_keys=["p", "k"],
            partition_keys=["p"],
            options=drawn.options,
        )
    history = History(random, lake, java, drawn, shared, twin, [f"{drawn}"])
    steps = [history.write] * 5 + [history.compact] * 2 + [history.overwrite, history.alter]
    history.write()
    for _ in range(STEPS - 1):
        random.choice(steps)()
        history.check_rows()
    history.check_streams()
