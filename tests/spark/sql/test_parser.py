"""The names that our parser of Spark SQL finds in queries, and what it rejects."""

from __future__ import annotations

import pytest
from tests.spark.sql.syntax_names import Names, our_names

from headwater.spark.sql.parser import UnsupportedSyntax, string_value, tokenize
from headwater.spark.sql.query.references import QueryNames, find_references, parse_query
from headwater.storage.errors import Invalid, Unsupported


def names_of(query: str) -> Names:
    return our_names(parse_query(query)[0])


def tables(query: str) -> list[str]:
    return [".".join(table.parts) for table in references(query).tables]


def references(query: str) -> QueryNames:
    return find_references(query, warehouse="main", database="d")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("TABLE a", ["a"]),
        ("SELECT * FROM (TABLE a)", ["a"]),
        ("SELECT * FROM ((a JOIN b ON a.x = b.x) CROSS JOIN c) AS j", ["a", "b", "c"]),
        ("FROM a |> WHERE x > 1 |> UNION ALL TABLE b |> JOIN c USING (x)", ["a", "b", "c"]),
        ("FROM a SELECT x SELECT y WHERE y IN (TABLE b)", ["a", "b"]),
        ("SELECT x FROM a, LATERAL (SELECT y FROM b WHERE b.z = a.z) l", ["a", "b"]),
        ("SELECT CASE WHEN EXISTS (SELECT 1 FROM b) THEN 1 END FROM a", ["b", "a"]),
        ("SELECT sum(x) FILTER (WHERE x > (TABLE b)) OVER w FROM a WINDOW w AS ()", ["b", "a"]),
        ("SELECT x FROM a GROUP BY x, ROLLUP(y, (SELECT 1 FROM b)) HAVING x > 1", ["a", "b"]),
        ("SELECT * FROM f(TABLE(a)) JOIN f(x => (SELECT 1 FROM b), TABLE c)", ["a", "b", "c"]),
        ("SELECT * FROM a PIVOT (sum(x) AS s FOR y IN (1, 2)) UNPIVOT (z FOR k IN (u, v))", ["a"]),
        ("SELECT * FROM a LATERAL VIEW OUTER explode(xs) t AS x, y WHERE x > 1", ["a"]),
        ("SELECT TRANSFORM(x, y) USING 'cat' AS (p INT, q STRING) FROM a", ["a"]),
        ("SELECT transform(xs, x -> x + 1) FROM a", ["a"]),
        ("SELECT * FROM VALUES (1, (SELECT 2 FROM a)), (3, 4) AS v(p, q)", ["a"]),
        ("SELECT * FROM a TABLESAMPLE (9 ROWS) REPEATABLE (3) AS s LEFT ANTI JOIN b", ["a", "b"]),
        ("SELECT * FROM a VERSION AS OF 3 v, b FOR TIMESTAMP AS OF now() - INTERVAL 1 DAY", [
            "a", "b"]),
        ("SELECT x IS DISTINCT FROM y, x NOT IN (1, 2), x LIKE ANY ('a', 'b') FROM a", ["a"]),
        ("SELECT extract(YEAR FROM x), trim(BOTH 'a' FROM y), position('a' IN z) FROM a", ["a"]),
        ("SELECT x::ARRAY<MAP<STRING, INT>>, y:f.g[0]::INT, z COLLATE UNICODE_CI FROM a", ["a"]),
        ("SELECT INTERVAL '1-2' YEAR TO MONTH, INTERVAL 1 DAY 2 HOURS, DATE '2026-01-01' FROM a", [
            "a"]),
        ("SELECT /* FROM x /* JOIN y */ */ 1 -- FROM z\nFROM a", ["a"]),
        ("SELECT /*+ BROADCAST(b), COALESCE(3) */ * FROM a /*+ OPTIONS('k' = 'v') */ x", ["a"]),
        ("SELECT 'FROM x', \"FROM y\", r'\\FROM z' FROM `a``b`.`c d`", ["a`b.c d"]),
        ("SELECT * FROM IDENTIFIER('s.`t u`') JOIN IDENTIFIER('x').y", ["s.t u", "x.y"]),
        ("SELECT * FROM d.t$branch_b$files, größe", ["d.t$branch_b$files", "größe"]),
        ("SELECT * FROM stream WHERE x > 1 LIMIT 3", ["stream"]),
        ("WITH edges(from, to) AS (TABLE a) SELECT * EXCEPT (from, map) FROM edges", ["a"]),
        ("FROM a ASOF JOIN b MATCH_CONDITION (a.x > b.x) ON a.i = b.i", ["a", "b"]),
        ("SELECT * FROM a WHERE dt = ${dt} AND ${x}y > 1", ["a"]),
        (" UNION ALL ".join(["SELECT 1 FROM a"] * 3000), ["a"] * 3000),
        ("(SELECT 1 FROM a) UNION (SELECT 2 FROM b ORDER BY 1 LIMIT 3) ORDER BY 1", ["a", "b"]),
    ],
)  # fmt: skip
def test_the_tables_of_a_query(query: str, expected: list[str]) -> None:
    assert tables(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH a AS (TABLE x), b AS (TABLE a) TABLE b", ["x"]),
        ("WITH RECURSIVE r(n) AS (TABLE s UNION ALL SELECT n + 1 FROM r) TABLE r", ["s"]),
        ("SELECT (WITH a AS (TABLE x) SELECT max(n) FROM A) FROM a", ["x", "a"]),
        ("WITH a AS (TABLE x) SELECT * FROM d.a", ["x", "d.a"]),
    ],
)
def test_names_of_with_hide_tables(query: str, expected: list[str]) -> None:
    assert tables(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT d.t.x, t.y, main.d.t.z, t.s.f FROM d.t", ["d.t", "main.d.t"]),
        ("SELECT d.t.* FROM t JOIN e.t ON e.t.x = d.t.x", ["d.t", "e.t", "d.t"]),
        ("SELECT d.t.x FROM d.t AS t", []),
        ("SELECT e.t.x FROM t", []),
        ("SELECT 1 FROM d.t WHERE EXISTS (SELECT 1 FROM d.u WHERE d.u.x = d.t.x)", ["d.u", "d.t"]),
        ("SELECT transform(xs, d -> d.t.x) FROM d.t", []),
        ("TABLE d.t |> WHERE d.t.x > 1 |> SELECT t.x", ["d.t"]),
    ],
)
def test_the_tables_that_columns_name(query: str, expected: list[str]) -> None:
    names = references(query)
    places = sorted(
        (qualifier.start, qualifier.end) for qualifier in names.qualifiers if not qualifier.is_plain
    )
    written = [query[start:end] for start, end in places]
    assert written == expected
    assert all(qualifier.table in names.tables for qualifier in names.qualifiers)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM d.t WHERE EXISTS (SELECT 1 FROM e.t WHERE e.t.id = d.t.id)",
        "SELECT * FROM d.t WHERE EXISTS (SELECT 1 FROM e.s AS t WHERE t.id = d.t.id)",
        "WITH t AS (TABLE x) SELECT * FROM d.t WHERE EXISTS (SELECT 1 FROM t WHERE t.id = d.t.id)",
        "SELECT t.x, d.t.y FROM d.t UNION ALL SELECT t.x, 1 FROM e.t",
    ],
)
def test_tables_that_a_column_could_mix_up_need_aliases_of_their_own(query: str) -> None:
    names = references(query)
    assert names.tables[-1 if "x)" in query else 0] in names.ambiguous


def test_names_are_folded_as_spark_folds_them() -> None:
    names = references("WITH strasse AS (TABLE x) SELECT d.t.x FROM straße, d.T")
    assert [".".join(table.parts) for table in names.tables] == ["x", "straße", "d.T"]
    assert len(names.qualifiers) == 1


def test_functions_and_common_tables() -> None:
    names = names_of(
        "WITH q AS (SELECT shop.f(x, y => g(1)) FROM range(3)) "
        "SELECT array_sort(xs, (l, r) -> shop.cmp(l, r)), current_date FROM q WHERE h(h(1)) = 2"
    )
    assert names.functions == {"shop, f", "g", "array_sort", "shop, cmp", "h"}
    assert list(names.table_functions) == ["[range]"]
    assert list(names.common_tables) == ["q"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 FROM", "line 1, column 14: the statement ends where a name"),
        ("SELECT 1 +", "an expression is expected"),
        ("SELECT (1", r"the statement ends where \) is expected"),
        ("SELECT 1 FROM a b c d", "there is 'c d' where the end of the query"),
        ("SELECT *\nFROM a\nWHERE x IN 3", r"line 3, column 12: there is '3' where \( is expected"),
        ("SELECT * FROM where", "there is 'where' where the name of a table"),
        ("SELECT * FROM a CHANGES FROM VERSION 1", "'CHANGES FROM VERSION 1' where a table fun"),
        ("SELECT * FROM a@v3", "VERSION AS OF"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "nested too deeply"),
        ("FROM a |> nothing", "the operator of a pipe"),
    ],
)
def test_what_is_not_understood_is_rejected_with_its_location(query: str, message: str) -> None:
    with pytest.raises(UnsupportedSyntax, match=message):
        tables(query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 'a", "line 1, column 8: a string is not closed"),
        ("SELECT\n `a", "line 2, column 2: a name in backquotes is not closed"),
        ("SELECT /* a /* b */ 1", "line 1, column 8: a comment is not closed"),
        ("SELECT * FROM a /*+ OPTIONS('k' = 'v') WHERE x = 1", "column 17: a hint is not closed"),
        ("SELECT * FROM a VERSION AS OF 1 + 2", "a version is a snapshot's id, or a tag's name"),
        ("SELECT * FROM a WITH ('k' = 1, 'k' = 2)", "'k' stands twice"),
        ("SELECT * FROM a WITH (k l m)", "options of a table cannot be read: line 1, column 27"),
        ("SELECT * FROM paimon_incremental_query('a', x, 2)", "each a constant"),
        ("WITH a AS (TABLE b) SELECT * FROM a VERSION AS OF 1", "'a' is a query of WITH"),
    ],
)
def test_bad_clauses_are_errors(query: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        tables(query)


def test_a_name_that_is_computed_is_rejected() -> None:
    with pytest.raises(Unsupported, match="give the name as a string"):
        tables("SELECT * FROM IDENTIFIER('a' || :b)")


def test_brackets_in_brackets_are_read_once() -> None:
    depth = 60
    inner = "(" * depth + "SELECT 1 FROM a" + ") + 1" * depth
    assert tables(f"SELECT {inner}") == ["a"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'a\nb'", "a\nb"),
        ("'it''s'", "it's"),
        (r"r'\d'", r"\d"),
        (r"'\u0041\%\_\\'", r"A\%\_" + "\\"),
        ("$$a'b$$", "a'b"),
        ("$x$a$$b$x$", "a$$b"),
    ],
)
def test_the_values_of_strings(written: str, value: str) -> None:
    (token,) = tokenize(written)
    assert string_value(token) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5a", ["1", ".", "5a"]),
        ("12L 1e5 .5BD 3. 1.5E-3D 7y", ["12L", "1e5", ".5BD", "3.", "1.5E-3D", "7y"]),
        ("a<=>b>>>c|>d!<e::f", ["a", "<=>", "b", ">>>", "c", "|>", "d", "!<", "e", "::", "f"]),
        ("gs://bucket/a-b.c x", ["gs://bucket/a-b.c", "x"]),
        ("2024_sales 1ab", ["2024_sales", "1ab"]),
        ("/*+ a */", ["/*+", "a", "*/"]),
    ],
)
def test_tokens_are_those_of_sparks_lexer(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokenize(text)] == expected
