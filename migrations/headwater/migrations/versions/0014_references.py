"""Changes of a table's references are counted, and its unfinished deletion of files is noted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    DOCUMENT,
    ID,
    NAME,
    add_column,
    count_rows,
    create_table,
    drop_column,
    drop_table,
    has_column,
    has_table,
    refuse_losses,
)
from headwater.storage.errors import Invalid

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    version = sa.Column(
        "references_version", sa.BigInteger(), nullable=False, server_default=sa.text("0")
    )
    add_column("hw_tables", version)
    add_column("hw_outbox", sa.Column("document", DOCUMENT, nullable=True))
    create_table(
        "hw_deletions",
        sa.Column("table_id", ID, nullable=False),
        sa.Column("deletion_id", ID, nullable=False),
        sa.Column("branch", NAME, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(255), nullable=True),
        sa.ForeignKeyConstraint(["table_id"], ["hw_tables.id"], name="fk_hw_deletions_table_id"),
        sa.PrimaryKeyConstraint("table_id", name="pk_hw_deletions"),
    )


def downgrade() -> None:
    refuse_losses()
    drop_table("hw_deletions")
    drop_column("hw_outbox", "document")
    drop_column("hw_tables", "references_version")


def check_losses() -> None:
    """Refuse to go back while something is open that the earlier revision does not finish."""
    open_rows = 0
    if has_table("hw_deletions"):
        open_rows += count_rows("hw_deletions")
    if has_column("hw_outbox", "document"):
        open_rows += count_rows("hw_outbox", "document IS NOT NULL")
    if open_rows and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"cannot downgrade to revision {down_revision}: {open_rows} deletions or changes of "
            "tags, consumers and histories are not applied to storage yet; nothing was changed: "
            "start the server once and run 'headwater maintain', or leave their files as orphans "
            "with --discard"
        )
