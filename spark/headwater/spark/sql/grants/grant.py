"""``GRANT`` and ``REVOKE``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.catalog.model.page import all_pages
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    Permissions,
    PermissionTarget,
    TargetType,
)
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.grants.clauses import (
    accesses_on,
    object_text,
    read_principals,
    read_privileges,
    read_target,
)
from headwater.spark.sql.grants.column_sets import less, together
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import parse_duration

__all__ = ["HANDLERS", "recorded"]


def _grant(statement: Statement, context: SqlContext) -> None:
    """``GRANT privileges ON target TO principals [EXPIRES IN '90 d']``."""
    statement.expect("GRANT")
    privileges = read_privileges(statement)
    target = read_target(statement, context)
    statement.expect("TO")
    principals = read_principals(statement)
    lasts: int | None = None
    if statement.accept("EXPIRES"):
        statement.expect("IN")
        lasts = parse_duration(statement.string(), "EXPIRES IN")
    if statement.peek("WITH"):
        raise Unsupported(
            "WITH … OPTION is not supported: GRANT is a privilege of its own, which allows to "
            f"grant anything on {object_text(target)}"
        )
    statement.end()
    until = None if lasts is None else context.catalog.runtime.earliest_millis() + lasts
    permissions = context.catalog.catalog.permissions
    grants = [
        _one_grant(permissions, target, access, columns, principal, until)
        for access, columns in accesses_on(target, privileges, context)
        for principal in principals
    ]
    for grant in grants:
        permissions.grant(grant)


def _one_grant(
    permissions: Permissions,
    target: PermissionTarget,
    access: Access,
    columns: ColumnSet | None,
    principal: str,
    until: int | None,
) -> Grant:
    """The grant to record, columns that were granted before included."""
    if columns is None:
        if target.type is TargetType.TABLE and access in (Access.ALL, Access.SELECT):
            _refuse_narrowed(permissions, target, access, principal)
        return Grant(target, access, principal, expires_at=until)
    grant = Grant(_columns_of(target), access, principal, columns, until)
    for before in recorded(permissions, grant.target, principal):
        if before.columns is None:
            continue
        if before.expires_at != until:
            raise Invalid(
                f"{principal} has SELECT on columns of {object_text(target)} already, until "
                "another time, and all of them have one: REVOKE SELECT on them first"
            )
        grant = replace(grant, columns=together(before.columns, columns))
    return grant


def _refuse_narrowed(
    permissions: Permissions, target: PermissionTarget, access: Access, principal: str
) -> None:
    """Refuse SELECT on a table for a principal who would still select some columns alone."""
    if recorded(permissions, _columns_of(target), principal):
        raise Invalid(
            f"{principal} has SELECT on columns of {object_text(target)}, and {access} would still "
            "be kept to those: REVOKE SELECT on them first"
        )


def _revoke(statement: Statement, context: SqlContext) -> None:
    """``REVOKE privileges ON target FROM principals``; it is no error when there is no grant."""
    statement.expect("REVOKE")
    if statement.peek("GRANT", "OPTION"):
        raise Unsupported("GRANT OPTION FOR is not supported: GRANT is a privilege of its own")
    privileges = read_privileges(statement)
    target = read_target(statement, context)
    statement.expect("FROM")
    principals = read_principals(statement)
    statement.end()
    permissions = context.catalog.catalog.permissions
    accesses = accesses_on(target, privileges, context)
    changes = [
        change
        for principal in principals
        for change in _revocations(permissions, target, accesses, principal)
    ]
    for grant, left in changes:
        if left is None:
            permissions.revoke(grant.target, grant.access, grant.principal)
        else:
            permissions.grant(replace(grant, columns=left))


def _revocations(
    permissions: Permissions,
    target: PermissionTarget,
    accesses: list[tuple[Access, ColumnSet | None]],
    principal: str,
) -> list[tuple[Grant, ColumnSet | None]]:
    """The recorded grants to end, and the columns that stay granted of each.

    Raises:
        Invalid: Another grant on the target would leave what is to be taken away.
    """
    whole = {grant.access: grant for grant in recorded(permissions, target, principal)}
    is_table = target.type is TargetType.TABLE
    some = recorded(permissions, _columns_of(target), principal) if is_table else []
    if any(access is Access.ALL for access, _ in accesses):
        return [(grant, None) for grant in (*whole.values(), *some)]
    left: Mapping[Access, Grant] = {
        access: grant for access, grant in whole.items() if (access, None) not in accesses
    }
    changes: list[tuple[Grant, ColumnSet | None]] = []
    for access, columns in accesses:
        for broader in (Access.ALL, access):
            if broader in left:
                raise Invalid(
                    f"{principal} has {broader} on {object_text(target)}, which {access} "
                    f"{'on columns ' if columns else ''}is a part of: REVOKE {broader} and GRANT "
                    "what is to stay"
                )
        if columns is None:
            if access in whole:
                changes.append((whole[access], None))
            if access is Access.SELECT:
                changes += [(grant, None) for grant in some]
        else:
            changes += [
                (grant, less(grant.columns, columns)) for grant in some if grant.columns is not None
            ]
    return changes


def recorded(
    permissions: Permissions, target: PermissionTarget, principal: str | None
) -> list[Grant]:
    """The grants on exactly one target."""
    return list(
        all_pages(lambda token: permissions.list(target, principal=principal, page_token=token))
    )


def _columns_of(target: PermissionTarget) -> PermissionTarget:
    return replace(target, type=TargetType.COLUMN)


HANDLERS: Mapping[tuple[str, ...], Handler] = {("GRANT",): _grant, ("REVOKE",): _revoke}
