"""A table is replaced while others write to it: what it says it holds is what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.storage.errors import Conflict
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema

NAME = Identifier("sales", "log")
WRITERS, WRITES, REPLACEMENTS = 3, 4, 3
SCHEMA = Schema.from_arrow(pa.schema([("n", pa.int64())]), options={"commit.max-retries": "50"})


@pytest.fixture
def catalog(migrated_url: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    with closing(opened) as catalog:
        catalog.databases.create(NAME.database)
        catalog.tables.create(NAME, SCHEMA)
        yield catalog


def _write(catalog: SqlCatalog, writer: int) -> None:
    for number in range(WRITES):
        while True:
            table = Table(catalog, catalog.tables.get(NAME))
            try:
                table.write(pa.table({"n": [100 * writer + number]}))
            except Conflict:
                continue  # the table got another schema meanwhile
            break


def _replace(catalog: SqlCatalog) -> None:
    for _ in range(REPLACEMENTS):
        catalog.tables.replace(NAME, SCHEMA)


def _alter(catalog: SqlCatalog) -> None:
    for number in range(REPLACEMENTS):
        catalog.tables.alter(NAME, [SetOption("my-option", str(number))])


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_table_is_replaced_under_its_writers(catalog: SqlCatalog) -> None:
    with ThreadPoolExecutor(WRITERS + 2) as pool:
        running = [pool.submit(_write, catalog, writer) for writer in range(WRITERS)]
        running += [pool.submit(_replace, catalog), pool.submit(_alter, catalog)]
        for done in running:
            done.result()
    history = list(catalog.snapshots.list(NAME).items)[::-1]
    assert [snapshot.id for snapshot in history] == list(range(1, len(history) + 1))
    appended = [snapshot for snapshot in history if snapshot.commit_kind == "APPEND"]
    assert len(appended) == WRITERS * WRITES
    emptied = [at for at, snapshot in enumerate(history) if snapshot.commit_kind == "OVERWRITE"]
    # A replacement of a table that held nothing yet needs no snapshot.
    assert len(emptied) <= REPLACEMENTS
    last = max(emptied, default=-1)
    latest = catalog.snapshots.latest(NAME)
    assert latest is not None
    held = Table(catalog, catalog.tables.get(NAME)).scan().to_arrow().num_rows
    assert held == latest.record_count == latest.file_count == len(history) - last - 1
    # Every replacement and every change is a version of its own.
    assert catalog.tables.get(NAME).schema.id == 2 * REPLACEMENTS
