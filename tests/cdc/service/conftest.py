"""A database at a source, a lake, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.cdc.source_logs import SourceServer
from tests.cli.conftest import headwater

from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.service import PASSWORD_VARIABLE
from headwater.client import Lake, connect

__all__ = ["headwater", "source_url"]


def source_url(address: Address) -> str:
    """The URL of a source, without its password."""
    return f"mysql://{address.user}@{address.host}:{address.port}"


@pytest.fixture(autouse=True)
def no_password_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of a lake with two empty databases, ``lake`` and ``second``."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("lake")
        lake.create_database("second")
    return tmp_path / "lake"


@pytest.fixture
def lake(place: Path) -> Iterator[Lake]:
    """A lake with an empty database ``lake``."""
    with connect(place) as lake:
        yield lake


@pytest.fixture
def store(mariadb: SourceServer) -> Iterator[SourceServer]:
    """A database with a table ``orders`` of two rows."""
    mariadb.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'pen'), (2, 'cup')",
    )
    yield mariadb
    mariadb.run(f"DROP DATABASE {mariadb.database}")


@pytest.fixture
def options(store: SourceServer) -> dict[str, Any]:
    """The options of a pipeline that follows it."""
    return {
        "source": source_url(store.address),
        "include": f"{store.database}.*",
        "target": "lake",
        "name": "shop",
        "batch_seconds": 0.2,
    }


@pytest.fixture
def new_user(store: SourceServer) -> Iterator[Callable[..., str]]:
    """Makes a user with privileges such as ``SELECT ON *.*``, and gives the source's URL for it."""
    address = store.address
    users = []
    with MySQLServer(Address(address.host, address.port, "root", "")) as server:

        def make(*privileges: str) -> str:
            user = f"u{uuid4().hex[:12]}"
            users.append(user)
            server.rows(f"CREATE USER {user}@'%' IDENTIFIED BY 'secret'")
            for privilege in privileges:
                server.rows(f"GRANT {privilege} TO {user}@'%'")
            return f"mysql://{user}:secret@{address.host}:{address.port}"

        yield make
        for user in users:
            server.rows(f"DROP USER {user}@'%'")
