"""Views, functions, permissions, tokens, warehouses, restorable tables, partitions in order."""

from __future__ import annotations

import json
from collections.abc import Mapping

import sqlalchemy as sa
from alembic import context, op

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    DOCUMENT,
    HASH,
    ID,
    NAME,
    add_column,
    count_rows,
    create_index,
    create_table,
    drop_column,
    drop_index,
    drop_table,
    has_column,
    name_type,
    refuse_losses,
)
from headwater.storage.errors import Invalid

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


SORT_NAME_LENGTH = 400
_RUNNING_TOTALS = ("appended_count", "changelog_count", "counted_since")
# Rows are read and written so many at a time.
_CHUNK = 1000


def _of_database(table: str) -> None:
    create_table(
        table,
        sa.Column("id", ID, nullable=False),
        sa.Column("database_id", ID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("owner", sa.String(255)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(255)),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.String(255)),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            ["database_id"], ["hw_databases.id"], name=f"fk_{table}_database_id"
        ),
        sa.UniqueConstraint("database_id", "name", name=f"uq_{table}_database_id_name"),
    )


def upgrade() -> None:
    create_table(
        "hw_warehouses",
        sa.Column("name", NAME, nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("options", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_hw_warehouses"),
    )
    create_table(
        "hw_tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("hash", HASH, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_hw_tokens"),
        sa.UniqueConstraint("name", name="uq_hw_tokens_name"),
        sa.UniqueConstraint("hash", name="uq_hw_tokens_hash"),
    )
    create_table(
        "hw_grants",
        sa.Column("object_id", ID, nullable=False),
        sa.Column("resource_type", sa.String(32), nullable=False),
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("principal", NAME, nullable=False),
        sa.Column("access", sa.String(64), nullable=False),
        sa.Column("columns", DOCUMENT),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint(
            "object_id", "resource_type", "warehouse", "principal", "access", name="pk_hw_grants"
        ),
    )
    create_table(
        "hw_dropped_tables",
        sa.Column("table_id", ID, nullable=False),
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("database", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("dropped_at", sa.BigInteger(), nullable=False),
        sa.Column("dropped_by", sa.String(255)),
        sa.PrimaryKeyConstraint("table_id", name="pk_hw_dropped_tables"),
        sa.ForeignKeyConstraint(
            ["table_id"], ["hw_tables.id"], name="fk_hw_dropped_tables_table_id"
        ),
    )
    create_index(
        "ix_hw_dropped_tables_warehouse_database_name",
        "hw_dropped_tables",
        ["warehouse", "database", "name"],
    )
    create_index(
        "ix_hw_dropped_tables_warehouse_dropped_at_table_id",
        "hw_dropped_tables",
        ["warehouse", "dropped_at", "table_id"],
    )
    _of_database("hw_views")
    _of_database("hw_functions")
    add_column("hw_databases", _flag("is_protected"))
    add_column(
        "hw_tables",
        sa.Column("kind", sa.String(32), nullable=False, server_default=sa.text("'table'")),
    )
    _name_kinds()
    create_index("ix_hw_tables_database_id_kind_name", "hw_tables", ["database_id", "kind", "name"])
    add_column("hw_tables", _flag("is_protected"))
    add_column(
        "hw_branches",
        sa.Column("created_at", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
    for total in _RUNNING_TOTALS:
        add_column("hw_snapshots", sa.Column(total, sa.BigInteger()))
    add_column(
        "hw_partitions",
        sa.Column(
            "sort_name", name_type(SORT_NAME_LENGTH), nullable=False, server_default=sa.text("''")
        ),
    )
    add_column("hw_partitions", _flag("is_done"))
    add_column("hw_partitions", sa.Column("options", DOCUMENT))
    add_column("hw_partitions", sa.Column("created_by", sa.String(255)))
    add_column("hw_partitions", sa.Column("updated_by", sa.String(255)))
    _name_partitions()
    create_index(
        "ix_hw_partitions_table_id_branch_sort_name_spec_key",
        "hw_partitions",
        ["table_id", "branch", "sort_name", "spec_key"],
    )


def downgrade() -> None:
    refuse_losses()
    drop_index("ix_hw_partitions_table_id_branch_sort_name_spec_key", "hw_partitions")
    for column in ("updated_by", "created_by", "options", "is_done", "sort_name"):
        drop_column("hw_partitions", column)
    for total in _RUNNING_TOTALS:
        drop_column("hw_snapshots", total)
    drop_column("hw_branches", "created_at")
    drop_column("hw_tables", "is_protected")
    drop_index("ix_hw_tables_database_id_kind_name", "hw_tables")
    drop_column("hw_tables", "kind")
    drop_column("hw_databases", "is_protected")
    for table in (
        "hw_functions",
        "hw_views",
        "hw_dropped_tables",
        "hw_grants",
        "hw_tokens",
        "hw_warehouses",
    ):
        drop_table(table)


def check_losses() -> None:
    """Refuse to go back where something has no place in the tables as they were.

    A server of that time would take a restorable table for a table, and a format table for one of
    Paimon's; nor could it finish what the outbox has to do.
    """
    open_actions = count_rows(
        "hw_outbox", "action NOT IN ('schema', 'snapshot', 'rollback', 'drop')"
    )
    if open_actions:
        raise Invalid(
            f"storage has yet to follow {open_actions} decisions that an earlier version cannot "
            "read: start this version's server once, then stop it and retry"
        )
    other_kinds = (
        count_rows("hw_tables", "kind <> 'table'") if has_column("hw_tables", "kind") else 0
    )
    never = {
        "dropped tables that can be restored (restore or purge them)": count_rows(
            "hw_dropped_tables"
        ),
        "tables that are not Paimon's (drop them)": other_kinds,
    }
    unless_told = {
        what: count_rows(f"hw_{what}")
        for what in ("views", "functions", "grants", "tokens", "warehouses")
    }
    if any(never.values()):
        raise Invalid(
            f"revision {down_revision} has no place for {_list(never)}; nothing was changed"
        )
    if any(unless_told.values()) and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} has no place for {_list(unless_told)}; nothing was changed: "
            "remove them, or lose them for ever with --discard"
        )


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())


def _name_kinds() -> None:
    """Say of the tables there are what kind they are: option ``type`` of their latest schema."""
    connection = op.get_bind()
    tables = sa.table("hw_tables", sa.column("id", sa.String()), sa.column("kind", sa.String()))
    branches, schemas = (
        sa.table(
            name,
            sa.column("table_id", sa.String()),
            sa.column("branch", sa.String()),
            sa.column("schema_id", sa.BigInteger()),
            sa.column("document", sa.Text()),
        )
        for name in ("hw_branches", "hw_schemas")
    )
    rows = connection.execute(
        sa.select(schemas.c.table_id, schemas.c.document)
        .join(
            branches,
            (branches.c.table_id == schemas.c.table_id)
            & (branches.c.branch == schemas.c.branch)
            & (branches.c.schema_id == schemas.c.schema_id),
        )
        # All kinds but "table" end so; few tables are of them.
        .where(branches.c.branch == "main", schemas.c.document.like('%"type": "%-table"%'))
    ).all()
    for row in rows:
        kind = str(json.loads(row.document)["options"].get("type", "table")).lower()
        connection.execute(tables.update().where(tables.c.id == row.table_id).values(kind=kind))


def _name_partitions() -> None:
    """Name the partitions there are: ``dt=2026-01-01/hour=5``."""
    connection = op.get_bind()
    partitions = sa.table(
        "hw_partitions",
        sa.column("table_id", sa.String()),
        sa.column("branch", sa.String()),
        sa.column("spec_key", sa.String()),
        sa.column("spec", sa.Text()),
        sa.column("sort_name", sa.String()),
    )
    key = (partitions.c.table_id, partitions.c.branch, partitions.c.spec_key)
    last: tuple[str, str, str] | None = None
    while True:
        query = sa.select(*key, partitions.c.spec).order_by(*key).limit(_CHUNK)
        if last is not None:
            # Spelled out: not every database uses an index for a comparison of rows.
            table, branch, spec = key
            query = query.where(
                sa.or_(
                    table > last[0],
                    sa.and_(table == last[0], branch > last[1]),
                    sa.and_(table == last[0], branch == last[1], spec > last[2]),
                )
            )
        rows = connection.execute(query).all()
        if not rows:
            return
        connection.execute(
            partitions.update()
            .where(
                partitions.c.table_id == sa.bindparam("the_table"),
                partitions.c.branch == sa.bindparam("the_branch"),
                partitions.c.spec_key == sa.bindparam("the_key"),
            )
            .values(sort_name=sa.bindparam("the_name")),
            [
                {
                    "the_table": row.table_id,
                    "the_branch": row.branch,
                    "the_key": row.spec_key,
                    "the_name": "/".join(
                        f"{name}={value}" for name, value in json.loads(row.spec).items()
                    )[:SORT_NAME_LENGTH],
                }
                for row in rows
            ],
        )
        last = (rows[-1].table_id, rows[-1].branch, rows[-1].spec_key)
