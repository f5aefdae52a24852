"""Policies: row filters and column masks, and what they leave of a table to whom."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.access import ALL_OF_IT, TableAccess
from headwater.catalog.model.events import Detail, EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.policies import (
    ColumnMask,
    Policy,
    PolicyType,
    RowFilter,
    check_filter,
    check_identity,
    policy_name,
)
from headwater.catalog.model.policy_rules import NULL_TRANSFORM, QUERY_AUTH, canonical_policy
from headwater.catalog.model.policy_subjects import policy_subjects
from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.admin.principal_names import check_new_grantee
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import PolicyRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.lookup import find_table, latest_schema, lock_branch
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ResourceType,
)
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.options import is_true
from headwater.storage.predicate.restriction import Restriction
from headwater.storage.schema.table_schema import TableSchema

__all__ = [
    "SqlPolicies",
    "asks_for_authorization",
    "refuse_policies_broken_by",
    "refuse_unasked_readers",
    "require_asking_readers",
]


class SqlPolicies:
    """Implements `headwater.catalog.model.policies.Policies`.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._sql = context.database

    def list(
        self,
        identifier: Identifier,
        *,
        type: PolicyType | None = None,
        principal: str | None = None,
        column: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Policy]:
        """The policies of a table; all of them when `max_results` is None."""
        check_page(max_results)
        check_filter(type, principal, column)
        _refuse_branch(identifier)
        key = (PolicyRow.type, PolicyRow.principal, PolicyRow.column)
        query = select(*key, PolicyRow.document).order_by(*key)
        if type is not None:
            query = query.where(PolicyRow.type == type.value)
        if principal is not None:
            query = query.where(PolicyRow.principal == principal)
        if column is not None:
            query = query.where(PolicyRow.column == column)
        if page_token:
            query = query.where(_after(_parse_place(page_token)))
        if max_results is not None:
            query = query.limit(max_results + 1)
        query = along(query, PolicyRow.table_id, *key)
        with self._sql.read() as connection:
            table_id = find_table(connection, self._context, identifier).id
            if principal is None or principal not in (policy_subjects() or ()):
                _refuse_restricted(connection, table_id, identifier)
            rows = connection.execute(query.where(PolicyRow.table_id == table_id)).all()
        policies = tuple(_policy(*row) for row in rows)
        if max_results is None or len(policies) <= max_results:
            return Page(policies)
        return Page(policies[:max_results], _place(policies[max_results - 1]))

    def access(self, identifier: Identifier) -> TableAccess:
        """The part of a table or branch that the caller is shown."""
        subjects = policy_subjects()
        if subjects is None:
            return ALL_OF_IT
        with self._sql.read() as connection:
            table_id = find_table(connection, self._context, identifier).id
            policies = _policies_of(connection, table_id, subjects)
            if not policies:
                return ALL_OF_IT
            schema = latest_schema(connection, table_id, identifier)
        restriction = _restriction(identifier, policies, schema)
        return TableAccess(restriction)

    def create(self, identifier: Identifier, policy: Policy) -> None:
        """Record a policy of a table whose readers ask what they may see."""
        _refuse_branch(identifier)
        check_new_grantee(policy.principal)

        def work(connection: Connection) -> None:
            table_id = self._locked(connection, identifier)
            _refuse_restricted(connection, table_id, identifier)
            schema = latest_schema(connection, table_id, identifier)
            require_asking_readers(identifier, schema, "a policy", "what they may see")
            rule = canonical_policy(policy, schema).rule
            row = {
                "table_id": table_id,
                "type": policy.type.value,
                "principal": policy.principal,
                "column": policy.column or "",
                "document": rule.predicate if isinstance(rule, RowFilter) else rule.transform,
                "created_at": self._context.runtime.now_millis(),
                "created_by": current_name(),
            }
            connection.execute(insert(PolicyRow), row)
            details = _details(policy.type, policy.principal, policy.column)
            subject = Subject.table(identifier, table_id)
            record_event(connection, self._context, EventType.CREATE_POLICY, subject, details)

        try:
            self._sql.write(work)
        except IntegrityError as error:
            raise AlreadyExists(
                f"table {identifier} has policy {policy.name} already; drop it first",
                resource_type=ResourceType.POLICY,
                resource_name=policy.name,
            ) from error

    def drop(
        self,
        identifier: Identifier,
        type: PolicyType,
        principal: str,
        column: str | None = None,
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Drop a policy; NotFound (POLICY)."""
        check_identity(type, principal, column)
        _refuse_branch(identifier)

        def work(connection: Connection) -> bool:
            table_id = self._locked(connection, identifier)
            _refuse_restricted(connection, table_id, identifier)
            gone = connection.execute(
                delete(PolicyRow).where(
                    PolicyRow.table_id == table_id,
                    PolicyRow.type == type.value,
                    PolicyRow.principal == principal,
                    PolicyRow.column == (column or ""),
                )
            )
            if not gone.rowcount:
                return False
            details = _details(type, principal, column)
            subject = Subject.table(identifier, table_id)
            record_event(connection, self._context, EventType.DROP_POLICY, subject, details)
            return True

        if not self._sql.write(work) and not ignore_if_not_exists:
            name = policy_name(type, principal, column)
            raise NotFound(
                f"table {identifier} has no policy {name}",
                resource_type=ResourceType.POLICY,
                resource_name=name,
            )

    def _locked(self, connection: Connection, identifier: Identifier) -> str:
        """The table's id; neither it nor its schema changes until the transaction ends."""
        table_id = find_table(connection, self._context, identifier).id
        lock_branch(connection, table_id, MAIN_BRANCH)
        if find_table(connection, self._context, identifier).id != table_id:
            raise Conflict(f"table {identifier} is being dropped and created again; retry")
        return table_id


def _details(type: PolicyType, principal: str, column: str | None) -> dict[str, Detail]:
    # Not the rule: it may name values of the table's data.
    details: dict[str, Detail] = {"policy": type.value, "for": principal}
    return details if column is None else {**details, "column": column}


def refuse_policies_broken_by(
    connection: Connection, table_id: str, identifier: Identifier, schema: TableSchema
) -> None:
    """Refuse a schema that a table's policies do not fit; raises Invalid.

    The caller holds the lock of the table's main branch until the schema is decided.
    """
    rows = connection.execute(
        select(PolicyRow.type, PolicyRow.principal, PolicyRow.column, PolicyRow.document).where(
            PolicyRow.table_id == table_id
        )
    ).all()
    if rows and not asks_for_authorization(schema):
        raise Invalid(
            f"table {identifier} has {len(rows)} policies: '{QUERY_AUTH}' must stay true; drop the "
            "policies first"
        )
    for row in rows:
        policy = _policy(*row)
        try:
            canonical_policy(policy, schema)
        except (Invalid, NotFound) as error:
            raise Invalid(
                f"table {identifier} has policy {policy.name}, which the change would break: "
                f"{error.message}; drop the policy first"
            ) from error


def refuse_unasked_readers(
    connection: Connection,
    table_id: str,
    identifier: Identifier,
    before: TableSchema,
    after: TableSchema,
) -> None:
    """Refuse that a branch's readers no longer ask what they may see; raises Invalid."""
    if not asks_for_authorization(before) or asks_for_authorization(after):
        return
    if connection.execute(
        select(PolicyRow.type).where(PolicyRow.table_id == table_id).limit(1)
    ).one_or_none():
        raise Invalid(
            f"table {identifier} has policies: '{QUERY_AUTH}' must stay true in its branches, too; "
            "drop the policies first"
        )


def _policies_of(
    connection: Connection, table_id: str, subjects: Sequence[str]
) -> Sequence[Policy]:
    """The policies of a table for some principals, in a fixed order."""
    key = (PolicyRow.type, PolicyRow.principal, PolicyRow.column)
    rows = connection.execute(
        select(*key, PolicyRow.document)
        .where(PolicyRow.table_id == table_id, PolicyRow.principal.in_(subjects))
        .order_by(*key)
    )
    # Some databases compare text regardless of case; names are not equal then.
    return [_policy(*row) for row in rows if row.principal in subjects]


def _refuse_restricted(connection: Connection, table_id: str, identifier: Identifier) -> None:
    """Refuse a caller whom policies of the table restrict to look at them or to change them."""
    subjects = policy_subjects()
    if subjects is not None and _policies_of(connection, table_id, subjects):
        raise Forbidden(
            f"policies restrict what you see of table {identifier}; somebody whom none restricts "
            "lists and changes them"
        )


def _restriction(
    identifier: Identifier, policies: Sequence[Policy], schema: TableSchema
) -> Restriction:
    filters: list[str] = []
    masks: dict[str, str] = {}
    for policy in policies:
        try:
            rule = canonical_policy(policy, schema).rule
        except (Invalid, NotFound):
            raise Forbidden(
                f"table {identifier} has changed under policy {policy.name}, so that nothing of it "
                "is shown to you; ask who manages its policies"
            ) from None
        match rule:
            case RowFilter(predicate):
                if predicate not in filters:
                    filters.append(predicate)
            case ColumnMask(column, transform):
                if masks.setdefault(column, transform) == transform:
                    continue
                if not schema.column(column).type.nullable:
                    raise Forbidden(
                        f"table {identifier}: several masks of column '{column}' apply to you and "
                        "differ, and it cannot be null; ask who manages its policies"
                    )
                masks[column] = NULL_TRANSFORM
    return Restriction(tuple(filters), masks)


def asks_for_authorization(schema: TableSchema) -> bool:
    """Whether Paimon's clients ask what they may read of a table."""
    return is_true(schema.options, QUERY_AUTH)


def require_asking_readers(
    identifier: Identifier, schema: TableSchema, rule: str, question: str
) -> None:
    """Refuse a rule about a table whose readers would not ask for it.

    Args:
        identifier: The table.
        schema: Its schema.
        rule: The rule, in words.
        question: The words for what readers ask.

    Raises:
        Conflict: The option that makes Paimon's clients ask is not set (TABLE).
    """
    if not asks_for_authorization(schema):
        raise Conflict(
            f"table {identifier}: {rule} needs option '{QUERY_AUTH}' to be true, or readers do not "
            f"ask {question}; set it first",
            resource_type=ResourceType.TABLE,
            resource_name=identifier.name,
        )


def _refuse_branch(identifier: Identifier) -> None:
    if identifier.branch != MAIN_BRANCH:
        raise Invalid(f"{identifier} names a branch; a policy is of the table itself")


def _after(place: tuple[str, str, str]) -> ColumnElement[bool]:
    # Spelled out: not every database uses an index for a comparison of rows.
    kind, principal, column = place
    return or_(
        PolicyRow.type > kind,
        and_(
            PolicyRow.type == kind,
            or_(
                PolicyRow.principal > principal,
                and_(PolicyRow.principal == principal, PolicyRow.column > column),
            ),
        ),
    )


def _place(policy: Policy) -> str:
    return json.dumps([policy.type.value, policy.principal, policy.column or ""])


def _parse_place(token: str) -> tuple[str, str, str]:
    try:
        document = json.loads(token)
    except (ValueError, RecursionError):
        document = None
    match document:
        case [str(kind), str(principal), str(column)]:
            return kind, principal, column
    raise Invalid(f"page token '{token}' is not one that this listing gave out")


def _policy(kind: str, principal: str, column: str, document: str) -> Policy:
    if PolicyType(kind) is PolicyType.ROW_FILTER:
        return Policy(principal, RowFilter(document))
    return Policy(principal, ColumnMask(column, document))
