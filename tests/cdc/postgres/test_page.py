"""The tutorial for PostgreSQL of the page on change data capture, run as it is written."""

from __future__ import annotations

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.tutorials import Headwater, run_tutorial
from tests.cli.conftest import headwater

__all__ = ["headwater"]


@pytest.mark.postgresql
def test_the_tutorial_runs_as_it_is_written(
    headwater: Headwater, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.url.partition("@")[2]
    server = ("127.0.0.1:5432/shop", address)
    try:
        run_tutorial("A tutorial for PostgreSQL", server, postgres.run, headwater, monkeypatch)
    finally:
        postgres.drop_slots()
        postgres.run("DROP OWNED BY reader", "DROP ROLE reader")
