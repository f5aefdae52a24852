"""The change feed: it begins at the upgrade, and is empty until something changes."""

from __future__ import annotations

import sqlalchemy as sa

from headwater.migrations.steps import (
    DOCUMENT,
    ID,
    NAME,
    SERIAL,
    create_index,
    create_table,
    drop_table,
    refuse_losses,
)

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "hw_events",
        sa.Column("id", SERIAL, nullable=False, autoincrement=True),
        sa.Column("position", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("object_id", ID, nullable=False),
        sa.Column("database", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("principal", sa.String(255)),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hw_events"),
    )
    create_index("ix_hw_events_position_id", "hw_events", ["position", "id"])
    create_table(
        "hw_event_positions",
        sa.Column("name", NAME, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("owner", sa.String(255)),
        sa.Column("expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_hw_event_positions"),
    )


def downgrade() -> None:
    # The feed goes. If it were a reason to refuse, every downgrade would need --discard, which
    # gives up policies and limits of tokens, too.
    refuse_losses()
    drop_table("hw_event_positions")
    drop_table("hw_events")
