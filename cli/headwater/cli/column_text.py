"""Columns as SQL writes them, ``price DECIMAL(10, 2) NOT NULL COMMENT 'net'``."""

from __future__ import annotations

import re
from contextlib import suppress

from headwater.catalog.model.column import Column
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import DataField, FieldIds, Json, parse_type, type_json

__all__ = ["changed_field", "column_text", "columns", "field_path", "field_text", "fields"]

_COLUMN = re.compile(
    r"\s*(?P<name>(?:`[^`]+`|[^\s`])+)\s+(?P<type>.+?)"
    r"(?:\s+COMMENT\s+'(?P<comment>(?:[^']|'')*)')?\s*",
    re.IGNORECASE | re.DOTALL,
)
_NESTED = re.compile(
    r"\s*(?P<head>ARRAY|MULTISET|MAP|ROW)\s*<(?P<parts>.*)>\s*(?P<not>NOT\s+NULL)?(?:NULL)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_NAME_PART = re.compile(r"`([^`]+)`|([^.`]+)")


def fields(texts: list[str]) -> tuple[DataField, ...]:
    """The columns of a table.

    Raises:
        Invalid: A text is not a column.
        Unsupported: Headwater does not know a type.
    """
    ids = FieldIds()
    return tuple(_field(text, ids) for text in texts)


def _field(text: str, ids: FieldIds) -> DataField:
    document = _document(text, ids)
    try:
        return DataField.from_json(document)
    except (Invalid, Unsupported) as error:
        raise type(error)(f"column '{text}': {error.message}") from error


def changed_field(text: str) -> tuple[tuple[str, ...], DataField]:
    """A column that is added or gets another type, and the way to it; raises as `fields` does."""
    return field_path(_matched(text)["name"]), fields([text])[0]


def columns(texts: list[str]) -> tuple[Column, ...]:
    """The columns of a view, or the parameters of a function; raises Invalid."""
    ids = FieldIds()
    found: list[Column] = []
    for text in texts:
        document = _document(text, ids)
        written = document["type"]
        with suppress(Unsupported):  # as written, for the engines that know it
            written = type_json(parse_type(written))
        number, name, comment = document["id"], document["name"], document.get("description")
        assert isinstance(number, int)
        assert isinstance(name, str)
        assert comment is None or isinstance(comment, str)
        found.append(Column(number, name, written, comment))
    return tuple(found)


def field_path(name: str) -> tuple[str, ...]:
    """The way to a nested field, ``address.zip``; a dot between backquotes is part of a name."""
    parts = _NAME_PART.findall(name)
    if not parts or name != ".".join(f"`{quoted}`" if quoted else plain for quoted, plain in parts):
        raise Invalid(
            f"'{name}' is not a column; write it as NAME, or PARENT.NAME for a nested one"
        )
    return tuple(quoted or plain for quoted, plain in parts)


def column_text(column: Column) -> str:
    """A view column's or a parameter's type and comment as SQL writes them."""
    try:
        return str(column.data_type) + _clause("COMMENT", column.description)
    except Unsupported:
        return str(column.type) + _clause("COMMENT", column.description)


def field_text(field: DataField) -> str:
    """A table column's type, default and comment as SQL writes them."""
    default = _clause("DEFAULT", field.default_value)
    return str(field.type) + default + _clause("COMMENT", field.description)


def _clause(word: str, text: str | None) -> str:
    if text is None:
        return ""
    quoted = text.replace("'", "''")
    return f" {word} '{quoted}'"


def _matched(text: str) -> re.Match[str]:
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise Invalid(f"'{text}' is not a column; write it as 'NAME TYPE', as in 'price DOUBLE'")
    return match


def _document(text: str, ids: FieldIds) -> dict[str, Json]:
    match = _matched(text)
    document: dict[str, Json] = {"id": ids.take(), "name": match["name"].strip("`")}
    document["type"] = _type(match["type"], ids)
    if match["comment"] is not None:
        document["description"] = match["comment"].replace("''", "'")
    return document


def _type(text: str, ids: FieldIds) -> Json:
    nested = _NESTED.fullmatch(text)
    if nested is None:
        return text.strip()
    head = nested["head"].upper()
    parts = _parts(nested["parts"])
    document: dict[str, Json] = {"type": f"{head} NOT NULL" if nested["not"] else head}
    match head, len(parts):
        case "ROW", _:
            document["fields"] = [_document(part, ids) for part in parts]
        case "MAP", 2:
            document["key"], document["value"] = (_type(part, ids) for part in parts)
        case "ARRAY" | "MULTISET", 1:
            document["element"] = _type(parts[0], ids)
        case _:
            raise Invalid(f"'{text}' is not a data type")
    return document


def _parts(text: str) -> list[str]:
    """The parts between commas outside brackets, quotes and backquotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and not depth:
            parts.append("")
            continue
        parts[-1] += character
    return parts
