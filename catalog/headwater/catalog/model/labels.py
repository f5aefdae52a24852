"""Labels: short texts by which people classify what is in a catalog.

Their names and their JSON are those of ``org.apache.paimon.management.LabelManagement``.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headwater.catalog.model.page import Page
from headwater.catalog.model.permissions import PermissionTarget, TargetType
from headwater.storage.errors import Invalid
from headwater.storage.printable import has_unprintable

__all__ = [
    "MOST_LABELS",
    "Entity",
    "EntityType",
    "Label",
    "Labels",
    "check_key",
    "parse_entity_type",
]

MOST_LABELS = 100
"""The most labels of one entity."""

_MAX_KEY_LENGTH = 255
_MAX_VALUE_LENGTH = 4096


class EntityType(StrEnum):
    """The kinds of thing that can have labels, by their names on the wire."""

    DATABASE = "DATABASE"
    TABLE = "TABLE"
    VIEW = "VIEW"
    FUNCTION = "FUNCTION"


@dataclass(frozen=True)
class Entity:
    """Something that can have labels.

    Attributes:
        type: Its kind.
        name: Its qualified name: ``database`` or ``database.name``.

    Raises:
        Invalid: The name is not one of that kind.
    """

    type: EntityType
    name: str

    def __post_init__(self) -> None:
        """Refuse a name that leads to nothing of the kind."""
        database, dot, name = self._parts()
        if not database.strip() or (dot if self.type is EntityType.DATABASE else not name.strip()):
            wanted = "database" if self.type is EntityType.DATABASE else "database.name"
            raise Invalid(f"'{self.name}' is not the name of a {self.type}; write it as {wanted}")

    def __str__(self) -> str:
        return f"{self.type.lower()} {self.name}"

    @property
    def target(self) -> PermissionTarget:
        """The target of permissions on it."""
        database, _, name = self._parts()
        match self.type:
            case EntityType.DATABASE:
                return PermissionTarget(TargetType.DATABASE, database)
            case EntityType.TABLE:
                return PermissionTarget(TargetType.TABLE, database, table=name)
            case EntityType.VIEW:
                return PermissionTarget(TargetType.VIEW, database, view=name)
            case EntityType.FUNCTION:
                return PermissionTarget(TargetType.FUNCTION, database, function=name)

    def _parts(self) -> tuple[str, str, str]:
        # A database's name has no dot; what is in it may have some.
        return self.name.partition(".")


def parse_entity_type(text: str) -> EntityType:
    """A type by its name in any case; raises Invalid."""
    name = text.upper()
    if name not in set(EntityType):
        raise Invalid(f"'{text}' is not a type of what can be labelled: {', '.join(EntityType)}")
    return EntityType(name)


@dataclass(frozen=True)
class Label:
    """A label.

    Attributes:
        key: Its name, once on an entity: 1 to 255 characters, not all of them blank.
        value: At most 4096 characters; may be empty.

    Raises:
        Invalid: The key or the value is not such a text.
    """

    key: str
    value: str

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        check_key(self.key)
        if len(self.value) > _MAX_VALUE_LENGTH:
            raise Invalid(
                f"the value of label '{self.key}' has {len(self.value)} characters, and may have "
                f"{_MAX_VALUE_LENGTH}"
            )
        if "\0" in self.value or any(unicodedata.category(each) == "Cs" for each in self.value):
            raise Invalid(
                f"the value of label '{self.key}' has a character that is not text (U+0000, or "
                "half of one)"
            )


def check_key(key: str, *, is_new: bool = False) -> None:
    """Reject what cannot be the key of a label, or of a new one; raises Invalid."""
    if not key.strip() or len(key) > _MAX_KEY_LENGTH:
        raise Invalid(
            f"a label's key has 1 to {_MAX_KEY_LENGTH} characters, not all of them blank; "
            f"'{key[:40]}' has {len(key)}"
        )
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        raise Invalid(f"{key!r} is not a label's key: it must not contain a control character")
    if is_new and has_unprintable(key):
        raise Invalid(
            f"{key!r} is not a label's key: it must not contain a format or separator character"
        )


class Labels(Protocol):
    """The labels of what is in one warehouse.

    They belong to the thing and not to its name: they follow it when it is renamed, stay with a
    dropped table that is restored, and go when it goes. What is made under a name again has none.
    """

    def list(
        self, entity: Entity, *, max_results: int | None = None, page_token: str | None = None
    ) -> Page[Label]:
        """The labels of an entity, by key.

        Args:
            entity: The entity.
            max_results: The size of a page; None means all labels.
            page_token: The `next_token` of the page before.

        Raises:
            NotFound: The entity does not exist (DATABASE, TABLE, VIEW, FUNCTION).
        """
        ...

    def get(self, entity: Entity, key: str) -> Label:
        """One label of an entity.

        Raises:
            NotFound: The entity or its label does not exist (LABEL).
        """
        ...

    def set(self, entity: Entity, label: Label) -> None:
        """Give an entity a label, in place of the one that has the same key.

        Raises:
            NotFound: The entity does not exist.
            Invalid: The entity has `MOST_LABELS` labels already, and none with this key.
        """
        ...

    def unset(self, entity: Entity, key: str) -> None:
        """Take a label away; an entity without it stays as it is.

        Raises:
            NotFound: The entity does not exist.
        """
        ...
