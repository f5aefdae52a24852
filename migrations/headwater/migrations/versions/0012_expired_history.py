"""Rows of snapshots that expired long ago can be deleted, and branches tell how far they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    add_column,
    count_rows,
    create_index,
    drop_column,
    drop_index,
    has_column,
    refuse_losses,
)
from headwater.storage.errors import Invalid

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Histories that were taken over from storage or fast-forwarded may have gaps: before the last row
# without a predecessor, any may be missing.
_MARK_GAPS = sa.text(
    "UPDATE hw_branches SET forgotten_snapshot_id = COALESCE(("
    "SELECT MAX(s.snapshot_id) - 1 FROM hw_snapshots s "
    "WHERE s.table_id = hw_branches.table_id AND s.branch = hw_branches.branch "
    "AND NOT EXISTS (SELECT 1 FROM hw_snapshots p WHERE p.table_id = s.table_id "
    "AND p.branch = s.branch AND p.snapshot_id = s.snapshot_id - 1)), 0)"
)


def upgrade() -> None:
    for name in ("forgotten_snapshot_id", "aging_snapshot_id"):
        add_column("hw_branches", _number(name))
    digest = sa.Column("aging_digest", sa.String(32), nullable=False, server_default=sa.text("''"))
    add_column("hw_branches", digest)
    add_column("hw_branches", _number("aging_since"))
    create_index("ix_hw_branches_aging_since", "hw_branches", ["aging_since"])
    op.execute(_MARK_GAPS)


def downgrade() -> None:
    refuse_losses()
    drop_index("ix_hw_branches_aging_since", "hw_branches")
    for name in ("aging_since", "aging_digest", "aging_snapshot_id", "forgotten_snapshot_id"):
        drop_column("hw_branches", name)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))


def check_losses() -> None:
    """Refuse to go back where a history has gaps, which the earlier revision takes for whole."""
    branches = 0
    if has_column("hw_branches", "forgotten_snapshot_id"):
        branches = count_rows("hw_branches", "forgotten_snapshot_id > 0")
    if branches and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} takes the history of {branches} branches for whole, though "
            "rows of expired snapshots are deleted: a rollback to a tag of that time would count "
            "partitions wrong; nothing was changed: bear it with --discard"
        )
