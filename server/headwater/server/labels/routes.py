"""Labels: set, read, listed and taken away."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Path
from pydantic import AfterValidator

from headwater.catalog.model.labels import Entity, Label, parse_entity_type
from headwater.catalog.wire.labels import GetLabelResponse, ListLabelsResponse, UpsertLabelRequest
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, PageOf, decode_segment
from headwater.server.error_responses import Failure, failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/v1/{prefix}/labels/{entityType}/{entityName}", tags=["label"])

_ENTITIES = ("no database", "no table", "no view", "no function")
_MISSING = Failure("no label", 404, "table sales.orders has no label 'domain'", "LABEL", "domain")


async def _entity(
    entity_type: Annotated[
        str,
        Path(alias="entityType", description="DATABASE, TABLE, VIEW or FUNCTION."),
        AfterValidator(decode_segment),
    ],
    entity_name: Annotated[
        str,
        Path(alias="entityName", description="The whole name: `database` or `database.name`."),
        AfterValidator(decode_segment),
    ],
) -> Entity:
    return Entity(parse_entity_type(entity_type), entity_name)


Key: TypeAlias = Annotated[
    str, Path(description="The label's key."), AfterValidator(decode_segment)
]
EntityOf: TypeAlias = Annotated[Entity, Depends(_entity)]


@router.get("", summary="List labels", responses=failures(*_ENTITIES))
def list_labels(catalog: CatalogOf, entity: EntityOf, page: PageOf) -> ListLabelsResponse:
    """The labels of a database, table, view or function itself, by key."""
    found = catalog.labels.list(entity, **page)
    return ListLabelsResponse.of(found.map(lambda label: GetLabelResponse.of(entity, label)))


@router.get("/{key}", summary="Get a label", responses=failures(*_ENTITIES, _MISSING))
def get_label(catalog: CatalogOf, entity: EntityOf, key: Key) -> GetLabelResponse:
    """One label and its value."""
    return GetLabelResponse.of(entity, catalog.labels.get(entity, key))


@router.post("/{key}", summary="Set a label", responses=failures(*_ENTITIES))
def upsert_label(catalog: CatalogOf, entity: EntityOf, key: Key, body: UpsertLabelRequest) -> Empty:
    """It replaces the value of a label with the same key; other labels stay as they are.

    An entity has at most 100 labels. They follow a renamed entity, and are deleted once it is
    dropped for good.
    """
    catalog.labels.set(entity, Label(key, body.value))
    return Empty()


@router.delete("/{key}", summary="Delete a label", responses=failures(*_ENTITIES))
def delete_label(catalog: CatalogOf, entity: EntityOf, key: Key) -> Empty:
    """Not an error if there is none."""
    catalog.labels.unset(entity, key)
    return Empty()
