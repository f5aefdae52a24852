"""A client process: it commits rows that it knows, and notes what it was told."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
from tests.chaos.ledger import Fate, Ledger, Row

from headwater.client import Lake, connect
from headwater.client.transport import Timeouts
from headwater.storage.errors import (
    AlreadyExists,
    HeadwaterError,
    OutcomeUnknown,
    Unavailable,
)

__all__ = ["APPENDED", "COMMIT_PROPERTY", "UPSERTED", "create_tables", "work"]

APPENDED = "chaos.appended"
UPSERTED = "chaos.upserted"
COMMIT_PROPERTY = "chaos.commit"
"""The property of a snapshot that names its commit."""

_APPENDED = pa.schema([("commit", pa.string()), ("number", pa.int64()), ("value", pa.int64())])
_UPSERTED = pa.schema(
    [
        pa.field("owner", pa.string(), nullable=False),
        pa.field("slot", pa.int64(), nullable=False),
        pa.field("commit", pa.string()),
        pa.field("value", pa.int64()),
    ]
)
_SCHEMAS = {APPENDED: _APPENDED, UPSERTED: _UPSERTED}
_KEPT = {"snapshot.time-retained": "30 d", "snapshot.num-retained.min": "1000000"}
_TIMEOUTS = Timeouts(connect=3.0, read=8.0)
_MOST_ROWS = 8
_ATTEMPTS = 5
_SLOTS = 5
_READ_SHARE, _COMPACT_SHARE = 0.04, 0.02


def create_tables(address: str) -> None:
    """Make the tables that clients commit to."""
    upserted = {**_KEPT, "bucket": "2"}
    with connect(address) as lake:
        for create in (
            partial(lake.create_database, "chaos"),
            partial(lake.create_table, APPENDED, _APPENDED, options=_KEPT),
            partial(
                lake.create_table,
                UPSERTED,
                _UPSERTED,
                primary_keys=["owner", "slot"],
                options=upserted,
            ),
        ):
            _until_made(create)


def _until_made(create: Callable[[], object]) -> None:
    """Create something, whatever answers are lost: a starved machine closes idle connections."""
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            create()
        except AlreadyExists:
            return
        except Unavailable:
            if not attempts_left:
                raise
        else:
            return


def work(_: object, text: str) -> None:
    """Commit until the file `stop` is there; the arguments are a JSON object."""
    given = json.loads(text)
    folder = Path(given["folder"])
    client = Client(
        given["name"], given["addresses"], Random(given["seed"]), Ledger(folder / "ledger")
    )
    while not (folder / "stop").exists():
        client.step()


class Client:
    """Commits through any of the servers.

    Args:
        name: Its name, which no other client has.
        addresses: The servers'.
        random: Chooses.
        ledger: Where it notes what it does.
    """

    def __init__(self, name: str, addresses: Sequence[str], random: Random, ledger: Ledger) -> None:
        self._name = name
        self._addresses = addresses
        self._random = random
        self._ledger = ledger.of(name)
        self._lakes: dict[str, Lake] = {}
        self._count = 0
        self._acknowledged: list[str] = []

    def step(self) -> None:
        """Do one thing."""
        address = self._random.choice(self._addresses)
        chance = self._random.random()
        table = self._random.choice((APPENDED, APPENDED, UPSERTED))
        try:
            lake = self._lake(address)
            if chance < _COMPACT_SHARE:
                lake.table(table).compact()
            elif chance < _COMPACT_SHARE + _READ_SHARE:
                self._read(lake)
            else:
                self._commit(lake, table)
        except HeadwaterError:
            self._forget(address)
        except Exception:  # noqa: BLE001 - whatever it is, a client must not see it
            self._ledger.wrong(f"{self._name}: {traceback.format_exc()}")
            self._forget(address)

    def _commit(self, lake: Lake, table: str) -> None:
        self._count += 1
        name = f"{self._name}-{self._count}"
        rows = self._rows(name, table)
        handle = lake.table(table)
        self._ledger.begin(name, table, rows)
        columns = zip(*rows, strict=True)
        schema = _SCHEMAS[table]
        data = pa.Table.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )
        try:
            handle.write(data, properties={COMMIT_PROPERTY: name})
        except OutcomeUnknown as error:
            self._ledger.end(name, Fate.UNKNOWN, error.message)
            raise
        except HeadwaterError as error:
            self._ledger.end(name, Fate.REFUSED, error.message)
            raise
        self._ledger.end(name, Fate.ACKNOWLEDGED)
        if table == APPENDED:
            self._acknowledged.append(name)

    def _rows(self, name: str, table: str) -> Sequence[Row]:
        value = self._random.randrange(2**40)
        if table == APPENDED:
            count = self._random.randint(1, _MOST_ROWS)
            return [(name, number, value + number) for number in range(count)]
        slots = self._random.sample(range(_SLOTS), 3)
        return [(self._name.partition(".")[0], slot, name, value + slot) for slot in slots]

    def _read(self, lake: Lake) -> None:
        """Read the latest of what this client was told is there."""
        expected = self._acknowledged[-20:]
        found = lake.table(APPENDED).scan(columns=["commit"]).to_arrow()
        missing = set(expected) - set(found["commit"].to_pylist())
        if missing:
            self._ledger.wrong(f"{self._name}: acknowledged, and then not read: {sorted(missing)}")

    def _lake(self, address: str) -> Lake:
        lake = self._lakes.get(address)
        if lake is None:
            lake = self._lakes[address] = connect(address, timeouts=_TIMEOUTS)
        return lake

    def _forget(self, address: str) -> None:
        lake = self._lakes.pop(address, None)
        if lake is not None:
            with suppress(HeadwaterError):
                lake.close()
