"""Labels of databases, tables, views and functions."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType
from headwater.catalog.model.labels import MOST_LABELS, Entity, Label, check_key
from headwater.catalog.model.page import Page
from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.admin.targets import find_object_id, locked_object_id, subject_of
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import LabelRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import Invalid, NotFound, ResourceType

__all__ = ["SqlLabels"]


class SqlLabels:
    """Implements `headwater.catalog.model.labels.Labels`.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._sql = context.database

    def list(
        self, entity: Entity, *, max_results: int | None = None, page_token: str | None = None
    ) -> Page[Label]:
        """The labels of an entity; all of them when `max_results` is None."""
        check_page(max_results)
        query = select(LabelRow.key, LabelRow.value).order_by(LabelRow.key)
        if page_token:
            query = query.where(LabelRow.key > _parse_place(page_token))
        if max_results is not None:
            query = query.limit(max_results + 1)
        query = along(query, LabelRow.object_id, LabelRow.key)
        with self._sql.read() as connection:
            object_id = find_object_id(connection, self._context, entity.target)
            rows = connection.execute(query.where(LabelRow.object_id == object_id)).all()
        labels = tuple(Label(row.key, row.value) for row in rows)
        if max_results is None or len(labels) <= max_results:
            return Page(labels)
        return Page(labels[:max_results], labels[max_results - 1].key)

    def get(self, entity: Entity, key: str) -> Label:
        """One label of an entity; NotFound (LABEL)."""
        check_key(key)
        with self._sql.read() as connection:
            object_id = find_object_id(connection, self._context, entity.target)
            value = _value(connection, object_id, key)
        if value is None:
            raise NotFound(
                f"{entity} has no label '{key}'",
                resource_type=ResourceType.LABEL,
                resource_name=key,
            )
        return Label(key, value)

    def set(self, entity: Entity, label: Label) -> None:
        """Give an entity a label, in place of the one that has the same key."""
        check_key(label.key, is_new=True)

        def work(connection: Connection) -> None:
            object_id = self._locked(connection, entity)
            old = _value(connection, object_id, label.key)
            if old == label.value:
                return
            values = {
                "value": label.value,
                "updated_at": self._context.runtime.now_millis(),
                "updated_by": current_name(),
            }
            if old is None:
                _refuse_more(connection, object_id, entity)
                row = {"object_id": object_id, "key": label.key, **values}
                connection.execute(insert(LabelRow), row)
            else:
                same = (LabelRow.object_id == object_id, LabelRow.key == label.key)
                connection.execute(update(LabelRow).where(*same).values(values))
            self._record(connection, EventType.UPSERT_LABEL, entity, object_id, label.key)

        self._sql.write(work)

    def unset(self, entity: Entity, key: str) -> None:
        """Take a label away; an entity without it stays as it is."""
        check_key(key)

        def work(connection: Connection) -> None:
            object_id = self._locked(connection, entity)
            gone = connection.execute(
                delete(LabelRow).where(LabelRow.object_id == object_id, LabelRow.key == key)
            )
            if gone.rowcount:
                self._record(connection, EventType.DELETE_LABEL, entity, object_id, key)

        self._sql.write(work)

    def _locked(self, connection: Connection, entity: Entity) -> str:
        """The entity's id; neither it nor its labels change until the transaction ends."""
        return locked_object_id(connection, self._context, entity.target, alone=True)

    def _record(
        self, connection: Connection, type_: EventType, entity: Entity, object_id: str, key: str
    ) -> None:
        subject = subject_of(self._context, entity.target, object_id)
        # Not the value: what somebody wrote by mistake would stay in the feed.
        record_event(connection, self._context, type_, subject, {"label": key})


def _value(connection: Connection, object_id: str, key: str) -> str | None:
    return connection.execute(
        select(LabelRow.value).where(LabelRow.object_id == object_id, LabelRow.key == key)
    ).scalar_one_or_none()


def _refuse_more(connection: Connection, object_id: str, entity: Entity) -> None:
    count = connection.execute(
        select(func.count()).select_from(LabelRow).where(LabelRow.object_id == object_id)
    ).scalar_one()
    if count >= MOST_LABELS:
        raise Invalid(
            f"{entity} has {count} labels, and may have {MOST_LABELS}; take one away first"
        )


def _parse_place(token: str) -> str:
    try:
        check_key(token)
    except Invalid:
        raise Invalid(f"page token {token!r} is not one that this listing gave out") from None
    return token
