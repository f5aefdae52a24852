"""Policies: row filters and column masks. Nothing here enforces them."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.policies import ColumnMask, Policy, PolicyType, RowFilter
from headwater.catalog.model.policy_rules import QUERY_AUTH, canonical_policy
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import PolicyRow
from headwater.storage.errors import Invalid, NotFound
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["SqlPolicies", "refuse_policies_broken_by"]


class SqlPolicies:
    """Implements `headwater.catalog.model.policies.Policies`.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._sql = context.database


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


def asks_for_authorization(schema: TableSchema) -> bool:
    """True if Paimon's clients ask what they may read of a table."""
    return schema.options.get(QUERY_AUTH, "false").lower() == "true"


def _policy(kind: str, principal: str, column: str, document: str) -> Policy:
    if PolicyType(kind) is PolicyType.ROW_FILTER:
        return Policy(principal, RowFilter(document))
    return Policy(principal, ColumnMask(column, document))
