"""The API's description as a page for people, which needs nothing but itself to be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

__all__ = ["POLICY", "page"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The content security policy of the page: nothing is loaded, and nothing runs."""

_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.9em/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8885; border-radius: 4px; }
details { border-top: 1px solid #8885; padding: 0.5rem 0; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-top: 1px solid #8885; padding: 0.25rem 0.5rem; text-align: left; }
th, td { vertical-align: top; }
"""
_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")


def page(document: Mapping[str, Any]) -> str:
    """The HTML page of an OpenAPI document."""
    return "\n".join(_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    info = document["info"]
    title = escape(f"{info['title']} API, version {info['version']}")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f"<title>{title}</title>"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>\n{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    yield f"<p>{_prose(info['description'])}</p>"
    yield '<p>The same as an OpenAPI document: <a href="openapi.json">openapi.json</a>.</p>'
    tags = document["tags"]
    links = (f'<a href="#{escape(tag["name"])}">{escape(tag["name"])}</a>' for tag in tags)
    yield f'<nav>{" · ".join(links)} · <a href="#schemas">schemas</a></nav>'
    for tag in tags:
        yield f'<h2 id="{escape(tag["name"])}">{escape(tag["name"])}</h2>'
        yield f"<p>{_prose(tag['description'])}</p>"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", ()):
                    yield from _operation(document, method.upper(), path, operation)
    yield '<h2 id="schemas">schemas</h2>'
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)
    yield "</body>\n</html>"


def _operation(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    summary = f"<b>{method}</b> <code>{escape(path)}</code> {_prose(operation['summary'])}"
    yield f"<details>\n<summary>{summary}</summary>"
    yield f"<p>{_prose(operation.get('description', ''))}</p>"
    if not operation["security"]:
        yield "<p>Needs no token.</p>"
    parameters = operation.get("parameters", ())
    if parameters:
        rows = (
            (
                f"<code>{escape(each['name'])}</code>",
                escape(each["in"]),
                _type(each["schema"]),
                _prose(each.get("description", "")),
            )
            for each in parameters
        )
        yield from _table(("parameter", "in", "type", "meaning"), rows)
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield f"<p>Body: {_type(schema)}</p>"
    answers = []
    for status, given in operation["responses"].items():
        response = _resolved(document, given)
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        answers.append((escape(status), _type(schema), _prose(response["description"])))
    yield from _table(("status", "body", "meaning"), answers)
    yield "</details>"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<details id="schema-{escape(name)}">\n<summary><code>{escape(name)}</code></summary>'
    yield f"<p>{_prose(schema.get('description', ''))}</p>"
    required = schema.get("required", ())
    rows = (
        (
            f"<code>{escape(field)}</code>{'' if field in required else ' (optional)'}",
            _type(told),
            _prose(told.get("description", "")),
        )
        for field, told in schema.get("properties", {}).items()
    )
    yield from _table(("field", "type", "meaning"), rows)
    for example in schema.get("examples", ()):
        text = json.dumps(example, indent=2, ensure_ascii=False)
        yield f"<pre>{escape(text)}</pre>"
    yield "</details>"


def _table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[Any]) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th>{each}</th>' for each in headings)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>"
    yield "</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """The name of a type, with links to the schemas that it is made of."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_type(each) for each in schema[several])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_type(schema['additionalProperties'])}"
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(json.dumps(each))}</code>" for each in values)
    return escape(str(schema.get("type", "any")))


def _resolved(document: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    found: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    assert isinstance(found, Mapping)
    return found


def _prose(text: str) -> str:
    """Text with code and emphasis, as descriptions are written."""
    shown = _BOLD.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", escape(text)))
    return shown.replace("\n\n", "</p><p>")
