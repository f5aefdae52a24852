"""Views, over every catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.column import Column, columns_from_arrow
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import (
    AddDialect,
    DropDialect,
    UpdateDialect,
    ViewChange,
    ViewSchema,
)
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.schema.change import RemoveOption, SetOption, UpdateComment
from headwater.storage.schema.table_schema import Schema

RECENT = Identifier("sales", "recent")

VIEW = ViewSchema(
    columns=columns_from_arrow(pa.schema([("order_id", pa.int64()), ("dt", pa.string())])),
    query="SELECT order_id, dt FROM sales.orders",
    dialects={"spark": "SELECT order_id, dt FROM orders"},
    comment="what we sold",
    options={"team": "billing"},
)


@pytest.fixture
def sales(catalog: Catalog) -> None:
    catalog.databases.create("sales")


@pytest.fixture
def view(catalog: Catalog, sales: None) -> Identifier:
    catalog.views.create(RECENT, VIEW)
    return RECENT


def _all_names(catalog: Catalog, database: str) -> list[str]:
    return list(catalog.views.list(database).items)


def test_a_view_is_what_was_made(catalog: Catalog, view: Identifier) -> None:
    found = catalog.views.get(view)
    assert found.identifier == view
    assert found.schema == VIEW
    assert found.id
    assert found.created_at == found.updated_at > 0
    assert found.schema.query_for("spark") == "SELECT order_id, dt FROM orders"
    assert found.schema.query_for("flink") == VIEW.query


def test_columns_keep_their_types_whatever_they_are(catalog: Catalog, sales: None) -> None:
    columns = (
        Column(0, "id", "INT NOT NULL", "the number", "0"),
        Column(7, "doc", "VARIANT"),
        Column(2, "tags", {"type": "ARRAY", "element": "STRING"}),
        Column(3, "at", {"type": "ROW", "fields": [{"id": 4, "name": "x", "type": "INT"}]}),
    )
    catalog.views.create(RECENT, ViewSchema(columns, "SELECT 1"))
    assert catalog.views.get(RECENT).schema == ViewSchema(columns, "SELECT 1")


def test_a_view_without_columns_or_queries_of_engines(catalog: Catalog, sales: None) -> None:
    catalog.views.create(RECENT, ViewSchema((), "SELECT 1"))
    assert catalog.views.get(RECENT).schema == ViewSchema((), "SELECT 1")


def test_a_second_view_of_a_name_is_refused(catalog: Catalog, view: Identifier) -> None:
    other = ViewSchema((), "SELECT 2")
    with pytest.raises(AlreadyExists) as error:
        catalog.views.create(view, other)
    assert error.value.resource_type is ResourceType.VIEW
    assert error.value.resource_name == "recent"
    catalog.views.create(view, other, ignore_if_exists=True)
    assert catalog.views.get(view).schema == VIEW


def test_a_view_may_be_called_like_a_table(catalog: Catalog, table: Identifier) -> None:
    catalog.views.create(table, VIEW)
    catalog.tables.drop(table)
    assert catalog.views.get(table).schema == VIEW


@pytest.mark.parametrize("name", ["", " a", "a/b", "a$b", "..", "a\nb", "x" * 300])
def test_a_name_that_cannot_be_one_is_refused(catalog: Catalog, sales: None, name: str) -> None:
    with pytest.raises(Invalid):
        catalog.views.create(Identifier("sales", name), VIEW)
    assert _all_names(catalog, "sales") == []


def test_what_is_missing_is_named(catalog: Catalog, sales: None) -> None:
    nothing = Identifier("sales", "nothing")
    for action in (
        lambda: catalog.views.get(nothing),
        lambda: catalog.views.alter(nothing, [SetOption("a", "b")]),
        lambda: catalog.views.drop(nothing),
        lambda: catalog.views.rename(nothing, RECENT),
        lambda: catalog.views.get(Identifier("none", "nothing")),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is ResourceType.VIEW
        assert error.value.resource_name == "nothing"
    for of_database in (
        lambda: catalog.views.list("none"),
        lambda: catalog.views.list_details("none"),
        lambda: catalog.views.create(Identifier("none", "recent"), VIEW),
    ):
        with pytest.raises(NotFound) as error:
            of_database()
        assert error.value.resource_type is ResourceType.DATABASE
        assert error.value.resource_name == "none"


def test_a_dropped_view_is_gone(catalog: Catalog, view: Identifier) -> None:
    catalog.views.drop(view)
    assert _all_names(catalog, "sales") == []
    catalog.views.drop(view, ignore_if_not_exists=True)
    catalog.views.create(view, VIEW)


def test_a_view_is_changed(catalog: Catalog, view: Identifier) -> None:
    before = catalog.views.get(view)
    changes: list[ViewChange] = [
        SetOption("team", "shipping"),
        SetOption("tier", "1"),
        RemoveOption("tier"),
        RemoveOption("never-there"),
        UpdateComment(None),
        AddDialect("flink", "SELECT 1"),
        UpdateDialect("flink", "SELECT 2"),
        DropDialect("spark"),
        AddDialect("spark", "SELECT 3"),
    ]
    catalog.views.alter(view, changes)
    found = catalog.views.get(view)
    assert found.id == before.id
    assert found.created_at == before.created_at <= found.updated_at
    assert found.schema == ViewSchema(
        VIEW.columns,
        VIEW.query,
        {"flink": "SELECT 2", "spark": "SELECT 3"},
        None,
        {"team": "shipping"},
    )


@pytest.mark.parametrize(
    ("change", "kind", "dialect"),
    [
        (AddDialect("spark", "SELECT 1"), AlreadyExists, "spark"),
        (UpdateDialect("flink", "SELECT 1"), NotFound, "flink"),
        (DropDialect("flink"), NotFound, "flink"),
    ],
)
def test_all_changes_are_made_or_none(
    catalog: Catalog, view: Identifier, change: ViewChange, kind: type[Exception], dialect: str
) -> None:
    with pytest.raises((AlreadyExists, NotFound)) as error:
        catalog.views.alter(view, [SetOption("team", "shipping"), change])
    assert isinstance(error.value, kind)
    assert error.value.resource_type is ResourceType.DIALECT
    assert error.value.resource_name == dialect
    assert catalog.views.get(view).schema == VIEW


def test_a_view_gets_another_name(catalog: Catalog, view: Identifier) -> None:
    before = catalog.views.get(view)
    catalog.databases.create("archive")
    moved = Identifier("archive", "recent_2025")
    catalog.views.rename(view, moved)
    assert _all_names(catalog, "sales") == []
    assert catalog.views.get(moved).id == before.id
    assert catalog.views.get(moved).schema == VIEW


def test_renaming_takes_no_other_views_name(catalog: Catalog, view: Identifier) -> None:
    other = Identifier("sales", "other")
    catalog.views.create(other, ViewSchema((), "SELECT 2"))
    with pytest.raises(AlreadyExists) as taken:
        catalog.views.rename(view, other)
    assert taken.value.resource_type is ResourceType.VIEW
    assert taken.value.resource_name == "other"
    with pytest.raises(NotFound) as missing:
        catalog.views.rename(view, Identifier("none", "recent"))
    assert missing.value.resource_type is ResourceType.DATABASE
    with pytest.raises(Invalid):
        catalog.views.rename(view, Identifier("sales", "a/b"))
    catalog.views.rename(view, view)
    assert _all_names(catalog, "sales") == ["other", "recent"]


def test_views_go_with_their_database(catalog: Catalog, view: Identifier) -> None:
    catalog.databases.drop("sales")
    with pytest.raises(NotFound):
        catalog.views.get(view)
    catalog.databases.create("sales")
    assert _all_names(catalog, "sales") == []


def test_tables_and_views_are_listed_apart(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    catalog.views.create(RECENT, VIEW)
    assert list(catalog.tables.list("sales").items) == [table.name]
    assert _all_names(catalog, "sales") == ["recent"]


def test_lists_come_in_pages(catalog: Catalog, sales: None) -> None:
    names = [f"v{n}" for n in range(5)]
    for name in reversed(names):
        catalog.views.create(Identifier("sales", name), ViewSchema((), f"SELECT '{name}'"))
    found: list[str] = []
    queries: list[str] = []
    token = None
    while True:
        page = catalog.views.list("sales", max_results=2, page_token=token)
        details = catalog.views.list_details("sales", max_results=2, page_token=token)
        assert len(page.items) <= 2
        assert [info.identifier.name for info in details.items] == list(page.items)
        assert details.next_token == page.next_token
        found += page.items
        queries += [info.schema.query for info in details.items]
        token = page.next_token
        if token is None:
            break
    assert found == names
    assert queries == [f"SELECT '{name}'" for name in names]


def test_a_page_begins_where_the_one_before_ended_though_views_come_and_go(
    catalog: Catalog, sales: None
) -> None:
    for name in ("b", "d", "f"):
        catalog.views.create(Identifier("sales", name), VIEW)
    first = catalog.views.list("sales", max_results=2)
    assert list(first.items) == ["b", "d"]
    catalog.views.drop(Identifier("sales", "d"))
    catalog.views.create(Identifier("sales", "a"), VIEW)
    catalog.views.create(Identifier("sales", "e"), VIEW)
    rest = catalog.views.list("sales", page_token=first.next_token)
    assert list(rest.items) == ["e", "f"]


def test_lists_are_narrowed_by_patterns(catalog: Catalog, sales: None) -> None:
    for name in ("ab", "a_b", "b"):
        catalog.views.create(Identifier("sales", name), VIEW)
    assert list(catalog.views.list("sales", pattern="a%").items) == ["a_b", "ab"]
    assert list(catalog.views.list("sales", pattern="a\\_%").items) == ["a_b"]
    details = catalog.views.list_details("sales", pattern="b").items
    assert [info.identifier.name for info in details] == ["b"]


def test_views_of_all_databases(catalog: Catalog) -> None:
    names = [
        Identifier(database, name)
        for database in ("archive", "sales", "sales2")
        for name in ("daily", "recent")
    ]
    for database in ("archive", "empty", "sales", "sales2"):
        catalog.databases.create(database)
    for name in names:
        catalog.views.create(name, VIEW)
    found: list[Identifier] = []
    token = None
    while True:
        page = catalog.views.list_globally(max_results=4, page_token=token)
        found += page.items
        token = page.next_token
        if token is None:
            break
    assert found == names
    narrowed = catalog.views.list_globally(database_pattern="sales%", pattern="rec%").items
    assert list(narrowed) == [Identifier("sales", "recent"), Identifier("sales2", "recent")]
    assert list(catalog.views.list_globally(database_pattern="none%").items) == []
