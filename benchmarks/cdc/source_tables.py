"""The tables whose changes are measured, and the statements that make the changes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cdc.mariadb import MariaDB

DATABASE = "bench"
_MIXED_COLUMNS = """(
    id BIGINT PRIMARY KEY,
    customer INT UNSIGNED NOT NULL,
    priority TINYINT NOT NULL,
    status ENUM('new', 'paid', 'packed', 'shipped') NOT NULL,
    amount DECIMAL(12, 2) NOT NULL,
    weight DOUBLE,
    created DATETIME(6) NOT NULL,
    updated TIMESTAMP NULL,
    name VARCHAR(80) CHARACTER SET utf8mb4 NOT NULL,
    note TEXT CHARACTER SET utf8mb4
)"""
_MAX_AT_ONCE = 100_000
_MIN_INSERTS = 20


def create_mixed_table(server: MariaDB, table: str = "t") -> None:
    """Make a new table with 10 mixed columns."""
    server.run(
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"CREATE OR REPLACE TABLE {DATABASE}.{table} {_MIXED_COLUMNS}",
    )


def insert_mixed_rows(server: MariaDB, rows: int, table: str = "t") -> Path:
    """Fill an empty table with 10 mixed columns, by 20 transactions at least.

    Returns:
        A complete log file, which has these rows and nothing else.
    """
    log_file = server.next_log_file()
    size = min(_MAX_AT_ONCE, -(-rows // _MIN_INSERTS))
    for first in range(0, rows, size):
        last = min(first + size, rows) - 1
        server.run(
            f"INSERT INTO {DATABASE}.{table} SELECT seq, seq * 7919 % 50000, "
            "CAST(seq % 200 AS SIGNED) - 100, seq % 4 + 1, seq * 37 % 100000000 / 100, "
            "IF(seq % 5, seq / 3, NULL), '2024-01-01' + INTERVAL seq * 1000003 MICROSECOND, "
            "IF(seq % 7, FROM_UNIXTIME(1700000000 + seq), NULL), "
            "CONCAT('customer ', seq * 7919 % 50000, ' Müller'), "
            f"IF(seq % 3, CONCAT('note ', seq), NULL) FROM {DATABASE}.seq_{first}_to_{last}"
        )
    server.next_log_file()
    return log_file


def update_rows_one_by_one(server: MariaDB, transactions: int, table: str) -> Path:
    """Update one row of a table in each of many transactions.

    Returns:
        A complete log file, which has these transactions and nothing else.
    """
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {DATABASE}.{table}")
        ((rows,),) = cursor.fetchall()
        # A procedure, so that the statements' way to the server takes no time.
        cursor.execute(
            f"CREATE OR REPLACE PROCEDURE {DATABASE}.change_rows(first INT, last INT) "
            "FOR number IN first .. last DO "
            f"UPDATE {DATABASE}.{table} SET amount = amount + 1, note = CONCAT('change ', number) "
            f"WHERE id = number * 7919 % {rows}; END FOR"
        )
        log_file = server.next_log_file()
        cursor.execute(f"CALL {DATABASE}.change_rows(1, {transactions})")
    server.next_log_file()
    return log_file
