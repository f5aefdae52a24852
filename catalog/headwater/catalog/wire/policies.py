"""The JSON about policies (``rest-management-open-api.yaml``). See `…catalog.wire`."""

from __future__ import annotations

from pydantic import Field, JsonValue

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import PermissionTarget, TargetType
from headwater.catalog.model.policies import ColumnMask, Policy, PolicyType, RowFilter
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.permissions import PermissionResourceModel
from headwater.catalog.wire.tables import Listed, WireModel
from headwater.storage.errors import Invalid

__all__ = [
    "ColumnMaskModel",
    "CreatePolicyRequest",
    "DropPolicyRequest",
    "ListPoliciesResponse",
    "PolicyModel",
    "RowFilterModel",
    "parse_policy_type",
]

_ROW_FILTER: dict[str, JsonValue] = {
    "predicate": '{"kind":"LEAF","transform":{"name":"FIELD_REF","fieldRef":{"index":1,'
    '"name":"region","type":"STRING"}},"function":"EQUAL","literals":["EMEA"]}'
}
_COLUMN_MASK: dict[str, JsonValue] = {
    "onColumn": "phone",
    "transform": '{"name":"CONCAT","inputs":["****"]}',
}
_POLICY: dict[str, JsonValue] = {
    "resource": {"type": "TABLE", "database": "sales", "table": "orders"},
    "rowFilter": _ROW_FILTER,
    "principal": "group:analysts",
}


def _is_none(value: object) -> bool:
    return value is None


def parse_policy_type(text: str) -> PolicyType:
    """A type by its name; raises Invalid."""
    if text not in set(PolicyType):
        raise Invalid(f"'{text}' is not a type of policy, but {', '.join(PolicyType)}")
    return PolicyType(text)


class RowFilterModel(WireModel):
    """A condition on the rows that a principal sees.

    Attributes:
        predicate: A Paimon predicate as JSON, as in a query's authorization; at most 60 KiB.
    """

    model_config = example(_ROW_FILTER)

    predicate: str


class ColumnMaskModel(WireModel):
    """A replacement for a column's values.

    Attributes:
        on_column: The masked column.
        transform: A Paimon transform as JSON, as in a query's authorization; at most 60 KiB. Its
            result has the column's type.
    """

    model_config = example(_COLUMN_MASK)

    on_column: str
    transform: str


class _RuleModel(WireModel):
    row_filter: RowFilterModel | None = Field(default=None, exclude_if=_is_none)
    column_mask: ColumnMaskModel | None = Field(default=None, exclude_if=_is_none)
    principal: str

    def policy(self) -> Policy:
        """The policy; raises Invalid."""
        match self.row_filter, self.column_mask:
            case RowFilterModel(predicate=predicate), None:
                return Policy(self.principal, RowFilter(predicate))
            case None, ColumnMaskModel(on_column=column, transform=transform):
                return Policy(self.principal, ColumnMask(column, transform))
        raise Invalid("a policy has exactly one of 'rowFilter' and 'columnMask'")


class CreatePolicyRequest(_RuleModel):
    """``POST …/policies``.

    Attributes:
        row_filter: The row filter; exactly one of this and `columnMask` must be given.
        column_mask: The column mask.
        principal: The principal it restricts.
    """

    model_config = example({"columnMask": _COLUMN_MASK, "principal": "group:support"})

    @staticmethod
    def of(policy: Policy) -> CreatePolicyRequest:
        """The wire form."""
        row_filter, column_mask = _rule_models(policy)
        return CreatePolicyRequest(
            row_filter=row_filter, column_mask=column_mask, principal=policy.principal
        )


class DropPolicyRequest(WireModel):
    """``POST …/policies/drop``.

    Attributes:
        type: ROW_FILTER or COLUMN_MASKING.
        principal: The principal that the policy restricts.
        column: The masked column; a row filter has none.
    """

    model_config = example(
        {"type": "COLUMN_MASKING", "principal": "group:support", "column": "phone"}
    )

    type: str
    principal: str
    column: str | None = Field(default=None, exclude_if=_is_none)


def _rule_models(policy: Policy) -> tuple[RowFilterModel | None, ColumnMaskModel | None]:
    match policy.rule:
        case RowFilter(predicate):
            return RowFilterModel(predicate=predicate), None
        case ColumnMask(column, transform):
            return None, ColumnMaskModel(on_column=column, transform=transform)


class PolicyModel(_RuleModel):
    """A row filter or column mask of a table, for one principal.

    Attributes:
        resource: The table.
        row_filter: The row filter; exactly one of this and `columnMask` is there.
        column_mask: The column mask.
        principal: The principal it restricts.
    """

    model_config = example(_POLICY)

    resource: PermissionResourceModel

    @staticmethod
    def of(identifier: Identifier, policy: Policy) -> PolicyModel:
        """The wire form."""
        table = PermissionTarget(TargetType.TABLE, identifier.database, identifier.name)
        row_filter, column_mask = _rule_models(policy)
        return PolicyModel(
            resource=PermissionResourceModel.of(table),
            row_filter=row_filter,
            column_mask=column_mask,
            principal=policy.principal,
        )


class ListPoliciesResponse(Listed[PolicyModel]):
    """Policies.

    Attributes:
        policies: The policies of this page, in their order.
    """

    model_config = example({"policies": [_POLICY], "nextPageToken": None})

    items: list[PolicyModel] | None = Field(default=None, alias="policies")
