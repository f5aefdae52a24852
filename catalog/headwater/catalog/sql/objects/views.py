"""Views, in the SQL database alone: nothing of them is on storage."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.views import ViewChange, ViewInfo, ViewSchema, changed_view
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import ViewRow
from headwater.catalog.sql.objects.objects import NamedDocuments, ObjectRecord
from headwater.catalog.sql.queries.names import check_view_name
from headwater.catalog.wire.views import ViewSchemaModel
from headwater.storage.errors import ResourceType

__all__ = ["SqlViews"]


class SqlViews:
    """The views of one warehouse (`headwater.catalog.model.views.Views`).

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._documents = NamedDocuments(context, ViewRow, ResourceType.VIEW)

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """View names; all of them when `max_results` is None."""
        return self._documents.names(database, pattern, max_results, page_token)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ViewInfo]:
        """Views in the order of their names; all of them when `max_results` is None."""
        page = self._documents.records(database, pattern, max_results, page_token)
        return Page(tuple(_info(record) for record in page.items), page.next_token)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """Views of all databases, by database and name."""
        return self._documents.names_globally(database_pattern, pattern, max_results, page_token)

    def create(
        self, identifier: Identifier, schema: ViewSchema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a view; NotFound (DATABASE), AlreadyExists (VIEW)."""
        check_view_name(identifier)
        self._documents.create(identifier, _document(schema), ignore_if_exists)

    def get(self, identifier: Identifier) -> ViewInfo:
        """A view; NotFound (VIEW)."""
        return _info(self._documents.get(identifier))

    def alter(self, identifier: Identifier, changes: Sequence[ViewChange]) -> None:
        """Apply changes, all or none."""

        def edit(document: str) -> str:
            return _document(changed_view(identifier, _schema(document), changes))

        self._documents.change(identifier, edit)

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name, and another database if so asked."""
        check_view_name(destination)
        self._documents.rename(source, destination)

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view; NotFound (VIEW)."""
        self._documents.drop(identifier, ignore_if_not_exists)


def _document(schema: ViewSchema) -> str:
    return ViewSchemaModel.of(schema).model_dump_json()


def _schema(document: str) -> ViewSchema:
    return ViewSchemaModel.model_validate_json(document).view_schema()


def _info(record: ObjectRecord) -> ViewInfo:
    return ViewInfo(
        id=record.id,
        identifier=record.identifier,
        schema=_schema(record.document),
        owner=record.owner,
        created_at=record.created_at,
        created_by=record.created_by,
        updated_at=record.updated_at,
        updated_by=record.updated_by,
    )
