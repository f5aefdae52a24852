"""Comments of columns that ask for the types BLOB and VECTOR (``ColumnDirectiveUtils.java``).

Engines whose SQL has no such types declare the column as bytes or as an array, with a comment that
begins with a directive: ``__BLOB_FIELD; a picture``, ``__VECTOR_FIELD;128; an embedding``. The
column gets the type, an option names it, and its comment is what follows the directive. Paimon's
Spark takes the options alone, too, without a comment (``SparkCatalog.toInitialSchema``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.storage.errors import Invalid
from headwater.storage.schema.option_changes import listed_names
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema.type_rules import is_blob
from headwater.storage.types.atomic_type import AtomicType, Root, VectorType, vector_type
from headwater.storage.types.data_type import ArrayType, DataField, DataType, MapType

__all__ = [
    "apply_directive",
    "apply_directives",
    "refuse_directive",
    "with_types_of_options",
    "without_dropped_column",
]

_BLOB_FIELD = "blob-field"
_VECTOR_FIELD = "vector-field"
# The option that each of them appends the column to.
_OPTIONS: Mapping[str, str] = {
    "__BLOB_FIELD": _BLOB_FIELD,
    "__BLOB_DESCRIPTOR_FIELD": "blob-descriptor-field",
    "__BLOB_VIEW_FIELD": "blob-view-field",
    "__VECTOR_FIELD": _VECTOR_FIELD,
}
_FAMILIES = ("__BLOB", "__VECTOR")
# What the options were called before, read where they are not set.
_FORMER: Mapping[str, str] = {"blob-descriptor-field": "blob.stored-descriptor-fields"}
_BLOB_SOURCES = (Root.VARBINARY, Root.BINARY, Root.BLOB)
_MAP_OPTIONS = (
    "map.storage-layout",
    "map.shared-shredding.max-columns",
    "map.shared-shredding.column-placement-policy",
)
# What Java's String.trim() takes off.
_BLANKS = "".join(map(chr, range(0x21)))
_INTEGER = re.compile(r"[+-]?\d{1,10}")


@dataclass(frozen=True)
class _Directive:
    """The type that a comment, or an option, asks for.

    Attributes:
        name: The directive.
        dimension: The number of elements of a VECTOR; 0 for a BLOB.
        comment: The column's comment, without the directive.
        by_option: True if an option asks for it, and no comment.
    """

    name: str
    dimension: int
    comment: str | None
    by_option: bool = False

    @property
    def option(self) -> str:
        return _OPTIONS[self.name]

    @property
    def origin(self) -> str:
        """The comment or option that asks for the type, as it follows the column in messages."""
        return (
            f"that '{self.option}' names" if self.by_option else f"with the directive '{self.name}'"
        )


def apply_directives(schema: Schema) -> Schema:
    """A new table's schema with the directives in its columns' comments obeyed.

    Raises:
        Invalid: A directive is unknown or malformed, or the column has a default or a type that
            cannot become the one asked for.
    """
    options = dict(schema.options)
    fields = tuple(apply_directive(item, options) for item in schema.fields)
    return schema if fields == schema.fields else replace(schema, fields=fields, options=options)


def apply_directive(column: DataField, options: dict[str, str]) -> DataField:
    """The column as its comment asks for it; the options get its name.

    Raises:
        Invalid: As `apply_directives` says.
    """
    directive = _parsed(column.name, column.description)
    if directive is None:
        return column
    converted = _converted(column, directive)
    _append(options, directive.option, column.name)
    return replace(column, type=converted, description=directive.comment)


def with_types_of_options(
    fields: Sequence[DataField], options: Mapping[str, str]
) -> tuple[DataField, ...]:
    """A new table's columns, of the types BLOB and VECTOR where its options name them.

    A vector has as many elements as ``field.<column>.vector-dim`` says.

    Raises:
        Invalid: A column has a default or a type that cannot become the one asked for, or nothing
            says the length of a vector.
    """
    named: dict[str, _Directive] = {}
    for directive, option in _OPTIONS.items():
        for name in listed_names(options.get(option, "")):
            named[name] = _Directive(directive, 0, None, by_option=True)
    found: list[DataField] = []
    for column in fields:
        asked = named.get(column.name)
        if asked is None or isinstance(column.type, VectorType):
            found.append(column)
            continue
        if asked.option == _VECTOR_FIELD:
            asked = replace(asked, dimension=_given_dimension(column.name, options))
        found.append(replace(column, type=_converted(column, asked)))
    return tuple(found)


def _given_dimension(column: str, options: Mapping[str, str]) -> int:
    key = f"field.{column}.vector-dim"
    length = options.get(key, "").strip(_BLANKS)
    if not length:
        raise Invalid(f"'{_VECTOR_FIELD}' names '{column}': set '{key}' to the vector's length")
    if _INTEGER.fullmatch(length) is None:
        raise Invalid(f"'{key}' is the vector's length, an integer, not '{length}'")
    return int(length)


def refuse_directive(column: str, comment: str | None, reason: str) -> None:
    """Refuse a directive, and a malformed one, where there is none; raises Invalid."""
    if _parsed(column, comment) is not None:
        raise Invalid(f"column '{column}': the comment '{comment}' is a directive, but {reason}")


def without_dropped_column(options: Mapping[str, str], column: DataField) -> dict[str, str]:
    """The options without what directives and the column's type put there about a column."""
    kept = dict(options)
    if is_blob(column.type):
        for option in _OPTIONS.values():
            if option != _VECTOR_FIELD:
                _remove(kept, option, column.name)
                _remove(kept, _FORMER.get(option, option), column.name)
    elif isinstance(column.type, VectorType):
        _remove(kept, _VECTOR_FIELD, column.name)
        kept.pop(f"field.{column.name}.vector-dim", None)
    elif isinstance(column.type, MapType):
        for option in _MAP_OPTIONS:
            kept.pop(f"fields.{column.name}.{option}", None)
    return kept


def _parsed(column: str, comment: str | None) -> _Directive | None:
    """The directive that a comment begins with; None for an ordinary comment."""
    text = (comment or "").strip(_BLANKS)
    family = next((prefix for prefix in _FAMILIES if text.startswith(prefix)), None)
    if family is None:
        return None
    name, mark, rest = text.partition(";")
    if name not in _OPTIONS:
        known = ", ".join(item for item in _OPTIONS if item.startswith(family))
        raise Invalid(
            f"column '{column}': the comment '{text}' begins like a directive, but the directives "
            f"are {known}, alone or with ';' behind; begin the comment with another word"
        )
    dimension = 0
    if _OPTIONS[name] == _VECTOR_FIELD:
        if not mark:
            raise Invalid(
                f"column '{column}': the directive '{name}' needs the vector's length, as in "
                f"'{name};128' or '{name};128; my comment'"
            )
        length, _, rest = rest.partition(";")
        length = length.strip(_BLANKS)
        if _INTEGER.fullmatch(length) is None:
            raise Invalid(
                f"column '{column}': behind '{name};' stands the vector's length, an integer, not "
                f"'{length}'"
            )
        dimension = int(length)
    return _Directive(name, dimension, rest.strip(_BLANKS) or None)


def _converted(column: DataField, directive: _Directive) -> DataType:
    name, data_type = column.name, column.type
    if column.default_value is not None:
        raise Invalid(f"column '{name}' {directive.origin} takes no default")
    if directive.option == _VECTOR_FIELD:
        element = data_type.element if isinstance(data_type, ArrayType) else None
        if not isinstance(element, AtomicType):
            raise Invalid(
                f"column '{name}' {directive.origin} must be an ARRAY of booleans or numbers, not "
                f"{data_type}"
            )
        return vector_type(element, directive.dimension, data_type.nullable)
    is_nested = isinstance(data_type, ArrayType | MapType)
    if is_nested and directive.option != _BLOB_FIELD:
        nesting = _BLOB_FIELD if directive.by_option else "__BLOB_FIELD"
        raise Invalid(
            f"column '{name}' {directive.origin} must be of type BYTES, BINARY or BLOB, not "
            f"{data_type}: only '{nesting}' takes arrays and maps"
        )
    match data_type:
        case ArrayType(element=AtomicType(root=root) as inner) if root in _BLOB_SOURCES:
            return replace(data_type, element=AtomicType(Root.BLOB, inner.nullable))
        case MapType(value=AtomicType(root=root) as inner) if root in _BLOB_SOURCES:
            return replace(data_type, value=AtomicType(Root.BLOB, inner.nullable))
        case AtomicType(root=root) if root in _BLOB_SOURCES:
            return AtomicType(Root.BLOB, data_type.nullable)
    raise Invalid(
        f"column '{name}' {directive.origin} must be of type BYTES, BINARY or BLOB, or an array or "
        f"a map of such values, not {data_type}"
    )


def _append(options: dict[str, str], option: str, column: str) -> None:
    former = _FORMER.get(option)
    # A name under the former option would be overlooked once the present one is set.
    if former is not None and not options.get(option):
        options[option] = options.pop(former, "")
    names = listed_names(options.get(option, ""))
    options[option] = ",".join(dict.fromkeys([*names, column]))


def _remove(options: dict[str, str], option: str, column: str) -> None:
    if not options.get(option):
        return
    names = [name for name in listed_names(options[option]) if name != column]
    if names:
        options[option] = ",".join(names)
    else:
        del options[option]
