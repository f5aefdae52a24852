"""Patterns of the tables that are followed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.model.name_patterns import NamePattern
from headwater.cdc.model.selection import NameFilter, Pattern, Selection
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Invalid

NAMES = st.text(min_size=1, max_size=8)


def name(text: str) -> TableName:
    return TableName(*text.split(".", 1))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("shop.*", ["shop.a", "shop.order items", "shop.a.b"], ["shops.a", "Shop.a"]),
        ("shop.order?", ["shop.orders", "shop.order1"], ["shop.order", "shop.orders1"]),
        ("*.*", ["a.b"], []),
        (r"shop.a\.b", ["shop.a.b"], ["shop.axb"]),
        (r"shop.100\*", ["shop.100*"], ["shop.1000"]),
        ("shop.a+b(c)[d]$", ["shop.a+b(c)[d]$"], ["shop.aab(c)[d]"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    parsed = Pattern.parse(pattern)
    assert [text for text in matching if not parsed.matches(name(text))] == []
    assert [text for text in others if parsed.matches(name(text))] == []


@pytest.mark.parametrize("text", ["", "shop", "shop.", ".t", "a.b.c", "shop.t\\"])
def test_bad_patterns_are_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not a pattern of tables"):
        Pattern.parse(text)


@given(NAMES, NAMES)
def test_an_escaped_name_means_itself_alone(database: str, table: str) -> None:
    """Special characters of a name are not those of a pattern."""

    def escaped(text: str) -> str:
        return "".join(f"\\{character}" for character in text)

    pattern = Pattern.parse(f"{escaped(database)}.{escaped(table)}")
    assert pattern.matches(TableName(database, table))
    assert not pattern.matches(TableName(database, f"{table}x"))


def test_a_selection_includes_and_excludes() -> None:
    names = [name(text) for text in ("shop.orders", "shop.logs", "other.t")]
    selection = Selection.parse(["shop.*"], ["*.logs"])
    assert [str(table) for table in names if selection.matches(table)] == ["shop.orders"]
    with pytest.raises(Invalid, match="no table is included"):
        Selection.parse([])


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("product|user|address", ["user"], ["users", "USER"]),
        ("test|paimon.*", ["test", "paimon", "paimon_1"], ["test1"]),
        (r"shop_(?:\d{1,2}|x)\$", ["shop_7$", "shop_12$", "shop_x$"], ["shop_123$", "shop_٣$"]),
        (r"[a-c_][^\.]+?", ["ab", "_b"], ["db", "a", "a."]),
    ],
)
def test_expressions_match_whole_names_as_in_java(
    text: str, matching: list[str], others: list[str]
) -> None:
    pattern = NamePattern.parse("including-tables", text)
    assert [other for other in matching if not pattern.matches(other)] == []
    assert [other for other in others if pattern.matches(other)] == []


@pytest.mark.parametrize(
    "text", ["(?i)a", "a++", r"\p{Alpha}", r"\Qa.b\E", "[a&&b]", "[[a]b]", "^a$", "a)", "(a", "*a"]
)
def test_expressions_that_java_may_read_otherwise_are_rejected(text: str) -> None:
    with pytest.raises(Invalid, match=r"^option 'including-tables' is '.*(alike|not a regular)"):
        NamePattern.parse("including-tables", text)


def test_expressions_choose_among_the_included() -> None:
    selection = Selection(
        [Pattern.parse("*.*")],
        (),
        NameFilter.parse("tables", "a|b", "b"),
        NameFilter.parse("dbs", None, "old_.*"),
    )
    texts = ("shop.a", "shop.b", "shop.c", "old_1.a")
    assert [text for text in texts if selection.matches(name(text))] == ["shop.a"]
