"""Views: queries with a name, in as many SQL dialects as there are engines to run them.

The catalog keeps what a view says and never runs it (``View.java``, ``ViewSchema.java``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from headwater.catalog.model.audit import Audited
from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import ContentEdit, NamedObjects, PropertyChange
from headwater.storage.errors import ResourceType

__all__ = [
    "AddDialect",
    "DropDialect",
    "UpdateDialect",
    "ViewChange",
    "ViewInfo",
    "ViewSchema",
    "Views",
    "changed_view",
]


@dataclass(frozen=True)
class ViewSchema:
    """The content of a view.

    Attributes:
        columns: The columns of its result.
        query: The query for every engine that has none of its own.
        dialects: The queries of single engines, by the engine's name (``spark``, ``flink``…).
        comment: A comment, or None.
        options: Whatever engines keep with it.
    """

    columns: tuple[Column, ...]
    query: str
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def query_for(self, dialect: str) -> str:
        """The query that an engine is to run."""
        return self.dialects.get(dialect, self.query)


@dataclass(frozen=True)
class ViewInfo(Audited):
    """A view as the catalog has it: ``id`` is a UUID."""

    id: str
    identifier: Identifier
    schema: ViewSchema


@dataclass(frozen=True)
class AddDialect:
    """Give a view a query for an engine that has none of its own yet."""

    dialect: str
    query: str


@dataclass(frozen=True)
class UpdateDialect:
    """Replace an engine's own query."""

    dialect: str
    query: str


@dataclass(frozen=True)
class DropDialect:
    """Take an engine's own query away."""

    dialect: str


ViewChange: TypeAlias = PropertyChange | AddDialect | UpdateDialect | DropDialect


def changed_view(
    identifier: Identifier, schema: ViewSchema, changes: Sequence[ViewChange]
) -> ViewSchema:
    """A view's schema after changes, each applied to what the one before left.

    Raises:
        NotFound: There is no such dialect (DIALECT).
        AlreadyExists: There is one to add already (DIALECT).
    """
    edit = ContentEdit(
        f"view {identifier}",
        ResourceType.DIALECT,
        "query for",
        schema.dialects,
        schema.options,
        schema.comment,
    )
    for change in changes:
        match change:
            case AddDialect():
                edit.add(change.dialect, change.query)
            case UpdateDialect():
                edit.update(change.dialect, change.query)
            case DropDialect():
                edit.drop(change.dialect)
            case _:
                edit.change(change)
    return replace(schema, dialects=edit.entries, options=edit.options, comment=edit.comment)


class Views(NamedObjects[ViewSchema, ViewChange, ViewInfo], Protocol):
    """The views of one warehouse.

    Tables and views have name spaces of their own: engines look for a table first.
    """

    def replace(
        self, identifier: Identifier, content: ViewSchema, *, keep_properties: bool = False
    ) -> None:
        """Let a view say something else, in one step; see `NamedObjects.replace`.

        Args:
            identifier: The view.
            content: Its columns and queries, and its comment and options.
            keep_properties: True leaves it the comment and the options that it has.

        Raises:
            NotFound: No such view.
            Unsupported: The server cannot do it.
        """
        ...

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name; NotFound (VIEW, DATABASE), AlreadyExists (VIEW)."""
        ...
