"""Named objects in the SQL database, which has all there is of them: documents with names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar, TypeVarTuple, Unpack

from sqlalchemy import Row, Select, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.audit import AuditFields
from headwater.catalog.model.events import Detail, EventType, ObjectKind, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.sql.admin.attached import drop_attached
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, FunctionRow, NamedRow, ViewRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.queries.audit import audit_of, created, updated
from headwater.catalog.sql.queries.listing import (
    list_globally,
    name_page,
    of_database,
    one_page,
)
from headwater.catalog.sql.queries.lookup import find_database_id
from headwater.catalog.sql.queries.possessions import sight
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType, Unavailable

__all__ = ["ObjectShape", "SqlNamedObjects", "drop_objects_of_database"]

# How often a name is looked up again after a race for it was lost.
_ATTEMPTS = 5

Ts = TypeVarTuple("Ts")
ContentT = TypeVar("ContentT")
ChangeT = TypeVar("ChangeT")
InfoT = TypeVar("InfoT")
_Content = TypeVar("_Content", contravariant=True)
_Info = TypeVar("_Info", covariant=True)


class _MakeInfo(Protocol[_Content, _Info]):
    def __call__(
        self, id: str, identifier: Identifier, content: _Content, /, **audit: Unpack[AuditFields]
    ) -> _Info: ...


@dataclass(frozen=True)
class ObjectShape(Generic[ContentT, ChangeT, InfoT]):
    """The differences between one kind of named object and the others.

    Attributes:
        kind: The resource type of errors about an object.
        model: The table of the database that has them.
        check_name: Refuses a name that none may have; raises Invalid.
        to_json: Writes the document of a content.
        from_json: Reads it.
        changed: Applies changes to a content.
        info: Makes an object of its id, identifier, content and authors.
    """

    kind: ResourceType
    model: type[NamedRow]
    check_name: Callable[[Identifier], None]
    to_json: Callable[[ContentT], str]
    from_json: Callable[[str], ContentT]
    changed: Callable[[Identifier, ContentT, Sequence[ChangeT]], ContentT]
    info: _MakeInfo[ContentT, InfoT]


class SqlNamedObjects(Generic[ContentT, ChangeT, InfoT]):
    """Implements `headwater.catalog.model.named_objects.NamedObjects` for one kind.

    Args:
        context: The warehouse, its database and its storage.
        shape: The kind.
    """

    def __init__(
        self, context: CatalogContext, shape: ObjectShape[ContentT, ChangeT, InfoT]
    ) -> None:
        self._context = context
        self._sql = context.database
        self._shape = shape
        self._model = shape.model
        self._noun = shape.kind.value.lower()

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Names in their order; all of them when `max_results` is None; NotFound (DATABASE)."""
        rows = self._rows(
            select(self._model.name), database, pattern, max_results, page_token, names_only=True
        )
        return name_page([row.name for row in rows], max_results)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[InfoT]:
        """Objects in the order of their names; NotFound (DATABASE)."""
        rows = self._rows(
            self._everything(), database, pattern, max_results, page_token, names_only=False
        )
        names = name_page([row.name for row in rows], max_results)
        found = [self._info(database, row) for row in rows[: len(names.items)]]
        return Page(tuple(found), names.next_token)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The objects of all databases, by database and name."""
        return list_globally(
            self._context,
            self._model,
            database_pattern=database_pattern,
            pattern=pattern,
            max_results=max_results,
            token=page_token,
        )

    def create(
        self, identifier: Identifier, content: ContentT, *, ignore_if_exists: bool = False
    ) -> None:
        """Create an object; Invalid for its name, NotFound (DATABASE), AlreadyExists."""
        self._shape.check_name(identifier)
        object_id = self._context.runtime.new_uuid()
        row = {
            "id": object_id,
            "name": identifier.name,
            "document": self._shape.to_json(content),
            **created(self._context.runtime.now_millis()),
        }

        def work(connection: Connection) -> None:
            database_id = find_database_id(connection, self._context, identifier.database)
            self._refuse_taken(connection, database_id, identifier)
            connection.execute(insert(self._model), {**row, "database_id": database_id})
            self._recorded(connection, "create", identifier, object_id)

        try:
            self._write(work, identifier)
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get(self, identifier: Identifier) -> InfoT:
        """An object; NotFound."""
        with self._sql.read() as connection:
            row = connection.execute(self._named(self._everything(), identifier)).one_or_none()
        if row is None:
            raise self._not_found(identifier)
        return self._info(identifier.database, row)

    def alter(self, identifier: Identifier, changes: Sequence[ChangeT]) -> None:
        """Apply changes, all or none; nobody else changes the object meanwhile."""

        self._rewrite(
            "alter", identifier, lambda content: self._shape.changed(identifier, content, changes)
        )

    def replace(self, identifier: Identifier, content: ContentT) -> None:
        """Let an object say something else; it stays the same object; NotFound."""
        self._rewrite("replace", identifier, lambda _: content)

    def _rewrite(
        self,
        verb: Literal["alter", "replace"],
        identifier: Identifier,
        following: Callable[[ContentT], ContentT],
    ) -> None:
        """Let an object say what follows from what it says; nobody changes it meanwhile."""

        def work(connection: Connection) -> None:
            row = self._lock(connection, identifier)
            connection.execute(
                update(self._model)
                .where(self._model.id == row.id)
                .values(
                    document=self._shape.to_json(following(self._shape.from_json(row.document))),
                    **updated(self._context.runtime.now_millis()),
                )
            )
            self._recorded(connection, verb, identifier, row.id)

        self._sql.write(work)

    def _rename(self, source: Identifier, destination: Identifier) -> None:
        """Give an object another name, for the kinds that can have one; NotFound, AlreadyExists."""
        self._shape.check_name(destination)

        def work(connection: Connection) -> None:
            row = self._lock(connection, source)
            database_id = find_database_id(connection, self._context, destination.database)
            if source != destination:
                self._refuse_taken(connection, database_id, destination)
            connection.execute(
                update(self._model)
                .where(self._model.id == row.id)
                .values(
                    database_id=database_id,
                    name=destination.name,
                    **updated(self._context.runtime.now_millis()),
                )
            )
            self._recorded(connection, "rename", source, row.id, {"to": str(destination)})

        self._write(work, destination)

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop an object; NotFound."""

        def work(connection: Connection) -> None:
            row = self._lock(connection, identifier)
            connection.execute(delete(self._model).where(self._model.id == row.id))
            drop_attached(connection, [row.id])
            self._recorded(connection, "drop", identifier, row.id)

        try:
            self._sql.write(work)
        except NotFound:
            if not ignore_if_not_exists:
                raise

    def _recorded(
        self,
        connection: Connection,
        verb: Literal["create", "alter", "replace", "rename", "drop"],
        identifier: Identifier,
        object_id: str,
        details: Mapping[str, Detail] | None = None,
    ) -> None:
        noun = ObjectKind(self._noun)
        type_ = EventType(f"{verb}{noun.capitalize()}")
        subject = Subject(noun, identifier.name, object_id, identifier.database)
        record_event(connection, self._context, type_, subject, details)

    def _write(self, work: Callable[[Connection], None], identifier: Identifier) -> None:
        for _ in range(_ATTEMPTS):
            try:
                return self._sql.write(work)
            except IntegrityError:
                # The name was taken, or the database dropped, since we looked: looking again tells.
                continue
        # Not Conflict: clients take any 409 here for a name that is taken.
        raise Unavailable(f"{self._noun} {identifier} is being created and dropped; retry")

    def _rows(
        self,
        columns: Select[*Ts],
        database: str,
        pattern: str | None,
        max_results: int | None,
        token: str | None,
        *,
        names_only: bool,
    ) -> Sequence[Row[*Ts]]:
        """One more than a page holds, if there are more."""
        with self._sql.read() as connection:
            database_id = find_database_id(connection, self._context, database)
            query = of_database(
                columns,
                self._model,
                database_id,
                sight(connection, self._context),
                names_only=names_only,
            )
            return connection.execute(
                one_page(
                    query,
                    self._model.name,
                    pattern=pattern,
                    max_results=max_results,
                    token=token,
                    is_sqlite=self._sql.is_sqlite,
                )
            ).all()

    def _everything(self) -> Select[str, str, str, str | None, int, str | None, int, str | None]:
        model = self._model
        return select(
            model.id,
            model.name,
            model.document,
            model.owner,
            model.created_at,
            model.created_by,
            model.updated_at,
            model.updated_by,
        )

    def _info(self, database: str, row: Row[*tuple[object, ...]]) -> InfoT:
        identifier = Identifier(database, row.name)
        return self._shape.info(
            row.id, identifier, self._shape.from_json(row.document), **audit_of(row)
        )

    def _named(self, columns: Select[*Ts], identifier: Identifier) -> Select[*Ts]:
        return columns.join(DatabaseRow, self._model.database_id == DatabaseRow.id).where(
            DatabaseRow.warehouse == self._context.warehouse,
            DatabaseRow.name == identifier.database,
            self._model.name == identifier.name,
        )

    def _lock(self, connection: Connection, identifier: Identifier) -> Row[str, str]:
        """Its id and document, which stay so until the transaction ends; NotFound."""
        model = self._model
        found = connection.execute(
            self._named(select(model.id, model.database_id), identifier)
        ).one_or_none()
        if found is not None:
            # By id, so that the row alone is locked and not its database too; it may have got
            # another name since.
            row = connection.execute(
                select(model.id, model.document)
                .where(
                    model.id == found.id,
                    model.database_id == found.database_id,
                    model.name == identifier.name,
                )
                .with_for_update()
            ).one_or_none()
            if row is not None:
                return row
        raise self._not_found(identifier)

    def _refuse_taken(
        self, connection: Connection, database_id: str, identifier: Identifier
    ) -> None:
        taken = select(self._model.id).where(
            self._model.database_id == database_id, self._model.name == identifier.name
        )
        if connection.execute(taken).one_or_none() is not None:
            raise AlreadyExists(
                f"{self._noun} {identifier} exists already",
                resource_type=self._shape.kind,
                resource_name=identifier.name,
            )

    def _not_found(self, identifier: Identifier) -> NotFound:
        """It is about the object even when its database is missing: clients know no other."""
        return NotFound(
            f"{self._noun} {identifier} does not exist",
            resource_type=self._shape.kind,
            resource_name=identifier.name,
        )


def drop_objects_of_database(
    connection: Connection, context: CatalogContext, database: str, database_id: str
) -> None:
    """Take away the named objects of a database that is locked and about to go."""
    kinds: tuple[tuple[type[NamedRow], ObjectKind, EventType], ...] = (
        (ViewRow, ObjectKind.VIEW, EventType.DROP_VIEW),
        (FunctionRow, ObjectKind.FUNCTION, EventType.DROP_FUNCTION),
    )
    for model, kind, type_ in kinds:
        gone = connection.execute(
            select(model.id, model.name).where(model.database_id == database_id).with_for_update()
        ).all()
        connection.execute(delete(model).where(model.database_id == database_id))
        drop_attached(connection, [each.id for each in gone])
        for each in gone:
            subject = Subject(kind, each.name, each.id, database)
            record_event(connection, context, type_, subject)
