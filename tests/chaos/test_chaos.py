"""The checker finds what is tampered with, and a short run of chaos finds nothing."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from tests.chaos.checker import COLUMNS, Finding, check
from tests.chaos.client import APPENDED, UPSERTED, Client, create_tables
from tests.chaos.evidence import evidence_of
from tests.chaos.ledger import Fate, Ledger, Row
from tests.chaos.proxy import Mode, Proxy
from tests.chaos.run import run, turns_of
from tests.conftest import NewSqlite

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import database_url
from headwater.catalog.table.table import Table

pytestmark = pytest.mark.modes
STEPS = 14


@dataclass
class Scene:
    """A quiet catalog that a client committed to, with its ledger."""

    catalog: SqlCatalog
    url: str
    ledger: Ledger
    folder: Path

    def read(self, name: str) -> Sequence[Row]:
        table = Table(self.catalog, self.catalog.tables.get(Identifier.parse(name)))
        found = table.scan(columns=list(COLUMNS[name])).to_arrow()
        return list(zip(*(found[c].to_pylist() for c in COLUMNS[name]), strict=True))

    def findings(self, read: Callable[[str], Sequence[Row]] | None = None) -> Sequence[Finding]:
        return check(evidence_of(self.url), self.ledger.entries(), read or self.read)

    def sql(self, statement: str, **values: object) -> None:
        engine = create_engine(database_url(self.url))
        with engine.begin() as connection:
            connection.execute(text(statement), values)
        engine.dispose()

    def table(self, name: str) -> Path:
        path = self.catalog.tables.get(Identifier.parse(name)).path
        return Path(path.removeprefix("file://"))

    def files(self, name: str) -> list[Path]:
        """The data files of commits of a table, with different rows."""
        return sorted(self.table(name).glob("bucket-*/*.parquet"))


@pytest.fixture
def scene(tmp_path: Path, new_sqlite: NewSqlite, serve: Callable[..., str]) -> Iterator[Scene]:
    url = new_sqlite(tmp_path / "headwater.db")
    catalog = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    address = serve(catalog)
    create_tables(address)
    ledger = Ledger(tmp_path / "ledger")
    (tmp_path / "ledger").mkdir()
    client = Client("c0.1", [address], Random(3), ledger)
    with closing(catalog):
        for _ in range(STEPS):
            client.step()
        assert ledger.counts()[Fate.ACKNOWLEDGED] >= STEPS // 2
        assert {entry.table for entry in ledger.entries().values()} == {APPENDED, UPSERTED}
        yield Scene(catalog, url, ledger, tmp_path)


def _kinds(findings: Sequence[Finding]) -> set[str]:
    return {finding.kind for finding in findings}


def test_what_was_not_tampered_with_is_right(scene: Scene) -> None:
    assert scene.findings() == []
    assert scene.ledger.wrongs() == []


def test_a_removed_snapshot_is_named(scene: Scene) -> None:
    scene.sql("DELETE FROM hw_snapshots WHERE snapshot_id = 2")
    said = [str(finding) for finding in scene.findings()]
    assert f"gap: {APPENDED}: snapshots 2 are not there" in said
    assert f"storage: {APPENDED}: snapshot 2 is on storage alone" in said
    assert any(line.startswith(f"lost: {APPENDED}: commit c0.1-") for line in said)


def test_a_removed_snapshot_file_is_named(scene: Scene) -> None:
    (scene.table(APPENDED) / "snapshot" / "snapshot-2").unlink()
    assert [str(finding) for finding in scene.findings()] == [
        f"storage: {APPENDED}: the file of snapshot 2 is not there"
    ]


def test_a_changed_snapshot_file_and_hint_are_named(scene: Scene) -> None:
    folder = scene.table(UPSERTED) / "snapshot"
    document: dict[str, Any] = json.loads((folder / "snapshot-1").read_text())
    (folder / "snapshot-1").write_text(json.dumps({**document, "timeMillis": 1}))
    (folder / "LATEST").write_text("1")
    said = [str(finding) for finding in scene.findings()]
    assert said[0] == f"storage: {UPSERTED}: the file of snapshot 1 differs"
    assert said[1].startswith(f"storage: {UPSERTED}: LATEST says 1, not ")
    assert len(said) == 2


def test_a_head_that_is_not_the_latest_is_named(scene: Scene) -> None:
    scene.sql("UPDATE hw_branches SET snapshot_uuid = 'another'")
    assert _kinds(scene.findings()) == {"head"}


def test_a_doubled_row_is_named(scene: Scene) -> None:
    def read(name: str) -> Sequence[Row]:
        rows = list(scene.read(name))
        return [*rows, rows[0]]

    found = scene.findings(read)
    assert _kinds(found) == {"doubled"}
    assert len(found) == 2


def test_a_row_that_is_not_read_is_named(scene: Scene) -> None:
    found = scene.findings(lambda name: scene.read(name)[1:])
    assert _kinds(found) == {"lost"}
    assert all("1 rows are missing" in finding.text for finding in found)


def test_a_swapped_file_is_named(scene: Scene) -> None:
    first, second = scene.files(APPENDED)[:2]
    kept = {name: scene.read(name) for name in COLUMNS}
    shutil.copyfile(first, second)
    found = [str(finding) for finding in scene.findings(kept.__getitem__)]
    assert any(line.startswith("swapped:") and "has the rows" in line for line in found)
    assert any(line.startswith("half:") for line in found)
    assert any(line.startswith("doubled:") and "file by file" in line for line in found)


def test_a_file_that_is_gone_is_named(scene: Scene) -> None:
    gone = scene.files(UPSERTED)[0]
    kept = scene.read(UPSERTED)
    gone.unlink()
    found = scene.findings(lambda name: kept if name == UPSERTED else scene.read(name))
    assert _kinds(found) == {"missing"}
    assert all(gone.name in finding.text for finding in found)


def test_a_manifest_that_is_gone_is_named(scene: Scene) -> None:
    kept = scene.read(APPENDED)
    gone = sorted((scene.table(APPENDED) / "manifest").glob("manifest-list-*"))[0]
    gone.unlink()
    found = scene.findings(lambda name: kept if name == APPENDED else scene.read(name))
    assert _kinds(found) == {"missing"}
    assert gone.name in found[0].text


def test_open_decisions_are_named(scene: Scene) -> None:
    scene.sql(
        "INSERT INTO hw_outbox (warehouse, table_id, branch, action, number, path, created_at) "
        "SELECT 'main', id, 'main', 'snapshot', 1, '', 0 FROM hw_tables LIMIT 1"
    )
    assert [str(finding) for finding in scene.findings()] == ["open: 1 decisions after the sweep"]


def test_events_that_are_missing_doubled_or_out_of_order_are_named(scene: Scene) -> None:
    commits = "FROM hw_events WHERE type = 'commitTable' AND name = 'appended'"
    scene.sql(f"UPDATE hw_events SET id = 1000000 WHERE id = (SELECT MIN(id) {commits})")
    assert [str(each) for each in scene.findings()] == [
        f"event: {APPENDED}: the events of its commits are out of order"
    ]
    scene.sql("DELETE FROM hw_events WHERE id = 1000000")
    assert [str(each) for each in scene.findings()] == [
        f"event: {APPENDED}: snapshot 1 has 0 events, not 1"
    ]
    columns = "created_at, warehouse, type, kind, object_id, database, name, outcome, document"
    scene.sql(
        f"INSERT INTO hw_events ({columns}) SELECT {columns} {commits} AND id = "
        f"(SELECT MIN(id) {commits})"
    )
    assert f"event: {APPENDED}: snapshot 2 has 2 events, not 1" in map(str, scene.findings())


@pytest.mark.parametrize(
    ("fate", "kind"), [(Fate.ACKNOWLEDGED, "lost"), (Fate.REFUSED, None), (Fate.UNKNOWN, None)]
)
def test_a_commit_that_is_not_there_must_not_be_acknowledged(
    scene: Scene, fate: Fate, kind: str | None
) -> None:
    other = scene.ledger.of("c9.1")
    other.begin("c9.1-1", APPENDED, [("c9.1-1", 0, 1)])
    other.end("c9.1-1", fate)
    assert _kinds(scene.findings()) == ({kind} if kind else set())


def test_a_commit_that_is_there_must_not_be_refused(scene: Scene) -> None:
    scene.ledger.of("c0.1").end("c0.1-1", Fate.REFUSED)
    first = str(scene.findings()[0])
    assert first.endswith("commit c0.1-1 was refused and is there")


def test_a_commit_without_an_end_may_be_there_or_not(scene: Scene) -> None:
    path = scene.folder / "ledger" / "c0.1.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"end": "c0.1-1"' not in line]
    # The last line is cut short, as by a kill.
    path.write_text("\n".join(lines) + '\n{"begin": "c0')
    assert scene.ledger.entries()["c0.1-1"].fate is Fate.UNKNOWN
    assert scene.findings() == []


def test_rows_that_nobody_wrote_are_named(scene: Scene) -> None:
    (scene.folder / "ledger" / "c0.1.jsonl").write_text("")
    assert _kinds(scene.findings()) == {"foreign"}


def test_a_proxy_does_what_its_mode_says() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def echo() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer, suppress(ConnectionError):
                    while piece := peer.recv(100):
                        if piece == b"c":
                            received.set()
                        peer.sendall(piece)

        received = threading.Event()
        threading.Thread(target=echo, daemon=True).start()
        with closing(Proxy(listener.getsockname()[1])) as proxy:

            def connect() -> socket.socket:
                return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)

            with connect() as client:
                client.sendall(b"a")
                assert client.recv(9) == b"a"
                proxy.set(Mode.DELAY)
                client.sendall(b"b")
                proxy.set(Mode.PASS)
                assert client.recv(9) == b"b"
                proxy.set(Mode.RESET)
                with pytest.raises(ConnectionResetError):
                    client.recv(9)
            proxy.set(Mode.LOSE_ANSWERS)
            with connect() as client:
                client.sendall(b"c")
                assert received.wait(timeout=30)
                proxy.set(Mode.PASS)
                with pytest.raises(ConnectionResetError):
                    client.recv(9)
            with connect() as client:
                client.sendall(b"d")
                assert client.recv(9) == b"d"


@pytest.mark.parametrize("seed", range(20))
def test_no_fault_happens_twice_at_a_time(seed: int) -> None:
    turns = list(islice(turns_of(["kill", "freeze", "fill"], Random(seed)), 200))
    assert {len(each) for each in turns} == {1, 2}
    assert all(len(set(each)) == len(each) for each in turns)
    count = Counter(name for each in turns for name in each)
    assert max(count.values()) - min(count.values()) <= 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ],
)
def test_a_minute_of_chaos_finds_nothing(kind: str, tmp_path: Path) -> None:
    try:
        result = run(kind, tmp_path, seconds=60, seed=1, clients=3, tell=print)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert [str(finding) for finding in result.findings] == []
    assert result.fates[Fate.ACKNOWLEDGED] > 0
    assert result.faults.total() >= 5
