"""The columns and rows that a query needs of each of its tables, as Spark's optimiser sees it.

The query is planned over placeholder relations without rows. In the optimised plan each of them
shows which of its columns are read, and under which condition: that plan gives the query's result
whatever the tables hold, so that nothing else of them can matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyspark.sql.types as st
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.char_types import TYPE_KEY
from headwater.spark.names import quoted
from headwater.spark.session import active_session
from headwater.storage.errors import Invalid
from headwater.storage.predicate.char_columns import compared_as_they_are
from headwater.storage.predicate.filter import Constant, Or, Predicate
from headwater.storage.predicate.sql_text import exact_predicate, implied_predicate
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["Need", "filter_of", "needs_of", "stand_in"]

_LEAF = "LogicalRDD"
_NOTHING = "LocalRelation"
_ROW_BY_ROW = frozenset({"Filter", "Project"})
_COLUMN = re.compile(r"\bheadwater_(\d+)_(\d+)#")
# Or a text or a name, in which the same letters say nothing.
_TIMESTAMP = re.compile(r"\bTIMESTAMP '([^']*)'|'(?:[^'\\]|\\.)*'|`[^`]*`", re.DOTALL)
_CAST_TO_TIMESTAMP = re.compile(r"\bAS TIMESTAMP(_LTZ)?\)", re.IGNORECASE)
_LEAF_NAME = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\bheadwater_(\d+)_(\d+)\b", re.DOTALL)
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::(\d\d))?")
# Beyond, zones differ between Java's and Python's rules.
_YEARS = range(1900, 2038)


@dataclass(frozen=True)
class Need:
    """A part of a table.

    Attributes:
        columns: The places of the columns in the table.
        conditions: Conditions of which one is true for each row needed, over the columns of
            placeholder relation 0; empty if no row is needed. None in the place of one that is
            true for all rows.
    """

    columns: frozenset[int]
    conditions: tuple[str | None, ...]

    def without_conditions(self) -> Need:
        """The same columns of all rows."""
        return Need(self.columns, (None,))

    def names(self, schema: st.StructType) -> list[str]:
        """The names of the columns."""
        return [name for at, name in enumerate(schema.fieldNames()) if at in self.columns]

    def predicate(
        self,
        schema: st.StructType,
        table: TableSchema,
        time_zone: str,
        fields: Mapping[str, str] | None = None,
        *,
        filled: Mapping[str, int] | None = None,
        exact: bool = False,
    ) -> Predicate | None:
        """A predicate that is true for all rows needed; None if that is all it could say.

        Args:
            schema: The placeholder relation's columns.
            table: The table's schema.
            time_zone: The session's, in which Spark writes timestamps.
            fields: The table's columns that are fields of the relation's structs, too, by the
                names ``struct.field``.
            filled: `CharColumns.lengths` of the placeholder relation's columns.
            exact: The predicate is true for no other rows; None if that cannot be said.
        """
        leaves = {name: _leaf_name(0, at) for at, name in enumerate(schema.fieldNames())}
        columns = {leaf: name for name, leaf in leaves.items()}
        for path, name in (fields or {}).items():
            struct, _, field = path.partition(".")
            if name not in (filled or {}):
                columns[f"{leaves[struct]}.{field}"] = name
        parts: list[Predicate] = []
        read = exact_predicate if exact else implied_predicate
        for condition in self.conditions:
            if condition is None:
                return Constant(True) if exact else None
            if _CAST_TO_TIMESTAMP.search(condition):
                return None
            part = read(_with_zones(condition, time_zone), table, columns)
            if part is not None:
                part = compared_as_they_are(part, table, (filled or {}).keys(), exact=exact)
            if part is None:
                return None
            parts.append(part)
        if not parts:
            return Constant(False)
        return parts[0] if len(parts) == 1 else Or(tuple(parts))


def stand_in(
    spark: SparkSession, number: int, schema: st.StructType, *, runs: bool = True
) -> DataFrame:
    """A frame without rows, which Spark does not know to have none.

    Args:
        spark: A session that is not Spark Connect's.
        number: Tells the placeholder relations of a query apart.
        schema: Its columns.
        runs: False if running it is an error, as that would say that the table is empty.
    """
    return _stand_in(spark, number, schema.json(), runs)


@lru_cache(maxsize=512)
def _stand_in(spark: SparkSession, number: int, schema_json: str, runs: bool) -> DataFrame:
    schema = st.StructType.fromJson(_parsed(schema_json))
    # Names that no other column has: they tell whose column it is wherever a plan shows it.
    fields = [
        st.StructField(_leaf_name(number, at), field.dataType, nullable=True)
        for at, field in enumerate(schema.fields)
    ]
    session: Any = spark._jsparkSession
    declared = session.parseDataType(st.StructType(fields).json())
    context = spark.sparkContext
    rows: Any = spark._jsc.emptyRDD() if runs else context.range(1).map(_refuse_to_run)._jrdd
    leaf = DataFrame(session.createDataFrame(rows, declared), spark)
    named = leaf.toDF(*schema.fieldNames())
    typed = {
        field.name: sf.col(quoted(field.name)).alias(field.name, metadata=dict(field.metadata))
        for field in schema.fields
        if TYPE_KEY in field.metadata
    }
    return named.withColumns(typed) if typed else named


def _refuse_to_run(_: int) -> None:
    raise Invalid(
        "the function may not run the frames that it is given (count, collect, show, a write): it "
        "is to make a frame, which is run afterwards"
    )


def needs_of(frame: DataFrame, count: int) -> list[Need] | None:
    """The need for each of a query's placeholder relations; None when its plan is not to be had.

    Args:
        frame: The query over placeholder relations.
        count: The number of placeholder relations.
    """
    try:
        plan: Any = frame._jdf.queryExecution().optimizedPlan()
        result = [_Found() for _ in range(count)]
        with active_session(frame.sparkSession):
            for root in (plan, *_listed(plan.subqueriesAll())):
                _walk(root, (), result)
    except (PySparkException, Py4JError):
        return None
    return [Need(frozenset(each.columns), tuple(dict.fromkeys(each.conditions))) for each in result]


class _Found:
    def __init__(self) -> None:
        self.columns: set[int] = set()
        self.conditions: list[str | None] = []


def filter_of(frame: DataFrame) -> Need | None:
    """The need for the rows of placeholder relation 0 in a frame of those that fulfil a condition.

    Returns:
        None where more than the rows themselves decides, as in subqueries, and when the plan is
        not to be had.
    """
    result = needs_of(frame, 1)
    if result is None:
        return None
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    names: list[str] = []
    while (children := list(_listed(plan.children()))) and len(children) == 1:
        names.append(str(plan.nodeName()))
        plan = children[0]
    leaf = str(plan.nodeName())
    # What no row can fulfil is planned as an empty relation.
    is_alone = not children and leaf in (_LEAF, _NOTHING) and set(names) <= _ROW_BY_ROW
    return result[0] if is_alone else None


def _walk(node: Any, above: tuple[tuple[str, Any], ...], found: Sequence[_Found]) -> None:
    """Look at a plan from its root down; `above` are a node's ancestors, the nearest first."""
    name = str(node.nodeName())
    if name == _LEAF:
        _leaf(node, above, found)
        return
    for child in _listed(node.children()):
        _walk(child, ((name, node), *above[:2]), found)


def _leaf(node: Any, above: Sequence[tuple[str, Any]], found: Sequence[_Found]) -> None:
    own = _COLUMN.findall(str(node.outputSet().toString()))
    if not own or int(own[0][0]) >= len(found):
        return
    number = int(own[0][0])
    target = found[number]
    conditions: list[str] = []
    used: set[int] = set()
    ancestors = list(above)
    while ancestors and ancestors[0][0] == "Filter":
        _, filtering = ancestors.pop(0)
        conditions.append(str(filtering.condition().sql()))
        used |= _columns(filtering)
    if ancestors and ancestors[0][0] == "Project":
        used |= _columns(ancestors[0][1])
    else:
        used = {int(at) for _, at in own}
    target.columns |= used
    target.conditions.append(_own(" AND ".join(f"({each})" for each in conditions), number) or None)


def _own(condition: str, number: int) -> str:
    """A condition over a placeholder relation, as it is over placeholder relation 0.

    Equal needs of two of them are then equal. No column there has the name of another's.
    """

    def renamed(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return _leaf_name(0, int(match[2])) if int(match[1]) == number else "other"

    return _LEAF_NAME.sub(renamed, condition)


def _columns(node: Any) -> set[int]:
    return {int(at) for _, at in _COLUMN.findall(str(node.references().toString()))}


def _listed(sequence: Any) -> Iterator[Any]:
    for item in range(sequence.size()):
        yield sequence.apply(item)


def _leaf_name(number: int, at: int) -> str:
    return f"headwater_{number}_{at}"


def _parsed(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text)
    return parsed


# Timestamps -----------------------------------------------------------------------------------


def _with_zones(condition: str, time_zone: str) -> str:
    """A condition whose timestamps say their zone.

    One that cannot be told for sure becomes what no predicate can say.
    """

    def zoned(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        instant = _moment(match[1], time_zone)
        return "unknown()" if instant is None else f"TIMESTAMP '{instant.isoformat(' ')}'"

    return _TIMESTAMP.sub(zoned, condition)


def _moment(text: str, time_zone: str) -> datetime | None:
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        return None
    if local.tzinfo is not None or local.year not in _YEARS:
        return None
    offset = _OFFSET.fullmatch(time_zone)
    if offset is not None:
        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        zoned = local.replace(tzinfo=timezone(-shift if offset[1] == "-" else shift))
        return zoned.astimezone(UTC)
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return None
    first, second = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    # When clocks are put back, one local time is two instants.
    return first if first == second else None
