"""Names in double quotes, in sessions that read them as names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException

from headwater.spark import SparkLake
from headwater.spark.sql.parser.tokens import with_backquotes

pytestmark = pytest.mark.spark
SETTING = "spark.sql.ansi.doubleQuotedIdentifiers"


@pytest.fixture
def quoting(lake: SparkLake) -> Iterator[SparkLake]:
    """A session in which double quotes are those of names, with ``db`` in use."""
    lake.spark.conf.set(SETTING, "true")
    lake.sql("USE db")
    yield lake
    lake.spark.conf.unset(SETTING)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('SELECT "a b" FROM "t"', "SELECT `a b` FROM `t`"),
        ('SELECT "a""b`c", \'"\', `"`', 'SELECT `a"b``c`, \'"\', `"`'),
        ('-- "x"\n/* "y" */ "z"', '-- "x"\n/* "y" */ `z`'),
    ],
)
def test_only_names_are_rewritten(written: str, read: str) -> None:
    assert with_backquotes(written) == read


def test_statements_read_names_in_double_quotes(quoting: SparkLake) -> None:
    quoting.sql('CREATE TABLE "größen tabelle" ("a b" INT, "c""d" STRING, "e.f-g" INT)')
    quoting.sql("INSERT INTO \"größen tabelle\" VALUES (1, 'x', 2), (3, 'y', 4)")
    quoting.sql('UPDATE "größen tabelle" SET "a b" = "a b" + 10 WHERE "e.f-g" = 4')
    quoting.sql('CREATE VIEW "v w" AS SELECT "a b" AS "n", "c""d" FROM "größen tabelle"')
    quoting.sql('MERGE INTO "größen tabelle" AS "t t" USING "v w" ON "t t"."a b" = "v w"."n" '
                'AND "n" = 1 WHEN MATCHED THEN DELETE')  # fmt: skip
    query = 'SELECT "v w"."n", "c""d" FROM "v w"'
    frame = quoting.sql(query)
    assert frame.columns == ["n", 'c"d']
    assert [tuple(row) for row in frame.collect()] == [(13, "y")]
    quoting.spark.conf.set(SETTING, "false")
    # The view's query is read alike in other sessions.
    assert quoting.sql("SELECT n FROM `v w`").collect()[0][0] == 13
    assert quoting.sql('SELECT "n"').collect()[0][0] == "n"


def test_an_unknown_name_is_not_a_string(quoting: SparkLake) -> None:
    with pytest.raises(AnalysisException, match="`n` cannot be resolved"):
        quoting.sql('SELECT "n"')
