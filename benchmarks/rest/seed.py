"""A catalog that has been in use for long: many tables, a long history."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from benchmarks.rest.headwater import WAREHOUSE, snapshot

__all__ = ["seed_snapshots", "seed_tables"]

_TABLES_IN_A_DATABASE = 1000


def seed_tables(url: str, location: str, count: int) -> None:
    """Put rows for so many tables, with a schema and a snapshot each, beside those that are there.

    They are copies of the first table there is; their files are not made.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        run = connection.execute
        found = run("SELECT s.document FROM hw_schemas s WHERE s.schema_id = 0 LIMIT 1").fetchone()
        assert found is not None
        run("CREATE TEMP TABLE seed_schema AS SELECT %s::text AS document", found)
        document = json.dumps(snapshot(1, "seed"), indent=2)
        run("CREATE TEMP TABLE seed_snapshot AS SELECT %s::text AS document", (document,))
        size = _TABLES_IN_A_DATABASE
        run(
            "INSERT INTO hw_databases (id, warehouse, name, location, options, created_at, "
            "updated_at) SELECT 'seed-' || i, %s, 'seed_' || i, %s || '/seed_' || i || '.db', "
            "'{}', 0, 0 FROM generate_series(0, %s) i",
            (WAREHOUSE, location, max(0, count - 1) // size),
        )
        for first in range(0, count, 100_000):
            ids = f"generate_series({first}, {min(first + 100_000, count) - 1}) i"
            run(
                "INSERT INTO hw_tables (id, database_id, name, path, is_external, created_at, "
                f"updated_at) SELECT md5(i::text), 'seed-' || i / {size}, 'table_' || i, "
                f"%s || '/seed_' || i / {size} || '.db/table_' || i, false, 0, 0 FROM {ids}",
                (location,),
            )
            run(
                "INSERT INTO hw_branches (table_id, branch, schema_id, snapshot_id, snapshot_uuid) "
                f"SELECT md5(i::text), 'main', 0, 1, 'seed' FROM {ids}"
            )
            run(
                "INSERT INTO hw_schemas (table_id, branch, schema_id, document) "
                f"SELECT md5(i::text), 'main', 0, document FROM seed_schema, {ids}"
            )
            run(
                "INSERT INTO hw_snapshots (table_id, branch, snapshot_id, uuid, document, "
                "commit_user, commit_identifier, commit_kind, record_count, file_size_in_bytes, "
                "file_count, last_file_creation_time, statistics) SELECT md5(i::text), 'main', 1, "
                f"'seed', document, 'seed', 1, 'APPEND', 1, 1, 1, 1, '[]' FROM seed_snapshot, {ids}"
            )
            run(
                "INSERT INTO hw_partitions (table_id, branch, spec_key, spec, record_count, "
                "file_size_in_bytes, file_count, last_file_creation_time, total_buckets, "
                "created_at, updated_at) SELECT md5(i::text), 'main', 'seed', "
                f'\'{{"dt": "2026-01-01"}}\', 1, 1, 1, 1, 1, 0, 0 FROM {ids}'
            )
        run("VACUUM ANALYZE")


def seed_snapshots(url: str, database: str, table: str, count: int) -> str:
    """Give a table so many snapshots after its first, files included; the uuid of the last."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT t.id, t.path FROM hw_tables t JOIN hw_databases d ON d.id = t.database_id "
            "WHERE d.name = %s AND t.name = %s",
            (database, table),
        ).fetchone()
        assert found is not None
        table_id, path = found
        directory = Path(path.removeprefix("file://"), "snapshot")
        columns = (
            "table_id, branch, snapshot_id, uuid, document, commit_user, commit_identifier, "
            "commit_kind, record_count, file_size_in_bytes, file_count, last_file_creation_time, "
            "statistics"
        )
        with connection.cursor().copy(f"COPY hw_snapshots ({columns}) FROM STDIN") as copy:
            for number in range(2, count + 2):
                document = json.dumps(snapshot(number, f"seed-{number}"), indent=2)
                (directory / f"snapshot-{number}").write_text(document)
                row = (table_id, "main", number, f"seed-{number}", document, "seed", number)
                copy.write_row((*row, "APPEND", 1000, 65_536, 4, 1_767_225_600_000, "[]"))
        connection.execute(
            "UPDATE hw_branches SET snapshot_id = %s, snapshot_uuid = %s WHERE table_id = %s",
            (count + 1, f"seed-{count + 1}", table_id),
        )
        (directory / "LATEST").write_text(str(count + 1))
        connection.execute("VACUUM ANALYZE hw_snapshots")
    return f"seed-{count + 1}"
