"""Named objects behind a Paimon REST server: tables, views and functions.

Their operations have the same form; a shape says the paths, the models and the kind of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.wire.tables import Empty, IdentifierModel, Listed, RenameTableRequest
from headwater.client.requests import Requests, paging
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType, Unsupported

__all__ = ["ObjectShape", "RestNamedObjects"]

ContentT = TypeVar("ContentT")
ChangeT = TypeVar("ChangeT")
InfoT = TypeVar("InfoT")
AnswerT = TypeVar("AnswerT", bound=BaseModel)


@dataclass(frozen=True)
class ObjectShape(Generic[ContentT, ChangeT, InfoT, AnswerT]):
    """The differences between one kind of named object and the others.

    Attributes:
        kind: The resource type of errors about an object. Paths and parameters have its name in
            small letters: ``views``, ``view-details``, ``viewNamePattern``.
        names: The page of the names in a database.
        details: The page of the objects in a database.
        everywhere: The page of the names in all databases.
        answer: An object.
        info: Reads an object, given its database, which the answer leaves to be known.
        create: The request to create an object.
        alter: The request to change one.
        replace: The request to replace one.
    """

    kind: ResourceType
    names: type[Listed[str]]
    details: type[Listed[AnswerT]]
    everywhere: type[Listed[IdentifierModel]]
    answer: type[AnswerT]
    info: Callable[[AnswerT, str], InfoT]
    create: Callable[[Identifier, ContentT], BaseModel]
    alter: Callable[[Sequence[ChangeT]], BaseModel]
    replace: Callable[[ContentT], BaseModel]


class RestNamedObjects(Generic[ContentT, ChangeT, InfoT, AnswerT]):
    """Implements `headwater.catalog.model.named_objects.NamedObjects` over HTTP for one kind.

    Args:
        requests: Speaks to the server.
        shape: The kind; it is pickled with a catalog.
    """

    def __init__(
        self, requests: Requests, shape: ObjectShape[ContentT, ChangeT, InfoT, AnswerT]
    ) -> None:
        self._requests = requests
        self._shape = shape
        self._noun = shape.kind.value.lower()
        self._segment = f"{self._noun}s"
        self._pattern = f"{self._noun}NamePattern"

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Names in their order; NotFound (DATABASE)."""
        params = paging(max_results, page_token, **{self._pattern: pattern})
        return self._list(database, params)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[InfoT]:
        """Objects in the order of their names; NotFound (DATABASE)."""
        params = paging(max_results, page_token, **{self._pattern: pattern})
        return self._list_details(database, params)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The objects of all databases, by database and name."""
        params = paging(
            max_results,
            page_token,
            databaseNamePattern=database_pattern,
            **{self._pattern: pattern},
        )
        answer = self._requests.get(self._shape.everywhere, params, self._segment)
        return answer.page().map(IdentifierModel.identifier)

    def create(
        self, identifier: Identifier, content: ContentT, *, ignore_if_exists: bool = False
    ) -> None:
        """Create an object; Invalid for its name, NotFound (DATABASE), AlreadyExists."""
        body = self._shape.create(identifier, content)
        try:
            self._requests.post(Empty, body, "databases", identifier.database, self._segment)
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get(self, identifier: Identifier) -> InfoT:
        """An object; NotFound."""
        answer = self._requests.get(
            self._shape.answer, None, *self._path(identifier), of=identifier
        )
        return self._shape.info(answer, identifier.database)

    def alter(self, identifier: Identifier, changes: Sequence[ChangeT]) -> None:
        """Apply changes, all or none, each to what the one before left."""
        self._requests.post(
            Empty, self._shape.alter(changes), *self._path(identifier), of=identifier
        )

    def replace(self, identifier: Identifier, content: ContentT) -> None:
        """Let an object say something else; NotFound; Unsupported when the server cannot."""
        self._replace(identifier, self._shape.replace(content))

    def _replace(self, identifier: Identifier, body: BaseModel) -> None:
        try:
            self._requests.post(Empty, body, *self._path(identifier), "replace", of=identifier)
        except NotFound as error:
            if error.resource_type is not None:
                raise
            # The path, and not what it names.
            raise Unsupported(
                f"{self._noun} {identifier}: the server at {self._requests.url} cannot replace a "
                f"{self._noun}; drop it, then create the other"
            ) from error

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop an object; NotFound."""
        try:
            self._requests.delete(*self._path(identifier), of=identifier)
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not self._shape.kind:
                raise

    def _rename(self, source: Identifier, destination: Identifier) -> None:
        """Give an object another name, for the kinds that can have one; NotFound, AlreadyExists."""
        body = RenameTableRequest.of(source, destination)
        self._requests.post(Empty, body, self._segment, "rename", of=source)

    def _list(self, database: str, params: dict[str, str]) -> Page[str]:
        path = ("databases", database, self._segment)
        return self._requests.get(self._shape.names, params, *path).page()

    def _list_details(self, database: str, params: dict[str, str]) -> Page[InfoT]:
        path = ("databases", database, f"{self._noun}-details")
        answer = self._requests.get(self._shape.details, params, *path)
        return answer.page().map(lambda item: self._shape.info(item, database))

    def _path(self, identifier: Identifier) -> tuple[str, ...]:
        return "databases", identifier.database, self._segment, identifier.name
