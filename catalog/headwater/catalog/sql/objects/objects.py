"""Views and functions in the SQL database: documents with a name in a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVarTuple

from sqlalchemy import Row, Select, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.principal import current_principal
from headwater.catalog.sql.admin.grants import drop_grants
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, FunctionRow, ViewRow
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.listing import list_globally
from headwater.catalog.sql.queries.lookup import database_not_found, name_page
from headwater.catalog.sql.queries.names import check_page, pattern_clause
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType, Unavailable

__all__ = ["NamedDocuments", "ObjectRecord", "drop_objects_of_database"]

# How often a name is looked up again after a race for it was lost.
_ATTEMPTS = 5

Ts = TypeVarTuple("Ts")

_Model: TypeAlias = type[ViewRow] | type[FunctionRow]
_Everything: TypeAlias = tuple[str, str, str, str | None, int, str | None, int, str | None]


@dataclass(frozen=True)
class ObjectRecord:
    """A view or function as the database has it: `document` is what it says, as JSON."""

    id: str
    identifier: Identifier
    document: str
    owner: str | None
    created_at: int
    created_by: str | None
    updated_at: int
    updated_by: str | None


class NamedDocuments:
    """The views, or the functions, of one warehouse.

    Args:
        context: The warehouse, its database and its storage.
        model: Which table of the database has them.
        kind: What errors about them are about.
    """

    def __init__(self, context: CatalogContext, model: _Model, kind: ResourceType) -> None:
        self._context = context
        self._sql = context.database
        self._model = model
        self._kind = kind
        self._noun = kind.value.lower()

    def names(
        self, database: str, pattern: str | None, max_results: int | None, token: str | None
    ) -> Page[str]:
        """Names in their order; NotFound (DATABASE)."""
        rows = self._rows(select(self._model.name), database, pattern, max_results, token)
        return name_page([row.name for row in rows], max_results)

    def records(
        self, database: str, pattern: str | None, max_results: int | None, token: str | None
    ) -> Page[ObjectRecord]:
        """All there is about them, in the order of their names; NotFound (DATABASE)."""
        rows = self._rows(self._everything(), database, pattern, max_results, token)
        names = name_page([row.name for row in rows], max_results)
        found = [_record(database, row) for row in rows[: len(names.items)]]
        return Page(tuple(found), names.next_token)

    def names_globally(
        self,
        database_pattern: str | None,
        pattern: str | None,
        max_results: int | None,
        token: str | None,
    ) -> Page[Identifier]:
        """Names of all databases, by database and name."""
        return list_globally(
            self._context,
            self._model,
            database_pattern=database_pattern,
            pattern=pattern,
            max_results=max_results,
            token=token,
        )

    def create(self, identifier: Identifier, document: str, ignore_if_exists: bool) -> None:
        """Add one; NotFound (DATABASE), AlreadyExists."""
        now = self._context.runtime.now_millis()
        who = current_principal()
        row = {
            "id": self._context.runtime.new_uuid(),
            "name": identifier.name,
            "document": document,
            "owner": who,
            "created_at": now,
            "created_by": who,
            "updated_at": now,
            "updated_by": who,
        }

        def work(connection: Connection) -> None:
            database_id = self._database(connection, identifier.database)
            self._refuse_taken(connection, database_id, identifier)
            connection.execute(insert(self._model), {**row, "database_id": database_id})

        try:
            self._write(work, identifier)
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get(self, identifier: Identifier) -> ObjectRecord:
        """One of them; NotFound."""
        with self._sql.read() as connection:
            row = connection.execute(self._named(self._everything(), identifier)).one_or_none()
        if row is None:
            raise self._not_found(identifier)
        return _record(identifier.database, row)

    def change(self, identifier: Identifier, edit: Callable[[str], str]) -> None:
        """Replace a document by what `edit` makes of it; nobody else changes it meanwhile."""

        def work(connection: Connection) -> None:
            row = self._lock(connection, identifier)
            connection.execute(
                update(self._model)
                .where(self._model.id == row.id)
                .values(document=edit(row.document), updated_at=self._context.runtime.now_millis())
            )

        self._sql.write(work)

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Another name, perhaps in another database; NotFound, AlreadyExists."""

        def work(connection: Connection) -> None:
            row = self._lock(connection, source)
            database_id = self._database(connection, destination.database)
            if source != destination:
                self._refuse_taken(connection, database_id, destination)
            connection.execute(
                update(self._model)
                .where(self._model.id == row.id)
                .values(database_id=database_id, name=destination.name, **self._touched())
            )

        self._write(work, destination)

    def drop(self, identifier: Identifier, ignore_if_not_exists: bool) -> None:
        """Take one away; NotFound."""

        def work(connection: Connection) -> None:
            row = self._lock(connection, identifier)
            connection.execute(delete(self._model).where(self._model.id == row.id))
            drop_grants(connection, [row.id])

        try:
            self._sql.write(work)
        except NotFound:
            if not ignore_if_not_exists:
                raise

    def _touched(self) -> dict[str, object]:
        now = self._context.runtime.now_millis()
        return {"updated_at": now, "updated_by": current_principal()}

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
    ) -> Sequence[Row[*Ts]]:
        """One more than a page holds, if there are more."""
        check_page(max_results)
        query = along(columns, self._model.database_id, self._model.name)
        query = query.order_by(self._model.name)
        if pattern:
            query = query.where(
                pattern_clause(self._model.name, pattern, is_sqlite=self._sql.is_sqlite)
            )
        if token:
            query = query.where(self._model.name > token)
        if max_results is not None:
            query = query.limit(max_results + 1)
        with self._sql.read() as connection:
            database_id = self._database(connection, database)
            return connection.execute(query.where(self._model.database_id == database_id)).all()

    def _everything(self) -> Select[*_Everything]:
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

    def _database(self, connection: Connection, name: str) -> str:
        found = connection.execute(
            select(DatabaseRow.id).where(
                DatabaseRow.warehouse == self._context.warehouse, DatabaseRow.name == name
            )
        ).scalar_one_or_none()
        if found is None:
            raise database_not_found(name)
        return found

    def _refuse_taken(
        self, connection: Connection, database_id: str, identifier: Identifier
    ) -> None:
        taken = select(self._model.id).where(
            self._model.database_id == database_id, self._model.name == identifier.name
        )
        if connection.execute(taken).one_or_none() is not None:
            raise AlreadyExists(
                f"{self._noun} {identifier} exists already",
                resource_type=self._kind,
                resource_name=identifier.name,
            )

    def _not_found(self, identifier: Identifier) -> NotFound:
        """It is about the object even when its database is missing: clients know no other."""
        return NotFound(
            f"{self._noun} {identifier} does not exist",
            resource_type=self._kind,
            resource_name=identifier.name,
        )


def _record(database: str, row: Row[*_Everything]) -> ObjectRecord:
    return ObjectRecord(
        id=row.id,
        identifier=Identifier(database, row.name),
        document=row.document,
        owner=row.owner,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def drop_objects_of_database(connection: Connection, database_id: str) -> None:
    """Take away the views and functions of a database that is locked and about to go."""
    for model in (ViewRow, FunctionRow):
        ids = connection.execute(
            select(model.id).where(model.database_id == database_id).with_for_update()
        ).scalars()
        gone = ids.all()
        connection.execute(delete(model).where(model.database_id == database_id))
        drop_grants(connection, gone)
