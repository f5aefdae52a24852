"""The tables of a server that hands out data tokens, on an S3-compatible store."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from tests.client.conftest import Proxy
from tests.conftest import NewSqlite

from headwater.catalog.sql import SqlCatalog
from headwater.client import connect
from headwater.storage.errors import HeadwaterError, Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

HOUR = 3_600_000
TOKEN = "db/tables/t/token"
ROWS = pa.table({"id": list(range(50)), "v": [f"v{i}" for i in range(50)]})


@dataclass
class Clock:
    """A clock that can be put forward."""

    ahead: int = 0

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            lambda: SYSTEM_RUNTIME.now_millis() + self.ahead,
            SYSTEM_RUNTIME.new_uuid,
            lambda seconds: None,
            monotonic=lambda: SYSTEM_RUNTIME.monotonic() + self.ahead / 1000,
        )


@pytest.fixture
def address(
    s3_endpoint: str, tmp_path: Path, new_sqlite: NewSqlite, serve: Callable[..., str]
) -> Iterator[str]:
    """A server whose tables are on the store; it alone knows where that is, and its keys."""
    url = new_sqlite(tmp_path / "headwater.db")
    options = {"s3.endpoint": s3_endpoint, "s3.access-key": "test", "s3.secret-key": "test"}
    options["s3.sts.role-arn"] = "arn:aws:iam::123456789012:role/lake"
    behind = SqlCatalog.open(
        url, warehouse="main", location="s3://lake/warehouse", storage_options=options
    )
    yield serve(behind, data_token_seconds=4 * 3600)
    behind.close()


def test_the_table_is_reached_with_its_token(proxy: Proxy) -> None:
    with connect(proxy.url) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema, primary_keys=["id"], options={"bucket": "2"})
        table.write(ROWS)
        table.delete("id < 10")
        table.compact()
        assert table.scan().count() == 40
        assert proxy.requests("GET", TOKEN) == 1
        assert "s3.access-key" not in lake.catalog.storage_options


def test_a_warehouse_whose_folder_is_gone_is_not_made_anew(
    new_sqlite: Callable[[Path], str], tmp_path: Path, serve: Callable[..., str]
) -> None:
    """A token reaches a folder of this machine, too, whose disk may not be mounted."""
    url, folder = new_sqlite(tmp_path / "headwater.db"), tmp_path / "warehouse"
    with (
        closing(SqlCatalog.open(url, warehouse="main", location=str(folder))) as catalog,
        connect(serve(catalog, data_token_seconds=4 * 3600)) as lake,
    ):
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema)
        table.write(ROWS)
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(Unavailable, match="is missing, and nothing is written"):
            table.write(ROWS)
        assert not folder.exists()
        (tmp_path / "elsewhere").rename(folder)
        table.write(ROWS)
        assert table.scan().count() == 100


def test_a_token_is_renewed_an_hour_before_it_expires(proxy: Proxy) -> None:
    clock = Clock()
    with connect(proxy.url, runtime=clock.runtime) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema)
        for ahead, tokens in ((0, 1), (2 * HOUR, 1), (3 * HOUR + 1000, 2), (3 * HOUR + 2000, 2)):
            clock.ahead = ahead
            table.write(ROWS)
            assert proxy.requests("GET", TOKEN) == tokens
        assert table.scan().count() == 4 * ROWS.num_rows


def test_a_token_serves_until_it_expires_when_no_other_can_be_had(proxy: Proxy) -> None:
    clock = Clock()
    with connect(proxy.url, runtime=clock.runtime) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema)
        table.write(ROWS)
        scan = table.scan()
        clock.ahead = 3 * HOUR + 1000
        proxy.reply(f"GET {TOKEN}", 403, '{"message": "not now", "code": 403}')
        assert scan.count() == ROWS.num_rows
        assert scan.to_arrow().num_rows == ROWS.num_rows
        assert proxy.requests("GET", TOKEN) == 2
        clock.ahead = 5 * HOUR
        proxy.reply(f"GET {TOKEN}", 403, '{"message": "not now", "code": 403}')
        with pytest.raises(HeadwaterError, match="not now"):
            table.scan().to_arrow()


_WORKER = """
import pickle, sys
from headwater.storage.read.split import read_split
with open(sys.argv[1], "rb") as file:
    storage, splits = pickle.load(file)
print(sum(batch.num_rows for split in splits for batch in read_split(storage, split)))
print("headwater.client" in sys.modules)
"""


def test_workers_use_the_drivers_token(proxy: Proxy, tmp_path: Path) -> None:
    with connect(proxy.url) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema, primary_keys=["id"], options={"bucket": "2"})
        table.write(ROWS)
        work = tmp_path / "work"
        work.write_bytes(pickle.dumps((table.storage, table.scan().splits)))
        asked = proxy.requests("GET", TOKEN)
        done = subprocess.run(
            [sys.executable, "-c", _WORKER, str(work)], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [str(ROWS.num_rows), "False"]
        assert proxy.requests("GET", TOKEN) == asked


def test_workers_renew_the_drivers_token(proxy: Proxy) -> None:
    with connect(proxy.url) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema)
        # Never used before it is pickled, so that it holds no token yet.
        files = pickle.loads(pickle.dumps(lake.table("db.t").storage.files))
        table.write(ROWS)
        asked = proxy.requests("GET", TOKEN)
        assert files.exists(f"{table.info.path}/snapshot/snapshot-1")
        assert proxy.requests("GET", TOKEN) == asked + 1


def test_a_token_is_waited_for_when_there_is_none(proxy: Proxy) -> None:
    """As long as the table says; while a token still holds, not for long."""
    clock = Clock()
    with connect(proxy.url, runtime=clock.runtime) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", ROWS.schema, options={"commit.timeout": "1 min"})
        table.write(ROWS)
        snapshot = f"{table.info.path}/snapshot/snapshot-1"
        for ahead, lost, expected in ((3 * HOUR + 1000, 50, 5), (5 * HOUR, 10, 11)):
            clock.ahead = ahead
            proxy.faults.clear()
            for _ in range(lost):
                proxy.lose_request(f"GET {TOKEN}")
            before = proxy.requests("GET", TOKEN)
            assert table.storage.files.exists(snapshot)
            assert proxy.requests("GET", TOKEN) == before + expected
