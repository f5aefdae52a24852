"""Procedures about who may do what with which thing: permissions and policies.

Their names, arguments and results are those of Paimon's Spark procedures (apache/paimon pull
request 9410), which came after release 2.0.0.
"""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import PermissionTarget, check_access
from headwater.catalog.model.policies import ColumnMask, Policy, PolicyType, RowFilter
from headwater.catalog.wire.permissions import (
    GrantModel,
    PermissionColumnsModel,
    PermissionResourceModel,
)
from headwater.catalog.wire.policies import parse_policy_type
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.storage.errors import Invalid

__all__ = [
    "create_policy",
    "drop_policy",
    "grant_permission",
    "list_permissions",
    "list_policies",
    "revoke_permission",
]


def grant_permission(arguments: Arguments) -> Rows:
    """Grant an access; granted again, it gets the new end and columns."""
    names, excluded = arguments.texts("column_names"), arguments.texts("excluded_column_names")
    columns = None
    if names is not None or excluded is not None:
        columns = PermissionColumnsModel(column_names=names, excluded_column_names=excluded)
    grant = GrantModel(
        resource=_resource(arguments),
        access=arguments.required("access"),
        principal=arguments.required("principal"),
        columns=columns,
        expire_time=arguments.text("expire_time"),
    ).grant()
    arguments.context.catalog.catalog.permissions.grant(grant)
    return [(True,)]


def revoke_permission(arguments: Arguments) -> Rows:
    """Take an access away; it is no error when there is none."""
    target = _target(arguments)
    access = check_access(target, arguments.required("access"))
    permissions = arguments.context.catalog.catalog.permissions
    permissions.revoke(target, access, arguments.required("principal"))
    return [(True,)]


def list_permissions(arguments: Arguments) -> Rows:
    """The grants on exactly one thing: a page of them."""
    target = _target(arguments)
    access = arguments.text("access")
    page = arguments.context.catalog.catalog.permissions.list(
        target,
        principal=arguments.text("principal"),
        access=None if access is None else check_access(target, access),
        max_results=arguments.integer("max_results"),
        page_token=arguments.text("page_token"),
    )
    grants = [GrantModel.of(grant) for grant in page.items]
    return [
        (
            *_parts(grant.resource),
            grant.access,
            grant.principal,
            None if grant.columns is None else grant.columns.column_names,
            None if grant.columns is None else grant.columns.excluded_column_names,
            grant.expire_time,
            page.next_token,
        )
        for grant in grants
    ]


def create_policy(arguments: Arguments) -> Rows:
    """Make a row filter or a column mask; one that is there is not replaced."""
    kind = parse_policy_type(arguments.required("policy_type").upper())
    belong = {
        PolicyType.ROW_FILTER: ("predicate_json",),
        PolicyType.COLUMN_MASKING: ("on_column", "transform_json"),
    }
    for other, names in belong.items():
        for name in names:
            if other is not kind and arguments.text(name) is not None:
                raise Invalid(
                    f"sys.create_policy: argument '{name}' is for {other}, not for {kind}"
                )
    rule = (
        RowFilter(arguments.required("predicate_json"))
        if kind is PolicyType.ROW_FILTER
        else ColumnMask(arguments.required("on_column"), arguments.required("transform_json"))
    )
    policy = Policy(arguments.required("principal"), rule)
    arguments.context.catalog.catalog.policies.create(_table(arguments), policy)
    return [(True,)]


def drop_policy(arguments: Arguments) -> Rows:
    """Take a row filter or a column mask away."""
    arguments.context.catalog.catalog.policies.drop(
        _table(arguments),
        parse_policy_type(arguments.required("policy_type").upper()),
        arguments.required("principal"),
        arguments.text("column"),
        ignore_if_not_exists=arguments.flag("if_exists"),
    )
    return [(True,)]


def list_policies(arguments: Arguments) -> Rows:
    """The row filters and column masks of a table: a page of them."""
    table = _table(arguments)
    kind = arguments.text("policy_type")
    page = arguments.context.catalog.catalog.policies.list(
        table,
        type=None if kind is None else parse_policy_type(kind.upper()),
        principal=arguments.text("principal"),
        column=arguments.text("column"),
        max_results=arguments.integer("max_results"),
        page_token=arguments.text("page_token"),
    )
    return [
        (
            table.database,
            table.table,
            policy.type.value,
            policy.principal,
            policy.rule.predicate if isinstance(policy.rule, RowFilter) else None,
            policy.column,
            policy.rule.transform if isinstance(policy.rule, ColumnMask) else None,
            page.next_token,
        )
        for policy in page.items
    ]


def _resource(arguments: Arguments) -> PermissionResourceModel:
    return PermissionResourceModel(
        type=arguments.required("resource_type"),
        database=arguments.text("database"),
        table=arguments.text("table"),
        function=arguments.text("function"),
        view=arguments.text("view"),
    )


def _target(arguments: Arguments) -> PermissionTarget:
    return _resource(arguments).target()


def _parts(resource: PermissionResourceModel) -> tuple[str | None, ...]:
    return (
        resource.type, resource.database, resource.table, resource.function, resource.view,
    )  # fmt: skip


def _table(arguments: Arguments) -> Identifier:
    return Identifier(arguments.required("database"), arguments.required("table"))
