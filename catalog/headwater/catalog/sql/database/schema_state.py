"""The revision of a database's tables, held against the one that this code needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, inspect, select, text
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import REVISION, VERSION_TABLE, Base
from headwater.storage.errors import Invalid, Unavailable

__all__ = [
    "change_tables",
    "check_revision",
    "create_missing_tables",
    "no_tables",
    "revision_of",
    "too_new",
]

T = TypeVar("T")

# As Alembic makes it, so that migrations go on from a database that was not made by them.
_version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32)),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
_POSTGRESQL_LOCK = 0x6865616477
# Its name is known to the whole server: the database's is a part of it. Names have an end at 64,
# and MySQL 9 has no shorter hash by itself.
_MYSQL_LOCK = "CONCAT('headwater.', LEFT(SHA2(DATABASE(), 256), 40))"
# How long to wait for another process that makes or changes the tables.
_LOCK_SECONDS = 600
# How long to wait for the transactions that use a table, while all that come later wait behind.
_TABLE_SECONDS = 60
_DAY_SECONDS = 86_400
_PATIENCE = {
    "mariadb": f"wait_timeout = {_DAY_SECONDS}, idle_transaction_timeout = 0, "
    "max_statement_time = 0",
    "mysql": f"wait_timeout = {_DAY_SECONDS}, max_execution_time = 0",
}


def change_tables(database: SqlDatabase, work: Callable[[Connection], T]) -> T:
    """Run `work`, which creates or changes tables, while no other process does.

    On SQLite and PostgreSQL it is one transaction. MariaDB and MySQL commit every change of a
    table at once: there, after a crash, `work` must be able to go on with what it finds.

    Raises:
        Unavailable: The database did not answer, or somebody else has been at it for 10 minutes.
    """
    if database.engine.dialect.name in ("mariadb", "mysql"):
        return _change_one_by_one(database, work)

    def locked(connection: Connection) -> T:
        if connection.dialect.name == "postgresql":
            # A change of tables takes its time.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRESQL_LOCK}
            )
            connection.execute(text(f"SET LOCAL lock_timeout = '{_TABLE_SECONDS}s'"))
        return work(connection)

    return database.write(locked)


def _change_one_by_one(database: SqlDatabase, work: Callable[[Connection], T]) -> T:
    with database.connection() as connection:
        # A change of tables takes its time; nobody else gets this connection.
        patience = _PATIENCE[database.engine.dialect.name]
        connection.execute(text(f"SET SESSION lock_wait_timeout = {_TABLE_SECONDS}, {patience}"))
        got = connection.execute(text(f"SELECT GET_LOCK({_MYSQL_LOCK}, {_LOCK_SECONDS})")).scalar()
        connection.commit()
        if got != 1:
            connection.invalidate()
            raise Unavailable(
                "another process has been changing the catalog's tables for "
                f"{_LOCK_SECONDS // 60} minutes; see that it ends, then retry"
            )
        try:
            done = work(connection)
            connection.commit()
        finally:
            # Without a connection there is no lock either.
            if not connection.invalidated:
                connection.rollback()
                connection.execute(text(f"SELECT RELEASE_LOCK({_MYSQL_LOCK})"))
                connection.commit()
                connection.invalidate()
        return done


def create_missing_tables(database: SqlDatabase) -> None:
    """Make the tables in a database that has none of them; leave any other as it is."""

    def work(connection: Connection) -> None:
        if revision_of(connection) is not None:
            return
        # There are some, without a revision, where a crash ended this before.
        for table in Base.metadata.sorted_tables:
            table.create(connection, checkfirst=True)
            for index in table.indexes:
                index.create(connection, checkfirst=True)
        _version.create(connection, checkfirst=True)
        connection.execute(_version.insert().values(version_num=REVISION))

    change_tables(database, work)


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
    if revision < REVISION:
        raise Invalid(
            f"the catalog's database is at revision {revision}, this version of Headwater needs "
            f"{REVISION}: run 'headwater db upgrade'"
        )
    if revision > REVISION:
        raise too_new(revision)


def too_new(revision: str) -> Invalid:
    """The error about a database that a newer version of Headwater has changed."""
    return Invalid(
        f"the catalog's database is at revision {revision}, made by a newer version of Headwater; "
        f"this one knows revisions up to {REVISION}: run that version, or with it "
        f"'headwater db downgrade {REVISION}'"
    )


def no_tables() -> Invalid:
    """The error about a database without the catalog's tables."""
    return Invalid("the catalog's database has no tables yet: run 'headwater db upgrade'")
