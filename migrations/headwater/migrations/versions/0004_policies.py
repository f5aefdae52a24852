"""Row filters and column masks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    DOCUMENT,
    ID,
    NAME,
    count_rows,
    create_table,
    drop_table,
    refuse_losses,
)
from headwater.storage.errors import Invalid

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "hw_policies",
        sa.Column("table_id", ID, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("principal", NAME, nullable=False),
        sa.Column("column", NAME, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(255)),
        sa.PrimaryKeyConstraint("table_id", "type", "principal", "column", name="pk_hw_policies"),
        sa.ForeignKeyConstraint(["table_id"], ["hw_tables.id"], name="fk_hw_policies_table_id"),
    )


def downgrade() -> None:
    refuse_losses()
    drop_table("hw_policies")


def check_losses() -> None:
    """Refuse to go back while there are policies."""
    policies = count_rows("hw_policies")
    if policies and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} has no place for {policies} policies; nothing was changed: "
            "drop them, or lose them for ever with --discard"
        )
