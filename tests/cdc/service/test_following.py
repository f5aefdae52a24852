"""A pipeline on either server, from its start to its stop by another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cdc.service.conftest import source_url
from tests.cdc.source_logs import SourceServer
from tests.cdc.waiting import until

from headwater.client import Lake, connect
from headwater.storage.errors import NotFound


@pytest.fixture
def following(source: SourceServer) -> Iterator[dict[str, Any]]:
    """The options of a pipeline that follows a table of two rows."""
    source.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'pen'), (2, 'cup')",
    )
    yield {
        "source": source_url(source.address),
        "include": [f"{source.database}.*"],
        "target": "lake",
        "batch_seconds": 0.2,
        "password": source.address.password,
    }
    source.run(f"DROP DATABASE {source.database}")


def count(lake: Lake) -> int:
    rows: int = lake.table("lake.orders").scan().to_arrow().num_rows
    return rows


def test_it_is_followed_watched_and_stopped(
    source: SourceServer, following: dict[str, Any], place: Path, lake: Lake
) -> None:
    password = following["password"]
    with lake.cdc.mysql(**following) as pipeline, connect(place) as other:
        until(lambda: lake.table_exists("lake.orders") and count(lake) == 2)
        source.run("INSERT INTO orders VALUES (3, 'mug')")
        until(lambda: count(lake) == 3)
        until(lambda: pipeline.status().lag_bytes == 0)
        (status,) = other.cdc.status(password=password)
        assert status.name == pipeline.name
        assert status.is_running
        assert (status.lag_seconds, status.problem) == (0.0, None)
        assert repr(status).startswith(f"Pipeline {pipeline.name}: running, 1 tables into lake")
        (table,) = status.tables
        assert (str(table.source), table.target) == (f"{source.database}.orders", "lake.orders")
        assert table.batch is not None
        assert 0 < table.batch <= status.batch
        assert table.source_time is not None
        # Where it cannot be asked, nothing is claimed.
        (status,) = other.cdc.status(password="wrong" + password)
        assert status.is_running is None
        assert status.problem is not None
        assert "rejects user" in status.problem
        other.cdc.stop(password=password)
        assert pipeline.wait()
        (status,) = other.cdc.status(password=password)
        assert status.is_running is False
        with pytest.raises(NotFound, match="no process runs pipeline"):
            other.cdc.stop(password=password)
    snapshot = lake.table("lake.cdc_state").latest_snapshot()
    assert snapshot is not None
    stored = json.dumps(lake.table("lake.cdc_state").scan().to_arrow().to_pylist())
    assert "secret" not in stored


def test_a_purged_log_is_told_and_all_tables_are_read_again(
    source: SourceServer, following: dict[str, Any], lake: Lake
) -> None:
    password = following["password"]
    lake.cdc.mysql(**following, once=True).wait()
    (before,) = lake.cdc.status(password=password)
    source.run(
        "INSERT INTO orders VALUES (3, 'mug')",
        "DELETE FROM orders WHERE id = 1",
        "FLUSH BINARY LOGS",
    )
    (*_, last) = source.select("SHOW BINARY LOGS")

    def is_purged() -> bool:
        # The server keeps a file that a reader had until it sees that the reader is gone.
        source.run(f"PURGE BINARY LOGS TO '{last[0]}'")
        return len(source.select("SHOW BINARY LOGS")) == 1

    until(is_purged)
    with pytest.raises(NotFound, match="resnapshot --all"):
        lake.cdc.mysql(**following, once=True).wait()
    assert not lake.cdc.resnapshot(password=password)
    lake.cdc.mysql(**following, once=True).wait()
    (after,) = lake.cdc.status(password=password)
    assert after.batch > before.batch + 1
    rows = lake.table("lake.orders").scan().to_arrow().sort_by("id")
    assert rows["id"].to_pylist() == [2, 3]
