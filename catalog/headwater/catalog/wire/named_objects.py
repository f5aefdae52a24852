"""The JSON that all named objects share: columns, and changes of options and comment."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from headwater.catalog.model.column import Column
from headwater.catalog.model.named_objects import PropertyChange
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import WireModel
from headwater.storage.schema.change import RemoveOption, SetOption, UpdateComment

__all__ = [
    "ColumnModel",
    "PropertyChangeModel",
    "RemoveOptionModel",
    "SetOptionModel",
    "UpdateCommentModel",
    "property_change_model",
]


def _is_none(value: object) -> bool:
    return value is None


class ColumnModel(WireModel):
    """A column of a view, or a parameter of a function (``DataField.java``).

    A description or default that is not there is left out: Java reads a null as the text "null".

    Attributes:
        type: ``INT``, ``STRING NOT NULL``… or an object for a nested type.
    """

    model_config = example(
        {
            "id": 0,
            "name": "order_id",
            "type": "BIGINT",
            "description": "The order's number.",
        }
    )

    id: int
    name: str
    type: JsonValue
    description: str | None = Field(default=None, exclude_if=_is_none)
    default_value: str | None = Field(default=None, exclude_if=_is_none)

    @staticmethod
    def of(column: Column) -> ColumnModel:
        """The wire form."""
        return ColumnModel(
            id=column.id,
            name=column.name,
            type=column.type,
            description=column.description,
            default_value=column.default_value,
        )

    def column(self) -> Column:
        """The column; raises Invalid when its type is none of Paimon's."""
        return Column(self.id, self.name, self.type, self.description, self.default_value)


class SetOptionModel(WireModel):
    """Set an option."""

    model_config = example({"action": "setOption", "key": "team", "value": "billing"})

    action: Literal["setOption"] = "setOption"
    key: str
    value: str

    def change(self) -> SetOption:
        """The change."""
        return SetOption(self.key, self.value)


class RemoveOptionModel(WireModel):
    """Remove an option; removing one that is not set is no error."""

    model_config = example({"action": "removeOption", "key": "team"})

    action: Literal["removeOption"] = "removeOption"
    key: str

    def change(self) -> RemoveOption:
        """The change."""
        return RemoveOption(self.key)


class UpdateCommentModel(WireModel):
    """Set the comment, or remove it with null."""

    model_config = example({"action": "updateComment", "comment": "Since 2026."})

    action: Literal["updateComment"] = "updateComment"
    comment: str | None = None

    def change(self) -> UpdateComment:
        """The change."""
        return UpdateComment(self.comment)


PropertyChangeModel: TypeAlias = SetOptionModel | RemoveOptionModel | UpdateCommentModel
"""The changes that every kind has."""


def property_change_model(change: PropertyChange) -> PropertyChangeModel:
    """The wire form of a change that every kind has."""
    match change:
        case SetOption():
            return SetOptionModel(key=change.key, value=change.value)
        case RemoveOption():
            return RemoveOptionModel(key=change.key)
        case UpdateComment():
            return UpdateCommentModel(comment=change.comment)
