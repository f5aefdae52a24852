"""A PostgreSQL server as a source: addresses, connections, settings and privileges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

import psycopg
from psycopg.conninfo import make_conninfo

from headwater.cdc.model.tables import Finding
from headwater.cdc.source.options import parse_url, url_options
from headwater.storage.errors import Conflict, Forbidden, HeadwaterError, Invalid, Unavailable

__all__ = [
    "NO_TRANSACTION_TIMEOUT",
    "SESSION",
    "TIMEOUTS",
    "TRANSACTION_TIMEOUT_VERSION",
    "Address",
    "Encryption",
    "PostgresServer",
    "connected",
    "explained",
    "session_options",
]

_DEFAULT_PORT = 5432
TIMEOUTS: Mapping[str, str] = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "4",
    "tcp_user_timeout": "60000",
}
"""A server that reads for long is silent, so its kernel has to answer; the last is in ms."""

_URL_FORM = "postgresql://user@host:port/database"
_SCHEMES = ("postgresql", "postgres")
_MODE, _CA, _CERTIFICATE, _KEY = "sslmode", "sslrootcert", "sslcert", "sslkey"
_MIN_VERSION = 15
TRANSACTION_TIMEOUT_VERSION = 17
"""The first major version that has the setting ``transaction_timeout``."""

NO_TRANSACTION_TIMEOUT = "SET transaction_timeout = 0"
"""Not among the settings of `SESSION`, as older servers reject connections that set it."""

SESSION: Mapping[str, str] = {
    # The form of values, which a server, database or role can set otherwise.
    "TimeZone": "UTC",
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "quote_all_identifiers": "off",
    # Types outside of pg_catalog are written with their schema.
    "search_path": "",
    "standard_conforming_strings": "on",
    # Rows are never hidden: a query that would hide some is an error.
    "row_security": "off",
    "default_transaction_read_only": "off",
    # To compile a query of the catalogs takes longer than to run it.
    "jit": "off",
    # Reading a table takes as long as it takes.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
"""Settings of each session that reads values, so that their text is the same on all servers."""

# Missing relations, columns, schemas and types; locked ones; deadlocks and conflicts of recovery.
_CHANGED = frozenset({"42P01", "42703", "3F000", "42704"})
_LOCKED = "55P03"
_RETRY = frozenset({"40001", "40P01"})
_DENIED = ("28", "42501")
# Of connections, resources, operators and the operating system.
_LOST = ("08", "53", "57", "58", "25P03", "25P04")
# A connection that is rejected has a text only, whose code is in no field.
_REJECTED = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|permission denied for database|"
    r'(role|database) ".*" does not exist|not permitted to log in',
    re.IGNORECASE,
)
_WHERE = re.compile(r"^connection failed: connection to server at .*? failed: (FATAL: )?")
_BAD_FILE = re.compile(r"certificate file|private key", re.IGNORECASE)

Row = tuple[object, ...]


class EncryptionMode(StrEnum):
    """How much of TLS is required (``sslmode`` of libpq)."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


_WITHOUT_TLS = (EncryptionMode.DISABLE, EncryptionMode.ALLOW, EncryptionMode.PREFER)


@dataclass(frozen=True)
class Encryption:
    """How connections to a server are encrypted, by libpq's names.

    Attributes:
        mode: What is required. ``prefer`` encrypts if the server can, and verifies nothing.
        ca: The file with the certificates of authorities.
        certificate, key: The files with the client's certificate and its key.
    """

    mode: EncryptionMode = EncryptionMode.PREFER
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @staticmethod
    def from_options(options: Mapping[str, str | tuple[str, ...]]) -> Encryption:
        """Read the options ``sslmode``, ``sslrootcert``, ``sslcert`` and ``sslkey``.

        Args:
            options: The options of a URL; one that it has twice has several values.

        Raises:
            Invalid: An option is not known or has a wrong value.
        """
        texts = url_options(options, (_MODE, _CA, _CERTIFICATE, _KEY))
        ca, certificate, key = map(texts.get, (_CA, _CERTIFICATE, _KEY))
        text = texts.get(_MODE, EncryptionMode.VERIFY_CA if ca else EncryptionMode.PREFER)
        try:
            mode = EncryptionMode(text)
        except ValueError:
            modes = ", ".join(EncryptionMode)
            raise Invalid(f"{_MODE} is '{text}', and not one of {modes}") from None
        if (certificate is None) != (key is None):
            raise Invalid(f"{_CERTIFICATE} and {_KEY} are needed together")
        if ca is not None and mode in _WITHOUT_TLS:
            raise Invalid(f"{_CA} is named, and {_MODE} {mode} verifies nothing")
        if certificate is not None and mode in _WITHOUT_TLS:
            raise Invalid(f"{_CERTIFICATE} is named, and {_MODE} {mode} does not require TLS")
        return Encryption(mode, ca, certificate, key)

    def parameters(self) -> Mapping[str, str]:
        """The parameters of libpq's connections."""
        files = {_CA: self.ca, _CERTIFICATE: self.certificate, _KEY: self.key}
        return {_MODE: self.mode.value} | {name: file for name, file in files.items() if file}


@dataclass(frozen=True)
class Address:
    """A database's address, and how to log in.

    Attributes:
        host, port, user, database: As in the URL.
        password: The password; it is not shown.
        encryption: How connections are encrypted.
    """

    host: str
    port: int
    user: str
    database: str
    password: str = field(repr=False)
    encryption: Encryption = field(default_factory=Encryption)

    @staticmethod
    def from_url(text: str, password: str | None = None) -> Address:
        """Read a URL ``postgresql://user@host:port/database?sslmode=…``; Invalid.

        Args:
            text: The URL.
            password: The password, where the URL does not have it.
        """
        url = parse_url(
            text,
            password,
            form=_URL_FORM,
            schemes=dict.fromkeys(_SCHEMES, _DEFAULT_PORT),
            kind="PostgreSQL",
            encryption=Encryption.from_options,
            database_problem=lambda name: None if name else "the database is missing",
        )
        return Address(url.host, url.port, url.user, url.database, url.password, url.encryption)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def conninfo(self, **parameters: str) -> str:
        """The connection string of libpq; sessions have the settings of `SESSION`.

        Args:
            parameters: More of libpq's parameters, such as ``replication``.
        """
        names = {
            "host": self.host,
            "port": str(self.port),
            "user": self.user,
            "dbname": self.database,
            **TIMEOUTS,
            "client_encoding": "UTF8",
            "application_name": "headwater cdc",
            "options": session_options(),
        }
        if self.password:
            # Without one, libpq looks into its password file.
            names["password"] = self.password
        return make_conninfo("", **names, **self.encryption.parameters(), **parameters)


class PostgresServer:
    """A connection to a database, for questions about its settings and tables.

    Args:
        address: The database.

    Attributes:
        address: The database.
        version: The server's major version.

    Raises:
        Forbidden: The server rejects the user or the password.
        Unavailable: It cannot be reached.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        with explained(address):
            self._connection = connected(address)
        self.version = self._connection.info.server_version // 10_000
        if self.version >= TRANSACTION_TIMEOUT_VERSION:
            self.rows(NO_TRANSACTION_TIMEOUT)

    @property
    def connection(self) -> psycopg.Connection[Row]:
        """The connection, for queries whose rows are read a column at a time."""
        return self._connection

    def close(self) -> None:
        """End the connection."""
        with suppress(psycopg.Error):
            self._connection.close()

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, statement: str, values: Sequence[object] = ()) -> Sequence[Row]:
        """Return the rows of a small result.

        Args:
            statement: The statement, with ``%s`` where a value goes.
            values: The values.

        Raises:
            Conflict: The tables have changed, or are locked.
            Forbidden: The user lacks a privilege.
            Invalid: The server rejects the statement.
            Unavailable: The server does not answer.
        """
        with explained(self.address), self._connection.cursor() as cursor:
            cursor.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else ()

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """See tables and catalogs as they are now, in a transaction that only reads.

        Raises:
            Unavailable: The server does not answer.
        """
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        except BaseException:
            # The connection may be lost.
            with suppress(HeadwaterError):
                self.rows("ROLLBACK")
            raise
        self.rows("ROLLBACK")

    # What does not work -----------------------------------------------------------------------

    def findings(self, slot: str | None = None, *, publishes: bool = True) -> list[Finding]:
        """The version, settings and privileges that keep its log from being followed.

        Args:
            slot: The name of a replication slot; if it is there, none needs to be created.
            publishes: Whether a publication is created.
        """
        findings = [*self._version_findings()]
        if not findings:
            findings += [
                *self._setting_findings(slot),
                *self._privilege_findings(publishes=publishes),
            ]
        return findings

    def _version_findings(self) -> Iterator[Finding]:
        if self.version < _MIN_VERSION:
            remedy = f"{_MIN_VERSION} or newer is needed: update it"
            yield Finding("server", f"its version is {self.version}", remedy)

    def _setting_findings(self, slot: str | None) -> Iterator[Finding]:
        names = ("wal_level", "max_replication_slots", "max_wal_senders")
        settings = {
            str(name): str(value)
            for name, value in self.rows(
                "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(names)]
            )
        }
        if settings["wal_level"] != "logical":
            yield Finding(
                "setting wal_level",
                f"it is {settings['wal_level']}",
                "ALTER SYSTEM SET wal_level = 'logical' (on Amazon RDS: rds.logical_replication = "
                "1), and restart the server",
            )
        ((is_standby, slots, has_slot, senders),) = self.rows(
            "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_replication_slots),"
            " EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s),"
            " (SELECT count(*) FROM pg_stat_replication)",
            [slot],
        )
        if is_standby:
            yield Finding(
                "server",
                "it is a standby, where what the log has cannot be told from what can be seen",
                "connect to the primary server",
            )
        used = {"max_replication_slots": slots, "max_wal_senders": senders}
        if has_slot:
            del used["max_replication_slots"]
        for name, count in used.items():
            if int(str(count)) >= int(settings[name]):
                yield Finding(
                    f"setting {name}",
                    f"it is {settings[name]}, and {count} are in use",
                    f"ALTER SYSTEM SET {name} = {int(str(count)) + 5}, and restart the server",
                )

    def _privilege_findings(self, *, publishes: bool) -> Iterator[Finding]:
        user, database = self.address.user, self.address.database
        ((may_replicate, may_create),) = self.rows(
            "SELECT rolsuper OR rolreplication OR EXISTS (SELECT FROM pg_roles r"
            " WHERE r.rolname IN ('rds_replication', 'rds_superuser')"
            " AND pg_has_role(current_user, r.oid, 'MEMBER')),"
            " has_database_privilege(current_database(), 'CREATE')"
            " FROM pg_roles WHERE rolname = current_user"
        )
        if not may_replicate:
            yield Finding(
                "privilege REPLICATION",
                f"user '{user}' does not have it",
                f'ALTER ROLE "{user}" REPLICATION (on Amazon RDS: GRANT rds_replication TO '
                f'"{user}")',
            )
        if publishes and not may_create:
            yield Finding(
                "privilege CREATE",
                f"user '{user}' does not have it on database '{database}', where a publication is "
                "created",
                f'GRANT CREATE ON DATABASE "{database}" TO "{user}"',
            )


def session_options() -> str:
    """The settings of `SESSION` as an option of libpq's connections."""
    return " ".join(f"-c {name}={value}" for name, value in SESSION.items())


def connected(address: Address, **parameters: str) -> psycopg.Connection[Row]:
    """Open a connection that commits each statement; `parameters` are as for `Address.conninfo`."""
    conninfo = address.conninfo(**parameters)
    return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Raise what psycopg raises as errors that name the server.

    Raises:
        Conflict: A table or a column is not there, or is locked.
        Forbidden: The user or the password is rejected, or a privilege is missing.
        Invalid: A statement is rejected.
        Unavailable: The server does not answer.
    """
    try:
        yield
    except psycopg.Error as error:
        raise meaning(address, error) from error


def meaning(address: Address, error: psycopg.Error) -> HeadwaterError:
    """The error to raise for one of psycopg's."""
    code = error.sqlstate or ""
    text = " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
    # The address is in the messages already.
    text = _WHERE.sub("", text)
    is_lost = isinstance(error, psycopg.OperationalError) and not code
    if code.startswith(_DENIED) or (is_lost and _REJECTED.search(text)):
        return Forbidden(
            f"the source at {address} rejects user '{address.user}': {text}; check the password, "
            "the database's name and the privileges"
        )
    if is_lost and _BAD_FILE.search(text):
        return Invalid(
            f"cannot use the files of the source at {address}: {text}; name PEM files that can be "
            "read and belong together"
        )
    if code in _CHANGED:
        return Conflict(
            f"the source at {address} has another table meanwhile: {text}; read it again"
        )
    if code == _LOCKED:
        return Conflict(
            f"the source at {address} has the table locked by another session: {text}; try again "
            "when that has ended"
        )
    if code in _RETRY:
        return Conflict(f"the source at {address} ended a transaction: {text}; try again")
    if is_lost or code.startswith(_LOST):
        return Unavailable(
            f"the source at {address} cannot be reached ({text}); check the address, and that the "
            "server runs"
        )
    return Invalid(f"the source at {address} rejects a statement: error {code}, {text}")
