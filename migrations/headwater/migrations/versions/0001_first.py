"""The first tables: databases, tables, branches, schemas, snapshots, partitions, outbox."""

from __future__ import annotations

import sqlalchemy as sa

from headwater.migrations.steps import DOCUMENT, ID, NAME, SERIAL, create_index, create_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _audit() -> list[sa.Column[str] | sa.Column[int]]:
    return [
        sa.Column("owner", sa.String(255)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(255)),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.String(255)),
    ]


def _of_table(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("table_id", ID, nullable=False),
        sa.Column("branch", NAME, nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["hw_tables.id"], name=f"fk_{table}_table_id"),
    ]


def _sizes() -> list[sa.Column[int]]:
    names = ("record_count", "file_size_in_bytes", "file_count", "last_file_creation_time")
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def upgrade() -> None:
    create_table(
        "hw_databases",
        sa.Column("id", ID, nullable=False),
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("options", DOCUMENT, nullable=False),
        *_audit(),
        sa.PrimaryKeyConstraint("id", name="pk_hw_databases"),
        sa.UniqueConstraint("warehouse", "name", name="uq_hw_databases_warehouse_name"),
    )
    create_table(
        "hw_tables",
        sa.Column("id", ID, nullable=False),
        sa.Column("database_id", ID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("is_external", sa.Boolean(), nullable=False),
        *_audit(),
        sa.PrimaryKeyConstraint("id", name="pk_hw_tables"),
        sa.ForeignKeyConstraint(
            ["database_id"], ["hw_databases.id"], name="fk_hw_tables_database_id"
        ),
        sa.UniqueConstraint("database_id", "name", name="uq_hw_tables_database_id_name"),
    )
    create_table(
        "hw_branches",
        *_of_table("hw_branches"),
        sa.Column("schema_id", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_uuid", sa.String(255)),
        sa.PrimaryKeyConstraint("table_id", "branch", name="pk_hw_branches"),
    )
    create_table(
        "hw_schemas",
        *_of_table("hw_schemas"),
        sa.Column("schema_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("table_id", "branch", "schema_id", name="pk_hw_schemas"),
    )
    create_table(
        "hw_snapshots",
        *_of_table("hw_snapshots"),
        sa.Column("snapshot_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uuid", sa.String(255)),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("commit_user", sa.Text(), nullable=False),
        sa.Column("commit_identifier", sa.BigInteger(), nullable=False),
        sa.Column("commit_kind", sa.String(32), nullable=False),
        *_sizes(),
        sa.Column("statistics", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("table_id", "branch", "snapshot_id", name="pk_hw_snapshots"),
    )
    create_table(
        "hw_partitions",
        *_of_table("hw_partitions"),
        sa.Column("spec_key", sa.String(64), nullable=False),
        sa.Column("spec", DOCUMENT, nullable=False),
        *_sizes(),
        sa.Column("total_buckets", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "branch", "spec_key", name="pk_hw_partitions"),
    )
    create_table(
        "hw_paths",
        sa.Column("path_key", sa.String(64), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("table_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("path_key", name="pk_hw_paths"),
    )
    create_table(
        "hw_outbox",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("table_id", ID, nullable=False),
        sa.Column("branch", NAME, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hw_outbox"),
    )
    create_index("ix_hw_outbox_table_id_branch_id", "hw_outbox", ["table_id", "branch", "id"])
    create_index("ix_hw_outbox_warehouse", "hw_outbox", ["warehouse"])
