"""The JSON about views. See `…catalog.wire`; the sources are ``ViewSchema.java`` and
``ViewChange.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import (
    AddDialect,
    DropDialect,
    UpdateDialect,
    ViewChange,
    ViewInfo,
    ViewSchema,
)
from headwater.catalog.wire.examples import AUDIT, example
from headwater.catalog.wire.named_objects import (
    ColumnModel,
    PropertyChangeModel,
    property_change_model,
)
from headwater.catalog.wire.tables import (
    AuditedModel,
    IdentifierModel,
    Listed,
    WireModel,
    audit_fields,
    without_nulls,
)

__all__ = [
    "AddDialectModel",
    "AlterViewRequest",
    "CreateViewRequest",
    "DropDialectModel",
    "GetViewResponse",
    "ListViewDetailsResponse",
    "ListViewsGloballyResponse",
    "ListViewsResponse",
    "ReplaceViewRequest",
    "UpdateDialectModel",
    "ViewSchemaModel",
]

_VIEW_SCHEMA: dict[str, JsonValue] = {
    "fields": [{"id": 0, "name": "order_id", "type": "BIGINT"}],
    "query": "SELECT order_id FROM sales.orders WHERE dt >= '2026-01-01'",
    "dialects": {"spark": "SELECT order_id FROM orders WHERE dt >= '2026-01-01'"},
    "comment": "The orders of this year.",
    "options": {},
}
_VIEW: dict[str, JsonValue] = {
    "id": "1f7b0c5e-52a6-4c0b-8d0f-7f2f3b9f0a31",
    "name": "recent",
    "schema": _VIEW_SCHEMA,
    **AUDIT,
}
_RECENT: dict[str, JsonValue] = {"database": "sales", "object": "recent"}


class ViewSchemaModel(WireModel):
    """The content of a view.

    Attributes:
        query: The query for every engine that has none in `dialects`.
        dialects: The queries of single engines, by the engine's name.
    """

    model_config = example(_VIEW_SCHEMA)

    fields: list[ColumnModel]
    query: str
    dialects: dict[str, str | None] | None = None
    comment: str | None = None
    options: dict[str, str | None] | None = None

    @staticmethod
    def of(schema: ViewSchema) -> ViewSchemaModel:
        """The wire form; the maps are never null, which Java does not expect."""
        return ViewSchemaModel(
            fields=[ColumnModel.of(column) for column in schema.columns],
            query=schema.query,
            dialects=dict(schema.dialects),
            comment=schema.comment,
            options=dict(schema.options),
        )

    def view_schema(self) -> ViewSchema:
        """The view's schema; raises Invalid when a column's type is none of Paimon's."""
        return ViewSchema(
            columns=tuple(item.column() for item in self.fields),
            query=self.query,
            dialects=without_nulls(self.dialects),
            comment=self.comment,
            options=without_nulls(self.options),
        )


class CreateViewRequest(WireModel):
    """``POST …/views``.

    Attributes:
        schema: The view's columns and queries.
    """

    model_config = example({"identifier": _RECENT, "schema": _VIEW_SCHEMA})

    identifier: IdentifierModel
    view_schema: ViewSchemaModel = Field(alias="schema")

    @staticmethod
    def of(identifier: Identifier, schema: ViewSchema) -> CreateViewRequest:
        """The wire form."""
        return CreateViewRequest(
            identifier=IdentifierModel.of(identifier), schema=ViewSchemaModel.of(schema)
        )


class ReplaceViewRequest(WireModel):
    """``POST …/views/{view}/replace``, which Paimon's API does not have.

    Attributes:
        schema: The view's columns and queries.
        keep_properties: True leaves the view its comment and options, whatever `schema` says.
    """

    model_config = example({"schema": _VIEW_SCHEMA, "keepProperties": True})

    view_schema: ViewSchemaModel = Field(alias="schema")
    keep_properties: bool = Field(default=False, alias="keepProperties")

    @staticmethod
    def of(schema: ViewSchema, *, keep_properties: bool = False) -> ReplaceViewRequest:
        """The wire form."""
        return ReplaceViewRequest(schema=ViewSchemaModel.of(schema), keepProperties=keep_properties)


class AddDialectModel(WireModel):
    """Give a view a query for an engine that has none of its own yet."""

    model_config = example(
        {
            "action": "addDialect",
            "dialect": "flink",
            "query": "SELECT order_id FROM orders",
        }
    )

    action: Literal["addDialect"] = "addDialect"
    dialect: str
    query: str

    def change(self) -> AddDialect:
        """The change."""
        return AddDialect(self.dialect, self.query)


class UpdateDialectModel(WireModel):
    """Replace an engine's own query."""

    model_config = example(
        {
            "action": "updateDialect",
            "dialect": "spark",
            "query": "SELECT order_id FROM orders",
        }
    )

    action: Literal["updateDialect"] = "updateDialect"
    dialect: str
    query: str

    def change(self) -> UpdateDialect:
        """The change."""
        return UpdateDialect(self.dialect, self.query)


class DropDialectModel(WireModel):
    """Take an engine's own query away."""

    model_config = example({"action": "dropDialect", "dialect": "spark"})

    action: Literal["dropDialect"] = "dropDialect"
    dialect: str

    def change(self) -> DropDialect:
        """The change."""
        return DropDialect(self.dialect)


_ChangeModel: TypeAlias = Annotated[
    PropertyChangeModel | AddDialectModel | UpdateDialectModel | DropDialectModel,
    Field(discriminator="action"),
]


class AlterViewRequest(WireModel):
    """``POST …/views/{view}``."""

    model_config = example(
        {
            "changes": [
                {
                    "action": "addDialect",
                    "dialect": "flink",
                    "query": "SELECT order_id FROM orders",
                },
                {"action": "updateComment", "comment": "Since 2026."},
            ]
        }
    )

    changes: list[_ChangeModel]

    @staticmethod
    def of(changes: Sequence[ViewChange]) -> AlterViewRequest:
        """The wire form."""
        return AlterViewRequest(changes=[_change_model(change) for change in changes])


def _change_model(change: ViewChange) -> _ChangeModel:
    match change:
        case AddDialect():
            return AddDialectModel(dialect=change.dialect, query=change.query)
        case UpdateDialect():
            return UpdateDialectModel(dialect=change.dialect, query=change.query)
        case DropDialect():
            return DropDialectModel(dialect=change.dialect)
        case _:
            return property_change_model(change)


class GetViewResponse(AuditedModel):
    """A view.

    Attributes:
        schema: Its columns and queries.
    """

    model_config = example(_VIEW)

    id: str
    name: str
    view_schema: ViewSchemaModel = Field(alias="schema")

    @staticmethod
    def of(info: ViewInfo) -> GetViewResponse:
        """The wire form."""
        return GetViewResponse(
            id=info.id,
            name=info.identifier.name,
            schema=ViewSchemaModel.of(info.schema),
            **audit_fields(info),
        )

    def info(self, database: str) -> ViewInfo:
        """The view; the answer leaves its database to be known."""
        return ViewInfo(
            id=self.id,
            identifier=Identifier(database, self.name),
            schema=self.view_schema.view_schema(),
            **self.audit(),
        )


class ListViewsResponse(Listed[str]):
    """View names."""

    model_config = example({"views": ["recent"], "nextPageToken": None})

    items: list[str] | None = Field(default=None, alias="views")


class ListViewDetailsResponse(Listed[GetViewResponse]):
    """Views with their schemas."""

    model_config = example({"viewDetails": [_VIEW], "nextPageToken": None})

    items: list[GetViewResponse] | None = Field(default=None, alias="viewDetails")


class ListViewsGloballyResponse(Listed[IdentifierModel]):
    """Views of all databases."""

    model_config = example({"views": [_RECENT], "nextPageToken": None})

    items: list[IdentifierModel] | None = Field(default=None, alias="views")
