"""Sources by their URLs: where they are, with which password, and how they are opened."""

from __future__ import annotations

import ipaddress
import os
from enum import StrEnum
from pathlib import Path

from sqlalchemy.engine import make_url

from headwater.cdc.kafka.address import Address as KafkaAddress
from headwater.cdc.kafka.options import KafkaOptions
from headwater.cdc.mysql import column_types as mysql_types
from headwater.cdc.mysql.server import Address as MySQLAddress
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.postgres import types as postgres_types
from headwater.cdc.postgres.server import Address as PostgresAddress
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.source.options import read_url
from headwater.cdc.source.source import Source
from headwater.storage.errors import Invalid, Unavailable, Unsupported

__all__ = [
    "PASSWORD_VARIABLE",
    "Address",
    "SourceKind",
    "default_name",
    "open_source",
    "parse_address",
    "parse_type_mapping",
    "read_password",
    "read_text",
    "source_address",
    "source_kind",
    "stored_url",
]

PASSWORD_VARIABLE = "HEADWATER_CDC_SOURCE_PASSWORD"
"""The variable of the source's password."""

Address = MySQLAddress | PostgresAddress | KafkaAddress
"""Where a source is, and how to log in."""


class SourceKind(StrEnum):
    """A kind of source, as commands and functions are named."""

    MYSQL = "mysql"
    POSTGRES = "postgres"
    KAFKA = "kafka"

    @property
    def product(self) -> str:
        """The products of the kind."""
        names = {"mysql": "MySQL or MariaDB", "postgres": "PostgreSQL", "kafka": "Kafka"}
        return names[self.value]


_KINDS = (MySQLAddress, PostgresAddress, KafkaAddress)
_USUAL_PORTS = (3306, 5432, 9092)
_SCHEMES = {
    "mysql": SourceKind.MYSQL,
    "mariadb": SourceKind.MYSQL,
    "postgresql": SourceKind.POSTGRES,
    "postgres": SourceKind.POSTGRES,
    "kafka": SourceKind.KAFKA,
}
_FORMS = (
    "mysql://user@host:port, mariadb://…, postgresql://user@host:port/database or "
    "kafka://host:port,host:port"
)


def open_source(address: Address, settings: PipelineSettings) -> Source:
    """Connect to a pipeline's source.

    Raises:
        Forbidden: It rejects the user or the password.
        Unavailable: It cannot be reached.
    """
    if isinstance(address, MySQLAddress):
        return MySQLSource(address)
    if isinstance(address, KafkaAddress):
        return _kafka_source(address, settings)
    return PostgresSource(address, settings.name, settings.slot, settings.publication)


def _kafka_source(address: KafkaAddress, settings: PipelineSettings) -> Source:
    """Topics of Kafka, whose client is an extra of its own."""
    try:
        from headwater.cdc.kafka.source import KafkaSource
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"following Kafka needs {error.name}, which this installation lacks; run: pip install "
            "'headwater[cdc-kafka]'"
        ) from error
    options = KafkaOptions.parse(settings.kafka_conf, str(address))
    return KafkaSource(address, settings.name, options)


def source_kind(source: str) -> SourceKind:
    """The kind of source that a URL is of; Invalid."""
    scheme, separator, _ = source.partition("://")
    if scheme == SourceKind.KAFKA and separator:
        # Its servers are several.
        return SourceKind.KAFKA
    scheme = read_url(source, "the source", _FORMS).drivername
    if scheme not in _SCHEMES:
        raise Invalid(
            f"the source is a URL of '{scheme}', which is not MySQL, MariaDB, PostgreSQL or Kafka; "
            f"write {_FORMS}"
        )
    return _SCHEMES[scheme]


def stored_url(source: str, address: Address) -> str:
    """The URL of a source as it is stored: without the password, with the port."""
    if isinstance(address, KafkaAddress):
        return address.url
    url = make_url(source)._replace(password=None, port=address.port)
    return url.render_as_string()


def parse_address(source: str, password: str | None = None) -> Address:
    """Read the URL of a source; Invalid.

    Args:
        source: The URL.
        password: The password, where the URL does not have it.
    """
    match source_kind(source):
        case SourceKind.POSTGRES:
            return PostgresAddress.from_url(source, password)
        case SourceKind.KAFKA:
            return KafkaAddress.from_url(source, password)
        case SourceKind.MYSQL:
            return MySQLAddress.from_url(source, password)


def parse_type_mapping(source: str, names: str) -> frozenset[str]:
    """Read the choices of types that a kind of source has; Invalid.

    Args:
        source: The source's URL.
        names: The names, with commas between them.
    """
    match source_kind(source):
        case SourceKind.POSTGRES:
            return frozenset(postgres_types.parse_type_mapping(names))
        case SourceKind.KAFKA:
            if names:
                raise Invalid(
                    f"type_mapping is '{names}', and messages of Kafka have their types; leave it "
                    "out"
                )
            return frozenset()
        case SourceKind.MYSQL:
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
    database = f"-{address.database}" if isinstance(address, PostgresAddress) else ""
    usual = _USUAL_PORTS[_KINDS.index(type(address))]
    port = "" if address.port == usual else f"-{address.port}"
    return f"{host}{port}{database}-{target}"
