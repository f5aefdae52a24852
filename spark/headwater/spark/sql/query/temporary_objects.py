"""What only one session has: functions and variables that no view of the catalog may name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.session import is_connect
from headwater.spark.sql.query.references import FunctionCall
from headwater.storage.errors import Invalid

__all__ = ["refuse_temporary_functions", "refuse_variables", "system_functions"]

_SESSION = (("session",), ("system", "session"))
_VARIABLE = re.compile(r"\bvariablereference\(system\.session\.(`(?:[^`]|``)*`|\w+)=")
_FIELDS_SHOWN = "spark.sql.debug.maxToStringFields"


def refuse_temporary_functions(
    calls: Sequence[FunctionCall], spark: SparkSession, owner: str
) -> None:
    """Refuse calls of the session's functions in the query of a view or function.

    Args:
        calls: The calls in the query.
        spark: The session.
        owner: The view or function.

    Raises:
        Invalid: One of them is a temporary function's.
    """
    named = {
        call.parts[-1].lower(): ".".join(call.parts)
        for call in calls
        if len(call.parts) == 1 or tuple(map(str.lower, call.parts[:-1])) in _SESSION
    }
    if not named:
        return
    listed = {name for (name,) in spark.sql("SHOW USER FUNCTIONS").collect()}
    temporary = named.keys() & listed
    # Spark looks for its own first.
    is_system = system_functions(spark) if temporary else frozenset()
    for name in sorted(temporary):
        if "." in named[name] or name not in is_system:
            raise Invalid(
                f"{owner}: '{named[name]}' is a temporary function of this session, which "
                "other sessions do not have; CREATE FUNCTION it in the catalog, or write what it "
                "does into the query"
            )


def system_functions(spark: SparkSession) -> frozenset[str]:
    """The names of Spark's own functions."""
    return frozenset(name for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect())


def refuse_variables(frame: DataFrame, owner: str) -> None:
    """Refuse a query with a session variable for that of a view or function.

    A name that may be a column's or a variable's is the column's: only Spark's plan says which.

    Args:
        frame: The query.
        owner: The view or function.

    Raises:
        Invalid: There is a variable in it.
    """
    spark = frame.sparkSession
    if is_connect(spark):
        name = _variable(_analysed_on_server(frame, spark))
        if name is None:
            return
    else:
        java: Any = spark._jvm
        pattern = java.org.apache.spark.sql.catalyst.trees.TreePattern.VARIABLE_REFERENCE()
        plan = frame._jdf.queryExecution().analyzed()
        if not plan.containsPattern(pattern):
            return
        name = _variable(str(plan.toString()))
    variable = "a variable" if name is None else f"'{name}', a variable"
    raise Invalid(
        f"{owner}: its query names {variable} of this session, which other sessions do not "
        "have; write its value into the query"
    )


def _analysed_on_server(frame: DataFrame, spark: SparkSession) -> str:
    """A plan as Spark Connect shows it, with all of its expressions."""
    shown: Any = frame
    before = spark.conf.get(_FIELDS_SHOWN)
    spark.conf.set(_FIELDS_SHOWN, str(2**31 - 1))
    try:
        text = str(shown._explain_string(mode="extended"))
    finally:
        spark.conf.set(_FIELDS_SHOWN, str(before))
    return text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical")[0]


def _variable(plan: str) -> str | None:
    match = _VARIABLE.search(plan)
    return None if match is None else match[1].strip("`").replace("``", "`")
