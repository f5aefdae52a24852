"""Functions, over every catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.column import Column, columns_from_arrow
from headwater.catalog.model.functions import (
    AddDefinition,
    DropDefinition,
    FileDefinition,
    FileResource,
    FunctionChange,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
    UpdateDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.schema.change import RemoveOption, SetOption, UpdateComment
from headwater.storage.types.data_type import Json

AREA = Identifier("sales", "area")

SQL = SqlDefinition("length * width")
SPEC = FunctionSpec(
    input_params=columns_from_arrow(pa.schema([("length", pa.float64()), ("width", pa.float64())])),
    return_params=(Column(0, "area", "DOUBLE"),),
    definitions={
        "trino": SQL,
        "spark": LambdaDefinition("(l, w) -> l * w", "java"),
        "flink": FileDefinition((FileResource("jar", "/a/b/c.jar"),), "java", "Area", "eval"),
        "hive": FileDefinition(None, "java", "Area", "eval"),
    },
    is_deterministic=False,
    comment="of a rectangle",
    options={"team": "billing"},
)


@pytest.fixture
def sales(catalog: Catalog) -> None:
    catalog.databases.create("sales")


@pytest.fixture
def area(catalog: Catalog, sales: None) -> Identifier:
    catalog.functions.create(AREA, SPEC)
    return AREA


def test_a_function_is_what_was_made(catalog: Catalog, area: Identifier) -> None:
    found = catalog.functions.get(area)
    assert found.identifier == area
    assert found.spec == SPEC
    assert found.id
    assert found.created_at == found.updated_at > 0


def test_a_function_need_not_say_anything(catalog: Catalog, sales: None) -> None:
    catalog.functions.create(AREA, FunctionSpec())
    assert catalog.functions.get(AREA).spec == FunctionSpec()
    catalog.functions.drop(AREA)
    catalog.functions.create(AREA, FunctionSpec(input_params=(), return_params=()))
    assert catalog.functions.get(AREA).spec.input_params == ()


@pytest.mark.parametrize("name", ["a", "a1_", "a-b_c", "a-b_c.1", "function.na_me-01", "1.x"])
def test_names_have_letters_digits_and_three_signs(
    catalog: Catalog, sales: None, name: str
) -> None:
    catalog.functions.create(Identifier("sales", name), SPEC)
    assert catalog.functions.get(Identifier("sales", name)).identifier.name == name
    assert [item.name for item in catalog.functions.list_globally().items] == [name]


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\\b", "a$b", "a b", "123", "_-", "..", "é", "a\n", "a" * 300]
)
def test_other_names_are_refused(catalog: Catalog, sales: None, name: str) -> None:
    with pytest.raises(Invalid):
        catalog.functions.create(Identifier("sales", name), SPEC)
    assert list(catalog.functions.list("sales").items) == []


@pytest.mark.parametrize("no_type", ["NUMBERS", {"type": "ARRAY"}, 3, None])
def test_a_parameter_of_no_type_is_refused(no_type: Json) -> None:
    with pytest.raises(Invalid, match="'x'"):
        Column(0, "x", no_type)


def test_a_second_function_of_a_name_is_refused(catalog: Catalog, area: Identifier) -> None:
    with pytest.raises(AlreadyExists) as error:
        catalog.functions.create(area, FunctionSpec())
    assert error.value.resource_type is ResourceType.FUNCTION
    assert error.value.resource_name == "area"
    catalog.functions.create(area, FunctionSpec(), ignore_if_exists=True)
    assert catalog.functions.get(area).spec == SPEC


def test_what_is_missing_is_named(catalog: Catalog, sales: None) -> None:
    nothing = Identifier("sales", "nothing")
    for action in (
        lambda: catalog.functions.get(nothing),
        lambda: catalog.functions.alter(nothing, [SetOption("a", "b")]),
        lambda: catalog.functions.drop(nothing),
        lambda: catalog.functions.get(Identifier("none", "nothing")),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is ResourceType.FUNCTION
        assert error.value.resource_name == "nothing"
    for of_database in (
        lambda: catalog.functions.list("none"),
        lambda: catalog.functions.list_details("none"),
        lambda: catalog.functions.create(Identifier("none", "area"), SPEC),
    ):
        with pytest.raises(NotFound) as error:
            of_database()
        assert error.value.resource_type is ResourceType.DATABASE
        assert error.value.resource_name == "none"


def test_a_dropped_function_is_gone(catalog: Catalog, area: Identifier) -> None:
    catalog.functions.drop(area)
    assert list(catalog.functions.list("sales").items) == []
    catalog.functions.drop(area, ignore_if_not_exists=True)
    catalog.functions.create(area, SPEC)


def test_a_function_is_changed(catalog: Catalog, area: Identifier) -> None:
    before = catalog.functions.get(area)
    changes: list[FunctionChange] = [
        SetOption("team", "shipping"),
        RemoveOption("never-there"),
        UpdateComment("of anything"),
        AddDefinition("duckdb", SQL),
        UpdateDefinition("trino", SqlDefinition("width * length")),
        DropDefinition("spark"),
        DropDefinition("hive"),
    ]
    catalog.functions.alter(area, changes)
    found = catalog.functions.get(area)
    assert found.id == before.id
    assert found.created_at == before.created_at <= found.updated_at
    assert found.spec == FunctionSpec(
        SPEC.input_params,
        SPEC.return_params,
        {
            "trino": SqlDefinition("width * length"),
            "flink": SPEC.definitions["flink"],
            "duckdb": SQL,
        },
        False,
        "of anything",
        {"team": "shipping"},
    )


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        (AddDefinition("trino", SQL), AlreadyExists, "trino"),
        (UpdateDefinition("duckdb", SQL), NotFound, "duckdb"),
        (DropDefinition("duckdb"), NotFound, "duckdb"),
    ],
)
def test_all_changes_are_made_or_none(
    catalog: Catalog, area: Identifier, change: FunctionChange, kind: type[Exception], name: str
) -> None:
    with pytest.raises((AlreadyExists, NotFound)) as error:
        catalog.functions.alter(area, [UpdateComment(None), change])
    assert isinstance(error.value, kind)
    assert error.value.resource_type is ResourceType.DEFINITION
    assert error.value.resource_name == name
    assert catalog.functions.get(area).spec == SPEC


def test_functions_go_with_their_database(catalog: Catalog, area: Identifier) -> None:
    catalog.databases.drop("sales")
    with pytest.raises(NotFound):
        catalog.functions.get(area)
    catalog.databases.create("sales")
    assert list(catalog.functions.list("sales").items) == []


def test_lists_come_in_pages(catalog: Catalog, sales: None) -> None:
    names = [f"f{n}" for n in range(5)]
    for name in reversed(names):
        catalog.functions.create(Identifier("sales", name), FunctionSpec(comment=name))
    found: list[str] = []
    comments: list[str | None] = []
    token = None
    while True:
        page = catalog.functions.list("sales", max_results=2, page_token=token)
        details = catalog.functions.list_details("sales", max_results=2, page_token=token)
        assert len(page.items) <= 2
        assert details.next_token == page.next_token
        found += page.items
        comments += [info.spec.comment for info in details.items]
        token = page.next_token
        if token is None:
            break
    assert found == comments == names


def test_functions_of_all_databases(catalog: Catalog) -> None:
    names = [
        Identifier(database, name) for database in ("archive", "sales") for name in ("f.1", "g")
    ]
    for database in ("archive", "empty", "sales"):
        catalog.databases.create(database)
    for name in names:
        catalog.functions.create(name, SPEC)
    found: list[Identifier] = []
    token = None
    while True:
        page = catalog.functions.list_globally(max_results=1, page_token=token)
        found += page.items
        token = page.next_token
        if token is None:
            break
    assert found == names
    narrowed = catalog.functions.list_globally(database_pattern="s%", pattern="f%").items
    assert list(narrowed) == [Identifier("sales", "f.1")]
    assert list(catalog.functions.list("sales", pattern="f%").items) == ["f.1"]
