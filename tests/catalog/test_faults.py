"""Storage and database fail, stall and fill up under commits: each happens once, or not at all.

A process that dies is in ``test_crashes.py``; here everybody lives, and is told.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

import pytest
from sqlalchemy import make_url
from tests.catalog.databases import DATABASES, POSTGRESQL_IN_MODES

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import PoolSettings, Timeouts
from headwater.catalog.sql.database.open_database import opened_database
from headwater.migrations import upgrade
from headwater.storage.errors import HeadwaterError, NotFound, OutcomeUnknown, Unavailable
from headwater.storage.files.access import FileStatus
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import parse_type

MakeSnapshot = Callable[..., Snapshot]
MOST_STEPS = 60


def _check_agreement(catalog: SqlCatalog, table: Identifier) -> list[Snapshot]:
    """That database and files tell the same history; the snapshots, oldest first."""
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"), "snapshot")
    history = list(catalog.snapshots.list(table).items)[::-1]
    on_disk = {
        path.name: json.loads(path.read_text()) for path in directory.glob("snapshot-[0-9]*")
    }
    assert on_disk == {f"snapshot-{item.id}": item.document for item in history}
    assert [item.id for item in history] == list(range(1, len(history) + 1))
    latest = catalog.snapshots.latest(table)
    assert (None if latest is None else latest.snapshot) == (history[-1] if history else None)
    if history:
        assert (directory / "LATEST").read_text() == str(len(history))
    return history


class FailingFiles(LocalFileAccess):
    """The local disk, of which the chosen call fails: undone, or done but without an answer."""

    def __init__(self) -> None:
        self.fail_at: int | None = None
        self.is_done = False
        self.failures = 0
        self._taken = 0

    def arm(self, step: int, *, is_done: bool) -> None:
        self.fail_at, self.is_done, self._taken = step, is_done, 0

    def _fails(self) -> bool:
        self._taken += 1
        if self._taken != self.fail_at:
            return False
        self.fail_at = None
        self.failures += 1
        return True

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        fails = self._fails()
        if not fails or self.is_done:
            super().write(path, data, durable=durable)
        if fails:
            raise Unavailable(f"{path}: the store did not answer")

    def write_if_absent(self, path: str, data: bytes) -> bool:
        fails = self._fails()
        if not fails:
            return super().write_if_absent(path, data)
        if self.is_done:
            super().write_if_absent(path, data)
        raise Unavailable(f"{path}: the store did not answer")

    def delete(self, path: str) -> None:
        fails = self._fails()
        if not fails or self.is_done:
            super().delete(path)
        if fails:
            raise Unavailable(f"{path}: the store did not answer")

    def list(self, directory: str) -> list[FileStatus]:
        if self._fails():
            raise Unavailable(f"{directory}: the store did not answer")
        return super().list(directory)


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


@pytest.fixture
def failing(
    migrated_url: str,
    tmp_path: Path,
    files: FailingFiles,
    orders: Identifier,
    orders_schema: Schema,
) -> Iterator[SqlCatalog]:
    """A catalog with an empty table, whose storage fails when told."""
    catalog = SqlCatalog.open(
        migrated_url, warehouse="main", location=str(tmp_path / "lake"), files=files
    )
    catalog.databases.create(orders.database)
    catalog.tables.create(orders, orders_schema)
    yield catalog
    catalog.close()


@pytest.mark.parametrize("is_done", [False, True], ids=["undone", "done"])
def test_a_commit_during_which_storage_fails_happens_once(
    failing: SqlCatalog,
    files: FailingFiles,
    orders: Identifier,
    snapshot: MakeSnapshot,
    is_done: bool,
) -> None:
    base: str | None = None
    for number in range(1, MOST_STEPS):
        offered = snapshot(number)
        files.arm(number, is_done=is_done)
        try:
            assert failing.snapshots.commit(orders, None, offered, base, []).decided()
            failed = False
        except Unavailable:
            failed = True
        assert failed is (files.fail_at is None)
        files.fail_at = None
        if number % 2:
            # A rival comes by first: what is decided stays decided.
            rival = snapshot(number)
            assert not failing.snapshots.commit(orders, None, rival, base, []).decided()
        assert failing.snapshots.commit(orders, None, offered, base, []).decided()
        assert _check_agreement(failing, orders)[-1] == offered
        base = offered.uuid
        if not failed:
            break
    assert files.failures >= 2


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
@pytest.mark.parametrize("is_done", [False, True], ids=["undone", "done"])
def test_a_rollback_during_which_storage_fails_is_finished_by_whoever_comes_next(
    failing: SqlCatalog,
    files: FailingFiles,
    orders: Identifier,
    snapshot: MakeSnapshot,
    is_done: bool,
) -> None:
    for step in range(1, MOST_STEPS):
        latest = failing.snapshots.latest(orders)
        base = None if latest is None else latest.snapshot.uuid
        for number in range(1 if latest is None else latest.snapshot.id + 1, 4):
            made = snapshot(number)
            assert failing.snapshots.commit(orders, None, made, base, []).decided()
            base = made.uuid
        failing.tags.create(orders, "late", 3)
        files.arm(step, is_done=is_done)
        try:
            failing.snapshots.rollback_to_snapshot(orders, 1)
            failed = False
        except Unavailable:
            failed = True
        files.fail_at = None
        history = _check_agreement(failing, orders)
        if len(history) == 3:
            assert failed
            assert list(failing.tags.list(orders).items) == ["late"]
            failing.tags.delete(orders, "late")
        else:
            assert len(history) == 1
            assert list(failing.tags.list(orders).items) == []
        if not failed:
            break
    else:
        pytest.fail("a rollback has more steps than were tried")
    assert files.failures >= 5


@pytest.mark.parametrize("change", ["schema rollback", "replacement"])
def test_a_change_that_is_decided_is_not_refused_when_storage_fails(
    failing: SqlCatalog,
    files: FailingFiles,
    orders: Identifier,
    orders_schema: Schema,
    change: str,
) -> None:
    outcomes: list[bool] = []
    for step in range(1, MOST_STEPS):
        before = failing.tables.get(orders).schema.id
        if change == "schema rollback":
            column = AddColumn((f"c{step}",), parse_type("INT"))
            failing.tables.alter(orders, [column])
            before += 1
        files.arm(step, is_done=False)
        error: Unavailable | None = None
        try:
            if change == "schema rollback":
                failing.snapshots.rollback_schema(orders, before - 1)
            else:
                failing.tables.replace(orders, orders_schema)
        except Unavailable as raised:
            error = raised
        files.fail_at = None
        is_decided = failing.tables.get(orders).schema.id != before
        if error is None:
            assert is_decided
            break
        assert isinstance(error, OutcomeUnknown) == is_decided
        outcomes.append(is_decided)
    else:
        pytest.fail("it has more steps than were tried")
    assert True in outcomes


class MeddlingFiles(LocalFileAccess):
    """The local disk; when it is first asked whether a file exists, something else happens."""

    def __init__(self) -> None:
        self.then: list[Callable[[], object]] = []

    def exists(self, path: str) -> bool:
        while self.then:
            self.then.pop()()
        return super().exists(path)


def test_a_rollback_that_meets_one_that_storage_did_not_follow_finishes_both(
    failing: SqlCatalog,
    files: FailingFiles,
    migrated_url: str,
    tmp_path: Path,
    orders: Identifier,
    snapshot: MakeSnapshot,
) -> None:
    base: str | None = None
    for number in range(1, 4):
        made = snapshot(number)
        assert failing.snapshots.commit(orders, None, made, base, []).decided()
        base = made.uuid

    def leave_open() -> None:
        files.arm(1, is_done=False)
        with pytest.raises(Unavailable):
            failing.snapshots.rollback_to_snapshot(orders, 3)

    meddling = MeddlingFiles()
    with closing(
        SqlCatalog.open(
            migrated_url, warehouse="main", location=str(tmp_path / "lake"), files=meddling
        )
    ) as other:
        meddling.then.append(leave_open)
        # The latest still is snapshot 3, so there is no reason to refuse.
        other.snapshots.rollback_to_snapshot(orders, 2, from_snapshot=3)
        assert [item.id for item in _check_agreement(other, orders)] == [1, 2]
        assert other.repair().settled == 0
    assert files.failures == 1


@pytest.mark.parametrize("is_done", [False, True], ids=["undone", "done"])
def test_tables_made_and_changed_while_storage_fails_are_whole_or_not_there(
    failing: SqlCatalog,
    files: FailingFiles,
    orders: Identifier,
    orders_schema: Schema,
    is_done: bool,
) -> None:
    table = Identifier("sales", "new")
    files.arm(1, is_done=is_done)
    with pytest.raises(Unavailable):
        failing.tables.create(table, orders_schema)
    files.fail_at = None
    with pytest.raises(NotFound):
        failing.tables.get(table)
    failing.tables.create(table, orders_schema)
    files.arm(1, is_done=is_done)
    with pytest.raises(Unavailable):
        failing.tables.alter(table, [SetOption("write-only", "true")])
    info = failing.tables.get(table)
    on_disk = Path(info.path.removeprefix("file://"), "schema", f"schema-{info.schema.id}")
    assert TableSchema.from_json(on_disk.read_text()) == info.schema


class StallingFiles(LocalFileAccess):
    """The local disk, on which the put of one file takes until it is let go on."""

    def __init__(self, name: str) -> None:
        self.reached, self.let_go = Event(), Event()
        self._name = name

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if path.endswith(self._name) and not self.reached.is_set():
            self.reached.set()
            assert self.let_go.wait(timeout=60)
        return super().write_if_absent(path, data)


def test_a_stalled_storage_shows_nothing_early_and_loses_nothing(
    migrated_url: str,
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: MakeSnapshot,
) -> None:
    """Readers of the table wait with it; they never see a snapshot whose file is not there."""
    files = StallingFiles("orders/snapshot/snapshot-2")
    location = str(tmp_path / "lake")
    # The database must not end the stalled transaction, nor give up those that wait for it.
    patient = PoolSettings(timeouts=Timeouts(lock_seconds=120, idle_seconds=120))
    is_sqlite = migrated_url.startswith("sqlite")
    calm = Identifier("sales", "calm")
    with (
        opened_database(migrated_url, pool=patient) as of_slow,
        opened_database(migrated_url, pool=patient) as of_other,
        ThreadPoolExecutor(4) as pool,
    ):
        slow = SqlCatalog.on(of_slow, warehouse="main", location=location, files=files)
        other = SqlCatalog.on(of_other, warehouse="main", location=location)
        other.databases.create(orders.database)
        for name in (orders, calm):
            other.tables.create(name, orders_schema)
        first, second, third = snapshot(1), snapshot(2), snapshot(3)
        assert other.snapshots.commit(orders, None, first, None, []).decided()
        try:
            stalled = pool.submit(slow.snapshots.commit, orders, None, second, first.uuid, [])
            assert files.reached.wait(timeout=60)
            reading = pool.submit(other.snapshots.latest, orders)
            following = pool.submit(other.snapshots.commit, orders, None, third, second.uuid, [])
            if not is_sqlite:
                # Other tables go on; SQLite has one writer for all of them.
                assert other.snapshots.commit(calm, None, snapshot(1), None, []).decided()
            assert other.snapshots.latest(calm) is not None or is_sqlite
            assert not reading.done()
            assert not stalled.done()
        finally:
            files.let_go.set()
        assert stalled.result().decided()
        assert following.result().decided()
        seen = reading.result()
        assert seen is not None
        assert seen.snapshot.id >= 2
        assert _check_agreement(other, orders) == [first, second, third]


@contextmanager
def _small_disk(folder: Path, size: str = "64k") -> Iterator[Path]:
    """A disk of a few pages."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as sink, suppress(OSError):
        while True:
            sink.write(b"x" * 512)


def test_a_full_disk_refuses_commits_and_none_is_lost(
    migrated_url: str,
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: MakeSnapshot,
) -> None:
    with _small_disk(tmp_path / "lake") as lake:
        catalog = SqlCatalog.open(migrated_url, warehouse="main", location=str(lake))
        with closing(catalog):
            catalog.databases.create(orders.database)
            catalog.tables.create(orders, orders_schema)
            first = snapshot(1)
            assert catalog.snapshots.commit(orders, None, first, None, []).decided()
            _fill(lake / "ballast")
            offered = snapshot(2)
            for _ in range(2):
                with pytest.raises(Unavailable, match="snapshot-2"):
                    catalog.snapshots.commit(orders, None, offered, first.uuid, []).decided()
            with pytest.raises(Unavailable, match="snapshot-2"):
                catalog.snapshots.latest(orders)
            with pytest.raises(HeadwaterError):
                catalog.tables.create(Identifier("sales", "new"), orders_schema)
            (lake / "ballast").unlink()
            assert catalog.snapshots.commit(orders, None, offered, first.uuid, []).decided()
            assert _check_agreement(catalog, orders) == [first, offered]
            assert list(catalog.tables.list("sales").items) == ["orders"]
            left = [p for p in lake.rglob("*") if "tmp" in p.name]
            assert left == []


def test_a_full_disk_under_the_database_changes_nothing(
    tmp_path: Path, orders: Identifier, orders_schema: Schema, snapshot: MakeSnapshot
) -> None:
    """SQLite's file is on the full disk, the tables' files are not."""
    with _small_disk(tmp_path / "database", "1m") as disk:
        url = f"sqlite:///{disk}/headwater.db"
        upgrade(url)
        catalog = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
        with closing(catalog):
            catalog.databases.create(orders.database)
            catalog.tables.create(orders, orders_schema)
            first = snapshot(1)
            assert catalog.snapshots.commit(orders, None, first, None, []).decided()
            _fill(disk / "ballast")
            large = snapshot(2, properties={"note": "x" * 65_536})
            with pytest.raises(Unavailable):
                catalog.snapshots.commit(orders, None, large, first.uuid, []).decided()
            assert _check_agreement(catalog, orders) == [first]
            (disk / "ballast").unlink()
            assert catalog.snapshots.commit(orders, None, large, first.uuid, []).decided()
            assert _check_agreement(catalog, orders) == [first, large]


class CuttingProxy:
    """Stands between a catalog and its database, and cuts a connection at the chosen message.

    Messages from the catalog are counted while it is armed. The chosen one is either swallowed, or
    passed on with only the answer lost.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = Lock()
        self._armed: int | None = None
        self._is_passed_on = False
        self.cuts = 0
        Thread(target=self._accept, daemon=True).start()

    def arm(self, message: int, *, is_passed_on: bool) -> None:
        with self._lock:
            self._armed, self._is_passed_on = message, is_passed_on

    def disarm(self) -> bool:
        """Whether it did cut."""
        with self._lock:
            armed, self._armed = self._armed, None
            return armed is None

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source in ready:
                    data = source.recv(1 << 20)
                    if not data:
                        return
                    if source is server:
                        client.sendall(data)
                        continue
                    is_cut = self._is_chosen()
                    if not is_cut or self._is_passed_on:
                        server.sendall(data)
                    if is_cut:
                        if self._is_passed_on:
                            server.recv(1 << 20)  # it has done what it was told
                        return

    def _is_chosen(self) -> bool:
        with self._lock:
            if self._armed is None:
                return False
            self._armed -= 1
            if self._armed:
                return False
            self._armed = None
            self.cuts += 1
            return True


@pytest.fixture(params=DATABASES[1:])
def server_url(request: pytest.FixtureRequest) -> str:
    """A database of each kind that is a server, with the catalog's tables."""
    url: str = request.getfixturevalue(f"{request.param}_catalog")
    return url


@pytest.mark.parametrize(
    "is_passed_on",
    [
        pytest.param(False, id="unsent", marks=pytest.mark.modes),
        pytest.param(True, id="unanswered"),
    ],
)
def test_a_commit_whose_database_is_cut_off_anywhere_happens_once(
    server_url: str,
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    snapshot: MakeSnapshot,
    is_passed_on: bool,
) -> None:
    target = make_url(server_url)
    proxy = CuttingProxy(target.host or "", target.port or 0)
    through = target.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    catalog = SqlCatalog.open(through, warehouse="main", location=str(tmp_path / "lake"))
    with closing(proxy), closing(catalog):
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        base: str | None = None
        unknown = 0
        for number in range(1, MOST_STEPS):
            offered = snapshot(number)
            proxy.arm(number, is_passed_on=is_passed_on)
            try:
                # Cut off before its commit was sent, it is tried again by itself.
                assert catalog.snapshots.commit(orders, None, offered, base, []).decided()
            except Unavailable:
                unknown += 1
            was_cut = proxy.disarm()
            assert catalog.snapshots.commit(orders, None, offered, base, []).decided()
            history = _check_agreement(catalog, orders)
            assert len(history) == number
            assert history[-1] == offered
            base = offered.uuid
            if not was_cut:
                break
        else:
            pytest.fail("a commit has more messages than were tried")
        assert proxy.cuts >= 8
        assert 1 <= unknown < proxy.cuts
