"""Bringing a catalog's database to the newest revision."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import Connection

from headwater.catalog.sql.engine import SqlDatabase, database_exists, open_engine
from headwater.catalog.sql.models import REVISION
from headwater.catalog.sql.schema_state import ADVISORY_LOCK, check_revision, no_tables, revision_of
from headwater.storage.runtime import SYSTEM_RUNTIME

__all__ = ["CONNECTION", "check_current", "current", "newest", "upgrade"]

CONNECTION = "connection"
"""The attribute of Alembic's configuration in which `env.py` finds its connection."""


def upgrade(database_url: str, revision: str = "head") -> str:
    """Bring a database to a revision, in one transaction, while others that try the same wait.

    Args:
        database_url: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/database``.
        revision: The newest, unless a test asks for another.

    Returns:
        The revision it is at now.

    Raises:
        Invalid: The URL is malformed.
        Unavailable: The database did not answer.
    """
    database = SqlDatabase(open_engine(database_url), SYSTEM_RUNTIME)

    def work(connection: Connection) -> str:
        if connection.dialect.name == "postgresql":
            # A migration must not wait for ever behind a long transaction, blocking all others.
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        config = _config()
        config.attributes[CONNECTION] = connection
        command.upgrade(config, revision)
        return revision_of(connection) or ""

    try:
        return database.write(work)
    finally:
        database.close()


def current(database_url: str) -> str | None:
    """The revision a database is at; None for one without tables; raises Unavailable."""
    if not database_exists(database_url):
        return None
    database = SqlDatabase(open_engine(database_url), SYSTEM_RUNTIME)
    try:
        with database.read() as connection:
            return revision_of(connection)
    finally:
        database.close()


def check_current(database_url: str) -> None:
    """Refuse a database that is not at the newest revision; raises Invalid, saying what to run."""
    if not database_exists(database_url):
        raise no_tables()
    database = SqlDatabase(open_engine(database_url), SYSTEM_RUNTIME)
    try:
        check_revision(database)
    finally:
        database.close()


def newest() -> str:
    """The newest revision there is a script for."""
    return ScriptDirectory.from_config(_config()).get_current_head() or REVISION


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config
