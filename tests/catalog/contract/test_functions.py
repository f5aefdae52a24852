"""Functions, over every catalog: what they say, and their names. See `test_named_objects`."""

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
from headwater.storage.errors import Invalid
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


def test_other_names_are_refused(catalog: Catalog, sales: None, subtests: pytest.Subtests) -> None:
    for name in ("", "a/b", "a\\b", "a$b", "a b", "123", "_-", "..", "é", "a\n", "a" * 300):
        with subtests.test(name=name):
            with pytest.raises(Invalid):
                catalog.functions.create(Identifier("sales", name), SPEC)
            assert list(catalog.functions.list("sales").items) == []


@pytest.mark.parametrize("no_type", ["NUMBERS", {"type": "ARRAY"}, 3, None])
def test_a_parameter_of_no_type_is_refused(no_type: Json) -> None:
    with pytest.raises(Invalid, match="'x'"):
        Column(0, "x", no_type)


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
