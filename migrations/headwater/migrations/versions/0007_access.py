"""Scopes of tokens, groups of principals, and indexes that lead from principals to their things."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    DOCUMENT,
    NAME,
    add_column,
    count_rows,
    create_index,
    create_table,
    drop_column,
    drop_index,
    drop_table,
    has_column,
    refuse_losses,
)
from headwater.storage.errors import Invalid

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_tokens = sa.table(
    "hw_tokens",
    sa.column("scopes", sa.String()),
    sa.column("warehouses", sa.String()),
    sa.column("may_manage", sa.Boolean()),
)
_INDEXES = (
    (
        "ix_hw_grants_principal_warehouse_resource_type_object_id",
        "hw_grants",
        ["principal", "warehouse", "resource_type", "object_id"],
    ),
    ("ix_hw_databases_owner", "hw_databases", ["owner"]),
    ("ix_hw_tables_owner_database_id", "hw_tables", ["owner", "database_id"]),
    ("ix_hw_views_owner_database_id", "hw_views", ["owner", "database_id"]),
    ("ix_hw_functions_owner_database_id", "hw_functions", ["owner", "database_id"]),
)


def upgrade() -> None:
    # Tokens there are could do everything in every warehouse: they still can.
    add_column(
        "hw_tokens",
        sa.Column("scopes", sa.String(64), nullable=False, server_default=sa.text("'administer'")),
    )
    add_column("hw_tokens", sa.Column("warehouses", DOCUMENT))
    if has_column("hw_tokens", "may_manage"):
        op.execute(
            sa.update(_tokens)
            .where(_tokens.c.may_manage.is_(sa.true()))
            .values(scopes="administer,manage")
        )
        drop_column("hw_tokens", "may_manage")
    create_table(
        "hw_group_members",
        sa.Column("group_name", NAME, nullable=False),
        sa.Column("principal", NAME, nullable=False),
        sa.PrimaryKeyConstraint("group_name", "principal", name="pk_hw_group_members"),
    )
    create_index(
        "ix_hw_group_members_principal_group_name", "hw_group_members", ["principal", "group_name"]
    )
    for index in _INDEXES:
        create_index(*index)


def check_losses() -> None:
    """Refuse to go back while a token is limited in a way that is not known there."""
    limited = 0
    if has_column("hw_tokens", "scopes"):
        limited = count_rows("hw_tokens", "scopes NOT LIKE 'administer%' OR warehouses IS NOT NULL")
    members = count_rows("hw_group_members")
    if (limited or members) and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} knows neither limits of tokens nor groups, of which there "
            f"are {limited} tokens with limits and {members} memberships; nothing was changed: "
            "revoke the tokens and remove the memberships, or lose both with --discard"
        )


def downgrade() -> None:
    refuse_losses()
    for name, table, _ in _INDEXES:
        drop_index(name, table)
    drop_table("hw_group_members")
    add_column(
        "hw_tokens",
        sa.Column("may_manage", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    if has_column("hw_tokens", "scopes"):
        # A token without its limits would open more than it was made for.
        op.execute(
            sa.delete(_tokens).where(
                sa.or_(_tokens.c.scopes.not_like("administer%"), _tokens.c.warehouses.is_not(None))
            )
        )
        op.execute(
            sa.update(_tokens)
            .where(_tokens.c.scopes == "administer,manage")
            .values(may_manage=sa.true())
        )
    # First the one by which a downgrade that was interrupted knows what it has done.
    drop_column("hw_tokens", "scopes")
    drop_column("hw_tokens", "warehouses")
