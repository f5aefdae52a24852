"""A MySQL or MariaDB server as a source: connections, settings and privileges."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

import pymysql
from pymysql.err import MySQLError

from headwater.cdc.model.tables import Finding
from headwater.cdc.mysql.encryption import Encryption, unverified_context
from headwater.cdc.source.options import parse_url
from headwater.storage.errors import Conflict, Forbidden, HeadwaterError, Invalid, Unavailable

__all__ = ["Address", "Flavour", "MySQLServer", "connected", "explained", "meaning"]

_DEFAULT_PORT = 3306
_CONNECT_SECONDS = 10
_URL_FORM = "mysql://user@host:port"
# CR_* of the client begin at 2000; the others: too many connections, shut down, killed, idle too
# long. PyMySQL has 0 for a connection that it has found to be lost before.
_CLIENT_CODES = range(2000, 3000)
_LOST = frozenset({0, 1040, 1053, 1152, 1153, 1158, 1159, 1160, 1161, 1317, 1927, 3169, 4031})
# No such column or table, or it changed after the snapshot was taken.
_CHANGED = frozenset({1054, 1146, 1412})
_LOCK_TIMEOUT = 1205
_ACCESS_DENIED = frozenset({1044, 1045, 1142, 1143, 1227, 1698})
# Instants as they are, zero dates as they are stored, and all rows of a query.
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', sql_select_limit = 18446744073709551615"
)
_VERSION = re.compile(r"(\d+)\.(\d+)")
_MIN_VERSIONS = {"mysql": (8, 4), "mariadb": (10, 11)}

Row = tuple[object, ...]


class Flavour(StrEnum):
    """The two servers, whose logs differ."""

    MYSQL = "mysql"
    MARIADB = "mariadb"


@dataclass(frozen=True)
class Address:
    """A server's address, and how to log in.

    Attributes:
        host, port, user: As in the URL.
        password: The password; it is not shown.
        encryption: How connections are encrypted.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    encryption: Encryption = field(default_factory=Encryption)

    @staticmethod
    def from_url(text: str, password: str | None = None) -> Address:
        """Read a URL ``mysql://user@host:port`` or ``mariadb://…``; Invalid.

        Args:
            text: The URL.
            password: The password, where the URL does not have it.
        """
        url = parse_url(
            text,
            password,
            form=_URL_FORM,
            schemes=dict.fromkeys([flavour.value for flavour in Flavour], _DEFAULT_PORT),
            kind="MySQL or MariaDB",
            encryption=Encryption.from_options,
            database_problem=lambda name: (
                "a database is named; choose tables with --include" if name else None
            ),
        )
        return Address(url.host, url.port, url.user, url.password, url.encryption)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class MySQLServer:
    """A connection to a server, for questions about its settings and tables.

    Args:
        address: The server.

    Attributes:
        flavour: Whether it is MySQL or MariaDB.
        version: Its version as it tells it.

    Raises:
        Forbidden: The server rejects the user or the password.
        Unavailable: It cannot be reached.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        with explained(address):
            self._connection = connected(address)
        ((version,),) = self.rows("SELECT VERSION()")
        self.version = str(version)
        is_mariadb = "mariadb" in self.version.lower()
        self.flavour = Flavour.MARIADB if is_mariadb else Flavour.MYSQL

    @property
    def connection(self) -> pymysql.Connection:
        """The connection, for queries whose rows are read a column at a time."""
        return self._connection

    def close(self) -> None:
        """End the connection."""
        with suppress(MySQLError):
            self._connection.close()

    def __enter__(self) -> MySQLServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, statement: str, values: Sequence[object] = ()) -> Sequence[Row]:
        """The rows of a small result.

        Args:
            statement: The statement, with ``%s`` where a value goes.
            values: The values.

        Raises:
            Forbidden: The user lacks a privilege.
            Unavailable: The server does not answer.
        """
        with explained(self.address), self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            rows: Sequence[Row] = cursor.fetchall()
            return rows

    def variables(self, *names: str) -> Mapping[str, str]:
        """The server's settings of some names in small letters; without those it does not have."""
        # All of them would be a thousand rows.
        rows = self.rows("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", [names])
        return {str(name).lower(): str(value) for name, value in rows}

    # What does not work -----------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        """The version, settings and privileges that keep its log from being followed."""
        return [*self._version_findings(), *self._setting_findings(), *self._privilege_findings()]

    def _version_findings(self) -> Iterator[Finding]:
        match = _VERSION.match(self.version)
        least = _MIN_VERSIONS[self.flavour]
        if match is None or (int(match[1]), int(match[2])) < least:
            needed = ".".join(map(str, least))
            yield Finding(
                "server",
                f"its version is {self.version}",
                f"{needed} or newer is needed: update it",
            )

    def _setting_findings(self) -> Iterator[Finding]:
        wanted = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_metadata": "FULL"}
        settings = self.variables(*wanted, "server_id")
        for name, value in wanted.items():
            # MySQL 9 has no binlog_format any more: it is always ROW.
            if settings.get(name, value).upper() != value:
                yield Finding(
                    f"setting {name}",
                    f"it is {settings[name]}",
                    f"set {name} = {value} in the server's configuration and restart it",
                )
        if settings.get("server_id") == "0":
            yield Finding(
                "setting server_id", "it is 0", "give the server a number of its own, such as 1"
            )

    def _privilege_findings(self) -> Iterator[Finding]:
        grants = " ".join(str(grant) for (grant, *_) in self.rows("SHOW GRANTS")).upper()
        if "ALL PRIVILEGES ON *.*" in grants:
            return
        privileges = ["REPLICATION SLAVE", "BINLOG MONITOR"]
        if self.flavour is Flavour.MYSQL:
            # Without the last, rows of transactions that are prepared at the start would be lost.
            privileges = ["REPLICATION SLAVE", "REPLICATION CLIENT", "XA_RECOVER_ADMIN"]
            if self.variables("gtid_mode").get("gtid_mode") != "ON":
                # To begin log files: without GTIDs, only that tells which transactions are seen.
                privileges.append("RELOAD")
        for privilege in privileges:
            if privilege not in grants:
                user = self.address.user
                yield Finding(
                    f"privilege {privilege}",
                    f"user '{user}' does not have it",
                    f"GRANT {privilege} ON *.* TO '{user}'",
                )


def connected(address: Address, **options: object) -> pymysql.Connection:
    """A connection to a server, whose session is in UTC; `options` are PyMySQL's."""
    options.setdefault("init_command", _SESSION)
    return _Connection(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        **address.encryption.connection_options(),
        **options,
    )


class _Connection(pymysql.Connection):  # type: ignore[misc]
    """PyMySQL's connection, which reads no certificates of authorities to verify nothing."""

    def _create_ssl_ctx(self, options: object) -> ssl.SSLContext:
        context: ssl.SSLContext = (
            super()._create_ssl_ctx(options) if options else unverified_context()
        )
        return context


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Raise what PyMySQL raises as errors that name the server.

    Raises:
        Conflict: A table or a column is not there, or changed after a snapshot was taken; or the
            table is locked.
        Forbidden: The user or the password is rejected, or a privilege is missing.
        Invalid: A statement is rejected.
        Unavailable: The server does not answer.
    """
    try:
        yield
    except MySQLError as error:
        raise meaning(address, error) from error


def meaning(address: Address, error: MySQLError) -> HeadwaterError:
    """The error to raise for one of PyMySQL's, or of the server with a code and a text."""
    code, text = (*error.args, "", "")[:2]
    if code in _ACCESS_DENIED:
        return Forbidden(
            f"the source at {address} rejects user '{address.user}': {text}; check the password "
            "and the privileges"
        )
    if code in _CHANGED:
        return Conflict(
            f"the source at {address} has another table meanwhile: {text}; read it again"
        )
    if code == _LOCK_TIMEOUT:
        return Conflict(
            f"the source at {address} has the table locked by another session: {text}; try again "
            "when that has ended"
        )
    if code not in _CLIENT_CODES and code not in _LOST:
        return Invalid(f"the source at {address} rejects a statement: error {code}, {text}")
    return Unavailable(
        f"the source at {address} cannot be reached ({text}); check the address, and that the "
        "server runs"
    )
