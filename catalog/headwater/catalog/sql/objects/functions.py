"""Functions, in the SQL database alone."""

from __future__ import annotations

from headwater.catalog.model.functions import (
    FunctionChange,
    FunctionInfo,
    FunctionSpec,
    changed_function,
)
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import FunctionRow
from headwater.catalog.sql.objects.named_objects import ObjectShape, SqlNamedObjects
from headwater.catalog.sql.queries.names import check_function_name
from headwater.catalog.wire.functions import FunctionSpecModel
from headwater.storage.errors import ResourceType

__all__ = ["SqlFunctions"]

_FUNCTION = ObjectShape(
    kind=ResourceType.FUNCTION,
    model=FunctionRow,
    check_name=check_function_name,
    to_json=lambda spec: FunctionSpecModel.of(spec).model_dump_json(),
    from_json=lambda document: FunctionSpecModel.model_validate_json(document).spec(),
    changed=changed_function,
    info=FunctionInfo,
)


class SqlFunctions(SqlNamedObjects[FunctionSpec, FunctionChange, FunctionInfo]):
    """The functions of one warehouse (`headwater.catalog.model.functions.Functions`).

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        super().__init__(context, _FUNCTION)
