"""Servers whose logs are followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import mariadb_server

from headwater.cdc.mysql.server import Address, MySQLServer

_LOGGED = (
    "--log-bin=log",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    "--binlog-checksum=CRC32",
    "--gtid-strict-mode=1",
    "--server-id=1",
    "--max-allowed-packet=128M",
)


@pytest.fixture(scope="session")
def mariadb_source() -> Iterator[Address]:
    """A MariaDB server with a log that can be followed."""
    with mariadb_server(*_LOGGED) as url:
        yield Address.from_url(url)


@pytest.fixture
def mariadb(mariadb_source: Address) -> Iterator[MySQLServer]:
    """A connection to it, with an empty database ``shop``."""
    with MySQLServer(mariadb_source) as server:
        server.rows("CREATE OR REPLACE DATABASE shop")
        yield server
