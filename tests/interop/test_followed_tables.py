"""A table that follows a database has the rows that other clients read."""

from __future__ import annotations

import pytest
from tests.cdc.source_logs import SourceServer
from tests.conftest import mariadb_server

from headwater.client.lake import Lake

from .conftest import Client
from .java_client import JavaClient

_TABLE = "interop_followed.orders"
_COLUMNS = ["id", "total", "customer", "placed", "paid", "weight", "city", "amount"]
_SETTINGS = ("--log-bin=log", "--server-id=1", "--binlog-format=ROW", "--binlog-row-metadata=FULL")
_BEFORE = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(40), gone INT, "
    "price DECIMAL(10, 2), placed DATETIME(6), paid BOOLEAN, weight DOUBLE, amount INT)",
    "INSERT INTO orders SELECT seq, CONCAT('Müller ', seq), seq, seq / 7, "
    "'2024-02-29 12:00:00.123456' + INTERVAL seq HOUR, seq % 2, IF(seq % 3, seq / 3, NULL), seq "
    "FROM seq_1_to_2000",
)
_WHILE_FOLLOWED = (
    "UPDATE orders SET customer = '東京', weight = NULL WHERE id % 5 = 0",
    "DELETE FROM orders WHERE id BETWEEN 100 AND 199",
    "UPDATE orders SET id = id + 10000 WHERE id > 1990",
    "ALTER TABLE orders RENAME COLUMN price TO total, DROP COLUMN gone, "
    "ADD COLUMN city VARCHAR(20) DEFAULT 'Basel' AFTER weight, MODIFY amount BIGINT",
    "INSERT INTO orders VALUES (1, 'again', 12345678.99, NULL, 1, -0.5, '', 5000000000) "
    "ON DUPLICATE KEY UPDATE customer = 'again', amount = 5000000000",
    "ALTER TABLE orders MODIFY total DECIMAL(10, 2) AFTER id",
)


@pytest.fixture(scope="module")
def source_rows(lake: Lake) -> list[tuple[object, ...]]:
    """The source's rows, which the table of the lake has followed."""
    lake.create_database("interop_followed", ignore_if_exists=True)
    with mariadb_server(*_SETTINGS) as server:
        source = SourceServer(server.url, server.data, "shop")
        for statements in (_BEFORE, _WHILE_FOLLOWED):
            source.run(*statements)
            pipeline = lake.cdc.mysql(
                source=f"mysql://{source.login['user']}@{source.address}",
                include=["shop.*"],
                target="interop_followed",
                name="interop",
                once=True,
            )
            assert pipeline.wait()
        return source.select("SELECT * FROM orders ORDER BY id")


def test_clients_read_what_the_source_has(
    client: Client | JavaClient, source_rows: list[tuple[object, ...]]
) -> None:
    rows = client.read(_TABLE).sort_by("id")
    assert rows.column_names == _COLUMNS
    assert list(zip(*(column.to_pylist() for column in rows.columns), strict=True)) == source_rows
    assert len(source_rows) == 1900
