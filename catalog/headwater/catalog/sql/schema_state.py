"""Whether a database has the catalog's tables, in the revision that this code needs."""

from __future__ import annotations

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, inspect, select, text
from sqlalchemy.engine import Connection

from headwater.catalog.sql.engine import SqlDatabase
from headwater.catalog.sql.models import REVISION, VERSION_TABLE, Base, DatabaseRow
from headwater.storage.errors import Invalid

__all__ = ["ADVISORY_LOCK", "check_revision", "create_missing_tables", "no_tables", "revision_of"]

# As Alembic makes it, so that migrations go on from a database that was not made by them.
_version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32)),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
ADVISORY_LOCK = 0x6865616477
"""The PostgreSQL advisory lock of whoever makes or changes tables."""


def create_missing_tables(database: SqlDatabase) -> None:
    """Make the tables in a database that has none of them; leave any other as it is."""

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        existing = inspect(connection)
        if existing.has_table(VERSION_TABLE) or existing.has_table(DatabaseRow.__tablename__):
            return
        Base.metadata.create_all(connection)
        _version.create(connection)
        connection.execute(_version.insert().values(version_num=REVISION))

    database.write(work)


def revision_of(connection: Connection) -> str | None:
    """The revision of a database; None when it has no tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(select(_version.c.version_num)).scalar_one_or_none()


def check_revision(database: SqlDatabase) -> None:
    """Refuse a database whose tables are not those of this version; raises Invalid."""
    with database.read() as connection:
        revision = revision_of(connection)
    if revision is None:
        raise no_tables()
    if revision != REVISION:
        raise Invalid(
            f"the catalog's database is at revision {revision}, this version of Headwater needs "
            f"{REVISION}: run 'headwater db upgrade' with the newest Headwater"
        )


def no_tables() -> Invalid:
    """The error about a database without the catalog's tables."""
    return Invalid("the catalog's database has no tables yet: run 'headwater db upgrade'")
