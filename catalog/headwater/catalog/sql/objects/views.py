"""Views, in the SQL database alone."""

from __future__ import annotations

from dataclasses import replace

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewChange, ViewInfo, ViewSchema, changed_view
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import ViewRow
from headwater.catalog.sql.objects.named_objects import ObjectShape, SqlNamedObjects
from headwater.catalog.sql.queries.names import check_view_name
from headwater.catalog.wire.views import ViewSchemaModel
from headwater.storage.errors import ResourceType

__all__ = ["SqlViews"]

_VIEW = ObjectShape(
    kind=ResourceType.VIEW,
    model=ViewRow,
    check_name=check_view_name,
    to_json=lambda schema: ViewSchemaModel.of(schema).model_dump_json(),
    from_json=lambda document: ViewSchemaModel.model_validate_json(document).view_schema(),
    changed=changed_view,
    info=ViewInfo,
)


class SqlViews(SqlNamedObjects[ViewSchema, ViewChange, ViewInfo]):
    """The views of one warehouse (`headwater.catalog.model.views.Views`).

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        super().__init__(context, _VIEW)

    def replace(
        self, identifier: Identifier, content: ViewSchema, *, keep_properties: bool = False
    ) -> None:
        """Let a view say something else; it stays the same view; NotFound."""
        if not keep_properties:
            return super().replace(identifier, content)

        def following(before: ViewSchema) -> ViewSchema:
            return replace(content, comment=before.comment, options=before.options)

        return self._rewrite("replace", identifier, following)

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name; NotFound (VIEW, DATABASE), AlreadyExists (VIEW)."""
        self._rename(source, destination)
