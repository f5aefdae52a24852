"""A table that follows a database has the rows that other clients read."""

from __future__ import annotations

import pymysql
import pytest
from sqlalchemy import make_url
from tests.conftest import mariadb_server

from headwater.client.lake import Lake

from .conftest import Client
from .java_client import JavaClient

_TABLE = "interop_followed.orders"
_COLUMNS = ["id", "total", "customer", "placed", "paid", "weight", "city", "amount"]
_SETTINGS = ("--log-bin=log", "--server-id=1", "--binlog-format=ROW", "--binlog-row-metadata=FULL")
_BEFORE = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, customer VARCHAR(40), gone INT, "
    "price DECIMAL(10, 2), placed DATETIME(6), paid BOOLEAN, weight DOUBLE, amount INT)",
    "INSERT INTO shop.orders SELECT seq, CONCAT('Müller ', seq), seq, seq / 7, "
    "'2024-02-29 12:00:00.123456' + INTERVAL seq HOUR, seq % 2, IF(seq % 3, seq / 3, NULL), seq "
    "FROM shop.seq_1_to_2000",
)
_WHILE_FOLLOWED = (
    "UPDATE shop.orders SET customer = '東京', weight = NULL WHERE id % 5 = 0",
    "DELETE FROM shop.orders WHERE id BETWEEN 100 AND 199",
    "UPDATE shop.orders SET id = id + 10000 WHERE id > 1990",
    "ALTER TABLE shop.orders RENAME COLUMN price TO total, DROP COLUMN gone, "
    "ADD COLUMN city VARCHAR(20) DEFAULT 'Basel' AFTER weight, MODIFY amount BIGINT",
    "INSERT INTO shop.orders VALUES (1, 'again', 12345678.99, NULL, 1, -0.5, '', 5000000000) "
    "ON DUPLICATE KEY UPDATE customer = 'again', amount = 5000000000",
    "ALTER TABLE shop.orders MODIFY total DECIMAL(10, 2) AFTER id",
)


@pytest.fixture(scope="module")
def source_rows(lake: Lake) -> list[tuple[object, ...]]:
    """The source's rows, which the table of the lake has followed."""
    lake.create_database("interop_followed", ignore_if_exists=True)
    with mariadb_server(*_SETTINGS) as server:
        address = make_url(server.url)
        assert address.host is not None
        assert address.port is not None
        connection = pymysql.connect(
            host=address.host, port=address.port, user=address.username, autocommit=True
        )
        with connection, connection.cursor() as cursor:
            for statements in (_BEFORE, _WHILE_FOLLOWED):
                for statement in statements:
                    cursor.execute(statement)
                pipeline = lake.cdc.mysql(
                    source=f"mysql://{address.username}@{address.host}:{address.port}",
                    include=["shop.*"],
                    target="interop_followed",
                    name="interop",
                    once=True,
                )
                assert pipeline.wait()
            cursor.execute("SELECT * FROM shop.orders ORDER BY id")
            return list(cursor.fetchall())


def test_clients_read_what_the_source_has(
    client: Client | JavaClient, source_rows: list[tuple[object, ...]]
) -> None:
    rows = client.read(_TABLE).sort_by("id")
    assert rows.column_names == _COLUMNS
    assert list(zip(*(column.to_pylist() for column in rows.columns), strict=True)) == source_rows
    assert len(source_rows) == 1900
