"""Lists of tables, and tables by their ids, over every catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema

T = TypeVar("T")


def _create(catalog: Catalog, schema: Schema, database: str, *names: str) -> None:
    catalog.databases.create(database, ignore_if_exists=True)
    for name in names:
        catalog.tables.create(Identifier(database, name), schema)


def _pages(listing: Callable[..., Page[T]], size: int, **narrowed: str) -> Iterator[Sequence[T]]:
    token: str | None = None
    while True:
        page = listing(max_results=size, page_token=token, **narrowed)
        yield page.items
        token = page.next_token
        if token is None:
            return


def _full(names: str) -> list[Identifier]:
    return [Identifier.parse(name) for name in names.split()]


def test_tables_of_all_databases_come_in_order_and_pages(
    catalog: Catalog, orders_schema: Schema
) -> None:
    for database, names in {"b": "x", "a": "z y", "empty": "", "c": "w v u", "B": "t"}.items():
        _create(catalog, orders_schema, database, *names.split())
    everything = _full("B.t a.y a.z b.x c.u c.v c.w")
    assert list(catalog.tables.list_globally().items) == everything
    for size in range(1, 9):
        pages = list(_pages(catalog.tables.list_globally, size))
        assert list(chain.from_iterable(pages)) == everything
        # A client takes an empty page for the last one.
        assert all(pages)
    some = _pages(catalog.tables.list_globally, 2, database_pattern="a%")
    assert list(chain.from_iterable(some)) == _full("a.y a.z")
    some = _pages(catalog.tables.list_globally, 1, pattern="_", database_pattern="_")
    assert list(chain.from_iterable(some)) == everything
    assert list(catalog.tables.list_globally(pattern="none%").items) == []


def test_a_page_goes_on_where_the_one_before_ended_whatever_happened_meanwhile(
    catalog: Catalog, orders_schema: Schema
) -> None:
    _create(catalog, orders_schema, "a", "k", "m", "o")
    _create(catalog, orders_schema, "b", "q", "s")
    first = catalog.tables.list_globally(max_results=2)
    assert list(first.items) == _full("a.k a.m")
    # The token's own table goes, and others come before and after it.
    catalog.tables.drop(Identifier("a", "m"))
    _create(catalog, orders_schema, "a", "j", "n")
    second = catalog.tables.list_globally(max_results=2, page_token=first.next_token)
    assert list(second.items) == _full("a.n a.o")
    # The token's own database goes.
    catalog.databases.drop("a")
    _create(catalog, orders_schema, "aa", "p")
    third = catalog.tables.list_globally(max_results=9, page_token=second.next_token)
    assert list(third.items) == _full("aa.p b.q b.s")
    assert third.next_token is None


def test_a_page_token_of_another_list_is_refused(catalog: Catalog) -> None:
    with pytest.raises(Invalid, match="page token"):
        catalog.tables.list_globally(page_token="orders")


PATTERNS: Sequence[tuple[str, str]] = [
    ("%", "100% 100_ 100x 10 A_b a*b a[b aXb a_b aé"),
    ("a%", "a*b a[b aXb a_b aé"),
    ("a_b", "a*b a[b aXb a_b"),
    (r"a\_b", "a_b"),
    (r"a\_%", "a_b"),
    (r"100\%", "100%"),
    ("100_", "100% 100_ 100x"),
    ("100%", "100% 100_ 100x"),
    ("%b", "A_b a*b a[b aXb a_b"),
    ("%_b", "A_b a*b a[b aXb a_b"),
    ("a*b", "a*b"),
    ("a[%", "a[b"),
    ("A%", "A_b"),
    ("aé%", "aé"),
    ("10", "10"),
    (r"a\X%", "aXb"),
    ("none", ""),
]


def test_patterns_are_those_of_sql(
    catalog: Catalog, orders_schema: Schema, subtests: pytest.Subtests
) -> None:
    names = "100% 100_ 100x 10 A_b a*b a[b aXb a_b aé"
    _create(catalog, orders_schema, "d", *names.split())
    for pattern, matching in PATTERNS:
        with subtests.test(pattern=pattern):
            expected = sorted(matching.split())
            assert list(catalog.tables.list("d", pattern=pattern).items) == expected
            found = catalog.tables.list_globally(pattern=pattern).items
            assert [item.name for item in found] == expected


def test_tables_are_listed_by_type(catalog: Catalog, orders_schema: Schema) -> None:
    plain = replace(orders_schema, primary_keys=(), partition_keys=(), options={})
    catalog.databases.create("d")
    for name, table_type in {
        "a": None, "b": "Table", "c": "format-table", "d": "ICEBERG-TABLE", "e": "format-table",
        "f": "table",
    }.items():  # fmt: skip
        options = {} if table_type is None else {"type": table_type}
        catalog.tables.create(Identifier("d", name), replace(plain, options=options))

    def by_type(table_type: str, **narrowed: str) -> list[str]:
        def names(**paging: object) -> Page[str]:
            return catalog.tables.list("d", table_type=table_type, **paging)  # type: ignore[arg-type]

        pages = list(_pages(names, 1, **narrowed))
        assert all(pages[:-1])
        return list(chain.from_iterable(pages))

    assert by_type("table") == ["a", "b", "f"]
    assert by_type("format-table") == ["c", "e"]
    assert by_type("iceberg-table") == ["d"]
    assert by_type("object-table") == by_type("some-later-table") == []
    assert by_type("table", pattern="%f") == ["f"]
    details = catalog.tables.list_details("d", table_type="format-table", pattern="e%")
    assert [info.identifier.name for info in details.items] == ["e"]


def test_details_are_what_each_table_tells(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    _create(catalog, orders_schema, table.database, "b", "a", "p")
    catalog.tables.alter(table, [SetOption("write-only", "true")])
    pages = list(_pages(lambda **page: catalog.tables.list_details(table.database, **page), 3))
    assert [[info.identifier.name for info in page] for page in pages] == [
        ["a", "b", "orders"],
        ["p"],
    ]
    for info in chain.from_iterable(pages):
        assert info == catalog.tables.get(info.identifier)
    with pytest.raises(NotFound) as error:
        catalog.tables.list_details("none")
    assert error.value.resource_type is ResourceType.DATABASE


def test_a_table_is_found_by_its_id_under_every_name(catalog: Catalog, table: Identifier) -> None:
    table_id = catalog.tables.get(table).id
    assert catalog.tables.get_by_id(table_id) == catalog.tables.get(table)
    moved = Identifier("sales", "a name / with $igns")
    with pytest.raises(Invalid):
        catalog.tables.rename(table, moved)
    moved = Identifier("sales", "a name")
    catalog.tables.rename(table, moved)
    assert catalog.tables.get_by_id(table_id) == catalog.tables.get(moved)
    catalog.tables.drop(moved)
    for missing in (table_id, "none", "a/b"):
        with pytest.raises(NotFound) as error:
            catalog.tables.get_by_id(missing)
        assert error.value.resource_type is ResourceType.TABLE
        assert error.value.resource_name == missing
