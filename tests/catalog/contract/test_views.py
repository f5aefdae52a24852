"""Views, over every catalog: what they say, and their names. See `test_named_objects`."""

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


def test_a_name_that_cannot_be_one_is_refused(
    catalog: Catalog, sales: None, subtests: pytest.Subtests
) -> None:
    for name in ("", " a", "a/b", "a$b", "..", "a\nb", "x" * 300):
        with subtests.test(name=name):
            with pytest.raises(Invalid):
                catalog.views.create(Identifier("sales", name), VIEW)
            assert _all_names(catalog, "sales") == []


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


def test_another_query_leaves_the_properties(catalog: Catalog, view: Identifier) -> None:
    catalog.views.alter(view, [SetOption("team", "shipping"), UpdateComment("kept")])
    content = ViewSchema((), "SELECT 2", {}, "another", {"x": "y"})
    catalog.views.replace(view, content, keep_properties=True)
    kept = ViewSchema((), "SELECT 2", {}, "kept", {**VIEW.options, "team": "shipping"})
    assert catalog.views.get(view).schema == kept
    catalog.views.drop(view)
    with pytest.raises(NotFound):
        catalog.views.replace(view, content, keep_properties=True)


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
    with pytest.raises(NotFound) as nothing:
        catalog.views.rename(Identifier("sales", "nothing"), Identifier("sales", "new"))
    assert nothing.value.resource_type is ResourceType.VIEW
    assert nothing.value.resource_name == "nothing"
    with pytest.raises(Invalid):
        catalog.views.rename(view, Identifier("sales", "a/b"))
    catalog.views.rename(view, view)
    assert _all_names(catalog, "sales") == ["other", "recent"]
