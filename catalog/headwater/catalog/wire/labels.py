"""The JSON about labels (``org.apache.paimon.rest.responses``). See `…catalog.wire`."""

from __future__ import annotations

from pydantic import Field, JsonValue

from headwater.catalog.model.labels import Entity, Label
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import Listed, WireModel

__all__ = ["GetLabelResponse", "ListLabelsResponse", "UpsertLabelRequest"]

_LABEL: dict[str, JsonValue] = {
    "entityType": "TABLE",
    "entityName": "sales.orders",
    "key": "domain",
    "value": "sales",
}


class UpsertLabelRequest(WireModel):
    """``POST …/labels/{entityType}/{entityName}/{key}``.

    Attributes:
        value: The value, at most 4096 characters; may be empty.
    """

    model_config = example({"value": "sales"})

    value: str


class GetLabelResponse(WireModel):
    """A label of an entity.

    Attributes:
        entity_type: DATABASE, TABLE, VIEW or FUNCTION.
        entity_name: The entity's whole name: `database` or `database.name`.
        key: The label's name.
        value: Its value.
    """

    model_config = example(_LABEL)

    entity_type: str
    entity_name: str
    key: str
    value: str

    @staticmethod
    def of(entity: Entity, label: Label) -> GetLabelResponse:
        """The wire form."""
        return GetLabelResponse(
            entity_type=entity.type, entity_name=entity.name, key=label.key, value=label.value
        )

    def label(self) -> Label:
        """The label; raises Invalid."""
        return Label(self.key, self.value)


class ListLabelsResponse(Listed[GetLabelResponse]):
    """Labels.

    Attributes:
        labels: The labels of this page, by key.
    """

    model_config = example({"labels": [_LABEL], "nextPageToken": None})

    items: list[GetLabelResponse] | None = Field(default=None, alias="labels")
