"""Snapshots are found by their uuids, each of which belongs to one snapshot of a branch."""

from __future__ import annotations

from headwater.migrations.steps import create_index, drop_index, refuse_losses

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index(
        "ix_hw_snapshots_table_id_branch_uuid", "hw_snapshots", ["table_id", "branch", "uuid"]
    )


def downgrade() -> None:
    refuse_losses()
    drop_index("ix_hw_snapshots_table_id_branch_uuid", "hw_snapshots")
