"""The reference: the statements that decide a commit, and a look-up, issued with bare psycopg.

They run on the tables and indexes of a catalog of their own, with the same values. Beyond them a
commit of the server's also writes the table's files, settles its outbox and speaks HTTP.
"""

from __future__ import annotations

import json
import uuid

import psycopg

from benchmarks.rest.headwater import WAREHOUSE, snapshot, statistics

__all__ = ["BareCommitter", "BareLookup"]

_FIND = """
SELECT t.id, t.path, b.schema_id, b.snapshot_id, b.snapshot_uuid,
    EXISTS (SELECT 1 FROM hw_outbox o WHERE o.table_id = b.table_id AND o.branch = b.branch)
FROM hw_tables t
JOIN hw_databases d ON d.id = t.database_id
JOIN hw_branches b ON b.table_id = t.id
WHERE d.warehouse = %s AND d.name = %s AND t.name = %s AND b.branch = 'main'
"""
_MOVE = """
UPDATE hw_branches SET snapshot_id = %s, snapshot_uuid = %s
WHERE table_id = %s AND branch = 'main' AND snapshot_id = %s
    AND snapshot_uuid IS NOT DISTINCT FROM %s
"""
_SIZES = """
SELECT record_count, file_size_in_bytes, file_count, last_file_creation_time
FROM hw_snapshots WHERE table_id = %s AND branch = 'main' AND snapshot_id = %s
"""
_INSERT = """
INSERT INTO hw_snapshots (table_id, branch, snapshot_id, uuid, document, commit_user,
    commit_identifier, commit_kind, record_count, file_size_in_bytes, file_count,
    last_file_creation_time, statistics)
VALUES (%s, 'main', %s, %s, %s, %s, %s, 'APPEND', %s, %s, %s, %s, %s)
"""
_PARTITION = """
SELECT record_count, file_size_in_bytes, file_count, last_file_creation_time
FROM hw_partitions WHERE table_id = %s AND branch = 'main' AND spec_key = %s
"""
_GROW = """
UPDATE hw_partitions SET record_count = %s, file_size_in_bytes = %s, file_count = %s,
    last_file_creation_time = %s, updated_at = %s
WHERE table_id = %s AND branch = 'main' AND spec_key = %s
"""
_OUTBOX = """
INSERT INTO hw_outbox (warehouse, table_id, branch, action, number, path, created_at)
VALUES (%s, %s, 'main', 'snapshot', %s, '', %s)
"""
_SETTLED = "DELETE FROM hw_outbox WHERE table_id = %s AND branch = 'main'"
_LATEST = """
SELECT s.document, s.record_count, s.file_size_in_bytes, s.file_count, s.last_file_creation_time
FROM hw_snapshots s WHERE s.table_id = %s AND s.branch = 'main' AND s.snapshot_id = %s
"""


class BareCommitter:
    """Commits to one table, each snapshot on top of the one before, without a server.

    The table has at least one snapshot already, and its partition.

    Args:
        url: The database's.
        database: The table's database.
        table: Its name.
    """

    def __init__(self, url: str, database: str, table: str) -> None:
        self._connection = psycopg.connect(url)
        self._name = (WAREHOUSE, database, table)
        with self._connection.transaction():
            key = self._connection.execute(
                "SELECT spec_key FROM hw_partitions p JOIN hw_tables t ON t.id = p.table_id "
                "JOIN hw_databases d ON d.id = t.database_id WHERE d.name = %s AND t.name = %s",
                (database, table),
            ).fetchone()
        assert key is not None
        self._key = key[0]

    def __call__(self) -> None:
        """Commit once."""
        run = self._connection.execute
        with self._connection.transaction():
            found = run(_FIND, self._name).fetchone()
            assert found is not None
            table_id, _, _, snapshot_id, base, _ = found
            name = str(uuid.uuid4())
            run(_MOVE, (snapshot_id + 1, name, table_id, snapshot_id, base))
            sizes = run(_SIZES, (table_id, snapshot_id)).fetchone()
            assert sizes is not None
            made = snapshot(snapshot_id + 1, name)
            document = json.dumps(made, indent=2)
            author = (made["commitUser"], made["commitIdentifier"])
            values = (table_id, snapshot_id + 1, name, document, *author, *sizes)
            run(_INSERT, (*values, json.dumps([statistics()])))
            partition = run(_PARTITION, (table_id, self._key)).fetchone()
            assert partition is not None
            run(_GROW, (*partition, made["timeMillis"], table_id, self._key))
            run(_OUTBOX, (WAREHOUSE, table_id, snapshot_id + 1, made["timeMillis"]))
            # What a second transaction of the server's does: the table would be full of it.
            run(_SETTLED, (table_id,))

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


class BareLookup:
    """Looks one table up by its name.

    Args:
        url: The database's.
        database: The table's database.
        table: Its name.
    """

    def __init__(self, url: str, database: str, table: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._name = (WAREHOUSE, database, table)

    def __call__(self) -> None:
        """Look once."""
        assert self._connection.execute(_FIND, self._name).fetchone() is not None

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()
