"""Bringing a catalog's database to the newest revision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.engine import SqlDatabase, database_exists, open_engine
from headwater.catalog.sql.database.models import REVISION
from headwater.catalog.sql.database.schema_state import (
    change_tables,
    no_tables,
    revision_of,
    too_new,
)
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["CONNECTION", "DISCARD", "current", "downgrade", "newest", "upgrade"]

CONNECTION = "connection"
"""The attribute of Alembic's configuration in which `env.py` finds its connection."""

DISCARD = "discard"
"""Likewise: whether a script may lose what the revision before it has no place for."""


def upgrade(database_url: str, revision: str = "head") -> str:
    """Bring a database to a revision, while others that try the same wait.

    On SQLite and PostgreSQL it is one transaction. On MariaDB and MySQL an upgrade that was
    interrupted goes on where it was when it is run again.

    Args:
        database_url: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/database``.
        revision: The newest, unless a test asks for another.

    Returns:
        The revision it is at now.

    Raises:
        Invalid: The URL is malformed, or the database is at a revision of a newer version.
        Unavailable: The database did not answer.
    """

    def work(connection: Connection) -> str:
        found = revision_of(connection)
        if found == REVISION and revision == "head":
            return found
        if found is not None and found not in _revisions():
            raise too_new(found)
        # Here and below: a database that is at the newest revision needs no Alembic, which takes a
        # process long to import.
        from alembic import command

        command.upgrade(_config(connection), revision)
        return revision_of(connection) or ""

    return _change(database_url, work)


def downgrade(database_url: str, revision: str, *, discard: bool = False) -> str:
    """Bring a database back to an earlier revision, for an earlier version of Headwater.

    Args:
        database_url: As for `upgrade`.
        revision: The revision to go back to.
        discard: Lose what that revision has no place for (views, functions, permissions, policies,
            labels, tokens, warehouses) instead of refusing while there is any.

    Returns:
        The revision it is at now.

    Raises:
        Invalid: The database is not at a later revision that is known here, or it holds what the
            earlier one has no place for; the message says what.
        Unavailable: The database did not answer.
    """
    from alembic import command

    known = _revisions()
    if revision not in known:
        raise Invalid(f"'{revision}' is not a revision; there are {', '.join(known)}")
    if not database_exists(database_url):
        raise no_tables()

    def work(connection: Connection) -> str:
        found = revision_of(connection)
        if found is None:
            raise no_tables()
        if found not in known:
            raise too_new(found)
        if found < revision:
            raise Invalid(f"the database is at revision {found}, which is before {revision}")
        command.downgrade(_config(connection, discard=discard), revision)
        return revision_of(connection) or ""

    return _change(database_url, work)


def _change(database_url: str, work: Callable[[Connection], str]) -> str:
    database = SqlDatabase(open_engine(database_url), SYSTEM_RUNTIME)
    try:
        return change_tables(database, work)
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


def newest() -> str:
    """The newest revision there is a script for."""
    return _revisions()[-1]


def _revisions() -> list[str]:
    """Every revision there is a script for, in their order."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return [script.revision for script in scripts][::-1]


def _config(connection: Connection | None = None, *, discard: bool = False) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes[CONNECTION] = connection
    config.attributes[DISCARD] = discard
    return config
