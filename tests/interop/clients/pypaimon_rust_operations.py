"""Calls every operation that pypaimon-rust has, by SQL: one JSON request, one answer."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext


class Sql:
    """Runs statements in the database ``other``."""

    def __init__(self, options: dict[str, str]) -> None:
        self._context = SQLContext()
        self._context.register_catalog("paimon", options)

    def enter(self) -> None:
        self._context.set_current_catalog("paimon")
        self._context.set_current_database("other")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        batches = self._context.sql(statement)
        rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist() if batches else []
        return rows

    def values(self, statement: str) -> list[Any]:
        """The first column."""
        return sorted(next(iter(row.values())) for row in self.rows(statement))

    def refused(self, statement: str) -> str:
        """What the client says of a statement that fails."""
        try:
            self._context.sql(statement)
        except ValueError as error:
            return str(error).removeprefix("External error: ")
        raise AssertionError(f"this was not refused: {statement}")


def databases(sql: Sql) -> object:
    sql.rows("CREATE DATABASE paimon.other")
    sql.rows("CREATE DATABASE paimon.another")
    listed = sql.values("SHOW DATABASES")
    sql.rows("DROP DATABASE paimon.another")
    sql.enter()
    return [
        listed,
        sql.refused("CREATE DATABASE paimon.other"),
        sql.refused("DROP DATABASE paimon.another"),
    ]


def tables(sql: Sql) -> object:
    sql.rows("CREATE TABLE old (id BIGINT NOT NULL, v INT, PRIMARY KEY (id)) WITH ('bucket'='1')")
    for change in (
        "ADD COLUMN extra INT",
        "RENAME COLUMN extra TO more",
        "ALTER COLUMN more TYPE BIGINT",
        "ALTER COLUMN v DROP NOT NULL",
        "SET TBLPROPERTIES ('snapshot.num-retained.max' = '20')",
        "RENAME TO numbers",
    ):
        sql.rows(f"ALTER TABLE paimon.other.old {change}")
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'numbers'"
    found = [sql.values(columns)]
    sql.rows("ALTER TABLE paimon.other.numbers DROP COLUMN more")
    return [
        *found,
        sql.values(columns),
        sql.refused("ALTER TABLE paimon.other.numbers DROP COLUMN id"),
    ]


def snapshots(sql: Sql) -> object:
    for number in (1, 2, 3):
        sql.rows(f"INSERT INTO numbers VALUES ({number}, {number * 10})")
    found = [sql.values("SELECT id FROM numbers")]
    sql.rows("CALL sys.create_tag(table => 'other.numbers', tag => 'first', snapshot_id => 1)")
    for version in ("snapshot_id => 2", "tag => 'first'"):
        sql.rows(f"CALL sys.rollback_to(table => 'other.numbers', {version})")
        found.append(sql.values("SELECT id FROM numbers"))
    missing = "CALL sys.rollback_to(table => 'other.numbers', snapshot_id => 9)"
    return [found, sql.refused(missing).split(":")[0]]


def views(sql: Sql) -> object:
    sql.rows("CREATE VIEW recent AS SELECT id FROM numbers")
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'other'"
    found = [sql.values("SELECT * FROM recent"), sql.values(listed)]
    again = sql.refused("CREATE VIEW recent AS SELECT 1 AS one")
    sql.rows("DROP VIEW recent")
    return [found, again, sql.refused("DROP VIEW recent")]


def functions(sql: Sql) -> object:
    sql.rows("CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x * 2")
    return sql.values("SELECT twice(id) FROM numbers")


def partitions(sql: Sql) -> object:
    """Of a format table, whose partitions the catalog keeps."""
    # pypaimon-rust 0.4.0 writes to such a table only if its partition keys come first.
    sql.rows(
        "CREATE TABLE logs (dt STRING, id INT) PARTITIONED BY (dt) WITH ('type' = 'format-table',"
        " 'file.format' = 'parquet', 'metastore.partitioned-table' = 'true')"
    )
    sql.rows("ALTER TABLE paimon.other.logs ADD PARTITION (dt = 'a') PARTITION (dt = 'b')")
    listed = "SHOW PARTITIONS paimon.other.logs"
    found = [sql.values(listed), sql.values(f"{listed} PARTITION (dt = 'a')")]
    sql.rows("INSERT INTO logs (dt, id) VALUES ('a', 10), ('c', 11)")
    for condition in ("dt = 'a'", "dt > 'a'", "dt IN ('b', 'c')"):
        found.append(sql.values(f"SELECT id FROM logs WHERE {condition}"))
    sql.rows("ALTER TABLE paimon.other.logs DROP PARTITION (dt = 'a')")
    return [*found, sql.values(listed), sql.values("SELECT id FROM logs")]


def permissions(sql: Sql) -> object:
    table = "resource_type => 'TABLE', database => 'other', table => 'logs'"
    granted = f"{table}, access => 'SELECT', principal => 'ann'"

    def listed() -> object:
        rows = sql.rows(f"CALL sys.list_permissions({table})")
        return [[row["access"], row["principal"]] for row in rows if row["principal"]]

    sql.rows(f"CALL sys.grant_permission({granted})")
    before = listed()
    sql.rows(f"CALL sys.revoke_permission({granted})")
    return [before, listed()]


def dropped(sql: Sql) -> object:
    sql.rows("DROP TABLE logs")
    missing = sql.refused("DROP TABLE logs")
    full = sql.refused("DROP DATABASE paimon.other")
    sql.rows("DROP DATABASE paimon.other CASCADE")
    return [missing, full]


AREAS = (databases, tables, snapshots, views, functions, partitions, permissions, dropped)


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    options = {
        **request,
        "metastore": "rest",
        "token.provider": "bear",
        "data-token.enabled": "true",
    }
    sql = Sql(options)
    answers = {area.__name__: area(sql) for area in AREAS}
    answers["left"] = PaimonCatalog(options).list_databases()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
