"""The JSON about functions. See `…catalog.wire`; the sources are ``FunctionDefinition.java`` and
``FunctionChange.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from headwater.catalog.model.column import Column
from headwater.catalog.model.functions import (
    AddDefinition,
    DropDefinition,
    FileDefinition,
    FileResource,
    FunctionChange,
    FunctionDefinition,
    FunctionInfo,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
    UpdateDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.examples import AUDIT, example
from headwater.catalog.wire.named_objects import (
    ColumnModel,
    PropertyChangeModel,
    property_change_model,
)
from headwater.catalog.wire.tables import (
    AuditedModel,
    IdentifierModel,
    Listed,
    WireModel,
    audit_fields,
    without_nulls,
)
from headwater.storage.errors import Invalid

__all__ = [
    "AddDefinitionModel",
    "AlterFunctionRequest",
    "CreateFunctionRequest",
    "DropDefinitionModel",
    "FileDefinitionModel",
    "FileResourceModel",
    "FunctionSpecModel",
    "GetFunctionResponse",
    "LambdaDefinitionModel",
    "ListFunctionDetailsResponse",
    "ListFunctionsGloballyResponse",
    "ListFunctionsResponse",
    "SqlDefinitionModel",
    "UpdateDefinitionModel",
    "definition_from_json",
]

_SQL_DEFINITION: dict[str, JsonValue] = {"type": "sql", "definition": "length * width"}
_LAMBDA_DEFINITION: dict[str, JsonValue] = {
    "type": "lambda",
    "definition": "(Double length, Double width) -> length * width",
    "language": "java",
}
_JAR: dict[str, JsonValue] = {"resourceType": "jar", "uri": "s3://lake/functions/area.jar"}
_FILE_DEFINITION: dict[str, JsonValue] = {
    "type": "file",
    "fileResources": [_JAR],
    "language": "java",
    "className": "com.example.Area",
    "functionName": "eval",
}
_FUNCTION_SPEC: dict[str, JsonValue] = {
    "inputParams": [
        {"id": 0, "name": "length", "type": "DOUBLE"},
        {"id": 1, "name": "width", "type": "DOUBLE"},
    ],
    "returnParams": [{"id": 0, "name": "area", "type": "DOUBLE"}],
    "deterministic": True,
    "definitions": {
        "trino": _SQL_DEFINITION,
        "spark": _LAMBDA_DEFINITION,
        "flink": _FILE_DEFINITION,
    },
    "comment": "The area of a rectangle.",
    "options": {},
}
_FUNCTION: dict[str, JsonValue] = {
    "uuid": "9b0d6a1c-2f0e-4d58-9c34-5d0a1be7f3c2",
    "name": "area",
    **_FUNCTION_SPEC,
    **AUDIT,
}


class FileResourceModel(WireModel):
    """A file that a definition needs: `resourceType` is ``jar``, ``file``…"""

    model_config = example(_JAR)

    resource_type: str
    uri: str


class FileDefinitionModel(WireModel):
    """A function in files."""

    model_config = example(_FILE_DEFINITION)

    type: Literal["file"] = "file"
    file_resources: list[FileResourceModel] | None = None
    language: str
    class_name: str
    function_name: str

    def definition_of(self) -> FileDefinition:
        """The definition."""
        resources = self.file_resources
        return FileDefinition(
            None
            if resources is None
            else tuple(FileResource(item.resource_type, item.uri) for item in resources),
            self.language,
            self.class_name,
            self.function_name,
        )


class SqlDefinitionModel(WireModel):
    """A function as a SQL expression."""

    model_config = example(_SQL_DEFINITION)

    type: Literal["sql"] = "sql"
    definition: str

    def definition_of(self) -> SqlDefinition:
        """The definition."""
        return SqlDefinition(self.definition)


class LambdaDefinitionModel(WireModel):
    """A function as source text in a language."""

    model_config = example(_LAMBDA_DEFINITION)

    type: Literal["lambda"] = "lambda"
    definition: str
    language: str

    def definition_of(self) -> LambdaDefinition:
        """The definition."""
        return LambdaDefinition(self.definition, self.language)


_DefinitionModel: TypeAlias = Annotated[
    FileDefinitionModel | SqlDefinitionModel | LambdaDefinitionModel, Field(discriminator="type")
]


def definition_from_json(text: str) -> FunctionDefinition:
    """Read a definition's JSON; raises Invalid saying what is wrong with it."""
    adapter: TypeAdapter[_DefinitionModel] = TypeAdapter(_DefinitionModel)
    try:
        return adapter.validate_json(text).definition_of()
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise Invalid(
            f"not a function's definition: {where} {problem['msg']}; write for example "
            '{"type": "lambda", "language": "java", "definition": "…"}'
        ) from error


def _definition_model(definition: FunctionDefinition) -> _DefinitionModel:
    match definition:
        case FileDefinition():
            resources = definition.file_resources
            return FileDefinitionModel(
                file_resources=None
                if resources is None
                else [
                    FileResourceModel(resource_type=item.resource_type, uri=item.uri)
                    for item in resources
                ],
                language=definition.language,
                class_name=definition.class_name,
                function_name=definition.function_name,
            )
        case SqlDefinition():
            return SqlDefinitionModel(definition=definition.definition)
        case LambdaDefinition():
            return LambdaDefinitionModel(
                definition=definition.definition, language=definition.language
            )


class FunctionSpecModel(WireModel):
    """The content of a function; `definitions` are by the engine's name."""

    model_config = example(_FUNCTION_SPEC)

    input_params: list[ColumnModel] | None = None
    return_params: list[ColumnModel] | None = None
    deterministic: bool = False
    definitions: dict[str, _DefinitionModel] | None = None
    comment: str | None = None
    options: dict[str, str | None] | None = None

    @staticmethod
    def of(spec: FunctionSpec) -> FunctionSpecModel:
        """The wire form."""
        return FunctionSpecModel(
            input_params=_models(spec.input_params),
            return_params=_models(spec.return_params),
            deterministic=spec.is_deterministic,
            definitions={
                name: _definition_model(definition) for name, definition in spec.definitions.items()
            },
            comment=spec.comment,
            options=dict(spec.options),
        )

    def spec(self) -> FunctionSpec:
        """The function; raises Invalid when a parameter's type is none of Paimon's."""
        return FunctionSpec(
            input_params=_columns(self.input_params),
            return_params=_columns(self.return_params),
            definitions={
                name: definition.definition_of()
                for name, definition in (self.definitions or {}).items()
            },
            is_deterministic=self.deterministic,
            comment=self.comment,
            options=without_nulls(self.options),
        )


def _models(columns: tuple[Column, ...] | None) -> list[ColumnModel] | None:
    return None if columns is None else [ColumnModel.of(column) for column in columns]


def _columns(models: list[ColumnModel] | None) -> tuple[Column, ...] | None:
    return None if models is None else tuple(model.column() for model in models)


class CreateFunctionRequest(FunctionSpecModel):
    """``POST …/functions``."""

    model_config = example({"name": "area", **_FUNCTION_SPEC})

    name: str

    @staticmethod
    def named(identifier: Identifier, spec: FunctionSpec) -> CreateFunctionRequest:
        """The wire form."""
        return CreateFunctionRequest(name=identifier.name, **dict(FunctionSpecModel.of(spec)))


class AddDefinitionModel(WireModel):
    """Define a function for an engine that has no definition yet."""

    model_config = example(
        {
            "action": "addDefinition",
            "name": "duckdb",
            "definition": _SQL_DEFINITION,
        }
    )

    action: Literal["addDefinition"] = "addDefinition"
    name: str
    definition: _DefinitionModel

    def change(self) -> AddDefinition:
        """The change."""
        return AddDefinition(self.name, self.definition.definition_of())


class UpdateDefinitionModel(WireModel):
    """Replace an engine's definition."""

    model_config = example(
        {
            "action": "updateDefinition",
            "name": "trino",
            "definition": _SQL_DEFINITION,
        }
    )

    action: Literal["updateDefinition"] = "updateDefinition"
    name: str
    definition: _DefinitionModel

    def change(self) -> UpdateDefinition:
        """The change."""
        return UpdateDefinition(self.name, self.definition.definition_of())


class DropDefinitionModel(WireModel):
    """Take an engine's definition away."""

    model_config = example({"action": "dropDefinition", "name": "trino"})

    action: Literal["dropDefinition"] = "dropDefinition"
    name: str

    def change(self) -> DropDefinition:
        """The change."""
        return DropDefinition(self.name)


_ChangeModel: TypeAlias = Annotated[
    PropertyChangeModel | AddDefinitionModel | UpdateDefinitionModel | DropDefinitionModel,
    Field(discriminator="action"),
]


class AlterFunctionRequest(WireModel):
    """``POST …/functions/{function}``."""

    model_config = example(
        {"changes": [{"action": "addDefinition", "name": "duckdb", "definition": _SQL_DEFINITION}]}
    )

    changes: list[_ChangeModel]

    @staticmethod
    def of(changes: Sequence[FunctionChange]) -> AlterFunctionRequest:
        """The wire form."""
        return AlterFunctionRequest(changes=[_change_model(change) for change in changes])


def _change_model(change: FunctionChange) -> _ChangeModel:
    match change:
        case AddDefinition():
            return AddDefinitionModel(
                name=change.name, definition=_definition_model(change.definition)
            )
        case UpdateDefinition():
            return UpdateDefinitionModel(
                name=change.name, definition=_definition_model(change.definition)
            )
        case DropDefinition():
            return DropDefinitionModel(name=change.name)
        case _:
            return property_change_model(change)


class GetFunctionResponse(AuditedModel, FunctionSpecModel):
    """A function."""

    model_config = example(_FUNCTION)

    uuid: str
    name: str

    @staticmethod
    def of_info(info: FunctionInfo) -> GetFunctionResponse:
        """The wire form."""
        return GetFunctionResponse(
            uuid=info.id,
            name=info.identifier.name,
            **dict(FunctionSpecModel.of(info.spec)),
            **audit_fields(info),
        )

    def info(self, database: str) -> FunctionInfo:
        """The function; the answer leaves its database to be known."""
        return FunctionInfo(
            id=self.uuid,
            identifier=Identifier(database, self.name),
            spec=self.spec(),
            **self.audit(),
        )


class ListFunctionsResponse(Listed[str]):
    """Function names."""

    model_config = example({"functions": ["area"], "nextPageToken": None})

    items: list[str] | None = Field(default=None, alias="functions")


class ListFunctionDetailsResponse(Listed[GetFunctionResponse]):
    """Functions with their definitions."""

    model_config = example(
        {
            "functionDetails": [_FUNCTION],
            "nextPageToken": None,
        }
    )

    items: list[GetFunctionResponse] | None = Field(default=None, alias="functionDetails")


class ListFunctionsGloballyResponse(Listed[IdentifierModel]):
    """Functions of all databases."""

    model_config = example(
        {
            "functions": [{"database": "sales", "object": "area"}],
            "nextPageToken": None,
        }
    )

    items: list[IdentifierModel] | None = Field(default=None, alias="functions")
