"""Named objects of a database: views, functions, and whatever else says something and has no data.

A kind of them is a content, the changes of it, and an object that has it beside an identifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Never, Protocol, TypeAlias, TypeVar

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.schema.change import RemoveOption, SetOption, UpdateComment

__all__ = ["ContentEdit", "NamedObjects", "PropertyChange", "create_or_replace"]

PropertyChange: TypeAlias = SetOption | RemoveOption | UpdateComment
"""The changes that every kind has; the others are about the entries of engines."""

EntryT = TypeVar("EntryT")
AnyContentT = TypeVar("AnyContentT")
ContentT = TypeVar("ContentT", contravariant=True)
ChangeT = TypeVar("ChangeT", contravariant=True)
InfoT = TypeVar("InfoT", covariant=True)


class ContentEdit(Generic[EntryT]):
    """The parts of a content that changes reach, as the changes so far have left them.

    Args:
        what: The object, for errors: ``view sales.recent``.
        kind: The kind of its entries, which errors about them are about.
        noun: An entry, for errors: ``query for``.
        entries: The entries of engines, by the engine's name.
        options: The options.
        comment: The comment.
    """

    def __init__(
        self,
        what: str,
        kind: ResourceType,
        noun: str,
        entries: Mapping[str, EntryT],
        options: Mapping[str, str],
        comment: str | None,
    ) -> None:
        self._what = what
        self._kind = kind
        self._noun = noun
        self.entries = dict(entries)
        self.options = dict(options)
        self.comment = comment

    def change(self, change: PropertyChange) -> None:
        """Change an option or the comment; removing an option that is not set is no error."""
        match change:
            case SetOption():
                self.options[change.key] = change.value
            case RemoveOption():
                self.options.pop(change.key, None)
            case UpdateComment():
                self.comment = change.comment

    def add(self, engine: str, entry: EntryT) -> None:
        """Give an engine an entry; AlreadyExists when it has one."""
        if engine in self.entries:
            raise AlreadyExists(
                f"{self._what} has a {self._noun} '{engine}' already; update it",
                resource_type=self._kind,
                resource_name=engine,
            )
        self.entries[engine] = entry

    def update(self, engine: str, entry: EntryT) -> None:
        """Replace an engine's entry; NotFound."""
        self._require(engine)
        self.entries[engine] = entry

    def drop(self, engine: str) -> None:
        """Take an engine's entry away; NotFound."""
        self._require(engine)
        del self.entries[engine]

    def _require(self, engine: str) -> None:
        if engine not in self.entries:
            raise NotFound(
                f"{self._what} has no {self._noun} '{engine}'; those it has are for "
                f"{', '.join(sorted(self.entries)) or 'no engine'}",
                resource_type=self._kind,
                resource_name=engine,
            )


class NamedObjects(Protocol[ContentT, ChangeT, InfoT]):
    """The objects of one kind in a warehouse.

    Each kind has a name space of its own, and tables have theirs. Errors about an object are of
    its kind's `ResourceType`, also where its whole database is missing.
    """

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Names in their order; all of them when `max_results` is None; NotFound (DATABASE)."""
        ...

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[InfoT]:
        """Objects in the order of their names; NotFound (DATABASE)."""
        ...

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The objects of all databases, by database and name."""
        ...

    def create(
        self, identifier: Identifier, content: ContentT, *, ignore_if_exists: bool = False
    ) -> None:
        """Create an object; Invalid for its name, NotFound (DATABASE), AlreadyExists."""
        ...

    def get(self, identifier: Identifier) -> InfoT:
        """An object; NotFound."""
        ...

    def alter(self, identifier: Identifier, changes: Sequence[ChangeT]) -> None:
        """Apply changes, all or none, each to what the one before left.

        Raises:
            NotFound: No such object, or no entry of that engine.
            AlreadyExists: There is an entry of that engine to add already.
        """
        ...

    def replace(self, identifier: Identifier, content: ContentT) -> None:
        """Let an object say something else, in one step.

        It stays the same object: its id, owner and permissions stay. Paimon's API can do this to
        tables alone, so another server than Headwater's may refuse it.

        Raises:
            NotFound: No such object.
            Unsupported: The server cannot do it.
        """
        ...

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop an object; NotFound."""
        ...


# Each further look is for a race with somebody who created or dropped the object meanwhile.
_LOOKS = 5


def create_or_replace(
    objects: NamedObjects[AnyContentT, Never, object],
    kind: ResourceType,
    identifier: Identifier,
    content: AnyContentT,
) -> None:
    """Let an object say something, whether it is there or not; readers see the old or the new one.

    Args:
        objects: The objects of its kind.
        kind: The kind.
        identifier: The object.
        content: Its content afterwards.

    Raises:
        Invalid: No object may have that name.
        NotFound: There is no such database (DATABASE).
        AlreadyExists: There is one that the caller may not see, or others keep creating and
            dropping it.
        Unsupported: The object exists, and the server cannot replace it.
    """
    for look in range(_LOOKS):
        try:
            objects.replace(identifier, content)
        except NotFound as error:
            if error.resource_type is not kind:
                raise
        else:
            return
        try:
            objects.create(identifier, content)
        except AlreadyExists:
            if look == _LOOKS - 1:
                raise
        else:
            return
