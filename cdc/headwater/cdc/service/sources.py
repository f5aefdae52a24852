"""Sources by their URLs: where they are, with which password, and how they are opened."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from headwater.cdc.mysql import column_types as mysql_types
from headwater.cdc.mysql.server import Address as MySQLAddress
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.postgres import types as postgres_types
from headwater.cdc.postgres.server import Address as PostgresAddress
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.source.source import Source
from headwater.storage.errors import Invalid, Unavailable

__all__ = [
    "PASSWORD_VARIABLE",
    "Address",
    "default_name",
    "is_postgres",
    "open_source",
    "parse_address",
    "parse_type_mapping",
    "read_password",
    "read_text",
    "source_address",
]

PASSWORD_VARIABLE = "HEADWATER_CDC_SOURCE_PASSWORD"
"""The variable of the source's password."""

Address = MySQLAddress | PostgresAddress
"""Where a source is, and how to log in."""

_MYSQL_PORT, _POSTGRES_PORT = 3306, 5432
_MYSQL, _POSTGRES = ("mysql", "mariadb"), ("postgresql", "postgres")
_FORMS = "mysql://user@host:port, mariadb://… or postgresql://user@host:port/database"


def open_source(address: Address, settings: PipelineSettings) -> Source:
    """Connect to a pipeline's source.

    Raises:
        Forbidden: It rejects the user or the password.
        Unavailable: It cannot be reached.
    """
    if isinstance(address, MySQLAddress):
        return MySQLSource(address)
    return PostgresSource(address, settings.name, settings.slot, settings.publication)


def is_postgres(source: str) -> bool:
    """Whether the URL of a source is PostgreSQL's, and not MySQL's or MariaDB's; Invalid."""
    try:
        scheme = make_url(source).drivername
    except ArgumentError:
        raise Invalid(f"the source is not a URL; write {_FORMS}") from None
    if scheme not in _POSTGRES + _MYSQL:
        raise Invalid(
            f"the source is a URL of '{scheme}', which is not MySQL, MariaDB or PostgreSQL; write "
            f"{_FORMS}"
        )
    return scheme in _POSTGRES


def parse_address(source: str, password: str | None = None) -> Address:
    """Read the URL of a source; Invalid.

    Args:
        source: The URL.
        password: The password, where the URL does not have it.
    """
    if is_postgres(source):
        return PostgresAddress.from_url(source, password)
    return MySQLAddress.from_url(source, password)


def parse_type_mapping(source: str, names: str) -> frozenset[str]:
    """Read the choices of types that a kind of source has; Invalid.

    Args:
        source: The source's URL.
        names: The names, with commas between them.
    """
    if is_postgres(source):
        return frozenset(postgres_types.parse_type_mapping(names))
    return frozenset(mysql_types.parse_type_mapping(names))


def source_address(
    source: str,
    password: str | None = None,
    password_file: str | os.PathLike[str] | None = None,
) -> Address:
    """The address of a source, with its password.

    Args:
        source: The source's URL.
        password: The password.
        password_file: The file that it is in. Where neither is given and the URL has none, it is
            that of the variable `PASSWORD_VARIABLE`.

    Raises:
        Invalid: The URL is wrong, or the password is given twice.
        Unavailable: The file cannot be read.
    """
    if password is not None and password_file is not None:
        raise Invalid("the source's password is given twice: as text and as a file; give one")
    if password_file is not None:
        password = read_password(password_file)
    address = parse_address(source, password)
    if password is None and not address.password:
        address = parse_address(source, os.environ.get(PASSWORD_VARIABLE))
    return address


def read_password(file: str | os.PathLike[str] | None) -> str | None:
    """The password in a file, without the end of its line; None without a file.

    Raises:
        Unavailable: It cannot be read.
    """
    return None if file is None else read_text(file).rstrip("\r\n")


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file.

    Raises:
        Unavailable: It cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"cannot read {os.fspath(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unavailable(f"cannot read {os.fspath(path)}: it is not UTF-8 text") from error


def default_name(address: Address, target: str) -> str:
    """The name of a pipeline to which none is given."""
    try:
        ipaddress.ip_address(address.host)
        host = address.host.replace(":", "-")
    except ValueError:
        host = address.host.partition(".")[0]
    usual, database = _MYSQL_PORT, ""
    if isinstance(address, PostgresAddress):
        usual, database = _POSTGRES_PORT, f"-{address.database}"
    port = "" if address.port == usual else f"-{address.port}"
    return f"{host}{port}{database}-{target}"
