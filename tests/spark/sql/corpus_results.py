"""Statements of Spark's SQL test inputs, run by plain Spark and over a lake, and what differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.sql.spark_inputs import settings, statements_with_imports

from headwater.spark import SparkLake
from headwater.storage.errors import HeadwaterError

Run = Callable[[str], DataFrame | None]

_TEST_DATA = {
    "testdata": "SELECT CAST(id AS INT) key, CAST(id AS STRING) value FROM range(1, 101)",
    "arraydata": (
        "SELECT * FROM VALUES (array(1, 2, 3), array(array(1, 2, 3))), "
        "(array(2, 3, 4), array(array(2, 3, 4))) AS t(arraycol, nestedarraycol)"
    ),
    "mapdata": (
        "SELECT map(1, 'a1', 2, 'b1', 3, 'c1', 4, 'd1', 5, 'e1') mapcol "
        "UNION ALL SELECT map(1, 'a2', 2, 'b2', 3, 'c2', 4, 'd2') "
        "UNION ALL SELECT map(1, 'a3', 2, 'b3', 3, 'c3')"
    ),
}
"""The views that Spark's ``SQLQueryTestSuite`` makes before it runs a file."""
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_TEMPORARY_VIEW = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+(\w+)(?=\s*(?:\(|AS\b))", re.IGNORECASE
)
_DROP_VIEW = re.compile(r"DROP\s+VIEW\s+(?:IF\s+EXISTS\s+)?(\w+)$", re.IGNORECASE)
_CREATED = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?(?:TABLE|VIEW|FUNCTION|TEMP(?:ORARY)?\s+\w+)"
    r"\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:\w+\.)*(\w+)",
    re.IGNORECASE,
)
_ALTERED = re.compile(r"ALTER\s+(?:TABLE|VIEW)\s+(?:\w+\.)*(\w+)", re.IGNORECASE)
_WORD = re.compile(r"\w+")
# Other statements answer with plans, with how a table is stored, or with nothing.
_HAS_ROWS = re.compile(
    r"\(|(?:SELECT|WITH|VALUES|FROM|TABLE|EXECUTE\s+IMMEDIATE|BEGIN|SHOW\s+(?:TABLES|VIEWS|COLUMNS))\b"
    r"|DESC(?:RIBE)?\s+(?!.*\b(?:EXTENDED|FORMATTED|FUNCTION|JSON)\b)",
    re.IGNORECASE | re.DOTALL,
)
_WRITES = re.compile(r"\bINSERT\s+(?:INTO|OVERWRITE)\b", re.IGNORECASE)
_LOCAL_FILES = re.compile(r"(?:ADD|LIST)\s+(?:JAR|FILE|ARCHIVE)", re.IGNORECASE)


class Kind(StrEnum):
    """How the two runs of a statement differ."""

    FAILS_HERE = "fails here"
    FAILS_IN_SPARK = "fails in Spark"
    ROWS = "rows"
    COLUMNS = "column names"


@dataclass(frozen=True)
class Difference:
    """A statement whose two runs differ, and what each gave."""

    statement: str
    kind: Kind
    spark: str
    here: str


@dataclass
class FileResult:
    """What became of a file's statements.

    Attributes:
        statements: How many there are.
        tables: How many temporary views were tables of the lake.
        consequences: How many are not compared, as they name what only one of them could make.
        differences: The others whose two runs differ.
    """

    statements: int = 0
    tables: int = 0
    consequences: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class _Outcome:
    error: str | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.error or f"{', '.join(self.columns)}: {' '.join(self.rows[:5])}"


def compare_file(path: Path, plain: SparkSession, lake: SparkLake) -> FileResult:
    """Run a file's statements by both, and compare their rows, columns and whether they fail.

    Temporary views that are queries are tables of the lake there, where a table can have their
    types, so that queries over them read tables. A statement about a table that only Spark could
    create, or only the lake could change, is not compared.

    Args:
        path: The file.
        plain: A session of its own, in a database without tables. Its catalog is empty again
            before the lake's statements run.
        lake: A lake in a session of its own, in a database without tables.
    """
    result = FileResult()
    tables = set(_TEST_DATA)
    rejected: set[str] = set()
    for name, query in _TEST_DATA.items():
        lake.sql(f"CREATE TABLE {name} AS {query}")
    for setting in settings(path):
        lake.sql(setting)
    for statement, expected in _plain_outcomes(path, plain):
        bare = _COMMENT.sub(" ", statement).strip()
        result.statements += 1
        if expected.error is None and rejected & set(_WORD.findall(bare.lower())):
            result.consequences += 1
            continue
        ours = _over_tables(bare, statement, tables)
        view = _TEMPORARY_VIEW.match(bare)
        if ours != statement and view is not None and expected.error is None:
            name = view[1].lower()
            lake.sql(f"DROP TABLE IF EXISTS {name}")
            if _outcome(lake.sql, ours).error is None:
                tables.add(name)
                result.tables += 1
                continue
            tables.discard(name)
            ours = statement
        actual = _outcome(lake.sql, ours)
        difference = _difference(statement, bare, expected, actual)
        if difference is None:
            continue
        result.differences.append(difference)
        made = _CREATED if difference.kind is Kind.FAILS_HERE else _ALTERED
        table = made.match(bare)
        if table is not None and difference.kind is not Kind.ROWS:
            rejected.add(table[1].lower())
    return result


def _plain_outcomes(path: Path, plain: SparkSession) -> list[tuple[str, _Outcome]]:
    """The statements of a file and what plain Spark gives; its catalog is empty afterwards."""
    _empty_catalog(plain)
    for name, query in _TEST_DATA.items():
        plain.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {query}")
    # As `connect` sets it.
    plain.sql("SET spark.sql.timeType.enabled = true")
    for setting in settings(path):
        plain.sql(setting)
    outcomes = [
        (statement, _outcome(plain.sql, statement))
        for statement in statements_with_imports(path)
        if not _LOCAL_FILES.match(_COMMENT.sub(" ", statement).strip())
    ]
    _empty_catalog(plain)
    return outcomes


def _empty_catalog(spark: SparkSession) -> None:
    """Drop what all sessions of a Spark share: databases, tables, functions, global views."""
    spark.sql("RESET")
    spark.sql("USE default")
    for (name,) in spark.sql("SHOW DATABASES").collect():
        if name != "default":
            spark.sql(f"DROP DATABASE `{name}` CASCADE")
    for row in spark.sql("SHOW TABLES IN default").collect():
        if not row["isTemporary"]:
            kind = "VIEW" if _is_view(spark, row["tableName"]) else "TABLE"
            spark.sql(f"DROP {kind} default.`{row['tableName']}`")
    for row in spark.sql("SHOW TABLES IN global_temp").collect():
        if row["namespace"] == "global_temp":
            spark.catalog.dropGlobalTempView(row["tableName"])
    for (name,) in spark.sql("SHOW USER FUNCTIONS IN default").collect():
        if name.startswith("spark_catalog.default."):
            spark.sql(f"DROP FUNCTION default.`{name.rpartition('.')[2]}`")


def _is_view(spark: SparkSession, name: str) -> bool:
    return spark.catalog.getTable(f"default.`{name}`").tableType == "VIEW"


def _over_tables(bare: str, statement: str, tables: set[str]) -> str:
    """A statement about a temporary view, as one about a table."""
    if _TEMPORARY_VIEW.match(bare):
        return _TEMPORARY_VIEW.sub(r"CREATE TABLE \1", bare, count=1)
    dropped = _DROP_VIEW.match(bare)
    if dropped is not None and dropped[1].lower() in tables:
        tables.discard(dropped[1].lower())
        return f"DROP TABLE IF EXISTS {dropped[1]}"
    return statement


def _outcome(run: Run, statement: str) -> _Outcome:
    try:
        frame = run(statement)
        if frame is None:
            return _Outcome()
        rows = tuple(sorted(repr(_comparable(row)) for row in frame.collect()))
        return _Outcome(None, rows, tuple(name.lower() for name in frame.columns))
    except (HeadwaterError, PySparkException, Py4JError) as error:
        return _Outcome(f"{type(error).__name__}: {str(error).splitlines()[0][:300]}")


def _comparable(value: object) -> object:
    """A value whose text is that of equal values."""
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        pairs = ([_comparable(key), _comparable(item)] for key, item in value.items())
        return sorted(pairs, key=repr)
    return value


def _difference(
    statement: str, bare: str, expected: _Outcome, actual: _Outcome
) -> Difference | None:
    if expected.error is not None and actual.error is not None:
        return None
    if actual.error is not None:
        kind = Kind.FAILS_HERE
    elif expected.error is not None:
        kind = Kind.FAILS_IN_SPARK
    elif not _HAS_ROWS.match(bare) or _WRITES.search(bare):
        return None
    elif expected.rows != actual.rows:
        kind = Kind.ROWS
    elif expected.columns != actual.columns:
        kind = Kind.COLUMNS
    else:
        return None
    return Difference(statement, kind, str(expected), str(actual))
