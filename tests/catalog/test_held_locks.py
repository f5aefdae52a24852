"""A transaction that goes no further holds up others for as long as the settings say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import DBAPIError
from tests import plain_http
from tests.catalog.databases import DATABASES

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import PoolSettings, Timeouts
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.models import BranchRow, WarehouseRow
from headwater.catalog.sql.outbox.held_files import held_files
from headwater.storage.errors import Unavailable
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import Fate

LONG = 60.0
Open = Callable[..., SqlDatabase]
_TOUCH = update(WarehouseRow).values(updated_at=WarehouseRow.updated_at + 1)

# It holds a row until it is told to go on, and says so each time that it begins.
_HOLDER = """
import sys
from sqlalchemy import update
from headwater.catalog.sql.database.drivers import PoolSettings, Timeouts
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.models import BranchRow
from headwater.storage.runtime import SYSTEM_RUNTIME

def hold(connection):
    connection.execute(update(BranchRow).values(schema_id=BranchRow.schema_id))
    print("held", flush=True)
    sys.stdin.readline()
    connection.execute(update(BranchRow).values(schema_id=BranchRow.schema_id))

timeouts = Timeouts(lock_seconds=60, idle_seconds=1)
database = SqlDatabase(open_engine(sys.argv[1], PoolSettings(timeouts=timeouts)), SYSTEM_RUNTIME)
database.write(hold)
print("done", flush=True)
"""


@pytest.fixture(params=DATABASES[1:])
def url(request: pytest.FixtureRequest) -> str:
    """A database of each kind that is a server, with the catalog's tables."""
    made: str = request.getfixturevalue(f"{request.param}_catalog")
    return made


@pytest.fixture
def connect(url: str) -> Iterator[Open]:
    """Connects to the database, with time-outs in seconds."""
    with ExitStack() as opened:

        def to(*, lock: float = LONG, idle: float = LONG, statement: float = LONG) -> SqlDatabase:
            pool = PoolSettings(timeouts=Timeouts(lock, idle, statement))
            database = SqlDatabase(open_engine(url, pool), SYSTEM_RUNTIME)
            return opened.enter_context(closing(database))

        yield to


@pytest.fixture
def catalog(
    connect: Open, tmp_path: Path, orders: Identifier, orders_schema: Schema
) -> Callable[[SqlDatabase], SqlCatalog]:
    """Opens the catalog, which has a table."""

    def on(database: SqlDatabase) -> SqlCatalog:
        return SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "lake"))

    first = on(connect())
    first.databases.create(orders.database)
    first.tables.create(orders, orders_schema)
    return on


def _hold(connection: Connection) -> None:
    connection.execute(update(BranchRow).values(schema_id=BranchRow.schema_id))


def test_an_idle_transaction_is_ended_and_others_go_on(
    connect: Open,
    catalog: Callable[[SqlDatabase], SqlCatalog],
    orders: Identifier,
    snapshot: Callable[..., Snapshot],
) -> None:
    other = catalog(connect())
    with connect(idle=1).connection() as holder:
        _hold(holder)
        offered = snapshot(1)
        assert other.snapshots.commit(orders, None, offered, None, []).decided()
        assert other.snapshots.get(orders, "LATEST") == offered
        with pytest.raises(DBAPIError):
            _hold(holder)
        holder.invalidate()


@pytest.mark.modes
def test_whoever_waits_for_too_long_is_told_so(
    connect: Open,
    catalog: Callable[[SqlDatabase], SqlCatalog],
    orders: Identifier,
    snapshot: Callable[..., Snapshot],
    serve: Callable[..., str],
) -> None:
    other = catalog(connect(lock=1))
    address = serve(other)
    path = f"{address}/v1/main/databases/{orders.database}/tables/{orders.name}/commit"
    offered = snapshot(1)
    body = f'{{"snapshot": {offered.to_json()}}}'.encode()
    with connect().connection() as holder:
        _hold(holder)
        for way in ("", "?way=ordinary"):
            refused = plain_http.post(f"{path}{way}", content=body, timeout=60)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "locked for too long" in refused.json()["message"]
            assert "nothing was changed, retry" in refused.json()["message"]
        holder.rollback()
    taken = plain_http.post(path, content=body)
    assert taken.json() == {"success": True}
    assert other.snapshots.get(orders, "LATEST") == offered


@pytest.mark.modes
def test_a_process_that_stands_still_loses_its_locks_and_begins_anew(
    url: str,
    connect: Open,
    catalog: Callable[[SqlDatabase], SqlCatalog],
    orders: Identifier,
    snapshot: Callable[..., Snapshot],
) -> None:
    other = catalog(connect())
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as frozen:
        assert frozen.stdin is not None
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "held\n"
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            assert other.snapshots.commit(orders, None, snapshot(1), None, []).decided()
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        out, _ = frozen.communicate("\n\n", timeout=60)
        assert out == "held\ndone\n"


def test_a_statement_that_takes_too_long_is_given_up(connect: Open) -> None:
    database = connect(statement=1)
    rows = "FROM information_schema.columns AS a, information_schema.columns AS b"
    statement = f"SELECT COUNT(*) {rows}, information_schema.columns AS c"
    with pytest.raises(Unavailable, match="too long"), database.read() as connection:
        connection.exec_driver_sql(statement)


def test_storage_is_not_touched_once_the_locks_are_lost(connect: Open, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"")
    _row(connect())
    with connect(idle=1).connection() as holder:
        holder.execute(update(WarehouseRow).values(updated_at=1))
        files = held_files(holder, LocalFileAccess())
        # Waits until the database has ended the other transaction.
        connect().write(lambda connection: connection.execute(_TOUCH))
        with pytest.raises(DBAPIError):
            files.delete(kept.as_uri())
        assert kept.exists()
        holder.invalidate()


class SlowFiles(LocalFileAccess):
    """A disk that is slow to delete."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def delete_tree(self, directory: str) -> None:
        self._meanwhile()


@pytest.mark.modes
def test_storage_that_takes_its_time_keeps_the_locks(connect: Open) -> None:
    _row(connect())
    other = connect(lock=3)

    def meanwhile() -> None:
        with pytest.raises(Unavailable, match="locked for too long"):
            other.write(lambda connection: connection.execute(_TOUCH))

    def work(connection: Connection) -> None:
        connection.execute(update(WarehouseRow).values(updated_at=7))
        held_files(connection, SlowFiles(meanwhile)).delete_tree("")

    connect(idle=1).write(work)
    with other.read() as connection:
        assert connection.execute(select(WarehouseRow.updated_at)).scalars().all() == [7]


class StallingFiles(LocalFileAccess):
    """A disk that stands still at the first file that it is to delete."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._left = [meanwhile]

    def delete(self, path: str) -> None:
        while self._left:
            self._left.pop()()
        super().delete(path)


@pytest.mark.modes
def test_a_purge_that_stands_still_does_not_go_on_in_the_next_tables_files(
    connect: Open,
    catalog: Callable[[SqlDatabase], SqlCatalog],
    orders: Identifier,
    orders_schema: Schema,
    tmp_path: Path,
) -> None:
    other, place = catalog(connect()), tmp_path / "ext"
    old, new = Identifier(orders.database, "old"), Identifier(orders.database, "new")
    options = {**orders_schema.options, "data-file.external-paths": place.as_uri()}
    schema = replace(orders_schema, options=options)

    def write(name: str) -> None:
        for bucket in ("bucket-0", "bucket-1"):
            (place / bucket).mkdir(parents=True, exist_ok=True)
            (place / bucket / name).touch()

    def meanwhile() -> None:
        # Waits until the database has ended the other transaction.
        assert not other.operation.sweep().repaired.failures
        assert not place.exists()
        other.tables.create(new, schema)
        write("theirs")

    other.tables.create(old, schema)
    write("ours")
    frozen = SqlCatalog.on(
        connect(idle=1),
        warehouse="main",
        location=other.location,
        files=StallingFiles(meanwhile),
    )
    frozen.tables.drop(old)
    assert sorted(path.name for path in place.rglob("*") if path.is_file()) == ["theirs"] * 2


class StallingPuts(LocalFileAccess):
    """A disk that fails, or stands still, when the second snapshot is to be put."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._left = [meanwhile]

    def write_if_absent(self, path: str, data: bytes) -> bool:
        while self._left and path.endswith("/snapshot-2"):
            self._left.pop()()
        return super().write_if_absent(path, data)


@pytest.mark.modes
@pytest.mark.parametrize("put_by", ["commit", "sweep"])
def test_whoever_stood_still_puts_no_snapshot_back_that_was_rolled_back(
    connect: Open,
    catalog: Callable[[SqlDatabase], SqlCatalog],
    orders: Identifier,
    snapshot: Callable[..., Snapshot],
    put_by: str,
) -> None:
    other, first = catalog(connect()), snapshot(1)
    assert other.snapshots.commit(orders, None, first, None, []).decided()

    def opened(database: SqlDatabase, meanwhile: Callable[[], None]) -> SqlCatalog:
        files = StallingPuts(meanwhile)
        return SqlCatalog.on(database, warehouse="main", location=other.location, files=files)

    def fail() -> None:
        raise Unavailable("the disk is away")

    def meanwhile() -> None:
        # Waits until the database has ended the other transaction.
        assert not other.operation.sweep().repaired.failures
        other.snapshots.rollback_to_snapshot(orders, 1)

    frozen = opened(connect(idle=1), meanwhile)
    if put_by == "commit":
        frozen.snapshots.commit(orders, None, snapshot(2), first.uuid, [])
    else:
        failing = opened(connect(), fail)
        answer = failing.snapshots.commit(orders, None, snapshot(2), first.uuid, [])
        assert answer.fate is Fate.UNKNOWN
        frozen.operation.sweep()
    files = Path(local_path(other.tables.get(orders).path)) / "snapshot"
    assert sorted(path.name for path in files.iterdir()) == ["EARLIEST", "LATEST", "snapshot-1"]
    assert (files / "LATEST").read_text() == "1"
    # Its place is free.
    assert other.snapshots.commit(orders, None, snapshot(2), first.uuid, []).decided()


def _row(database: SqlDatabase) -> None:
    row = {"name": "a", "location": "", "options": "", "created_at": 0, "updated_at": 0}
    database.write(lambda connection: connection.execute(insert(WarehouseRow), row))
