"""The meaning of a database's errors: may the same transaction be run again?

Two kinds pass by themselves. Between transactions, the database chose this one to fail (a
serialisation failure, a deadlock). Or the connection is gone, or could not be made: the server
restarts, fails over, or has no connection to give. In either case nothing of a transaction
remains, as long as its commit had not been sent.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, OperationalError

__all__ = ["is_held_up", "is_lost", "is_refused", "is_rolled_back", "is_too_slow"]

# PostgreSQL: serialization_failure, deadlock_detected.
_ROLLED_BACK_STATES = frozenset({"40001", "40P01"})
# MariaDB and MySQL: a record changed since it was read, a deadlock (Galera's conflicts too).
_ROLLED_BACK_NUMBERS = frozenset({1020, 1213})
# PostgreSQL: too many connections, and three ways to say that the server goes down or comes up.
_REFUSED_STATES = frozenset({"53300", "57P01", "57P02", "57P03"})
# MariaDB and MySQL: too many connections (in all, of a user), shutting down, no server there.
_REFUSED_NUMBERS = frozenset({1040, 1203, 1053, 2002, 2003})
# PostgreSQL: lock_not_available; MariaDB and MySQL: the wait for a lock is over.
_HELD_UP_STATES = frozenset({"55P03"})
_HELD_UP_NUMBERS = frozenset({1205})
# PostgreSQL: query_canceled; MariaDB's and MySQL's time-outs of statements.
_TOO_SLOW_STATES = frozenset({"57014"})
_TOO_SLOW_NUMBERS = frozenset({1969, 3024})


def is_rolled_back(error: DBAPIError) -> bool:
    """True if the database itself has undone the whole transaction, even at its commit."""
    return _state(error) in _ROLLED_BACK_STATES or _number(error) in _ROLLED_BACK_NUMBERS


def is_held_up(error: DBAPIError) -> bool:
    """True if another transaction kept its locks for longer than this one waits."""
    return _state(error) in _HELD_UP_STATES or _number(error) in _HELD_UP_NUMBERS


def is_too_slow(error: DBAPIError) -> bool:
    """True if the database gave up a statement for the time that it took."""
    return _state(error) in _TOO_SLOW_STATES or _number(error) in _TOO_SLOW_NUMBERS


def is_lost(error: DBAPIError) -> bool:
    """True if the connection on which this happened is gone."""
    return error.connection_invalidated or is_refused(error)


def is_refused(error: DBAPIError) -> bool:
    """True if no connection was to be had for now."""
    if not isinstance(error, OperationalError):
        return False
    if _state(error) in _REFUSED_STATES or _number(error) in _REFUSED_NUMBERS:
        return True
    # psycopg has no state for a server that it could not reach.
    module = type(error.orig).__module__
    return module.startswith("psycopg") and _state(error) == "" and error.statement is None


def _state(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _number(error: DBAPIError) -> int:
    """MariaDB's and MySQL's error number; 0 for another database's error."""
    if not type(error.orig).__module__.startswith("pymysql"):
        return 0
    first = error.orig.args[0] if error.orig is not None and error.orig.args else 0
    return first if isinstance(first, int) else 0
