"""Queries of Spark's own SQL tests: our parser finds the names that Spark's finds."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from tests.spark.sql.spark_inputs import input_files, inputs_folder, statements
from tests.spark.sql.syntax_names import our_names, sparks_names

from headwater.spark.sql.parser import Cursor, QueryParser, UnsupportedSyntax, tokenize
from headwater.storage.errors import Invalid

pytestmark = [pytest.mark.spark, pytest.mark.spark_corpus]

UNSUPPORTED = {
    "table other\n|> aggregate group by": "GROUP BY of a column that is called BY",
    'SELECT nvl(st.col1, "value"), count(*) FROM from tempView1 GROUP BY nvl(st.col1, "value")': (
        "a column that is called FROM"
    ),
}
"""Queries that Spark reads and our parser rejects by name, and what they have."""
MIN_QUERIES = 11_000
# Spark's plan does not have the name of such a function yet.
_COMPUTED_CALL = re.compile(r"IDENTIFIER\([^)]*\)\(", re.IGNORECASE)


def test_names_are_those_of_sparks_parser(spark: SparkSession) -> None:
    seen: set[str] = set()
    differences: list[str] = []
    rejected: list[str] = []
    compared = 0
    for path in input_files(inputs_folder()):
        for statement in statements(path):
            if statement in seen or "${" in statement:
                continue
            seen.add(statement)
            cursor = _cursor(statement)
            if cursor is None or not QueryParser(cursor).at_query():
                continue
            names = sparks_names(spark, statement)
            if names is None or _writes(statement) or _COMPUTED_CALL.search(statement):
                continue
            compared += 1
            try:
                ours = our_names(QueryParser(cursor).query())
                if not cursor.at_end:
                    raise cursor.unexpected("the end")
            except UnsupportedSyntax:
                rejected.append(statement)
                continue
            if ours != names:
                differences.append(f"{path.name}: {statement}\nours: {ours}\nSpark's: {names}")
    assert not differences, f"{len(differences)} queries:\n" + "\n\n".join(differences[:20])
    assert sorted(set(rejected) - UNSUPPORTED.keys()) == []
    assert compared > MIN_QUERIES


def test_no_statement_is_an_internal_error() -> None:
    messages: set[str] = set()
    for path in input_files(inputs_folder()):
        for statement in statements(path):
            cursor = _cursor(statement)
            if cursor is None:
                continue
            try:
                QueryParser(cursor).query()
            except UnsupportedSyntax as error:
                messages.add(str(error))
    assert messages
    assert [message for message in messages if not message.startswith("line ")] == []


def _cursor(statement: str) -> Cursor | None:
    try:
        return Cursor(statement, tokenize(statement.rstrip("; \n")))
    except Invalid:
        return None


def _writes(statement: str) -> bool:
    """Whether a statement that begins as a query inserts its rows."""
    return any(token.keyword == "INSERT" for token in tokenize(statement))
