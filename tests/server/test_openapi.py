"""The API's description is the application's, complete, and the one in the repository."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests import plain_http

from headwater.catalog.wire.tables import WireModel
from headwater.server.export_openapi import export

COMMITTED = Path(__file__).parents[2] / "openapi" / "headwater.json"
# The application's, as the first test proves: to make it anew takes a second of each process that
# looks for tests.
DOCUMENT: dict[str, Any] = json.loads(COMMITTED.read_text())
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def test_the_file_in_the_repository_is_up_to_date() -> None:
    # If not: headwater openapi --output openapi/headwater.json
    exported = export()
    assert json.loads(exported) == DOCUMENT
    assert COMMITTED.read_text() == exported


def test_the_server_gives_it_to_anybody(address: str) -> None:
    assert plain_http.get(f"{address}/openapi.json").json() == DOCUMENT


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_described(operation: str) -> None:
    described = OPERATIONS[operation]
    assert described["summary"]
    assert described["description"]
    assert described["operationId"]
    assert "422" not in described["responses"]
    if "/v1/" in operation:
        assert described["security"] == [{"bearer": []}]
        assert {"400", "401", "500", "503"} <= set(described["responses"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_its_parameters_are_described(operation: str) -> None:
    for parameter in OPERATIONS[operation].get("parameters", ()):
        assert parameter.get("description"), parameter["name"]


def test_groups_of_operations_are_described() -> None:
    named = {tag for described in OPERATIONS.values() for tag in described["tags"]}
    assert {tag["name"] for tag in DOCUMENT["tags"] if tag["description"]} == named


def test_what_models_say_of_their_fields_stands_at_the_fields() -> None:
    models = DOCUMENT["components"]["schemas"]
    assert not [name for name, model in models.items() if "Attributes:" in str(model)]
    assert models["CommitTableRequest"]["properties"]["snapshot"]["description"]


def test_every_field_is_described() -> None:
    models = DOCUMENT["components"]["schemas"]
    assert not [
        (name, field)
        for name, model in models.items()
        for field, described in model.get("properties", {}).items()
        if not described.get("description")
    ]


def test_operations_have_names_of_their_own() -> None:
    names = [described["operationId"] for described in OPERATIONS.values()]
    assert len(set(names)) == len(names)


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def test_every_reference_leads_somewhere() -> None:
    for reference in _references(DOCUMENT):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            assert part in found, reference
            found = found[part]


def _models(base: type[BaseModel] = WireModel) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def test_every_body_has_an_example_that_is_one() -> None:
    models = {model.__name__: model for model in _models()}
    without = []
    for name, described in DOCUMENT["components"]["schemas"].items():
        if "examples" not in described:
            without.append(name)
            continue
        for example in described["examples"]:
            written = json.loads(models[name].model_validate(example).model_dump_json())
            assert {key: written[key] for key in example} == example, name
    assert without == ["Health", "JsonValue"]


def test_errors_have_examples() -> None:
    for response in DOCUMENT["components"]["responses"].values():
        content = response["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorResponse"}
        assert content["examples"]


class _Page(HTMLParser):
    """Collects what a page refers to, and what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.places: set[str] = set()
        self.elements: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            if name in {"href", "src", "action", "data", "srcset", "poster"}:
                self.references.append(str(value))
            if name == "id":
                self.places.add(f"#{value}")


def test_the_page_needs_nothing_from_elsewhere(address: str) -> None:
    answer = plain_http.get(f"{address}/docs", timeout=60)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    shown = _Page()
    shown.feed(answer.text)
    assert not shown.elements & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert set(shown.references) - shown.places == {"openapi.json"}
    assert "@import" not in answer.text
    assert "url(" not in answer.text


def test_the_page_shows_every_operation_and_schema(address: str) -> None:
    text = plain_http.get(f"{address}/docs", timeout=60).text
    document = plain_http.get(f"{address}/openapi.json", timeout=60).json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<b>{method.upper()}</b> <code>{path}</code>" in text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in text
