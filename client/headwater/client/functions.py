"""The functions of a catalog behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.functions import FunctionChange, FunctionInfo, FunctionSpec
from headwater.catalog.wire.functions import (
    AlterFunctionRequest,
    CreateFunctionRequest,
    FunctionSpecModel,
    GetFunctionResponse,
    ListFunctionDetailsResponse,
    ListFunctionsGloballyResponse,
    ListFunctionsResponse,
)
from headwater.client.named_objects import ObjectShape, RestNamedObjects
from headwater.client.requests import Requests
from headwater.storage.errors import ResourceType

__all__ = ["RestFunctions"]

_FUNCTION = ObjectShape(
    kind=ResourceType.FUNCTION,
    names=ListFunctionsResponse,
    details=ListFunctionDetailsResponse,
    everywhere=ListFunctionsGloballyResponse,
    answer=GetFunctionResponse,
    info=GetFunctionResponse.info,
    create=CreateFunctionRequest.named,
    alter=AlterFunctionRequest.of,
    replace=FunctionSpecModel.of,
)


class RestFunctions(
    RestNamedObjects[FunctionSpec, FunctionChange, FunctionInfo, GetFunctionResponse]
):
    """The functions of one warehouse (`headwater.catalog.model.functions.Functions`).

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests, _FUNCTION)
