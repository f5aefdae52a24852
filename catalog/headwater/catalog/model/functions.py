"""Functions: what engines call by name, with a definition for each of them.

The catalog keeps what a function says and never runs it (``Function.java``,
``FunctionDefinition.java``).
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
    "AddDefinition",
    "DropDefinition",
    "FileDefinition",
    "FileResource",
    "FunctionChange",
    "FunctionDefinition",
    "FunctionInfo",
    "FunctionSpec",
    "Functions",
    "LambdaDefinition",
    "SqlDefinition",
    "UpdateDefinition",
    "changed_function",
]


@dataclass(frozen=True)
class FileResource:
    """A file that a definition needs: `resource_type` is ``jar``, ``file``…"""

    resource_type: str
    uri: str


@dataclass(frozen=True)
class FileDefinition:
    """A function in files.

    Attributes:
        file_resources: The files; None when the engine has them.
        language: What it is written in.
        class_name: The class that has it.
        function_name: Its name there.
    """

    file_resources: tuple[FileResource, ...] | None
    language: str
    class_name: str
    function_name: str


@dataclass(frozen=True)
class SqlDefinition:
    """A function as a SQL expression."""

    definition: str


@dataclass(frozen=True)
class LambdaDefinition:
    """A function as source text in a language."""

    definition: str
    language: str


FunctionDefinition: TypeAlias = FileDefinition | SqlDefinition | LambdaDefinition


@dataclass(frozen=True)
class FunctionSpec:
    """The content of a function.

    Attributes:
        input_params: What it takes; None when that is not said.
        return_params: What it gives; None when that is not said.
        definitions: How it is computed, by the engine's name (``spark``, ``flink``…).
        is_deterministic: Whether the same input always gives the same result.
        comment: A comment, or None.
        options: Whatever engines keep with it.
    """

    input_params: tuple[Column, ...] | None = None
    return_params: tuple[Column, ...] | None = None
    definitions: Mapping[str, FunctionDefinition] = field(default_factory=dict)
    is_deterministic: bool = True
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionInfo:
    """A function as the catalog has it: ``id`` is a UUID, times are milliseconds."""

    id: str
    identifier: Identifier
    spec: FunctionSpec
    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


@dataclass(frozen=True)
class AddDefinition:
    """Define a function for an engine that has no definition yet."""

    name: str
    definition: FunctionDefinition


@dataclass(frozen=True)
class UpdateDefinition:
    """Replace an engine's definition."""

    name: str
    definition: FunctionDefinition


@dataclass(frozen=True)
class DropDefinition:
    """Take an engine's definition away."""

    name: str


FunctionChange: TypeAlias = (
    SetOption | RemoveOption | UpdateComment | AddDefinition | UpdateDefinition | DropDefinition
)


def changed_function(
    identifier: Identifier, spec: FunctionSpec, changes: Sequence[FunctionChange]
) -> FunctionSpec:
    """A function after changes, each applied to what the one before left.

    Raises:
        NotFound: There is no such definition (DEFINITION).
        AlreadyExists: There is one to add already (DEFINITION).
    """
    definitions = dict(spec.definitions)
    options = dict(spec.options)
    comment = spec.comment
    for change in changes:
        match change:
            case SetOption():
                options[change.key] = change.value
            case RemoveOption():
                options.pop(change.key, None)
            case UpdateComment():
                comment = change.comment
            case AddDefinition():
                if change.name in definitions:
                    raise AlreadyExists(
                        f"function {identifier} has a definition '{change.name}' already; "
                        "update it",
                        resource_type=ResourceType.DEFINITION,
                        resource_name=change.name,
                    )
                definitions[change.name] = change.definition
            case UpdateDefinition():
                _require_definition(identifier, definitions, change.name)
                definitions[change.name] = change.definition
            case DropDefinition():
                _require_definition(identifier, definitions, change.name)
                del definitions[change.name]
    return replace(spec, definitions=definitions, options=options, comment=comment)


def _require_definition(
    identifier: Identifier, definitions: Mapping[str, FunctionDefinition], name: str
) -> None:
    if name not in definitions:
        raise NotFound(
            f"function {identifier} has no definition '{name}', but "
            f"{', '.join(sorted(definitions)) or 'none'}",
            resource_type=ResourceType.DEFINITION,
            resource_name=name,
        )


class Functions(Protocol):
    """The functions of one warehouse."""

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Function names; NotFound (DATABASE)."""
        ...

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[FunctionInfo]:
        """Functions in the order of their names; NotFound (DATABASE)."""
        ...

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """Functions of all databases, by database and name."""
        ...

    def create(
        self,
        identifier: Identifier,
        spec: FunctionSpec,
        *,
        ignore_if_exists: bool = False,
    ) -> None:
        """Create a function; NotFound (DATABASE), AlreadyExists (FUNCTION)."""
        ...

    def get(self, identifier: Identifier) -> FunctionInfo:
        """A function; NotFound (FUNCTION)."""
        ...

    def alter(self, identifier: Identifier, changes: Sequence[FunctionChange]) -> None:
        """Apply changes, all or none.

        Raises:
            NotFound: No such function (FUNCTION) or definition (DEFINITION).
            AlreadyExists: There is such a definition already (DEFINITION).
        """
        ...

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a function; NotFound (FUNCTION)."""
        ...
