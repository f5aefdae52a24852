"""Views: queries with a name, in as many SQL dialects as there are engines to run them.

The catalog keeps what a view says and never runs it (``View.java``, ``ViewSchema.java``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.schema.change import RemoveOption, SetOption, UpdateComment

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
class ViewInfo:
    """A view as the catalog has it: ``id`` is a UUID, times are milliseconds since the epoch."""

    id: str
    identifier: Identifier
    schema: ViewSchema
    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


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


ViewChange: TypeAlias = (
    SetOption | RemoveOption | UpdateComment | AddDialect | UpdateDialect | DropDialect
)


def changed_view(
    identifier: Identifier, schema: ViewSchema, changes: Sequence[ViewChange]
) -> ViewSchema:
    """A view's schema after changes, each applied to what the one before left.

    Raises:
        NotFound: There is no such dialect (DIALECT).
        AlreadyExists: There is one to add already (DIALECT).
    """
    dialects = dict(schema.dialects)
    options = dict(schema.options)
    comment = schema.comment
    for change in changes:
        match change:
            case SetOption():
                options[change.key] = change.value
            case RemoveOption():
                options.pop(change.key, None)
            case UpdateComment():
                comment = change.comment
            case AddDialect():
                if change.dialect in dialects:
                    raise AlreadyExists(
                        f"view {identifier} has a query for '{change.dialect}' already; update it",
                        resource_type=ResourceType.DIALECT,
                        resource_name=change.dialect,
                    )
                dialects[change.dialect] = change.query
            case UpdateDialect():
                _require_dialect(identifier, dialects, change.dialect)
                dialects[change.dialect] = change.query
            case DropDialect():
                _require_dialect(identifier, dialects, change.dialect)
                del dialects[change.dialect]
    return replace(schema, dialects=dialects, options=options, comment=comment)


def _require_dialect(identifier: Identifier, dialects: Mapping[str, str], dialect: str) -> None:
    if dialect not in dialects:
        raise NotFound(
            f"view {identifier} has no query for '{dialect}'; those it has are for "
            f"{', '.join(sorted(dialects)) or 'no engine'}",
            resource_type=ResourceType.DIALECT,
            resource_name=dialect,
        )


class Views(Protocol):
    """The views of one warehouse.

    Tables and views have name spaces of their own: engines look for a table first.
    """

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """View names; NotFound (DATABASE)."""
        ...

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ViewInfo]:
        """Views in the order of their names; NotFound (DATABASE)."""
        ...

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """Views of all databases, by database and name."""
        ...

    def create(
        self, identifier: Identifier, schema: ViewSchema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a view; NotFound (DATABASE), AlreadyExists (VIEW)."""
        ...

    def get(self, identifier: Identifier) -> ViewInfo:
        """A view; NotFound (VIEW)."""
        ...

    def alter(self, identifier: Identifier, changes: Sequence[ViewChange]) -> None:
        """Apply changes, all or none; NotFound (VIEW, DIALECT), AlreadyExists (DIALECT)."""
        ...

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name; NotFound (VIEW, DATABASE), AlreadyExists (VIEW)."""
        ...

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view; NotFound (VIEW)."""
        ...
