"""Labels of databases, tables, views and functions."""

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

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "hw_labels",
        sa.Column("object_id", ID, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", DOCUMENT, nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.String(255)),
        sa.PrimaryKeyConstraint("object_id", "key", name="pk_hw_labels"),
    )


def downgrade() -> None:
    refuse_losses()
    drop_table("hw_labels")


def check_losses() -> None:
    """Refuse to go back while there are labels."""
    labels = count_rows("hw_labels")
    if labels and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} has no place for {labels} labels; nothing was changed: "
            "take them away, or lose them for ever with --discard"
        )
