"""Text of the API's description: parameters, fields and groups of operations.

Parameters are said once here, because the same few names stand in every path. Fields are said where
they are made, in the `Attributes` of the wire models, or in the glossary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_camel, to_pascal

from headwater.server.api_description.glossary import FIELDS

__all__ = ["make_readable"]

_PARAMETERS: Mapping[str, tuple[str, str]] = {
    "prefix": ("The warehouse's name, as returned by `/v1/config`.", "main"),
    "warehouse": ("A warehouse's name.", "main"),
    "database": ("A database's name.", "sales"),
    "table": ("A table's name; a suffix `$branch_…` selects one of its branches.", "orders"),
    "tableId": ("A table's id, which it keeps when it is renamed.", ""),
    "table_id": ("The dropped table's id.", ""),
    "user": ("The user of commits, as its snapshots name it.", "billing-job"),
    "version": ("A snapshot's id, a tag's name, `EARLIEST` or `LATEST`.", "LATEST"),
    "tag": ("A tag's name.", "v1"),
    "branch": ("A branch's name, other than `main`.", "trial"),
    "deletion": ("A deletion's id.", "7a5c1f0e-9c0b-4f39-8a55-0f8f9f1f0a11"),
    "view": ("A view's name.", "recent"),
    "function": ("A function's name.", "area"),
    "token": ("A token's name.", "nightly-spark"),
    "group": ("A group's name.", "analysts"),
    "principal": ("A principal's name.", "ada"),
}
"""Parameters that name things, with an example for paths if there is a telling one."""

_TAGS: Mapping[str, str] = {
    "config": "Configuration, the first thing that a client asks for.",
    "database": "Databases and their options.",
    "table": "Tables: their schemas, names and locations.",
    "snapshot": "Commits, the history they make, and rollbacks.",
    "tag": "Names of snapshots, which keep them from expiring.",
    "branch": "Alternative histories of a table.",
    "deletion": "Deletions of a table's files, serialised with its tags, branches and consumers.",
    "partition": "The partitions of tables with `metastore.partitioned-table`.",
    "consumer": "Saved positions of readers in a table's history.",
    "view": "Views, with a query for each dialect.",
    "function": "Functions and their definitions.",
    "permission": "Grants of access to principals and groups.",
    "policy": "Row filters and column masks of tables.",
    "label": "Labels of databases, tables, views and functions.",
    "management": "Administration; Headwater's own, not Paimon's.",
    "health": "For load balancers and monitoring; no token is needed.",
}
"""Each group of operations, in the order that people read them."""

_DONE = "Done."
_ATTRIBUTES = re.compile(r"\n*^Attributes:\n(?P<lines>.*)\Z", re.MULTILINE | re.DOTALL)
_ATTRIBUTE = re.compile(r"^    (?P<name>\w+): (?P<text>.*(?:\n {5,}.*)*)", re.MULTILINE)


def make_readable(document: dict[str, Any]) -> None:
    """Add to an OpenAPI document what its readers need, in place."""
    used = {tag for operation in _operations(document) for tag in operation.get("tags", ())}
    document["tags"] = [
        {"name": name, "description": text} for name, text in _TAGS.items() if name in used
    ]
    for operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            _describe(parameter)
        operation["responses"]["200"]["description"] = _DONE
    for schema in document["components"]["schemas"].values():
        _describe_fields(schema)


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _describe(parameter: dict[str, Any]) -> None:
    text, example = _PARAMETERS.get(parameter["name"], ("", ""))
    if text:
        parameter.setdefault("description", text)
    if example and parameter["in"] == "path":
        parameter.setdefault("example", example)


def _describe_fields(schema: dict[str, Any]) -> None:
    """Move the attributes of a model's docstring to the fields that they describe."""
    text = schema.get("description", "")
    section = _ATTRIBUTES.search(text)
    if section is not None:
        schema["description"] = text[: section.start()].rstrip()
        fields = schema.get("properties", {})
        for attribute in _ATTRIBUTE.finditer(section["lines"]):
            name = attribute["name"]
            # Models whose JSON is another maker's have its names.
            found_names = (
                each for each in (name, to_camel(name), to_pascal(name)) if each in fields
            )
            field = fields.get(next(found_names, ""))
            if field is not None:
                field.setdefault("description", _markdown(" ".join(attribute["text"].split())))
    for name, field in schema.get("properties", {}).items():
        if name in FIELDS:
            field.setdefault("description", FIELDS[name])
    if "description" in schema:
        schema["description"] = _markdown(schema["description"])


def _markdown(text: str) -> str:
    """Docstrings write code in double backticks."""
    return text.replace("``", "`")
