"""The functions of a catalog behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.functions import FunctionChange, FunctionInfo, FunctionSpec
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.wire.functions import (
    AlterFunctionRequest,
    CreateFunctionRequest,
    FunctionSpecModel,
    GetFunctionResponse,
    ListFunctionDetailsResponse,
    ListFunctionsGloballyResponse,
    ListFunctionsResponse,
    function_change_model,
)
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import Requests, paging
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType

__all__ = ["RestFunctions"]


class RestFunctions:
    """The functions of one warehouse (`headwater.catalog.model.functions.Functions`).

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Function names; NotFound (DATABASE)."""
        params = paging(max_results, page_token, functionNamePattern=pattern)
        page = self._requests.get(ListFunctionsResponse, params, "databases", database, "functions")
        return Page(tuple(page.functions or ()), page.next_page_token or None)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[FunctionInfo]:
        """Functions in the order of their names; NotFound (DATABASE)."""
        params = paging(max_results, page_token, functionNamePattern=pattern)
        page = self._requests.get(
            ListFunctionDetailsResponse, params, "databases", database, "function-details"
        )
        functions = tuple(item.info(database) for item in page.function_details or ())
        return Page(functions, page.next_page_token or None)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """Functions of all databases, by database and name."""
        params = paging(
            max_results,
            page_token,
            databaseNamePattern=database_pattern,
            functionNamePattern=pattern,
        )
        page = self._requests.get(ListFunctionsGloballyResponse, params, "functions")
        functions = tuple(item.identifier() for item in page.functions or ())
        return Page(functions, page.next_page_token or None)

    def create(
        self, identifier: Identifier, spec: FunctionSpec, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a function; NotFound (DATABASE), AlreadyExists (FUNCTION)."""
        said = FunctionSpecModel.of(spec)
        body = CreateFunctionRequest(
            name=identifier.name,
            input_params=said.input_params,
            return_params=said.return_params,
            deterministic=said.deterministic,
            definitions=said.definitions,
            comment=said.comment,
            options=said.options,
        )
        try:
            self._requests.post(Empty, body, "databases", identifier.database, "functions")
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get(self, identifier: Identifier) -> FunctionInfo:
        """A function; NotFound (FUNCTION)."""
        answer = self._requests.get(GetFunctionResponse, None, *_path(identifier))
        return answer.info(identifier.database)

    def alter(self, identifier: Identifier, changes: Sequence[FunctionChange]) -> None:
        """Apply changes, all or none."""
        body = AlterFunctionRequest(changes=[function_change_model(change) for change in changes])
        self._requests.post(Empty, body, *_path(identifier))

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a function; NotFound (FUNCTION)."""
        try:
            self._requests.delete(*_path(identifier))
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.FUNCTION:
                raise


def _path(identifier: Identifier) -> tuple[str, str, str, str]:
    return "databases", identifier.database, "functions", identifier.name
