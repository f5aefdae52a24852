"""Snapshots of several tables that are decided in one transaction: each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import acting_as
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.history.commit import Offer
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unavailable
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

MakeSnapshot = Callable[..., Snapshot]
TABLES = tuple(Identifier("sales", f"t{number}") for number in range(6))
ROUNDS = 40
TURNS = 30


class StubbornFiles(LocalFileAccess):
    """The local disk, which takes no snapshot of the tables that are named."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and path.split("/")[-3] in self.refused:
            raise Unavailable(f"{path}: the store did not answer")
        return super().write_if_absent(path, data)


Open = Callable[..., SqlCatalog]


@pytest.fixture
def open_catalog(
    migrated_url: str, tmp_path: Path, orders_schema: Schema
) -> Iterator[Callable[..., SqlCatalog]]:
    """Opens a warehouse, with its tables when it has none yet."""
    opened: list[SqlCatalog] = []

    def open_one(
        warehouse: str = "main", files: LocalFileAccess | None = None, *, create: bool = True
    ) -> SqlCatalog:
        catalog = SqlCatalog.open(
            migrated_url,
            warehouse=warehouse,
            location=str(tmp_path / warehouse),
            files=files,
        )
        opened.append(catalog)
        if create:
            catalog.databases.create("sales")
            options = {**orders_schema.options, "metastore.partitioned-table": "true"}
            schema = replace(orders_schema, options=options)
            for table in TABLES:
                catalog.tables.create(table, schema)
        return catalog

    yield open_one
    for catalog in opened:
        catalog.close()


def _change(dt: str, records: int) -> PartitionStatistics:
    return PartitionStatistics({"dt": dt}, records, records * 100, 1 if records > 0 else -1, 1, 2)


def _commit_each(catalog: SqlCatalog, offers: Sequence[Offer]) -> list[bool | HeadwaterError]:
    """What became of each; the error with which it was refused, or is not known."""
    return [
        answer if isinstance(answer, HeadwaterError) else answer.problem or answer.decided()
        for answer in catalog.snapshots.commits.commit_each(offers)
    ]


def _offer(
    table: Identifier,
    made: Snapshot,
    base: str | None,
    changes: Sequence[PartitionStatistics] = (),
    table_id: str | None = None,
) -> Offer:
    return Offer(table, table_id, made, base, changes)


def test_each_is_told_its_own_outcome(open_catalog: Open, snapshot: MakeSnapshot) -> None:
    catalog = open_catalog()
    first = [snapshot(1) for _ in TABLES]
    offers = [_offer(table, made, None) for table, made in zip(TABLES, first, strict=True)]
    assert _commit_each(catalog, offers) == [True] * len(TABLES)
    second = [snapshot(2) for _ in TABLES]
    answers = _commit_each(
        catalog,
        [
            _offer(TABLES[0], second[0], first[0].uuid),
            _offer(TABLES[1], second[1], "another"),
            _offer(Identifier("sales", "none"), second[2], None),
            _offer(TABLES[2], second[2], first[2].uuid, table_id="another"),
            _offer(TABLES[3], snapshot(2, schemaId=7), first[3].uuid),
            _offer(TABLES[4], first[4], None),
            _offer(TABLES[5], snapshot(4), first[5].uuid),
        ],
    )
    kinds = [answer if isinstance(answer, bool) else type(answer) for answer in answers]
    assert kinds == [True, False, NotFound, NotFound, Invalid, True, False]
    latest = [catalog.snapshots.latest(table) for table in TABLES]
    assert [found and found.snapshot for found in latest] == [second[0], *first[1:]]


def test_several_to_one_table_take_turns(open_catalog: Open, snapshot: MakeSnapshot) -> None:
    catalog = open_catalog()
    table, other = TABLES[:2]
    one, two, rival = snapshot(1), snapshot(2), snapshot(1)
    assert _commit_each(
        catalog,
        [
            _offer(table, one, None),
            _offer(table, rival, None),
            _offer(other, snapshot(1), None),
            _offer(table, two, one.uuid),
            _offer(table, one, None),
        ],
    ) == [True, False, True, True, True]
    assert [item.uuid for item in catalog.snapshots.list(table).items] == [two.uuid, one.uuid]
    catalog.branches.create(table, "b")
    branch = branch_of(table, "b")
    assert _commit_each(
        catalog, [_offer(table, snapshot(3), two.uuid), _offer(branch, snapshot(1), None)]
    ) == [True, True]


def test_one_that_storage_refuses_keeps_no_other_waiting(
    open_catalog: Open, snapshot: MakeSnapshot
) -> None:
    files = StubbornFiles()
    catalog = open_catalog(files=files)
    files.refused = {"t1", "t3"}
    made = [snapshot(1) for _ in TABLES]
    offers = [_offer(table, item, None) for table, item in zip(TABLES, made, strict=True)]
    answers = _commit_each(catalog, offers)
    assert [answer is True for answer in answers] == [True, False, True, False, True, True]
    assert all(isinstance(answers[at], Unavailable) for at in (1, 3))
    with pytest.raises(Unavailable):
        catalog.snapshots.latest(TABLES[1])
    files.refused = set()
    # Decided on is decided on: the same offers are found in the history, and followed now.
    assert _commit_each(catalog, offers) == [True] * len(TABLES)
    latest = [catalog.snapshots.latest(table) for table in TABLES]
    assert [found and found.snapshot for found in latest] == made


def test_what_somebody_else_decided_is_followed_first(
    open_catalog: Open, snapshot: MakeSnapshot
) -> None:
    files = StubbornFiles()
    catalog, other = open_catalog(files=files), open_catalog(create=False)
    files.refused = {"t0"}
    made = [snapshot(1) for _ in TABLES]
    offers = [_offer(table, item, None) for table, item in zip(TABLES, made, strict=True)]
    _commit_each(catalog, offers)
    following = [
        _offer(table, snapshot(2), item.uuid) for table, item in zip(TABLES, made, strict=True)
    ]
    assert _commit_each(other, following) == [True] * len(TABLES)
    assert [item.id for item in other.snapshots.list(TABLES[0]).items] == [2, 1]


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_batch_comes_to_what_its_parts_come_to(
    open_catalog: Open, snapshot: MakeSnapshot
) -> None:
    """Whatever is offered: together in one warehouse, one by one in another."""
    together, alone = open_catalog("together"), open_catalog("alone")
    chance = Random(7)
    heads: dict[Identifier, Snapshot | None] = dict.fromkeys(TABLES)
    bases: dict[Identifier, str | None] = {}
    for _ in range(ROUNDS):
        offers = []
        for table in chance.sample(TABLES, chance.randint(1, len(TABLES))):
            head = heads[table]
            number = 1 if head is None else head.id + 1
            base = None if head is None else head.uuid
            made = snapshot(number, changelogRecordCount=chance.randint(0, 9))
            kind = chance.random()
            if kind < 0.1:
                base = "another"
            elif kind < 0.2 and head is not None:
                made, base = head, bases[table]
            else:
                heads[table], bases[table] = made, base
            changes = [
                _change(f"2026-01-{chance.randint(1, 12):02}", chance.randint(-30, 60))
                for _ in range(chance.randint(0, 3) if kind < 0.9 else 12)
            ]
            offers.append(_offer(table, made, base, changes))
        one_by_one = [alone.snapshots.commits.commit(offer).decided() for offer in offers]
        assert _commit_each(together, offers) == one_by_one
    for table in TABLES:
        assert together.snapshots.latest(table) == alone.snapshots.latest(table)
        sizes = [
            {
                tuple(item.spec.items()): (item.record_count, item.file_count, item.total_buckets)
                for item in catalog.partitions.list(table).items
            }
            for catalog in (together, alone)
        ]
        assert sizes[0] == sizes[1]


def test_who_committed_is_recorded_of_each(open_catalog: Open, snapshot: MakeSnapshot) -> None:
    catalog = open_catalog()
    offers = []
    for table, name in zip(TABLES, ["ada", "grace", "barbara"], strict=False):
        with acting_as(name):
            offers.append(_offer(table, snapshot(1), None, [_change("2026-01-01", 5)]))
    assert _commit_each(catalog, offers) == [True] * 3
    found = [catalog.partitions.list(table).items[0] for table in TABLES[:3]]
    assert [item.updated_by for item in found] == ["ada", "grace", "barbara"]


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_replicas_that_take_the_same_tables_in_other_orders(
    open_catalog: Open, snapshot: MakeSnapshot
) -> None:
    """Every number is given once, and what was answered is what happened."""
    replicas = [open_catalog(), open_catalog(create=False)]

    def commit(seed: int) -> list[tuple[Identifier, Snapshot]]:
        chance, catalog = Random(seed), replicas[seed % 2]
        won = []
        for _ in range(TURNS):
            offers = []
            for table in chance.sample(TABLES, 4):
                latest = catalog.snapshots.latest(table)
                head = None if latest is None else latest.snapshot
                made = snapshot(1 if head is None else head.id + 1)
                offers.append(_offer(table, made, None if head is None else head.uuid))
            answers = _commit_each(catalog, offers)
            assert all(isinstance(answer, bool) for answer in answers)
            won += [
                (offer.identifier, offer.snapshot)
                for offer, answer in zip(offers, answers, strict=True)
                if answer
            ]
        return won

    with ThreadPoolExecutor(4) as pool:
        won = [item for part in pool.map(commit, range(4)) for item in part]
    for table in TABLES:
        history = [str(item.uuid) for item in replicas[1].snapshots.list(table).items]
        assert sorted(history) == sorted(str(made.uuid) for name, made in won if name == table)
