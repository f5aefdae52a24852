"""Functions, in the SQL database alone: nothing of them is on storage."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.functions import (
    FunctionChange,
    FunctionInfo,
    FunctionSpec,
    changed_function,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import FunctionRow
from headwater.catalog.sql.objects.objects import NamedDocuments, ObjectRecord
from headwater.catalog.sql.queries.names import check_function_name
from headwater.catalog.wire.functions import FunctionSpecModel
from headwater.storage.errors import ResourceType

__all__ = ["SqlFunctions"]


class SqlFunctions:
    """The functions of one warehouse (`headwater.catalog.model.functions.Functions`).

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._documents = NamedDocuments(context, FunctionRow, ResourceType.FUNCTION)

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Function names; all of them when `max_results` is None."""
        return self._documents.names(database, pattern, max_results, page_token)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[FunctionInfo]:
        """Functions in the order of their names; all of them when `max_results` is None."""
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
        """Functions of all databases, by database and name."""
        return self._documents.names_globally(database_pattern, pattern, max_results, page_token)

    def create(
        self, identifier: Identifier, spec: FunctionSpec, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a function; NotFound (DATABASE), AlreadyExists (FUNCTION)."""
        check_function_name(identifier)
        self._documents.create(identifier, _document(spec), ignore_if_exists)

    def get(self, identifier: Identifier) -> FunctionInfo:
        """A function; NotFound (FUNCTION)."""
        return _info(self._documents.get(identifier))

    def alter(self, identifier: Identifier, changes: Sequence[FunctionChange]) -> None:
        """Apply changes, all or none."""

        def edit(document: str) -> str:
            return _document(changed_function(identifier, _spec(document), changes))

        self._documents.change(identifier, edit)

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a function; NotFound (FUNCTION)."""
        self._documents.drop(identifier, ignore_if_not_exists)


def _document(spec: FunctionSpec) -> str:
    return FunctionSpecModel.of(spec).model_dump_json()


def _spec(document: str) -> FunctionSpec:
    return FunctionSpecModel.model_validate_json(document).spec()


def _info(record: ObjectRecord) -> FunctionInfo:
    return FunctionInfo(
        id=record.id,
        identifier=record.identifier,
        spec=_spec(record.document),
        owner=record.owner,
        created_at=record.created_at,
        created_by=record.created_by,
        updated_at=record.updated_at,
        updated_by=record.updated_by,
    )
