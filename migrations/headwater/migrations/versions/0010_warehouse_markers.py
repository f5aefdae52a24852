"""The ids of warehouses, which their markers on storage have, too."""

from __future__ import annotations

import sqlalchemy as sa

from headwater.migrations.steps import ID, NAME, create_table, drop_table, refuse_losses

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "hw_warehouse_markers",
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.PrimaryKeyConstraint("warehouse", name="pk_hw_warehouse_markers"),
        sa.UniqueConstraint("id", name="uq_hw_warehouse_markers_id"),
    )


def downgrade() -> None:
    # The markers stay on storage, and are known again after an upgrade.
    refuse_losses()
    drop_table("hw_warehouse_markers")
