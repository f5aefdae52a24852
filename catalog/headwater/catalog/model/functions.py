"""Functions: what engines call by name, with a definition for each of them.

The catalog keeps what a function says and never runs it (``Function.java``,
``FunctionDefinition.java``).
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
        language: The language it is written in.
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
        input_params: The parameters; None if unspecified.
        return_params: The columns of the result; None if unspecified.
        definitions: The definitions, by the engine's name (``spark``, ``flink``…).
        is_deterministic: True if the same input always gives the same result.
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
class FunctionInfo(Audited):
    """A function as the catalog has it: ``id`` is a UUID."""

    id: str
    identifier: Identifier
    spec: FunctionSpec


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


FunctionChange: TypeAlias = PropertyChange | AddDefinition | UpdateDefinition | DropDefinition


def changed_function(
    identifier: Identifier, spec: FunctionSpec, changes: Sequence[FunctionChange]
) -> FunctionSpec:
    """A function after changes, each applied to what the one before left.

    Raises:
        NotFound: There is no such definition (DEFINITION).
        AlreadyExists: There is one to add already (DEFINITION).
    """
    edit = ContentEdit(
        f"function {identifier}",
        ResourceType.DEFINITION,
        "definition for",
        spec.definitions,
        spec.options,
        spec.comment,
    )
    for change in changes:
        match change:
            case AddDefinition():
                edit.add(change.name, change.definition)
            case UpdateDefinition():
                edit.update(change.name, change.definition)
            case DropDefinition():
                edit.drop(change.name)
            case _:
                edit.change(change)
    return replace(spec, definitions=edit.entries, options=edit.options, comment=edit.comment)


class Functions(NamedObjects[FunctionSpec, FunctionChange, FunctionInfo], Protocol):
    """The functions of one warehouse; Paimon's API has no way to rename one."""
