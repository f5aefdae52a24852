"""The behaviour that views and functions share, over every catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.functions import (
    AddDefinition,
    DropDefinition,
    FunctionSpec,
    SqlDefinition,
    UpdateDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import NamedObjects, create_or_replace
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.views import AddDialect, DropDialect, UpdateDialect, ViewSchema
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema

Objects: TypeAlias = NamedObjects[Any, Any, Any]

SQL = SqlDefinition("length * width")
NAME = Identifier("sales", "recent")


@dataclass(frozen=True)
class Kind:
    """A kind of named object.

    Attributes:
        kind: What errors about an object are about.
        of: The objects of a catalog.
        content: A content with a comment, and an entry for Spark.
        content_of: The content of an object.
        entry: What errors about an engine's entry are about.
        add: Adds an entry for Spark.
        others: Change entries of Flink, which has none.
    """

    kind: ResourceType
    of: Callable[[Catalog], Objects]
    content: Callable[[str], object]
    content_of: Callable[[object], Any]
    entry: ResourceType
    add: object
    others: tuple[object, ...]


VIEW = Kind(
    ResourceType.VIEW,
    attrgetter("views"),
    lambda comment: ViewSchema((), "SELECT 1", {"spark": "SELECT 2"}, comment),
    attrgetter("schema"),
    ResourceType.DIALECT,
    AddDialect("spark", "SELECT 3"),
    (UpdateDialect("flink", "SELECT 3"), DropDialect("flink")),
)
FUNCTION = Kind(
    ResourceType.FUNCTION,
    attrgetter("functions"),
    lambda comment: FunctionSpec(definitions={"spark": SQL}, comment=comment),
    attrgetter("spec"),
    ResourceType.DEFINITION,
    AddDefinition("spark", SQL),
    (UpdateDefinition("flink", SQL), DropDefinition("flink")),
)


@pytest.fixture(params=[VIEW, FUNCTION], ids=["view", "function"])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def objects(catalog: Catalog, kind: Kind) -> Objects:
    """The views or the functions of a catalog with a database ``sales``."""
    catalog.databases.create("sales")
    return kind.of(catalog)


@pytest.fixture
def made(objects: Objects, kind: Kind) -> object:
    """The content of one of them, which is there."""
    content = kind.content("of this year")
    objects.create(NAME, content)
    return content


def _named(*names: str, database: str = "sales") -> list[Identifier]:
    return [Identifier(database, name) for name in names]


def test_a_second_one_of_a_name_is_refused(objects: Objects, kind: Kind, made: object) -> None:
    other = kind.content("of last year")
    with pytest.raises(AlreadyExists) as error:
        objects.create(NAME, other)
    assert error.value.resource_type is kind.kind
    assert error.value.resource_name == "recent"
    objects.create(NAME, other, ignore_if_exists=True)
    assert kind.content_of(objects.get(NAME)) == made


def test_each_kind_has_names_of_its_own(
    catalog: Catalog, table: Identifier, orders_schema: Schema, kind: Kind
) -> None:
    for each in (VIEW, FUNCTION):
        each.of(catalog).create(table, each.content("c"))
    kind.of(catalog).drop(table)
    for each in (VIEW, FUNCTION):
        names = [] if each is kind else [table.name]
        assert list(each.of(catalog).list("sales").items) == names
    catalog.tables.drop(table)
    kind.of(catalog).create(table, kind.content("c"))
    assert list(catalog.tables.list("sales").items) == []


def test_another_content_takes_its_place(
    catalog: Catalog, objects: Objects, kind: Kind, made: object
) -> None:
    before = objects.get(NAME)
    target = PermissionTarget(
        TargetType(kind.kind.value), "sales", **{kind.kind.value.lower(): NAME.name}
    )
    catalog.permissions.grant(Grant(target, Access.SELECT, "ada"))
    other = kind.content("of last year")
    objects.replace(NAME, other)
    after = objects.get(NAME)
    assert kind.content_of(after) == other
    assert (after.id, after.owner, after.created_at) == (
        before.id,
        before.owner,
        before.created_at,
    )
    # It is the same one, so that who may read it stays.
    assert [grant.principal for grant in catalog.permissions.list(target).items] == ["ada"]
    create_or_replace(objects, kind.kind, NAME, made)
    assert kind.content_of(objects.get(NAME)) == made
    objects.drop(NAME)
    with pytest.raises(NotFound) as error:
        objects.replace(NAME, other)
    assert (error.value.resource_type, error.value.resource_name) == (kind.kind, "recent")
    create_or_replace(objects, kind.kind, NAME, other)
    assert kind.content_of(objects.get(NAME)) == other
    with pytest.raises(NotFound) as error:
        create_or_replace(objects, kind.kind, Identifier("none", "recent"), other)
    assert error.value.resource_type is ResourceType.DATABASE


def test_what_is_missing_is_named(objects: Objects, kind: Kind) -> None:
    nothing = Identifier("sales", "nothing")
    for action in (
        lambda: objects.get(nothing),
        lambda: objects.alter(nothing, [SetOption("a", "b")]),
        lambda: objects.drop(nothing),
        lambda: objects.get(Identifier("none", "nothing")),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is kind.kind
        assert error.value.resource_name == "nothing"
    for of_database in (
        lambda: objects.list("none"),
        lambda: objects.list_details("none"),
        lambda: objects.create(Identifier("none", "recent"), kind.content("c")),
    ):
        with pytest.raises(NotFound) as error:
            of_database()
        assert error.value.resource_type is ResourceType.DATABASE
        assert error.value.resource_name == "none"


def test_a_dropped_one_is_gone(objects: Objects, made: object) -> None:
    objects.drop(NAME)
    assert list(objects.list("sales").items) == []
    objects.drop(NAME, ignore_if_not_exists=True)
    objects.create(NAME, made)


def test_they_go_with_their_database(catalog: Catalog, objects: Objects, made: object) -> None:
    catalog.databases.drop("sales")
    with pytest.raises(NotFound):
        objects.get(NAME)
    catalog.databases.create("sales")
    assert list(objects.list("sales").items) == []


def test_an_entry_that_is_there_is_not_added(objects: Objects, kind: Kind, made: object) -> None:
    with pytest.raises(AlreadyExists, match="'spark' already; update it") as error:
        objects.alter(NAME, [SetOption("team", "shipping"), kind.add])
    assert error.value.resource_type is kind.entry
    assert error.value.resource_name == "spark"
    # All changes are made, or none.
    assert kind.content_of(objects.get(NAME)) == made


def test_an_entry_that_is_missing_is_not_changed(
    objects: Objects, kind: Kind, made: object
) -> None:
    for change in kind.others:
        with pytest.raises(NotFound, match="'flink'; those it has are for spark") as error:
            objects.alter(NAME, [SetOption("team", "shipping"), change])
        assert error.value.resource_type is kind.entry
        assert error.value.resource_name == "flink"
    assert kind.content_of(objects.get(NAME)) == made


def test_lists_come_in_pages(objects: Objects, kind: Kind) -> None:
    names = [f"n{number}" for number in range(5)]
    for name in reversed(names):
        objects.create(Identifier("sales", name), kind.content(name))
    found: list[str] = []
    comments: list[str] = []
    token = None
    while True:
        page = objects.list("sales", max_results=2, page_token=token)
        details = objects.list_details("sales", max_results=2, page_token=token)
        assert len(page.items) <= 2
        assert [info.identifier.name for info in details.items] == list(page.items)
        assert details.next_token == page.next_token
        found += page.items
        comments += [kind.content_of(info).comment for info in details.items]
        token = page.next_token
        if token is None:
            break
    assert found == comments == names


def test_a_page_begins_where_the_one_before_ended_though_objects_come_and_go(
    objects: Objects, kind: Kind
) -> None:
    content = kind.content("c")
    for identifier in _named("b", "d", "f"):
        objects.create(identifier, content)
    first = objects.list("sales", max_results=2)
    assert list(first.items) == ["b", "d"]
    objects.drop(Identifier("sales", "d"))
    for identifier in _named("a", "e"):
        objects.create(identifier, content)
    rest = objects.list("sales", page_token=first.next_token)
    assert list(rest.items) == ["e", "f"]


def test_lists_are_narrowed_by_patterns(objects: Objects, kind: Kind) -> None:
    for identifier in _named("ab", "a_b", "b"):
        objects.create(identifier, kind.content("c"))
    assert list(objects.list("sales", pattern="a%").items) == ["a_b", "ab"]
    assert list(objects.list("sales", pattern="a\\_%").items) == ["a_b"]
    details = objects.list_details("sales", pattern="b").items
    assert [info.identifier.name for info in details] == ["b"]


def test_those_of_all_databases(catalog: Catalog, objects: Objects, kind: Kind) -> None:
    for database in ("archive", "empty", "sales2"):
        catalog.databases.create(database)
    names = [
        name
        for database in ("archive", "sales", "sales2")
        for name in _named("daily", "recent.1", database=database)
    ]
    for name in names:
        objects.create(name, kind.content("c"))
    one_by_one = all_pages(lambda token: objects.list_globally(max_results=1, page_token=token))
    by_four = all_pages(lambda token: objects.list_globally(max_results=4, page_token=token))
    assert one_by_one == by_four == names
    narrowed = objects.list_globally(database_pattern="sales%", pattern="rec%").items
    assert list(narrowed) == [names[3], names[5]]
    assert list(objects.list_globally(database_pattern="none%").items) == []
