"""The catalog's database as a whole, for what belongs to no warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.catalog.sql.database.drivers import PoolSettings
from headwater.catalog.sql.database.engine import SqlDatabase, database_exists, open_engine
from headwater.catalog.sql.database.schema_state import check_revision, no_tables
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["opened_database"]


@contextmanager
def opened_database(
    url: str, runtime: Runtime = SYSTEM_RUNTIME, pool: PoolSettings | None = None
) -> Iterator[SqlDatabase]:
    """Connect to a catalog's database, and give the connections back at the end.

    Raises:
        Invalid: The URL is malformed, or the database has no tables or those of another revision.
        Unavailable: The database did not answer.
    """
    if not database_exists(url):
        raise no_tables()
    database = SqlDatabase(open_engine(url, pool), runtime)
    try:
        check_revision(database)
        yield database
    finally:
        database.close()
