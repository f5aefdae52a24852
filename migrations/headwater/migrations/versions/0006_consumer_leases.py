"""The rights of readers to move consumers."""

from __future__ import annotations

import sqlalchemy as sa

from headwater.migrations.steps import ID, NAME, create_table, drop_table, refuse_losses

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "hw_consumer_leases",
        sa.Column("table_id", ID, nullable=False),
        sa.Column("branch", NAME, nullable=False),
        sa.Column("consumer_id", NAME, nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "branch", "consumer_id", name="pk_hw_consumer_leases"),
        sa.ForeignKeyConstraint(
            ["table_id"], ["hw_tables.id"], name="fk_hw_consumer_leases_table_id"
        ),
    )


def downgrade() -> None:
    # A lease outlives no reader: nothing is lost that the readers do not take again.
    refuse_losses()
    drop_table("hw_consumer_leases")
