"""Databases, over every catalog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.schema.table_schema import Schema


def test_a_new_warehouse_has_no_database(catalog: Catalog) -> None:
    assert list(catalog.databases.list().items) == []


def test_a_database_is_found_by_its_name(catalog: Catalog, tmp_path: Path) -> None:
    catalog.databases.create("sales", {"comment": "what we sold"})
    found = catalog.databases.get("sales")
    assert found.name == "sales"
    assert found.options == {"comment": "what we sold"}
    assert found.location == f"file://{tmp_path}/lake/sales.db"
    assert list(catalog.databases.list().items) == ["sales"]


def test_names_differ_by_case(catalog: Catalog) -> None:
    catalog.databases.create("Sales")
    catalog.databases.create("sales")
    assert list(catalog.databases.list().items) == ["Sales", "sales"]
    assert list(catalog.databases.list(pattern="s%").items) == ["sales"]


def test_a_second_database_of_a_name_is_refused(catalog: Catalog) -> None:
    catalog.databases.create("sales", {"a": "1"})
    with pytest.raises(AlreadyExists) as error:
        catalog.databases.create("sales")
    assert error.value.resource_type is ResourceType.DATABASE
    catalog.databases.create("sales", {"a": "2"}, ignore_if_exists=True)
    assert catalog.databases.get("sales").options == {"a": "1"}


def test_a_name_that_is_no_directory_is_refused(
    catalog: Catalog, subtests: pytest.Subtests
) -> None:
    for name in ("", "..", "a/b", "a\\b", "a$b", "a.b", " a", "a\nb", "x" * 300):
        with subtests.test(name=name):
            with pytest.raises(Invalid):
                catalog.databases.create(name)
            assert list(catalog.databases.list().items) == []


def test_the_location_must_be_in_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    for outside in (f"file://{tmp_path}/other", f"file://{tmp_path}/lake/../x", "file:///etc"):
        with pytest.raises(Invalid, match="outside the warehouse"):
            catalog.databases.create("sales", {"location": outside})
    catalog.databases.create("sales", {"location": f"file:{tmp_path}/lake/elsewhere"})
    assert catalog.databases.get("sales").location == f"file://{tmp_path}/lake/elsewhere"


def test_options_are_set_and_removed(catalog: Catalog) -> None:
    catalog.databases.create("sales", {"a": "1", "b": "2"})
    catalog.databases.alter("sales", {"a": "3", "c": "4"}, ["b", "never-there"])
    assert catalog.databases.get("sales").options == {"a": "3", "c": "4"}


def test_a_missing_database_is_named(catalog: Catalog) -> None:
    for action in (
        lambda: catalog.databases.get("none"),
        lambda: catalog.databases.alter("none", {"a": "b"}, []),
        lambda: catalog.databases.drop("none"),
        lambda: catalog.tables.list("none"),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is ResourceType.DATABASE
        assert error.value.resource_name == "none"


def test_dropping_takes_the_tables_along(
    catalog: Catalog, orders_schema: Schema, tmp_path: Path
) -> None:
    catalog.databases.create("sales")
    for name in ("a", "b"):
        catalog.tables.create(Identifier("sales", name), orders_schema)
    catalog.databases.drop("sales")
    with pytest.raises(NotFound):
        catalog.databases.get("sales")
    with pytest.raises(NotFound):
        catalog.tables.get(Identifier("sales", "a"))
    left = [path.name for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert left == [WAREHOUSE_MARKER]


def test_lists_come_in_pages(catalog: Catalog) -> None:
    names = [f"db{n}" for n in range(5)]
    for name in names:
        catalog.databases.create(name)
    found: list[str] = []
    token = None
    while True:
        page = catalog.databases.list(max_results=2, page_token=token)
        assert len(page.items) <= 2
        found += page.items
        token = page.next_token
        if token is None:
            break
    assert found == names


PATTERNS: Sequence[tuple[str, list[str]]] = [
    ("a%", ["a_b", "a*b", "ab"]),
    ("a\\_%", ["a_b"]),
    ("a_b", ["a*b", "a_b"]),
    ("a*b", ["a*b"]),
    ("%", ["a*b", "a_b", "ab", "[x]"]),
    ("[x]", ["[x]"]),
    ("b", []),
]


def test_patterns_are_those_of_like(catalog: Catalog, subtests: pytest.Subtests) -> None:
    for name in ("ab", "a_b", "a*b", "[x]"):
        catalog.databases.create(name)
    for pattern, names in PATTERNS:
        with subtests.test(pattern=pattern):
            assert sorted(catalog.databases.list(pattern=pattern).items) == sorted(names)
