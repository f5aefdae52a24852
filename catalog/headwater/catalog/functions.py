"""The public name of `headwater.catalog.model.functions`."""

from __future__ import annotations

from headwater.catalog.model.functions import (
    AddDefinition,
    DropDefinition,
    FileDefinition,
    FileResource,
    FunctionChange,
    FunctionDefinition,
    FunctionInfo,
    Functions,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
    UpdateDefinition,
    changed_function,
)

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
