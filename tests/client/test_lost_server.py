"""A program that writes to a table while its server goes: what it is told, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.client.rest import RestCatalog
from headwater.storage.commit.fate import DEFAULT_TIMEOUT_MILLIS
from headwater.storage.errors import OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from tests.client.conftest import Clock, Proxy

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def table(proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock) -> Table:
    catalog = RestCatalog(proxy.url, runtime=clock.runtime)
    return Table(catalog, catalog.tables.get(orders), clock.runtime)


def _files(behind: SqlCatalog, orders: Identifier) -> set[str]:
    location = Path(behind.tables.get(orders).path.removeprefix("file://"))
    return {str(each.relative_to(location)) for each in location.rglob("*") if each.is_file()}


def _written_when(stop: object, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    assert callable(stop)
    yield from rows.to_batches()
    stop()


def test_a_server_that_goes_while_rows_are_written_leaves_no_files(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    before = _files(behind, orders)
    rows = pa.RecordBatchReader.from_batches(ROWS.schema, _written_when(proxy.stop, ROWS))
    with pytest.raises(Unavailable, match="nothing was committed") as error:
        table.write(rows)
    assert not isinstance(error.value, OutcomeUnknown)
    assert _files(behind, orders) == before
    assert behind.snapshots.latest(orders) is None
    assert sum(clock.slept) <= DEFAULT_TIMEOUT_MILLIS / 1000


def test_a_server_that_goes_before_the_commit_is_sent_leaves_no_files(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    before = _files(behind, orders)
    proxy.meanwhile("GET /snapshot", lambda: proxy.meanwhile("GET /snapshot", proxy.stop))
    with pytest.raises(Unavailable, match=r"nothing was committed.*cannot be reached") as error:
        table.write(ROWS)
    assert not isinstance(error.value, OutcomeUnknown)
    assert _files(behind, orders) == before
    assert proxy.requests("POST", "/commit") == 0
    assert len(clock.slept) <= 20


def test_a_server_that_goes_with_the_commit_leaves_the_files(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier, clock: Clock
) -> None:
    before = _files(behind, orders)
    proxy.go("POST /commit")
    with pytest.raises(OutcomeUnknown, match="Its files are kept"):
        table.write(ROWS)
    assert proxy.requests("POST", "/commit") == 1
    # A data file, two manifest lists and a manifest.
    assert len(_files(behind, orders) - before) == 4
    assert len(clock.slept) <= 12


def test_what_the_server_does_not_say_the_files_may_tell(
    table: Table, proxy: Proxy, behind: SqlCatalog, orders: Identifier
) -> None:
    def be_lost() -> None:
        for _ in range(40):
            proxy.lose_answer("POST /commit")
            proxy.lose_request("GET /snapshot")

    # The writer asks for the latest snapshot, and the commit does.
    proxy.meanwhile("GET /snapshot", lambda: proxy.meanwhile("GET /snapshot", be_lost))
    assert table.write(ROWS) is not None
    here = Table(behind, behind.tables.get(orders))
    assert here.scan().to_arrow().sort_by("id")["id"].to_pylist() == [1, 2, 3]
