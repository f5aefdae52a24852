"""The places of warehouses, databases and tables in one table; tokens for the management API."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVarTuple

import sqlalchemy as sa
from alembic import context, op

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import (
    HASH,
    ID,
    NAME,
    add_column,
    count_rows,
    create_index,
    create_table,
    drop_column,
    drop_table,
    has_column,
    has_table,
    name_type,
    refuse_losses,
)
from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SORT_PLACE_LENGTH = 400
# Rows are read and written so many at a time.
_CHUNK = 1000
_DROPPED = "/dropped"

Ts = TypeVarTuple("Ts")

_places = sa.table(
    "hw_places",
    *(
        sa.column(name, sa.String())
        for name in ("place_hash", "sharer", "place", "sort_place", "kind", "warehouse", "owner")
    ),
)
_paths = sa.table(
    "hw_paths", *(sa.column(name, sa.String()) for name in ("path_key", "path", "table_id"))
)
_warehouses = sa.table(
    "hw_warehouses", sa.column("name", sa.String()), sa.column("location", sa.String())
)
_databases = sa.table(
    "hw_databases", *(sa.column(name, sa.String()) for name in ("id", "warehouse", "location"))
)
_tables = sa.table(
    "hw_tables",
    *(sa.column(name, sa.String()) for name in ("id", "database_id", "path")),
    sa.column("is_external", sa.Boolean()),
)


def upgrade() -> None:
    add_column(
        "hw_tokens",
        sa.Column("may_manage", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    create_table(
        "hw_places",
        sa.Column("place_hash", HASH, nullable=False),
        sa.Column("sharer", ID, nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("sort_place", name_type(SORT_PLACE_LENGTH), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("warehouse", NAME, nullable=False),
        sa.Column("owner", NAME, nullable=False),
        sa.PrimaryKeyConstraint("place_hash", "sharer", name="pk_hw_places"),
    )
    create_index("ix_hw_places_kind_sort_place", "hw_places", ["kind", "sort_place"])
    create_index("ix_hw_places_owner", "hw_places", ["owner"])
    if has_table("hw_paths"):
        _claim_all()
    drop_table("hw_paths")


def check_losses() -> None:
    """Refuse to go back while a token may do what is not known there."""
    managers = (
        count_rows("hw_tokens", "may_manage = true") if has_column("hw_tokens", "may_manage") else 0
    )
    if managers and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} knows no tokens for the management API, of which there are "
            f"{managers}; nothing was changed: revoke them, or make them tokens like all others "
            "with --discard"
        )


def downgrade() -> None:
    refuse_losses()
    create_table(
        "hw_paths",
        sa.Column("path_key", HASH, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("table_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("path_key", name="pk_hw_paths"),
    )
    if has_table("hw_places"):
        _name_paths()
    drop_table("hw_places")
    drop_column("hw_tokens", "may_manage")


def _claim_all() -> None:
    """Claim every place there is, those that overlap included: only new ones are refused."""
    connection = op.get_bind()
    keys = connection.execute(sa.select(_places.c.place_hash, _places.c.sharer))
    seen = {(row.place_hash, row.sharer) for row in keys}

    def put(rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Rows of kind, location, warehouse and owner."""
        new: list[dict[str, str]] = []
        for kind, location, warehouse, owner in rows:
            try:
                key = Place.of(location).key
            except Invalid:
                continue  # no file access takes it either
            sharer = owner if kind == "external" else ""
            place_hash = hashlib.sha256(key.encode()).hexdigest()
            if (place_hash, sharer) in seen:
                continue
            seen.add((place_hash, sharer))
            new.append(
                {
                    "place_hash": place_hash,
                    "sharer": sharer,
                    "place": key,
                    "sort_place": key[:SORT_PLACE_LENGTH],
                    "kind": kind,
                    "warehouse": warehouse,
                    "owner": owner,
                }
            )
        if new:
            connection.execute(_places.insert(), new)

    put(
        ("warehouse", row.location, row.name, row.name)
        for row in connection.execute(sa.select(_warehouses)).all()
    )
    homes = {
        row.id: (row.warehouse.removesuffix(_DROPPED), row.location, row.warehouse)
        for row in connection.execute(sa.select(_databases)).all()
    }
    put(
        ("database", location, warehouse, database)
        for database, (warehouse, location, full) in homes.items()
        if not full.endswith(_DROPPED)
    )
    kinds = {False: "table", True: "external"}
    _in_chunks(
        sa.select(_tables.c.id, _tables.c.database_id, _tables.c.path, _tables.c.is_external),
        _tables.c.id,
        lambda rows: put(
            (kinds[row.is_external], row.path, homes[row.database_id][0], row.id) for row in rows
        ),
    )
    # What is left are the directories of tables that are gone, in warehouses that may be, too.
    _in_chunks(
        sa.select(_paths.c.path_key, _paths.c.path, _paths.c.table_id),
        _paths.c.path_key,
        lambda rows: put(("table", row.path, "", row.table_id) for row in rows),
    )


def _name_paths() -> None:
    connection = op.get_bind()
    seen = set(connection.execute(sa.select(_paths.c.path_key)).scalars())
    managed = {
        row.id: row.path
        for row in connection.execute(
            sa.select(_tables.c.id, _tables.c.path).where(_tables.c.is_external.is_(False))
        )
    }

    def put(rows: Sequence[sa.Row[str, str, str, str, str]]) -> None:
        new: list[dict[str, str]] = []
        for row in rows:
            # A table's own spelling; that of one that is gone is not known any more.
            path = managed.get(row.owner) or row.place.rstrip("/")
            key = hashlib.sha256(path.encode()).hexdigest()
            if row.kind == "table" and key not in seen:
                seen.add(key)
                new.append({"path_key": key, "path": path, "table_id": row.owner})
        if new:
            connection.execute(_paths.insert(), new)

    columns = (_places.c.place_hash, _places.c.sharer, _places.c.place, _places.c.kind)
    # Places of tables have no sharer, so their hashes are unique.
    query = sa.select(*columns, _places.c.owner).where(_places.c.sharer == "")
    _in_chunks(query, _places.c.place_hash, put)


def _in_chunks(
    query: sa.Select[*Ts],
    key: sa.ColumnClause[str],
    use: Callable[[Sequence[sa.Row[*Ts]]], None],
) -> None:
    """Use the rows of a query, some at a time, in the order of a unique column."""
    connection = op.get_bind()
    last: str | None = None
    while True:
        following = query.order_by(key).limit(_CHUNK)
        if last is not None:
            following = following.where(key > last)
        rows = connection.execute(following).all()
        if not rows:
            return
        use(rows)
        last = getattr(rows[-1], key.name)
