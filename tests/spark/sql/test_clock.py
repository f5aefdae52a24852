"""Procedures of a driver whose clock is ahead delete what is old by the server's clock alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import NewSqlite
from tests.spark.sql.conftest import WITHOUT_SPARK

from headwater.catalog.sql import SqlCatalog
from headwater.client import Lake
from headwater.client import connect as connect_client
from headwater.client.connect import DATABASE_FILE
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.connection import Connection
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.session import run_statement
from headwater.spark.sql.statement import split_statements
from headwater.storage.errors import Invalid
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.runtime import SYSTEM_RUNTIME

MONTH = 30 * 86_400_000
OPTIONS = {"bucket": "-1", "write-only": "true", "snapshot.num-retained.min": "1"}


def test_procedures_go_by_the_earlier_clock(
    tmp_path: Path, new_sqlite: NewSqlite, serve: Callable[[SqlCatalog], str]
) -> None:
    url = new_sqlite(tmp_path / DATABASE_FILE)
    behind = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    with Lake(behind, behind.runtime) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", pa.schema([("id", pa.int64())]), options=OPTIONS)
        for number in range(3):
            table.write({"id": [number]})
        table.create_tag("kept", 1, retained=timedelta(days=3))
        place = Path(table.info.path.removeprefix("file://"))
        Path(place, "bucket-0", "data-x-0.parquet").write_bytes(b"orphan")
        address = serve(behind)
        ahead = replace(SYSTEM_RUNTIME, now_millis=lambda: SYSTEM_RUNTIME.now_millis() + MONTH)
        with connect_client(address, runtime=ahead) as driver:
            session = CatalogSession(WITHOUT_SPARK, Connection(address), driver, LocalExecutor(2))
            context = SqlContext(session, "db")

            def call(text: str) -> list[list[object]]:
                (statement,) = split_statements(f"CALL sys.{text}")
                found = run_statement(statement, context)
                assert isinstance(found, pa.Table)
                return [list(row.values()) for row in found.to_pylist()]

            def at(days: int) -> str:
                moment = datetime.now() + timedelta(days=days)
                return moment.isoformat(" ", "seconds")

            gone = f"expire_snapshots(table => 't', retain_min => 1, older_than => '{at(-1)}')"
            assert call(gone) == [[0]]
            # That is past by the driver's clock, and to come by the server's.
            to_come = f"expire_snapshots(table => 't', retain_min => 1, older_than => '{at(9)}')"
            with pytest.raises(Invalid, match="before now"):
                call(to_come)
            assert call("expire_tags(table => 't')") == [["No expired tags."]]
            assert call("remove_orphan_files(table => 't')") == [[0, 0]]
        assert len(table.snapshots()) == 3
        assert [each.name for each in table.tags()] == ["kept"]
        assert Path(place, "bucket-0", "data-x-0.parquet").exists()
