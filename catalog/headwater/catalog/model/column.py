"""Columns of views and parameters of functions, of any type that an engine gives them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataType, Json, parse_type, type_json

__all__ = ["Column", "columns_from_arrow"]


@dataclass(frozen=True)
class Column:
    """A column of a view, or a parameter of a function (``DataField.java``).

    Attributes:
        id: The field's id.
        name: Its name.
        type: Its type's JSON form, kept as it was given: views and functions may have types that
            tables here cannot have.
        description: A comment, or None.
        default_value: The default as SQL text, or None.

    Raises:
        Invalid: The name is empty, or the type is none of Paimon's.
    """

    id: int
    name: str
    type: Json
    description: str | None = None
    default_value: str | None = None

    def __post_init__(self) -> None:
        """Refuse a field without a name, or of a type that is none of Paimon's."""
        if not self.name:
            raise Invalid("a field needs a name")
        try:
            parse_type(self.type)
        except Unsupported:
            # One of Paimon's; it is for the engine to know what to do with it.
            pass
        except Invalid as error:
            raise Invalid(f"field '{self.name}': {error.message}") from error

    @property
    def data_type(self) -> DataType:
        """The type; raises Unsupported for one that Headwater does not read."""
        return parse_type(self.type)


def columns_from_arrow(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns of an Arrow schema; raises Unsupported for a type that Paimon does not have."""
    return tuple(
        Column(item.id, item.name, type_json(item.type))
        for item in Schema.from_arrow(schema).fields
    )
