"""Access keys: tokens whose secret signs requests, and is kept encrypted to check signatures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    DOCUMENT,
    add_column,
    count_rows,
    drop_column,
    has_column,
    refuse_losses,
)
from headwater.storage.errors import Invalid

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_tokens = sa.table("hw_tokens", sa.column("sealed_secret", sa.Text()))


def upgrade() -> None:
    add_column("hw_tokens", sa.Column("sealed_secret", DOCUMENT))


def check_losses() -> None:
    """Refuse to go back while there are access keys."""
    keys = 0
    if has_column("hw_tokens", "sealed_secret"):
        keys = count_rows("hw_tokens", "sealed_secret IS NOT NULL")
    if keys and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} knows no access keys, of which there are {keys}; nothing "
            "was changed: revoke them, or lose them with --discard"
        )


def downgrade() -> None:
    refuse_losses()
    if has_column("hw_tokens", "sealed_secret"):
        # There, its secret would be a bearer token.
        op.execute(sa.delete(_tokens).where(_tokens.c.sealed_secret.is_not(None)))
    drop_column("hw_tokens", "sealed_secret")
