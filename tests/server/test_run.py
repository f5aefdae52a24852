"""The server as a process: what it says, how it stops, why it does not start."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests import plain_http
from tests.processes import serving

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.client import connect
from headwater.server.run import catalogs_on, open_database, run
from headwater.server.settings import load_settings
from headwater.storage.errors import Forbidden, Invalid, Unavailable
from headwater.storage.schema.change import AddColumn
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import parse_type

# One of the processes that share the tests starts what servers are forked off.
pytestmark = pytest.mark.xdist_group("processes")

PROGRAM = """
import json, sys
from headwater.server.run import run
from headwater.server.settings import load_settings
run(load_settings(json.loads(sys.argv[1])))
"""


def _settings(folder: Path, **more: object) -> dict[str, object]:
    return {
        "port": 0,
        "database_url": f"sqlite:///{folder}/headwater.db",
        "warehouses": {"main": str(folder / "main"), "other": str(folder / "other")},
        **more,
    }


def test_a_server_says_where_it_listens_and_stops_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(_settings(tmp_path, tokens=["hidden"]))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        assert first["message"].startswith("serving main, other at http://127.0.0.1:")
        address = first["message"].rpartition(" ")[2]
        answer = plain_http.get(
            f"{address}/v1/config?warehouse=other",
            headers={"authorization": "Bearer hidden"},
        )
        assert answer.json()["overrides"] == {"prefix": "other"}
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        assert process.wait() in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in log.splitlines()]
    assert any(line.get("path") == "/v1/config" for line in lines)
    assert "hidden" not in log


@pytest.fixture
def own_log() -> Iterator[None]:
    """Takes back what a server in this process sets of its log: later tests look at theirs."""
    loggers = [logging.getLogger(name) for name in ("headwater", "uvicorn", "opentelemetry")]
    before = [(each.handlers, each.level, each.propagate) for each in loggers]
    yield
    for logger, (handlers, level, propagates) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagates
        logger.setLevel(level)


@pytest.mark.usefixtures("own_log")
def test_a_taken_port_is_told(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = load_settings(_settings(tmp_path, port=other.getsockname()[1]))
        with pytest.raises(Unavailable, match="choose another port"):
            run(settings)


@pytest.mark.usefixtures("own_log")
def test_a_host_that_is_not_ours_is_told(tmp_path: Path) -> None:
    settings = load_settings(_settings(tmp_path, host="192.0.2.1", tokens=["x"]))
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1"):
        run(settings)


def test_a_database_that_nobody_upgraded_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    settings = load_settings(_settings(tmp_path))
    with open_database(settings) as database:
        catalogs = catalogs_on(database, settings)
        assert sorted(catalogs) == ["main", "other"]
        catalogs["main"].databases.create("sales")
        assert list(catalogs["other"].databases.list().items) == []
    again = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "main"))
    assert list(again.databases.list().items) == ["sales"]
    again.close()


@pytest.mark.postgresql
def test_a_shared_database_must_be_upgraded_first(
    tmp_path: Path, new_postgresql_database: object
) -> None:
    assert callable(new_postgresql_database)
    settings = load_settings(_settings(tmp_path, database_url=new_postgresql_database()))
    with pytest.raises(Invalid, match="headwater db upgrade"), open_database(settings):
        pass


@pytest.mark.parametrize(
    ("trusted", "told"),
    [
        pytest.param("", "127.0.0.1", marks=pytest.mark.modes),
        ("10.0.0.0/8", "127.0.0.1"),
        ("127.0.0.0/8, 10.0.0.7", "198.51.100.9"),
    ],
)
def test_who_says_where_a_request_comes_from_must_be_trusted(
    tmp_path: Path, trusted: str, told: str
) -> None:
    settings = _settings(tmp_path, trusted_proxies=trusted, management_tokens=["boss"])
    with serving(settings) as address:
        headers = {
            "authorization": "Bearer boss",
            "x-forwarded-for": "203.0.113.1, 198.51.100.9, 10.0.0.7",
        }
        body = {"name": "sales", "options": {}}
        made = plain_http.post(f"{address}/v1/main/databases", json=body, headers=headers)
        assert made.is_success
        feed = plain_http.get(f"{address}/management/v1/events", headers=headers)
    (event,) = [each for each in feed.json()["events"] if each["type"] == "createDatabase"]
    assert event["address"] == told


def test_a_proxy_that_is_no_address_is_told() -> None:
    with pytest.raises(Invalid, match=r"proxy\.example.*write 10\.0\.0\.7"):
        load_settings({"trusted_proxies": "proxy.example"})


def test_a_server_reads_outside_its_warehouses_only_where_it_may(tmp_path: Path) -> None:
    """Its rights are not its callers'."""
    table = Identifier("sales", "orders")
    columns = pa.schema([("id", pa.int64())])
    for name in ("shared", "private"):
        with connect(tmp_path / name) as lake:
            lake.create_database("sales")
            lake.create_table("sales.orders", schema=columns)
    orders = Path("warehouse", "sales.db", "orders")
    places = {name: tmp_path / name / orders for name in ("shared", "private")}
    allowed = {"external_locations": f"s3://bucket/place, {tmp_path}/shared"}
    settings = load_settings(_settings(tmp_path, **allowed))
    with open_database(settings) as database:
        catalog = catalogs_on(database, settings)["main"]
        catalog.databases.create("sales")
        for refused in (str(places["private"]), "s3://bucket/elsewhere/t"):
            with pytest.raises(Forbidden, match="HEADWATER_EXTERNAL_LOCATIONS"):
                catalog.tables.register(table, refused)
            with pytest.raises(Forbidden, match="HEADWATER_EXTERNAL_LOCATIONS"):
                catalog.tables.create(table, Schema((), options={"path": refused}))
        assert catalog.tables.list("sales").items == ()
        catalog.tables.register(table, str(places["shared"]))
        assert catalog.tables.get(table).is_external
        # Nothing is read of a table whose columns are given, and nothing written.
        given = Identifier("sales", "given")
        asked = pa.schema([("other", pa.string())])
        catalog.tables.create(
            given, Schema.from_arrow(asked, options={"path": str(places["private"])})
        )
        change = AddColumn(("extra",), parse_type("INT"))
        with pytest.raises(Forbidden, match="HEADWATER_EXTERNAL_LOCATIONS"):
            catalog.tables.alter(given, [change])
        assert [field.name for field in catalog.tables.get(given).schema.fields] == ["other"]
        assert not (places["private"] / "schema" / "schema-1").exists()
        catalog.tables.alter(table, [change])
        assert (places["shared"] / "schema" / "schema-1").exists()
    settings = load_settings(_settings(tmp_path))
    with open_database(settings) as database:
        other = catalogs_on(database, settings)["other"]
        with pytest.raises(Forbidden, match="neither reads nor writes at"):
            other.tables.register(table, str(places["shared"]))
