"""The words of SQL statements."""

import pytest

from headwater.spark.sql.statement import Statement, read_words, split_statements
from headwater.storage.errors import Invalid


def only(text: str) -> Statement:
    (statement,) = split_statements(text)
    return statement


def test_semicolons_part_statements_outside_of_quotes_and_comments() -> None:
    text = "USE a; ;\nSELECT 'x;y', `p;q` -- no; end\n /* ; */ FROM t;"
    assert [each.text for each in split_statements(text)] == [
        "USE a",
        "SELECT 'x;y', `p;q` -- no; end\n /* ; */ FROM t",
    ]
    assert split_statements(" ; -- nothing\n") == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("SELECT * FROM d.t$files f", "SELECT * FROM d.`t$files` f"),
        ("DESCRIBE t$branch_b$files", "DESCRIBE `t$branch_b$files`"),
        ("SELECT t$x.a, `q t`$x FROM (t$x)", "SELECT `t$x`.a, `q t$x` FROM (`t$x`)"),
        ("SELECT 'a$b', \"c$d\", `e$f` /* g$h */", "SELECT 'a$b', \"c$d\", `e$f`"),
        ("SELECT ${x}, a${x}b, 1 $ 2, $a$b", "SELECT ${x}, a${x}b, 1 $ 2, $`a$b`"),
        ("SET spark.x=a$b@c", "SET spark.x=a$b@c"),
        ("ADD JAR /a$b/c@d.jar", "ADD JAR /a$b/c@d.jar"),
    ],
)
def test_names_of_system_tables_and_branches_need_no_quotes(written: str, read: str) -> None:
    assert [each.text for each in split_statements(f"USE d; {written}; USE e$f")] == [
        "USE d",
        read,
        "USE `e$f`",
    ]


@pytest.mark.parametrize("name", ["t@v1", "t$", "t$-b", "t$1", "t$branch_b$", "`t`@x", "t$$x"])
def test_a_name_with_other_signs_is_to_be_quoted(name: str) -> None:
    with pytest.raises(Invalid, match=r"' is not a name: .* stands in backquotes"):
        split_statements(f"SELECT * FROM d.{name}")


def test_words_are_read_from_left_to_right() -> None:
    statement = only("create Table `a``b`.c(x decimal(10, 2)) tblproperties (k.l=-3, 'm'='n')")
    statement.expect("CREATE", "TABLE")
    assert not statement.accept("IF", "NOT", "EXISTS")
    assert statement.name_parts() == ("a`b", "c")
    assert statement.bracketed() == "x decimal(10, 2)"
    statement.expect("TBLPROPERTIES")
    assert statement.properties() == {"k.l": "-3", "m": "n"}
    statement.end()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'a\nb'", "a\nb"),
        (r'"it\'s"', "it's"),
        ("'it''s'", "it's"),
        ("'a' 'b'", "ab"),
        (r"r'\d'", r"\d"),
        (r"'\u0041\%\_\\'", r"A\%\_" + "\\"),
        (r"'\101'", "A"),
    ],
)
def test_strings_are_read_as_spark_reads_them(written: str, value: str) -> None:
    statement = only(f"CALL {written}")
    statement.expect("CALL")
    assert statement.string() == value


def test_a_hexadecimal_literal_is_one_word() -> None:
    assert [word.text for word in read_words("b = X'AB', c")] == ["b", "=", "X'AB'", ",", "c"]


def test_text_of_spark_is_cut_out_as_it_stands() -> None:
    statement = only("UPDATE t SET a = f(b , [1,  2]) WHERE c  <=> 4L")
    statement.expect("UPDATE")
    statement.name()
    statement.expect("SET")
    assert statement.until("WHERE") == "a = f(b , [1,  2])"
    statement.expect("WHERE")
    assert statement.rest() == "c  <=> 4L"


def test_an_error_says_where_and_what() -> None:
    statement = only("CALL\n  sys.compact('t')")
    statement.expect("CALL")
    with pytest.raises(Invalid, match=r"line 2, column 3: there is 'sys.compact\(' where a string"):
        statement.string()
    with pytest.raises(Invalid, match="the SQL text cannot be read"):
        split_statements("SELECT 'no end")
