"""The commands' work that is the same for views and for functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Never, TypeVar

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import NamedObjects, create_or_replace
from headwater.storage.errors import ResourceType

__all__ = ["create_object", "entry_changes"]

ContentT = TypeVar("ContentT")
EntryT = TypeVar("EntryT")
DroppedT = TypeVar("DroppedT")
AddedT = TypeVar("AddedT")
UpdatedT = TypeVar("UpdatedT")


def create_object(
    objects: NamedObjects[ContentT, Never, object],
    kind: ResourceType,
    identifier: Identifier,
    content: ContentT,
    *,
    if_not_exists: bool,
    or_replace: bool,
) -> None:
    """Create an object, or replace the one that exists, and say so."""
    if if_not_exists and or_replace:
        raise typer.BadParameter("--if-not-exists and --or-replace exclude each other")
    if or_replace:
        create_or_replace(objects, kind, identifier, content)
    else:
        objects.create(identifier, content, ignore_if_exists=if_not_exists)
    print(f"{kind.value.lower()} {identifier} is there")


def entry_changes(
    known: Collection[str],
    given: Mapping[str, EntryT],
    dropped: Sequence[str] | None,
    kinds: tuple[
        Callable[[str], DroppedT],
        Callable[[str, EntryT], UpdatedT],
        Callable[[str, EntryT], AddedT],
    ],
) -> list[DroppedT | UpdatedT | AddedT]:
    """The changes to engines' entries.

    Args:
        known: The engines that have one.
        given: The entries to add or update.
        dropped: The engines whose entries are to go.
        kinds: The changes that drop, update and add one.
    """
    drop, update, add = kinds
    return [
        *(drop(engine) for engine in dropped or ()),
        *(
            update(engine, entry) if engine in known else add(engine, entry)
            for engine, entry in given.items()
        ),
    ]
