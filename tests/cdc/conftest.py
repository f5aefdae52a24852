"""Servers with a binary log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.cdc.source_logs import MARIADB, MYSQL, SourceServer
from tests.conftest import DatabaseServer, mariadb_server, mysql_server

from headwater.cdc.mysql.server import Address, MySQLServer

_SETTINGS = (
    "--log-bin=log",
    "--server-id=1",
    "--binlog-row-metadata=FULL",
    "--max-allowed-packet=128M",
)


@pytest.fixture(scope="session")
def _mariadb_with_log() -> Iterator[DatabaseServer]:
    with mariadb_server(*_SETTINGS, "--binlog-format=ROW") as server:
        yield server


@pytest.fixture(scope="session")
def _mysql_with_log() -> Iterator[DatabaseServer]:
    with mysql_server(*_SETTINGS, "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as server:
        yield server


@pytest.fixture
def mariadb(_mariadb_with_log: DatabaseServer) -> SourceServer:
    """A MariaDB server with a binary log, and a database of its own."""
    return _source(_mariadb_with_log)


@pytest.fixture
def mysql(_mysql_with_log: DatabaseServer) -> SourceServer:
    """A MySQL server with a binary log, and a database of its own."""
    return _source(_mysql_with_log)


@pytest.fixture(scope="session")
def _mysql_without_gtids() -> Iterator[DatabaseServer]:
    with mysql_server(*_SETTINGS, "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") as server:
        yield server


@pytest.fixture
def mysql_files(_mysql_without_gtids: DatabaseServer) -> SourceServer:
    """A MySQL server whose transactions have no GTIDs, and a database of its own."""
    return _source(_mysql_without_gtids)


@pytest.fixture(params=[MARIADB, MYSQL])
def source(request: pytest.FixtureRequest) -> SourceServer:
    """A server of either kind, with a database of its own."""
    server: SourceServer = request.getfixturevalue(request.param)
    return server


def _source(server: DatabaseServer) -> SourceServer:
    return SourceServer(server.url, server.data, f"cdc_{uuid.uuid4().hex[:12]}")


@pytest.fixture
def shop_source(_mariadb_with_log: DatabaseServer) -> Address:
    """The address of a MariaDB server with a binary log."""
    return Address.from_url(_mariadb_with_log.url)


@pytest.fixture
def shop(shop_source: Address) -> Iterator[MySQLServer]:
    """A connection to it, with an empty database ``shop``."""
    with MySQLServer(shop_source) as server:
        server.rows("CREATE OR REPLACE DATABASE shop")
        yield server
