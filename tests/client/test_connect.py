"""Connecting to a folder, a SQL database and a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import headwater.client
from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE, WAREHOUSE_FOLDER
from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable

SCHEMA = pa.schema([("id", pa.int64())])
KEYED = pa.schema([pa.field("name", pa.string(), nullable=False), ("id", pa.int64())])
KEYED_OPTIONS = {"bucket": "1", "write-only": "true"}


def _use(lake: Lake) -> str:
    """Make a table and write to it; its path."""
    with lake:
        lake.create_database("sales")
        table = lake.create_table("sales.orders", SCHEMA)
        table.write(pa.table({"id": [1, 2]}, schema=SCHEMA))
        return table.info.path


def test_a_folder_is_a_catalog(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "lake"
    path = _use(connect(folder))
    assert sorted(item.name for item in folder.iterdir() if "db-" not in item.name) == [
        DATABASE_FILE,
        WAREHOUSE_FOLDER,
    ]
    assert path == f"file://{folder}/{WAREHOUSE_FOLDER}/sales.db/orders"
    for target in (folder, str(folder), f"file://{folder}", f"{folder}/"):
        with connect(target) as again:
            assert again.warehouse == "main"
            assert again.table("sales.orders").scan().count() == 2


def test_a_folder_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _use(connect("./lake")).startswith(f"file://{tmp_path}/lake/")
    monkeypatch.chdir("/")
    with connect(tmp_path / "lake") as lake:
        assert lake.table("sales.orders").scan().count() == 2


def test_a_database_named_like_the_file_is_no_trouble(tmp_path: Path) -> None:
    with connect(tmp_path) as lake:
        lake.create_database("headwater")
        lake.create_table("headwater.t", SCHEMA).write(pa.table({"id": [1]}, schema=SCHEMA))
        assert lake.table("headwater.t").scan().count() == 1


def test_a_sql_database_is_a_catalog(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    path = _use(connect(url, location=tmp_path / "files", warehouse="other"))
    assert path == f"file://{tmp_path}/files/sales.db/orders"
    with connect(url, location=tmp_path / "files", warehouse="other") as lake:
        assert lake.list_tables("sales") == ["orders"]


@pytest.mark.postgresql
def test_postgresql_is_a_catalog(
    tmp_path: Path, new_postgresql_database: Callable[[], str]
) -> None:
    url = new_postgresql_database()
    _use(connect(url, location=tmp_path / "files"))
    with connect(url, location=tmp_path / "files") as lake:
        assert lake.table("sales.orders").scan().count() == 2


def test_a_server_is_a_catalog(address: str, tmp_path: Path) -> None:
    assert _use(connect(address, warehouse="main")) == f"file://{tmp_path}/lake/sales.db/orders"
    with connect(f"{address}/") as lake:
        assert lake.warehouse == "main"
        assert lake.table("sales.orders").scan().count() == 2


def test_a_catalog_is_shared_by_both_doors(tmp_path: Path, serve: Callable[..., str]) -> None:
    with connect(tmp_path) as embedded, connect(serve(embedded.catalog)) as served:
        embedded.create_database("sales")
        table = served.create_table("sales.orders", SCHEMA)
        table.write(pa.table({"id": [1]}, schema=SCHEMA))
        embedded.table("sales.orders").write(pa.table({"id": [2]}, schema=SCHEMA))
        read = served.table("sales.orders").scan().to_arrow()
        assert sorted(read["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("target", "arguments", "sentence"),
    [
        ("{folder}", {"token": "x"}, "token= cannot be used"),
        ("{folder}", {"location": "/x"}, "location= cannot be used"),
        ("http://localhost:1", {"location": "/x"}, "location= cannot be used"),
        ("sqlite:///{folder}/x.db", {}, "needs location="),
        ("sqlite:///{folder}/x.db", {"location": "/x", "token": "x"}, "token= cannot be used"),
        ("s3://bucket/lake", {}, "needs a database"),
        ("sqlite://", {"location": "/x"}, "sqlite:///"),
        ("{folder}/file", {}, "is a file"),
        ("{folder}", {"warehouse": "a/b"}, "not a warehouse name"),
        ("{folder}", {"warehouse": ""}, "not a warehouse name"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    tmp_path: Path, target: str, arguments: dict[str, str], sentence: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match=sentence):
        connect(target.format(folder=tmp_path), **arguments)  # type: ignore[arg-type]


def test_what_is_wrong_shows_at_once(
    address: str, behind: object, serve: Callable[..., str]
) -> None:
    with pytest.raises(NotFound, match="'other'"):
        connect(address, warehouse="other")
    guarded = serve(behind, tokens=["right"])
    with pytest.raises(Forbidden, match="token"):
        connect(guarded)
    connect(guarded, token="right").close()
    with pytest.raises(Unavailable, match=r"http://catalog\.invalid cannot be reached"):
        connect("http://catalog.invalid")


def test_the_package_says_what_it_gives() -> None:
    assert sorted(headwater.client.__all__) == ["Lake", "RestCatalog", "connect"]


_LOOK = """
import sys
from headwater.client import connect
with connect(sys.argv[1]) as lake:
    table = lake.table("sales.keyed")
    assert table.scan().to_arrow().num_rows == 3
    table.compact()
there = {"alembic", "httpx", "pandas", "pydantic", "sqlalchemy", "sqlglot"}
print(*sorted(there & {*sys.modules}))
"""


@pytest.mark.modes
def test_a_process_imports_what_its_catalog_needs(
    tmp_path: Path, serve: Callable[..., str]
) -> None:
    with connect(tmp_path) as lake:
        lake.create_database("sales")
        keyed = lake.create_table(
            "sales.keyed", KEYED, primary_keys=["name"], options=KEYED_OPTIONS
        )
        # Two runs, with a key in common, are merged.
        keyed.write({"name": ["a", "b"], "id": [1, 2]})
        keyed.write({"name": ["b", "c"], "id": [3, 4]})
        address = serve(lake.catalog)
        imported = {
            target: subprocess.run(
                [sys.executable, "-c", _LOOK, target], capture_output=True, text=True, check=True
            ).stdout.split()
            for target in (str(tmp_path), address)
        }
    assert imported == {
        str(tmp_path): ["pydantic", "sqlalchemy"],
        address: ["httpx", "pydantic"],
    }


@pytest.mark.parametrize("name", ["s3.reigon", "s3.region ", "", "s3.region\0", "fs.oss.endpoint"])
def test_options_that_nothing_reads_are_rejected(tmp_path: Path, name: str) -> None:
    for target in (tmp_path / "lake", "http://127.0.0.1:1"):
        with pytest.raises(Invalid, match="the storage option") as rejected:
            connect(target, options={name: "hidden"})
        assert "s3.endpoint" in rejected.value.message
        assert "hidden" not in rejected.value.message
    with pytest.raises(Invalid, match="must not contain blanks"):
        connect("http://127.0.0.1:1", options={"header.x y": "z"})
