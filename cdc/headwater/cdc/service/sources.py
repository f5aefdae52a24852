"""Sources by their URLs: where they are, with which password, and how they are opened."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

from headwater.cdc.mysql.column_types import parse_type_mapping
from headwater.cdc.mysql.server import Address
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.source.source import Source
from headwater.storage.errors import Invalid, Unavailable

__all__ = [
    "PASSWORD_VARIABLE",
    "Address",
    "default_name",
    "open_source",
    "parse_type_mapping",
    "read_password",
    "read_text",
    "source_address",
]

PASSWORD_VARIABLE = "HEADWATER_CDC_SOURCE_PASSWORD"
"""The variable of the source's password."""

_DEFAULT_PORT = 3306


def open_source(address: Address) -> Source:
    """Connect to a source.

    Raises:
        Forbidden: It rejects the user or the password.
        Unavailable: It cannot be reached.
    """
    return MySQLSource(address)


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
    address = Address.from_url(source, password)
    if password is None and not address.password:
        address = Address.from_url(source, os.environ.get(PASSWORD_VARIABLE))
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
    port = "" if address.port == _DEFAULT_PORT else f"-{address.port}"
    return f"{host}{port}-{target}"
