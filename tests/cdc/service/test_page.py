"""The tutorial of the page on change data capture, run as it is written, on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cdc.tutorials import Headwater, run_tutorial

from headwater.cdc.mysql.server import Address, MySQLServer


@pytest.fixture
def administrator(shop_source: Address) -> Iterator[MySQLServer]:
    """A server without the shop and without its reader."""
    address = Address(shop_source.host, shop_source.port, "root", "")
    with MySQLServer(address) as server:
        server.rows("DROP DATABASE IF EXISTS shop")
        yield server
        server.rows("DROP DATABASE IF EXISTS shop")
        server.rows("DROP USER IF EXISTS reader")


@pytest.mark.mariadb
def test_the_tutorial_runs_as_it_is_written(
    headwater: Headwater, administrator: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ("127.0.0.1:3306", str(administrator.address))
    run_tutorial("A tutorial", server, administrator.rows, headwater, monkeypatch)
