"""``SHOW GRANTS`` and ``SHOW POLICIES``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.catalog.model.page import all_pages
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.model.policies import RowFilter
from headwater.catalog.model.rights import WITHIN, expanded
from headwater.catalog.table.display import time_text
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.grants.clauses import (
    object_name,
    read_principal,
    read_target,
)
from headwater.spark.sql.grants.column_sets import text_of
from headwater.spark.sql.grants.grant import recorded
from headwater.spark.sql.names import object_identifier
from headwater.spark.sql.statement import Statement

__all__ = ["HANDLERS"]

_COLUMNS: Mapping[str, type] = dict.fromkeys(
    ("principal", "privilege", "columns", "object_type", "object", "expires_at"), str
)
_Row = tuple[str, str, str | None, str | None, str | None, str | None]


def _grants(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW GRANTS ON target [TO principal]``, ``SHOW GRANTS TO principal``.

    As with Databricks the principal may also stand before ``ON``.
    """
    statement.expect("SHOW", "GRANTS")
    if statement.at_end:
        raise statement.unexpected("ON and a table, or TO and a principal,")
    principal: str | None = None
    if not statement.peek("ON") and not statement.peek("TO"):
        principal = read_principal(statement)
    target = read_target(statement, context) if statement.accept("ON") else None
    if principal is None and statement.accept("TO"):
        principal = read_principal(statement)
    statement.end()
    if target is not None:
        return answer(_COLUMNS, _on(target, principal, context))
    assert principal is not None
    return answer(_COLUMNS, _to(principal, context))


def _on(target: PermissionTarget, principal: str | None, context: SqlContext) -> list[_Row]:
    """The grants on a thing, and those who have more on it by what it is in or as its owner."""
    permissions = context.catalog.catalog.permissions
    grants = [
        grant
        for each in _parts(target)
        for grant in recorded(permissions, each, principal)
    ]  # fmt: skip
    rows = list(map(_row, grants))
    if target.type not in WITHIN.values():
        holders = all_pages(lambda token: permissions.who(target, page_token=token))
        for holder in holders:
            if principal is None or holder.principal == principal:
                own = [
                    grant for grant in grants
                    if grant.principal == holder.principal and grant.target == target
                ]  # fmt: skip
                more = holder.accesses - expanded(target.type, (each.access for each in own))
                some = [each.columns for each in grants if each.principal == holder.principal]
                rows += [
                    (holder.principal, access, None, None, None, None) for access in _shortest(more)
                ]
                rows += [
                    (holder.principal, Access.SELECT, text_of(columns), None, None, None)
                    for columns in holder.columns
                    if columns not in some
                ]
    return sorted(rows, key=lambda row: tuple(value or "" for value in row))


def _parts(target: PermissionTarget) -> list[PermissionTarget]:
    """The targets whose grants are listed for one."""
    if target.type is TargetType.TABLE:
        return [target, replace(target, type=TargetType.COLUMN)]
    within = WITHIN.get(target.type)
    return [target] if within is None else [target, replace(target, type=within)]


def _to(principal: str, context: SqlContext) -> list[_Row]:
    """The tables that a principal sees, and its grants on databases and on the catalog."""
    catalog = context.catalog
    permissions = catalog.catalog.permissions
    targets = [PermissionTarget(TargetType.CATALOG)]
    targets += [PermissionTarget(TargetType.DATABASE, name) for name in catalog.list_databases()]
    rows = [
        _row(grant)
        for target in targets
        for part in _parts(target)
        for grant in recorded(permissions, part, principal)
    ]
    for seen in all_pages(lambda token: permissions.of(principal, page_token=token)):
        name = str(seen.identifier)
        rows += [
            (principal, access, None, TargetType.TABLE, name, None)
            for access in _shortest(seen.accesses)
        ]
        rows += [
            (principal, Access.SELECT, text_of(columns), TargetType.COLUMN, name, None)
            for columns in _distinct(seen.columns)
        ]
    return rows


def _row(grant: Grant) -> _Row:
    return (
        grant.principal,
        grant.access,
        None if grant.columns is None else text_of(grant.columns),
        grant.target.type,
        object_name(grant.target),
        time_text(grant.expires_at),
    )


def _shortest(accesses: Collection[Access]) -> list[Access]:
    """``ALL`` alone where it is among some accesses: the others are parts of it."""
    return [Access.ALL] if Access.ALL in accesses else sorted(accesses)


def _distinct(columns: Sequence[ColumnSet]) -> list[ColumnSet]:
    return list(dict.fromkeys(columns))


def _policies(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW POLICIES ON [TABLE] t``."""
    statement.expect("SHOW", "POLICIES", "ON")
    statement.accept("TABLE")
    table = object_identifier(statement, context)
    statement.end()
    policies = context.catalog.catalog.policies
    columns: Mapping[str, type] = dict.fromkeys(("type", "principal", "column", "rule"), str)
    rows = [
        (
            policy.type,
            policy.principal,
            policy.column,
            policy.rule.predicate
            if isinstance(policy.rule, RowFilter)
            else policy.rule.transform,
        )
        for policy in all_pages(lambda token: policies.list(table, page_token=token))
    ]  # fmt: skip
    return answer(columns, rows)


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("SHOW", "GRANTS"): _grants,
    ("SHOW", "POLICIES"): _policies,
}
