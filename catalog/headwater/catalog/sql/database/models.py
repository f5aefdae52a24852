"""The catalog's tables in its SQL database.

Every path a request takes is an index look-up: names lead to ids by a unique key, ids lead to
the rest by a primary key. The revision scripts in ``migrations/`` make the same tables; a test
compares the two.

Portability: names compare by code point on every database (SQLite does by itself, PostgreSQL by
its collation ``C``, MariaDB and MySQL by a binary one), indexed columns stay below MySQL's 3072
bytes, and nothing depends on ``RETURNING``.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

from headwater.catalog.sql.database.column_types import (
    DOCUMENT,
    HASH,
    ID,
    NAME,
    SERIAL,
    SORT_NAME,
    TABLE_OPTIONS,
)

__all__ = [
    "REVISION",
    "VERSION_TABLE",
    "Base",
    "BranchRow",
    "ConsumerLeaseRow",
    "DatabaseRow",
    "DeletionRow",
    "DroppedTableRow",
    "EventPositionRow",
    "EventRow",
    "FunctionRow",
    "GrantRow",
    "GroupMemberRow",
    "LabelRow",
    "NamedRow",
    "OutboxRow",
    "PartitionRow",
    "PlaceRow",
    "PolicyRow",
    "SchemaRow",
    "SnapshotRow",
    "TableRow",
    "TokenRow",
    "ViewRow",
    "WarehouseRow",
]

REVISION = "0014"
"""The revision script that makes the tables as they are described here."""

VERSION_TABLE = "hw_version"
"""The table in which Alembic keeps the revision of a database."""


class Base(DeclarativeBase):
    """The tables, all with a prefix so that they can share a database with others."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class WarehouseRow(Base):
    """A warehouse that is managed at run time; `options` is a JSON object of strings.

    The options may hold credentials: they are never shown.
    """

    __tablename__ = "hw_warehouses"

    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    location: Mapped[str] = mapped_column(Text)
    options: Mapped[str] = mapped_column(DOCUMENT)
    created_at: Mapped[int] = mapped_column(BigInteger)
    updated_at: Mapped[int] = mapped_column(BigInteger)


class WarehouseMarkerRow(Base):
    """The id in the marker of a warehouse, of this table or one that a server is given."""

    __tablename__ = "hw_warehouse_markers"
    __table_args__ = (UniqueConstraint("id"),)

    warehouse: Mapped[str] = mapped_column(NAME, primary_key=True)
    id: Mapped[str] = mapped_column(ID)


class TokenRow(Base):
    """A token: only the SHA-256 of it is kept. `expires_at` is None for one without end.

    `sealed_secret` is None for a bearer token. Of an access key it is the secret, encrypted, and
    `id` is the id that signed requests name.

    `scopes` are the kinds of request that it is good for, with commas between, and `warehouses` the
    only warehouses, as a JSON list, or None for all.
    """

    __tablename__ = "hw_tokens"
    __table_args__ = (UniqueConstraint("name"), UniqueConstraint("hash"))

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(NAME)
    hash: Mapped[str] = mapped_column(HASH)
    created_at: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[int | None] = mapped_column(BigInteger)
    scopes: Mapped[str] = mapped_column(String(64), server_default=text("'administer'"))
    warehouses: Mapped[str | None] = mapped_column(DOCUMENT)
    sealed_secret: Mapped[str | None] = mapped_column(DOCUMENT)


class GroupMemberRow(Base):
    """A principal's belonging to a group."""

    __tablename__ = "hw_group_members"
    __table_args__ = (Index(None, "principal", "group_name"),)

    group_name: Mapped[str] = mapped_column(NAME, primary_key=True)
    principal: Mapped[str] = mapped_column(NAME, primary_key=True)


class GrantRow(Base):
    """A permission on an object: a database, a table, a view, a function.

    `object_id` is its id, and empty for the warehouse itself. `columns` is a JSON object that
    narrows it to some columns, or None.
    """

    __tablename__ = "hw_grants"
    __table_args__ = (Index(None, "principal", "warehouse", "resource_type", "object_id"),)

    object_id: Mapped[str] = mapped_column(ID, primary_key=True)
    resource_type: Mapped[str] = mapped_column(String(32), primary_key=True)
    warehouse: Mapped[str] = mapped_column(NAME, primary_key=True)
    principal: Mapped[str] = mapped_column(NAME, primary_key=True)
    access: Mapped[str] = mapped_column(String(64), primary_key=True)
    columns: Mapped[str | None] = mapped_column(DOCUMENT)
    created_at: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[int | None] = mapped_column(BigInteger)


class DatabaseRow(Base):
    """A database of a warehouse; `options` is a JSON object of strings.

    Dropped tables that can be restored are in a database of their own, whose name no request can
    name; see `DroppedTableRow`.
    """

    __tablename__ = "hw_databases"
    __table_args__ = (UniqueConstraint("warehouse", "name"), Index(None, "owner"))

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    warehouse: Mapped[str] = mapped_column(NAME)
    name: Mapped[str] = mapped_column(NAME)
    location: Mapped[str] = mapped_column(Text)
    options: Mapped[str] = mapped_column(DOCUMENT)
    owner: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(255))
    updated_at: Mapped[int] = mapped_column(BigInteger)
    updated_by: Mapped[str | None] = mapped_column(String(255))
    is_protected: Mapped[bool] = mapped_column(server_default=false())


class TableRow(Base):
    """A table's identity and place; what changes with its data is in `BranchRow`.

    `kind` is its type, as option ``type`` names it. `references_version` grows with every change of
    its tags, branches, consumers and rollbacks, and with every deletion of its files; see
    `headwater.catalog.sql.history.references`.
    """

    __tablename__ = "hw_tables"
    __table_args__ = (
        UniqueConstraint("database_id", "name"),
        Index(None, "database_id", "kind", "name"),
        Index(None, "owner", "database_id"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    database_id: Mapped[str] = mapped_column(ForeignKey(DatabaseRow.id))
    name: Mapped[str] = mapped_column(NAME)
    path: Mapped[str] = mapped_column(Text)
    is_external: Mapped[bool]
    owner: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(255))
    updated_at: Mapped[int] = mapped_column(BigInteger)
    updated_by: Mapped[str | None] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(32), server_default=text("'table'"))
    is_protected: Mapped[bool] = mapped_column(server_default=false())
    references_version: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))


class DroppedTableRow(Base):
    """A dropped table that can be restored: `database` and `name` are what it was called."""

    __tablename__ = "hw_dropped_tables"
    __table_args__ = (
        Index(None, "warehouse", "database", "name"),
        Index(None, "warehouse", "dropped_at", "table_id"),
    )

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    warehouse: Mapped[str] = mapped_column(NAME)
    database: Mapped[str] = mapped_column(NAME)
    name: Mapped[str] = mapped_column(NAME)
    dropped_at: Mapped[int] = mapped_column(BigInteger)
    dropped_by: Mapped[str | None] = mapped_column(String(255))


class NamedRow(Base):
    """A named object of a database that is a document alone; a subclass is a table of its own."""

    __abstract__ = True

    @declared_attr.directive
    def __table_args__(cls) -> tuple[UniqueConstraint, Index]:
        return (UniqueConstraint("database_id", "name"), Index(None, "owner", "database_id"))

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    database_id: Mapped[str] = mapped_column(ForeignKey(DatabaseRow.id))
    name: Mapped[str] = mapped_column(NAME)
    document: Mapped[str] = mapped_column(DOCUMENT)
    owner: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(255))
    updated_at: Mapped[int] = mapped_column(BigInteger)
    updated_by: Mapped[str | None] = mapped_column(String(255))


class ViewRow(NamedRow):
    """A view: `document` is its schema, dialects and options as JSON."""

    __tablename__ = "hw_views"


class FunctionRow(NamedRow):
    """A function: `document` is its parameters, definitions and options as JSON."""

    __tablename__ = "hw_functions"


class BranchRow(Base):
    """The pointers of a table and branch: its schema and its latest snapshot.

    `snapshot_id` is 0 while there is no snapshot. A writer that changes the branch, or the files
    that mirror it, holds this row's lock.

    Of the snapshots up to `forgotten_snapshot_id`, rows may be missing. `aging_snapshot_id` was the
    latest at `aging_since`, 0 for never, and `aging_digest` tells it from others of its number; see
    `headwater.catalog.sql.history.expired_history`.
    """

    __tablename__ = "hw_branches"
    __table_args__ = (Index(None, "aging_since"),)

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    branch: Mapped[str] = mapped_column(NAME, primary_key=True)
    schema_id: Mapped[int] = mapped_column(BigInteger)
    snapshot_id: Mapped[int] = mapped_column(BigInteger)
    snapshot_uuid: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    forgotten_snapshot_id: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    aging_snapshot_id: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    aging_digest: Mapped[str] = mapped_column(String(32), server_default=text("''"))
    aging_since: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))


class SchemaRow(Base):
    """One version of a schema: `document` is the text of its file."""

    __tablename__ = "hw_schemas"

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    branch: Mapped[str] = mapped_column(NAME, primary_key=True)
    schema_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    document: Mapped[str] = mapped_column(DOCUMENT)


class SnapshotRow(Base):
    """One snapshot: `document` is the text of its file.

    The four sizes are the branch's as of this snapshot; `statistics` is what it changed in each
    partition, as JSON, so that a rollback can take it back. The last three are running totals of
    what streams read, see `StreamCounts`; they are null where nobody counted.
    """

    __tablename__ = "hw_snapshots"
    __table_args__ = (Index(None, "table_id", "branch", "uuid"),)

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    branch: Mapped[str] = mapped_column(NAME, primary_key=True)
    snapshot_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    uuid: Mapped[str | None] = mapped_column(String(255))
    document: Mapped[str] = mapped_column(DOCUMENT)
    commit_user: Mapped[str] = mapped_column(Text)
    commit_identifier: Mapped[int] = mapped_column(BigInteger)
    commit_kind: Mapped[str] = mapped_column(String(32))
    record_count: Mapped[int] = mapped_column(BigInteger)
    file_size_in_bytes: Mapped[int] = mapped_column(BigInteger)
    file_count: Mapped[int] = mapped_column(BigInteger)
    last_file_creation_time: Mapped[int] = mapped_column(BigInteger)
    statistics: Mapped[str] = mapped_column(DOCUMENT)
    appended_count: Mapped[int | None] = mapped_column(BigInteger)
    changelog_count: Mapped[int | None] = mapped_column(BigInteger)
    counted_since: Mapped[int | None] = mapped_column(BigInteger)


class PartitionRow(Base):
    """The contents of a partition; `spec` is a JSON object and `spec_key` its SHA-256.

    `sort_name` is how its name (``dt=2026-01-01/hour=5``) begins: listings are in its order, and
    in that of `spec_key` where it is the same.
    """

    __tablename__ = "hw_partitions"
    __table_args__ = (Index(None, "table_id", "branch", "sort_name", "spec_key"),)

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    branch: Mapped[str] = mapped_column(NAME, primary_key=True)
    spec_key: Mapped[str] = mapped_column(HASH, primary_key=True)
    spec: Mapped[str] = mapped_column(DOCUMENT)
    record_count: Mapped[int] = mapped_column(BigInteger)
    file_size_in_bytes: Mapped[int] = mapped_column(BigInteger)
    file_count: Mapped[int] = mapped_column(BigInteger)
    last_file_creation_time: Mapped[int] = mapped_column(BigInteger)
    total_buckets: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(BigInteger)
    updated_at: Mapped[int] = mapped_column(BigInteger)
    sort_name: Mapped[str] = mapped_column(SORT_NAME, server_default=text("''"))
    is_done: Mapped[bool] = mapped_column(server_default=false())
    options: Mapped[str | None] = mapped_column(DOCUMENT)
    created_by: Mapped[str | None] = mapped_column(String(255))
    updated_by: Mapped[str | None] = mapped_column(String(255))


class PolicyRow(Base):
    """A row filter or column mask of a table, for one principal.

    `column` is the one that is masked, and empty for a row filter; `document` is the predicate or
    the transform as Paimon's JSON.
    """

    __tablename__ = "hw_policies"

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    type: Mapped[str] = mapped_column(String(32), primary_key=True)
    principal: Mapped[str] = mapped_column(NAME, primary_key=True)
    column: Mapped[str] = mapped_column(NAME, primary_key=True)
    document: Mapped[str] = mapped_column(DOCUMENT)
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(255))


class LabelRow(Base):
    """A label of a database, table, view or function, whose id is `object_id`."""

    __tablename__ = "hw_labels"

    # No foreign key: it is one of several tables' ids.
    object_id: Mapped[str] = mapped_column(ID, primary_key=True)
    key: Mapped[str] = mapped_column(NAME, primary_key=True)
    value: Mapped[str] = mapped_column(DOCUMENT)
    updated_at: Mapped[int] = mapped_column(BigInteger)
    updated_by: Mapped[str | None] = mapped_column(String(255))


class DeletionRow(Base):
    """A deletion of a table's files that was committed and is not finished: at most one a table."""

    __tablename__ = "hw_deletions"

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    deletion_id: Mapped[str] = mapped_column(ID)
    branch: Mapped[str] = mapped_column(NAME)
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(255))


class ConsumerLeaseRow(Base):
    """The right to move a consumer, which one reader has at a time until `expires_at`.

    The position itself is in the consumer's file, where every engine finds it.
    """

    __tablename__ = "hw_consumer_leases"

    table_id: Mapped[str] = mapped_column(ForeignKey(TableRow.id), primary_key=True)
    branch: Mapped[str] = mapped_column(NAME, primary_key=True)
    consumer_id: Mapped[str] = mapped_column(NAME, primary_key=True)
    owner: Mapped[str] = mapped_column(String(255))
    expires_at: Mapped[int] = mapped_column(BigInteger)


class PlaceRow(Base):
    """A directory that a warehouse, a database or a table has claimed, or that a table had.

    `place` is the key of a `headwater.storage.files.location.Place`, `place_hash` its SHA-256 and
    `sort_place` how it begins, in the order of which what lies in a directory comes together.
    `owner` is an id, or a warehouse's name. `sharer` is empty for a place that one alone may have,
    and the owner for a place that several may have, as its `kind` tells.
    """

    __tablename__ = "hw_places"
    __table_args__ = (Index(None, "kind", "sort_place"), Index(None, "owner"))

    place_hash: Mapped[str] = mapped_column(HASH, primary_key=True)
    sharer: Mapped[str] = mapped_column(ID, primary_key=True)
    place: Mapped[str] = mapped_column(Text)
    sort_place: Mapped[str] = mapped_column(SORT_NAME)
    kind: Mapped[str] = mapped_column(String(16))
    warehouse: Mapped[str] = mapped_column(NAME)
    owner: Mapped[str] = mapped_column(NAME)


class OutboxRow(Base):
    """A decision that is not applied to storage yet; those of a branch are applied in id order.

    `headwater.catalog.sql.outbox.action.Action` describes its `number`, `path` and `document`.
    """

    __tablename__ = "hw_outbox"
    __table_args__ = (Index(None, "table_id", "branch", "id"), Index(None, "warehouse"))

    id: Mapped[int] = mapped_column(SERIAL, primary_key=True, autoincrement=True)
    warehouse: Mapped[str] = mapped_column(NAME)
    # No foreign keys: the row of a dropped table outlives the table.
    table_id: Mapped[str] = mapped_column(ID)
    branch: Mapped[str] = mapped_column(NAME)
    action: Mapped[str] = mapped_column(String(16))
    number: Mapped[int] = mapped_column(BigInteger)
    path: Mapped[str] = mapped_column(Text)
    created_at: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str | None] = mapped_column(DOCUMENT)


class EventRow(Base):
    """An event of the change feed; see `headwater.catalog.model.events.Event`.

    `position` is its offset, given after its transaction was committed; `document` is a JSON object
    with the address of the client, the id of the request and the details.
    """

    __tablename__ = "hw_events"
    __table_args__ = (Index(None, "position", "id"),)

    id: Mapped[int] = mapped_column(SERIAL, primary_key=True, autoincrement=True)
    position: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[int] = mapped_column(BigInteger)
    # No foreign keys: events outlive what they are about.
    warehouse: Mapped[str] = mapped_column(NAME)
    type: Mapped[str] = mapped_column(String(32))
    kind: Mapped[str] = mapped_column(String(16))
    object_id: Mapped[str] = mapped_column(ID)
    database: Mapped[str] = mapped_column(NAME)
    name: Mapped[str] = mapped_column(NAME)
    principal: Mapped[str | None] = mapped_column(String(255))
    outcome: Mapped[str] = mapped_column(String(16))
    document: Mapped[str] = mapped_column(DOCUMENT)


class EventPositionRow(Base):
    """A position in the change feed, which is kept under a name.

    ``numbered`` is the last offset that was given out, ``deleted`` the last one whose event is
    gone, and ``sink:NAME`` the last one that a sink has got. What delivers to a sink owns it until
    `expires_at`, and `fence` grows with each owner.
    """

    __tablename__ = "hw_event_positions"

    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger)
    fence: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    owner: Mapped[str | None] = mapped_column(String(255))
    expires_at: Mapped[int | None] = mapped_column(BigInteger)


for _table in Base.metadata.tables.values():
    _table.dialect_kwargs.update(TABLE_OPTIONS)
