"""The clauses of grants: privileges, what they are on, and principals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.catalog.model.permissions import (
    GRANTABLE,
    Access,
    ColumnSet,
    PermissionTarget,
    TargetType,
    check_principal,
)
from headwater.catalog.model.principal import GROUP_PREFIX
from headwater.catalog.model.rights import WITHIN
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.names import (
    accept_database_word,
    column_name,
    database_name,
    object_identifier,
)
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported

__all__ = [
    "Privilege",
    "accesses_on",
    "object_name",
    "object_text",
    "read_principal",
    "read_principals",
    "read_privileges",
    "read_target",
]

# Without the spaces and underscores in them; each means what the access of the catalog does.
_ACCESSES: Mapping[str, Access] = {
    **{access.value: access for access in Access},
    "ALLPRIVILEGES": Access.ALL,
    "INSERT": Access.UPDATE,
    "MODIFY": Access.UPDATE,
    "CREATESCHEMA": Access.CREATEDATABASE,
    "CREATENAMESPACE": Access.CREATEDATABASE,
}
# Those that say what they are on.
_OF_A_KIND: Mapping[str, tuple[Access, TargetType]] = {
    "ALTERTABLE": (Access.ALTER, TargetType.TABLE),
    "DROPTABLE": (Access.DROP, TargetType.TABLE),
    "ALTERVIEW": (Access.ALTER, TargetType.VIEW),
    "DROPVIEW": (Access.DROP, TargetType.VIEW),
    "DROPFUNCTION": (Access.DROP, TargetType.FUNCTION),
    "DROPDATABASE": (Access.DROP, TargetType.DATABASE),
    "DROPSCHEMA": (Access.DROP, TargetType.DATABASE),
}
_ONE_RIGHT_TO_WRITE = "all that writes to a table is one privilege, UPDATE"
_NOT_NEEDED = "nothing needs it: whoever has a privilege on a table sees the table and its database"
_REFUSED: Mapping[str, str] = {
    "DELETE": _ONE_RIGHT_TO_WRITE,
    "MERGE": _ONE_RIGHT_TO_WRITE,
    "TRUNCATE": _ONE_RIGHT_TO_WRITE,
    "USAGE": _NOT_NEEDED,
    "USE": _NOT_NEEDED,
    "USECATALOG": _NOT_NEEDED,
    "USESCHEMA": _NOT_NEEDED,
    "USEDATABASE": _NOT_NEEDED,
    "EXECUTE": "SELECT on a function is enough to call it",
    "BROWSE": "write DESCRIBE on a database; any privilege on a table shows what it is",
    "OWNERSHIP": "owners are those who make things, and that stays; write ALL",
    "MANAGE": "write ALL, or GRANT for the privilege to grant",
    "ADMIN": "write ALL, or give a token of scope 'administer'",
}
_KINDS: Mapping[str, TargetType] = {
    "TABLE": TargetType.TABLE, "VIEW": TargetType.VIEW, "FUNCTION": TargetType.FUNCTION,
}  # fmt: skip


@dataclass(frozen=True)
class Privilege:
    """A privilege as it is written.

    Attributes:
        written: Its words, in capitals.
        columns: The columns that it is limited to, as they are written; None without any.
    """

    written: str
    columns: ColumnSet | None = None


def read_privileges(statement: Statement) -> list[Privilege]:
    """Read ``SELECT (a, b), CREATE TABLE, …`` up to ``ON``.

    Raises:
        Unsupported: It is a role that is granted.
    """
    found: list[Privilege] = []
    while True:
        words = [statement.name()]
        while not any(statement.peek(word) for word in ("ON", ",", "(", "TO", "FROM")):
            words.append(statement.name())
        columns = _columns(statement) if statement.accept("(") else None
        found.append(Privilege(" ".join(words).upper(), columns))
        if not statement.accept(","):
            break
    if statement.peek("TO") or statement.peek("FROM"):
        raise Unsupported(
            f"'{found[-1].written}' is granted on nothing: write ON and what it is on. Members of "
            "groups are kept by 'headwater group'"
        )
    statement.expect("ON")
    return found


def _columns(statement: Statement) -> ColumnSet:
    if statement.accept("*"):
        statement.expect("EXCEPT", "(")
        columns = ColumnSet(excluded=_names(statement))
        statement.expect(")")
        return columns
    return ColumnSet(names=_names(statement))


def _names(statement: Statement) -> tuple[str, ...]:
    names = [statement.name()]
    while statement.accept(","):
        names.append(statement.name())
    statement.expect(")")
    return tuple(names)


def read_target(statement: Statement, context: SqlContext) -> PermissionTarget:
    """Read ``[ALL IN] CATALOG [c]``, ``[ALL IN] DATABASE d``, ``[TABLE] t``, ``VIEW v`` and so on.

    Raises:
        Invalid: Another catalog is named, or a name cannot be one.
    """
    is_within = statement.accept("ALL", "IN")
    if statement.accept("CATALOG"):
        ends = any(statement.peek(word) for word in ("TO", "FROM")) or statement.at_end
        name = context.catalog.warehouse if ends else statement.name()
        if name != context.catalog.warehouse:
            raise Invalid(f"'{name}' is not this catalog: it is {context.catalog.warehouse}")
        return PermissionTarget(WITHIN[TargetType.CATALOG] if is_within else TargetType.CATALOG)
    if accept_database_word(statement):
        type_ = WITHIN[TargetType.DATABASE] if is_within else TargetType.DATABASE
        return PermissionTarget(type_, database_name(statement, context))
    if is_within:
        raise statement.unexpected("CATALOG or DATABASE")
    kind = next((word for word in _KINDS if statement.accept(word)), "TABLE")
    identifier = object_identifier(statement, context)
    names = {kind.lower(): identifier.name}
    return PermissionTarget(
        _KINDS[kind], identifier.database, names.get("table"), names.get("function"),
        names.get("view"),
    )  # fmt: skip


def read_principals(statement: Statement) -> list[str]:
    """Read ``[USER | GROUP | ROLE] name, …``."""
    found = [read_principal(statement)]
    while statement.accept(","):
        found.append(read_principal(statement))
    return list(dict.fromkeys(found))


def read_principal(statement: Statement) -> str:
    """Read ``[USER | GROUP | ROLE] name``; a group is ``group:NAME``, and a role is a group.

    Raises:
        Unsupported: It is PUBLIC.
        Invalid: It cannot be a principal.
    """
    if statement.accept("PUBLIC"):
        raise Unsupported("PUBLIC is no principal: name those who are to have it, or a group")
    is_group = statement.accept("GROUP") or statement.accept("ROLE")
    is_user = not is_group and statement.accept("USER")
    name = statement.string() if statement.peek_string() else statement.name()
    if name.startswith(GROUP_PREFIX) and (is_group or is_user):
        raise Invalid(
            f"'{name}' is the group {name.removeprefix(GROUP_PREFIX)}: write GROUP and its name"
        )
    principal = GROUP_PREFIX + name if is_group else name
    check_principal(principal)
    return principal


def accesses_on(
    target: PermissionTarget, privileges: Sequence[Privilege], context: SqlContext
) -> list[tuple[Access, ColumnSet | None]]:
    """The catalog's accesses for privileges on a target, with the columns' own names.

    Raises:
        Unsupported: A privilege is one that other systems have, and this catalog has not.
        Invalid: A privilege is not for the target, or has columns and must not.
        NotFound: A column does not exist.
    """
    return [
        (_access(target, each), _own_names(target, each, context)) for each in privileges
    ]  # fmt: skip


def _access(target: PermissionTarget, privilege: Privilege) -> Access:
    key = privilege.written.replace(" ", "").replace("_", "")
    if key in _REFUSED:
        raise Unsupported(f"there is no privilege {privilege.written}: {_REFUSED[key]}")
    if key in _OF_A_KIND:
        access, type_ = _OF_A_KIND[key]
        if type_ is not target.type:
            raise Invalid(
                f"{privilege.written} is for a {type_}: on {object_text(target)} write {access}, "
                "if all that it allows there is meant"
            )
        return access
    grantable = GRANTABLE[target.type]
    found = _ACCESSES.get(key)
    if found in grantable:
        return found
    there = ", ".join(sorted(grantable))
    within = WITHIN.get(target.type)
    if within is not None and found in GRANTABLE[within]:
        raise Invalid(
            f"{privilege.written} is not for {object_text(target)} itself ({there}): for "
            f"everything in it write ON ALL IN {target.type}"
        )
    raise Invalid(f"{privilege.written} is no privilege on {target.type}, which has {there}")


def _own_names(
    target: PermissionTarget, privilege: Privilege, context: SqlContext
) -> ColumnSet | None:
    columns = privilege.columns
    if columns is None:
        return None
    if target.type is not TargetType.TABLE or privilege.written != Access.SELECT:
        raise Invalid(f"only SELECT on a table has columns, not {privilege.written} on "
                      f"{object_text(target)}")  # fmt: skip
    fields = context.catalog.table(f"{target.database}.{target.table}").schema.fields
    names = tuple(column_name(fields, name) for name in columns.mentioned)
    return ColumnSet(names) if columns.names is not None else ColumnSet(excluded=names)


def object_text(target: PermissionTarget) -> str:
    """A target in a message."""
    name = object_name(target)
    return f"{target.type} {name}" if name else str(target.type)


def object_name(target: PermissionTarget) -> str | None:
    """The name of a target; None for the catalog's."""
    parts = (target.database, target.table or target.view or target.function)
    return ".".join(part for part in parts if part) or None
