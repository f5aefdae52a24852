"""Generated INSERT, UPDATE, DELETE and MERGE leave the rows that a list of rows would hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake, connect

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Row = tuple[int, str | None, int | None, str | None]
"""The columns id, v, n and p."""
Truth = Callable[[Row], bool | None]

KINDS = {
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')",
    "keyed parts": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,id', 'bucket' = '1')",
    "plain": "",
    "plain parts": "PARTITIONED BY (p)",
    "marked": "PARTITIONED BY (p) TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "columns": "PARTITIONED BY (p) TBLPROPERTIES ('deletion-vectors.enabled' = 'true', "
    "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')",
}


def _compare(at: int, test: Callable[..., bool]) -> Truth:
    return lambda row: None if row[at] is None else test(row[at])


CONDITIONS: dict[str, Truth] = {
    "id < 3": _compare(0, lambda id: id < 3),
    "t.n > 1": _compare(2, lambda n: n > 1),
    "n IN (0, 2)": _compare(2, lambda n: n in (0, 2)),
    "t.v IS NULL": lambda row: row[1] is None,
    "length(t.v) > 1": _compare(1, lambda v: len(v) > 1),
    "t.p = 'x'": _compare(3, lambda p: p == "x"),
    "p <> 'x'": _compare(3, lambda p: p != "x"),
    "true": lambda _: True,
}
UPDATES: dict[str, Callable[[Row], Row]] = {
    "n = n + 1": lambda row: (*row[:2], None if row[2] is None else row[2] + 1, row[3]),
    "t.v = concat(t.v, '!')": lambda row: (
        row[0], None if row[1] is None else row[1] + "!", *row[2:]
    ),
    "n = NULL, v = 'w'": lambda row: (row[0], "w", None, row[3]),
}  # fmt: skip


@hs.composite
def conditions(draw: hs.DrawFn) -> tuple[str, Truth]:
    """A condition, and its truth for a row: None is unknown."""
    text = draw(hs.sampled_from(list(CONDITIONS)))
    truth = CONDITIONS[text]
    if draw(hs.booleans()):
        return text, truth
    other = draw(hs.sampled_from(list(CONDITIONS)))
    second = CONDITIONS[other]
    if draw(hs.booleans()):
        return f"{text} AND {other}", lambda row: _and(truth(row), second(row))
    return f"NOT ({text}) OR {other}", lambda row: _or(_not(truth(row)), second(row))


def _and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _or(one: bool | None, other: bool | None) -> bool | None:
    return _not(_and(_not(one), _not(other)))


PARTS: list[str | None] = ["x", "y"]
VALUES = hs.lists(
    hs.tuples(
        hs.integers(0, 5),
        hs.sampled_from([None, "a", "bb"]),
        hs.sampled_from([None, 0, 1, 2]),
        hs.sampled_from(PARTS),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row[0],
)


@dataclass
class Model:
    """The rows of a table."""

    kind: str
    rows: list[Row] = field(default_factory=list)

    def key(self, row: Row) -> tuple[object, ...]:
        return (row[0], row[3]) if self.kind == "keyed parts" else (row[0],)

    def insert(self, new: list[Row]) -> None:
        if self.kind.startswith("keyed"):
            keys = {self.key(row) for row in new}
            self.rows = [row for row in self.rows if self.key(row) not in keys]
        self.rows += new


@dataclass(frozen=True)
class Statement:
    """A statement, and what it does to the rows."""

    text: str
    apply: Callable[[Model], None]


@hs.composite
def statements(draw: hs.DrawFn) -> Statement:
    verb = draw(hs.sampled_from(["INSERT", "INSERT", "UPDATE", "DELETE", "MERGE"]))
    if verb == "INSERT":
        new = draw(VALUES)
        return Statement(f"INSERT INTO t VALUES {_sql(new)}", lambda model: model.insert(new))
    if verb == "MERGE":
        return draw(merges())
    condition, truth = draw(conditions())
    if verb == "DELETE":
        return Statement(
            f"DELETE FROM t WHERE {condition}",
            lambda model: _replace(model, lambda row: None if truth(row) else row),
        )
    change = draw(hs.sampled_from(list(UPDATES)))
    return Statement(
        f"UPDATE t SET {change} WHERE {condition}",
        lambda model: _replace(model, lambda row: UPDATES[change](row) if truth(row) else row),
    )


@hs.composite
def merges(draw: hs.DrawFn) -> Statement:
    new = draw(VALUES)
    condition, truth = draw(conditions())
    left, is_left = draw(conditions())
    deletes, inserts = draw(hs.booleans()), draw(hs.booleans())
    text = (
        f"MERGE INTO t USING (SELECT * FROM VALUES {_sql(new)} AS s(k, w, m, q)) s "
        f"ON t.id = s.k AND t.p = s.q WHEN MATCHED AND ({condition}) THEN "
        f"{'DELETE' if deletes else 'UPDATE SET t.n = s.m'} "
        f"WHEN NOT MATCHED BY SOURCE AND ({left}) THEN UPDATE SET v = 'left'"
    )
    if inserts:
        text += " WHEN NOT MATCHED THEN INSERT (id, v, n, p) VALUES (k, w, m, q)"

    def apply(model: Model) -> None:
        source = {(row[0], row[3]): row for row in new}
        present = {(row[0], row[3]) for row in model.rows}

        def changed(row: Row) -> Row | None:
            found = source.get((row[0], row[3]))
            if found is None:
                return (row[0], "left", *row[2:]) if is_left(row) else row
            if not truth(row):
                return row
            return None if deletes else (*row[:2], found[2], row[3])

        added = [row for row in new if (row[0], row[3]) not in present] if inserts else []
        _replace(model, changed)
        model.insert(added)

    return Statement(text, apply)


def _replace(model: Model, change: Callable[[Row], Row | None]) -> None:
    model.rows = [new for row in model.rows if (new := change(row)) is not None]


def _sql(new: list[Row]) -> str:
    def literal(value: object) -> str:
        if value is None:
            return "NULL"
        return f"'{value}'" if isinstance(value, str) else str(value)

    return ", ".join(f"({', '.join(map(literal, row))})" for row in new)


@pytest.fixture(scope="module")
def changing(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SparkLake, Iterator[int]]:
    """A lake, and numbers for its databases."""
    return connect(spark, tmp_path_factory.mktemp("changing")), count()


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(hs.sampled_from(list(KINDS)), hs.lists(statements(), min_size=2, max_size=5))
def test_statements_leave_the_rows_of_a_list(
    changing: tuple[SparkLake, Iterator[int]], kind: str, sequence: list[Statement]
) -> None:
    lake, numbers = changing
    database = f"d{next(numbers)}"
    lake.sql(f"CREATE DATABASE {database}")
    lake.sql(f"USE {database}")
    lake.sql(f"CREATE TABLE t (id INT, v STRING, n INT, p STRING) {KINDS[kind]}")
    model = Model(kind)
    for statement in sequence:
        if kind == "keyed" and statement.text.startswith("MERGE") and "INSERT" in statement.text:
            continue  # A row of another p would be added to the one of its key.
        lake.sql(statement.text)
        statement.apply(model)
        found = rows(lake.table(f"{database}.t"))
        assert found == sorted(model.rows, key=repr), statement.text
