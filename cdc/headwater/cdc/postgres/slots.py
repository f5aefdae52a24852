"""Replication slots, which keep a server's log for a reader."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, LiteralString, NamedTuple

from psycopg import Connection, OperationalError, errors

from headwater.cdc.model.tables import Finding
from headwater.cdc.postgres.positions import LogPosition, parse_lsn, record_end
from headwater.cdc.source.positions import READ_AGAIN
from headwater.storage.errors import Conflict, Forbidden, NotFound

__all__ = [
    "LogSource",
    "Slot",
    "await_slot",
    "check_slot",
    "create_slot",
    "default_name",
    "drop_slot",
    "find_slot",
    "log_position",
    "of_another_log",
    "slot_findings",
]

_PLUGIN = "pgoutput"
_PREFIX = "headwater_"
_MAX_NAME_LENGTH = 63
_WAKE_SECONDS = 0.05
_DIGEST_LENGTH = 8
_NOT_IN_NAME = re.compile(r"[^a-z0-9_]")
# The timeline is in the names of log files; the control file's is that of the last checkpoint.
# Transactions with synchronous_commit=off are seen before they are in a file: so the log ends where
# the next record goes.
_LOG: LiteralString = (
    "SELECT (SELECT system_identifier FROM pg_control_system()), "
    "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), pg_current_wal_insert_lsn()::text, "
    "current_setting('wal_block_size')"
)
_FIND: LiteralString = (
    "SELECT plugin, slot_type, database, temporary, active_pid, confirmed_flush_lsn::text, "
    "wal_status, two_phase FROM pg_replication_slots WHERE slot_name = %s"
)


@dataclass(frozen=True)
class LogSource:
    """Where a log comes from.

    Attributes:
        dsn: How to connect to the database, as libpq reads it: a URL or a connection string.
        address: The server's name in messages.
        slot: The name of the replication slot.
        publication: The name of the publication, whose tables the log has.
    """

    dsn: str = field(repr=False)
    address: str
    slot: str
    publication: str


@dataclass(frozen=True)
class Slot:
    """A replication slot.

    Attributes:
        name: Its name.
        plugin: What decodes the log for it; None for a physical replica's.
        database: The database whose log it has.
        is_temporary: Whether it ends with the session that made it.
        process: The server's process that reads it; None if none does.
        confirmed: The position in the log that its reader has confirmed; None for a physical
            replica's.
        wal_status: Whether its log is there: ``lost`` if it is not.
        has_two_phase: Whether prepared transactions are sent before they are committed.
    """

    name: str
    plugin: str | None
    database: str | None
    is_temporary: bool
    process: int | None
    confirmed: int | None
    wal_status: str | None
    has_two_phase: bool


def default_name(pipeline: str) -> str:
    """A name for the slot and the publication of a pipeline: 63 letters, digits and underscores."""
    plain = _NOT_IN_NAME.sub("_", pipeline.lower())
    if plain == pipeline and len(_PREFIX + plain) <= _MAX_NAME_LENGTH:
        return _PREFIX + plain
    # Two pipelines whose names differ in other characters have two slots.
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:_DIGEST_LENGTH]
    length = _MAX_NAME_LENGTH - len(_PREFIX) - 1 - _DIGEST_LENGTH
    return f"{_PREFIX}{plain[:length]}_{digest}"


def find_slot(connection: Connection[Any], name: str) -> Slot | None:
    """A slot of the server; None if there is none of that name."""
    row = connection.execute(_FIND, [name]).fetchone()
    if row is None:
        return None
    plugin, _, database, is_temporary, process, confirmed, wal_status, two_phase = row
    lsn = None if confirmed is None else parse_lsn(confirmed)
    return Slot(name, plugin, database, is_temporary, process, lsn, wal_status, two_phase)


def create_slot(connection: Connection[Any], name: str) -> LogPosition:
    """Create a slot for the connection's database; the position that its log begins at.

    It waits for all transactions that run. Publications must exist before: those that are read by
    the slot are those of the time of each change.

    Raises:
        Conflict: There is a slot of that name.
        Forbidden: The user lacks the attribute REPLICATION.
    """
    try:
        row = connection.execute(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)", [name, _PLUGIN]
        ).fetchone()
    except errors.DuplicateObject as error:
        raise Conflict(
            f"cannot create replication slot '{name}': it exists; drop it, or name it as the slot "
            "to use"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise Forbidden(
            f"cannot create replication slot '{name}': {_text(error)}; "
            f"ALTER USER {connection.info.user} REPLICATION"
        ) from error
    except errors.ConfigurationLimitExceeded as error:
        raise Conflict(
            f"cannot create replication slot '{name}': {_text(error)}; raise max_replication_slots"
        ) from error
    except errors.ObjectNotInPrerequisiteState as error:
        raise Conflict(
            f"cannot create replication slot '{name}': {_text(error)}; set wal_level = logical"
        ) from error
    assert row is not None
    system, timeline, _ = _log(connection)
    return LogPosition(system, timeline, parse_lsn(row[0]))


def drop_slot(connection: Connection[Any], name: str) -> None:
    """Drop a slot, if it is there: the server forgets the log that it keeps.

    Raises:
        Conflict: It is in use.
    """
    try:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
    except errors.UndefinedObject:
        return
    except errors.ObjectInUse as error:
        raise Conflict(
            f"cannot drop replication slot '{name}': {_text(error)}; end the pipeline"
        ) from error


def log_position(connection: Connection[Any]) -> LogPosition:
    """The position that the server's log has reached."""
    system, timeline, reached = _log(connection)
    return LogPosition(system, timeline, reached.end)


def await_slot(connection: Connection[Any], name: str, seconds: float) -> None:
    """Wait until nothing reads a slot: a server may see late that a reader is gone.

    Args:
        connection: A connection to the server.
        name: The slot.
        seconds: How long to wait at most.
    """
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        slot = find_slot(connection, name)
        if slot is None or slot.process is None:
            return
        sleep(_WAKE_SECONDS)


def slot_findings(connection: Connection[Any], source: LogSource, *, is_own: bool) -> list[Finding]:
    """What keeps a new pipeline from using a slot, or from creating its own in its place.

    Args:
        connection: A connection to the database.
        source: The server and the slot.
        is_own: Whether the pipeline creates it.
    """
    subject = f"replication slot {source.slot}"
    slot = find_slot(connection, source.slot)
    other = "give the pipeline another name" if is_own else "name another slot, or none"
    if slot is None:
        if is_own:
            return []
        create = f"SELECT pg_create_logical_replication_slot('{source.slot}', '{_PLUGIN}')"
        return [Finding(subject, "it does not exist", f"{create}, or leave the option out")]
    problem = _unfit(slot, connection.info.dbname)
    if problem is not None:
        return [Finding(subject, problem, other)]
    if slot.process is not None:
        problem = f"it is in use by process {slot.process} of the server"
        return [Finding(subject, problem, f"end its reader, or {other}")]
    return []


def _unfit(slot: Slot, database: str) -> str | None:
    """Why a slot's log cannot be read; None if it can."""
    if slot.plugin != _PLUGIN:
        return f"it decodes the log with {slot.plugin or 'nothing'} and not with {_PLUGIN}"
    if slot.database != database:
        return f"it is of database '{slot.database}' and not of '{database}'"
    if slot.is_temporary:
        return "it is temporary"
    if slot.has_two_phase:
        return "it sends transactions before they are committed (two_phase)"
    return None


def check_slot(
    connection: Connection[Any],
    source: LogSource,
    position: LogPosition,
    *,
    process: int | None = None,
) -> None:
    """Check that a slot has all changes after a position.

    Args:
        connection: A connection to the slot's database.
        source: The server and the slot.
        position: The position.
        process: The server's process that reads it; None if none may.

    Raises:
        Conflict: It lacks changes, is of another server or database, decodes the log otherwise, or
            is in use.
        NotFound: It does not exist, or the server has removed its log.
    """
    slot = find_slot(connection, source.slot)
    what = f"replication slot '{source.slot}' of the source at {source.address}"
    if slot is None:
        raise NotFound(f"{what} does not exist: changes are missing; {READ_AGAIN}")
    if slot.wal_status == "lost":
        raise NotFound(
            f"{what} has lost its log, as the server has removed it; raise max_slot_wal_keep_size "
            f"or read it more often, drop the slot, and {READ_AGAIN}"
        )
    problem = _unfit(slot, connection.info.dbname)
    if problem is not None:
        raise Conflict(f"{what} cannot be used: {problem}; use another one")
    system, timeline, reached = _log(connection)
    if (system, timeline) != (position.system, position.timeline):
        raise of_another_log(source, position, system, timeline)
    if position.lsn > reached.next:
        raise Conflict(
            f"the source at {source.address} has its log until '{position.at(reached.end)}', "
            f"before position '{position}': it has lost transactions; {READ_AGAIN}"
        )
    if slot.confirmed is None or slot.confirmed > position.lsn:
        at = "nothing" if slot.confirmed is None else f"'{position.at(slot.confirmed)}'"
        raise Conflict(
            f"{what} is past the position '{position}': {at} was confirmed, so that changes are "
            f"missing; {READ_AGAIN}"
        )
    if slot.process != process and slot.process is not None:
        raise Conflict(
            f"{what} is in use by process {slot.process} of the server; end the other reader"
        )


def of_another_log(
    source: LogSource, position: LogPosition, system: int, timeline: int
) -> Conflict:
    """The error of a position that is not of a server's log."""
    return Conflict(
        f"the source at {source.address} has the log {system}/{timeline}; position '{position}' "
        f"is of another one: it was restored, or a replica was promoted; {READ_AGAIN}"
    )


class _Reached(NamedTuple):
    """Where a log's last record ends, and where the next one goes."""

    end: int
    next: int


def _log(connection: Connection[Any]) -> tuple[int, int, _Reached]:
    """The server's identifier and timeline, and where its log ends."""
    row = connection.execute(_LOG).fetchone()
    assert row is not None
    system, timeline, text, block_size = row
    lsn = parse_lsn(text)
    return int(system), int(timeline, 16), _Reached(record_end(lsn, int(block_size)), lsn)


def _text(error: OperationalError | errors.Error) -> str:
    return str(error.diag.message_primary or error).strip()
