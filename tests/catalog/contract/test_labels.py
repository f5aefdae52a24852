"""Labels, over every catalog: they are set, read, listed and taken away, and belong to a thing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from headwater.catalog.labels import Entity, EntityType, Label
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.functions import FunctionSpec
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.labels import MOST_LABELS
from headwater.catalog.model.views import ViewSchema
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.schema.table_schema import Schema

SALES = Entity(EntityType.DATABASE, "sales")
AREA = Identifier("sales", "area.of.a.circle")
RECENT = Identifier("sales", "recent")


def _table(identifier: Identifier) -> Entity:
    return Entity(EntityType.TABLE, str(identifier))


def _labels(catalog: Catalog, entity: Entity) -> dict[str, str]:
    return {label.key: label.value for label in catalog.labels.list(entity).items}


@pytest.fixture
def entities(catalog: Catalog, table: Identifier) -> list[Entity]:
    """One of each type."""
    catalog.views.create(RECENT, ViewSchema((), "SELECT 1"))
    catalog.functions.create(AREA, FunctionSpec())
    return [
        SALES,
        _table(table),
        Entity(EntityType.VIEW, str(RECENT)),
        Entity(EntityType.FUNCTION, str(AREA)),
    ]


def test_each_entity_has_labels_of_its_own(catalog: Catalog, entities: list[Entity]) -> None:
    for at, entity in enumerate(entities):
        catalog.labels.set(entity, Label("domain", f"d{at}"))
        catalog.labels.set(entity, Label("owner", ""))
    for at, entity in enumerate(entities):
        assert _labels(catalog, entity) == {"domain": f"d{at}", "owner": ""}
        assert catalog.labels.get(entity, "domain") == Label("domain", f"d{at}")
    first, *others = entities
    catalog.labels.set(first, Label("domain", "other"))
    catalog.labels.unset(first, "owner")
    catalog.labels.unset(first, "owner")
    assert _labels(catalog, first) == {"domain": "other"}
    for at, entity in enumerate(others, 1):
        assert _labels(catalog, entity) == {"domain": f"d{at}", "owner": ""}


def test_keys_are_texts_of_any_kind_and_differ_by_every_character(
    catalog: Catalog, table: Identifier
) -> None:
    keys = ["a", "A", "a ", "a/b+% ?#&=", ".", "..", "华", "\u00e9", "e\u0301", "😀", "x" * 255]
    for key in keys:
        catalog.labels.set(_table(table), Label(key, f"{key}\n"))
    assert _labels(catalog, _table(table)) == {key: f"{key}\n" for key in keys}
    for key in keys:
        assert catalog.labels.get(_table(table), key).value == f"{key}\n"
        catalog.labels.unset(_table(table), key)
    assert _labels(catalog, _table(table)) == {}


def test_a_listing_comes_in_pages_by_key(catalog: Catalog, table: Identifier) -> None:
    keys = ["B", "a b", "a+b", "b", "华"]
    for key in reversed(keys):
        catalog.labels.set(_table(table), Label(key, "v"))
    catalog.labels.set(SALES, Label("of the database", "v"))
    for size in (1, 2, 5):
        found: list[str] = []
        token: str | None = None
        while True:
            page = catalog.labels.list(_table(table), max_results=size, page_token=token)
            assert len(page.items) <= size
            found += [label.key for label in page.items]
            token = page.next_token
            if token is None:
                break
        assert found == keys


def test_labels_follow_a_renamed_thing_and_go_with_a_dropped_one(
    catalog: Catalog, entities: list[Entity], table: Identifier, orders_schema: Schema
) -> None:
    _, of_table, of_view, of_function = entities
    for entity in entities:
        catalog.labels.set(entity, Label("domain", "sales"))
    newer = Identifier("sales", "newer")
    catalog.tables.rename(table, newer)
    catalog.views.rename(RECENT, newer)
    assert _labels(catalog, _table(newer)) == {"domain": "sales"}
    assert _labels(catalog, Entity(EntityType.VIEW, "sales.newer")) == {"domain": "sales"}
    # What takes a name, or has it again, inherits nothing.
    catalog.tables.create(table, orders_schema)
    catalog.views.create(RECENT, ViewSchema((), "SELECT 1"))
    assert _labels(catalog, of_table) == _labels(catalog, of_view) == {}
    catalog.tables.drop(newer)
    catalog.views.drop(newer)
    catalog.functions.drop(AREA)
    catalog.tables.create(newer, orders_schema)
    catalog.views.create(newer, ViewSchema((), "SELECT 1"))
    catalog.functions.create(AREA, FunctionSpec())
    for gone in (_table(newer), Entity(EntityType.VIEW, "sales.newer"), of_function):
        assert _labels(catalog, gone) == {}
    for entity in (of_table, of_view, of_function):
        catalog.labels.set(entity, Label("domain", "sales"))
    catalog.databases.drop("sales")
    catalog.databases.create("sales")
    catalog.tables.create(table, orders_schema)
    catalog.views.create(RECENT, ViewSchema((), "SELECT 1"))
    catalog.functions.create(AREA, FunctionSpec())
    for entity in entities:
        assert _labels(catalog, entity) == {}


def test_what_is_missing_is_named(catalog: Catalog, table: Identifier) -> None:
    of_table = _table(table)
    with pytest.raises(NotFound, match="has no label 'domain'") as caught:
        catalog.labels.get(of_table, "domain")
    assert caught.value.resource_type is ResourceType.LABEL
    assert caught.value.resource_name == "domain"
    missing = {
        Entity(EntityType.DATABASE, "none"): ResourceType.DATABASE,
        Entity(EntityType.TABLE, "sales.none"): ResourceType.TABLE,
        Entity(EntityType.TABLE, f"{table}$branch_b"): ResourceType.TABLE,
        Entity(EntityType.VIEW, str(table)): ResourceType.VIEW,
        Entity(EntityType.FUNCTION, "none.area"): ResourceType.FUNCTION,
    }
    for entity, kind in missing.items():
        calls: list[Callable[[], object]] = [
            partial(catalog.labels.list, entity),
            partial(catalog.labels.get, entity, "k"),
            partial(catalog.labels.set, entity, Label("k", "v")),
            partial(catalog.labels.unset, entity, "k"),
        ]
        for call in calls:
            with pytest.raises(NotFound) as caught:
                call()
            assert caught.value.resource_type is kind


def test_an_entity_has_so_many_labels_and_no_more(catalog: Catalog, table: Identifier) -> None:
    of_table = _table(table)
    for at in range(MOST_LABELS):
        catalog.labels.set(of_table, Label(f"{at:03}", "v"))
    with pytest.raises(Invalid, match="may have 100"):
        catalog.labels.set(of_table, Label("one more", "v"))
    catalog.labels.set(of_table, Label("007", "other"))
    catalog.labels.set(SALES, Label("one more", "v"))
    catalog.labels.unset(of_table, "008")
    catalog.labels.set(of_table, Label("one more", "v"))
    assert len(_labels(catalog, of_table)) == MOST_LABELS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", "v"),
        (" \t", "v"),
        ("x" * 256, "v"),
        ("a\nb", "v"),
        ("\ud800", "v"),
        ("k", "x" * 4097),
        ("k", "\0"),
        ("k", "\udfff"),
    ],
    ids=["empty", "blank", "long", "line", "half", "long value", "null", "half value"],
)
def test_what_cannot_be_kept_is_refused(key: str, value: str) -> None:
    with pytest.raises(Invalid, match="label"):
        Label(key, value)


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (EntityType.DATABASE, ""),
        (EntityType.DATABASE, "sales.orders"),
        (EntityType.TABLE, "orders"),
        (EntityType.TABLE, "sales."),
        (EntityType.VIEW, ".recent"),
        (EntityType.FUNCTION, " . "),
    ],
)
def test_a_name_that_is_none_of_its_type_is_refused(type_: EntityType, name: str) -> None:
    with pytest.raises(Invalid, match="is not the name of a"):
        Entity(type_, name)
