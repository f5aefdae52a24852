"""Consumer files that another engine is writing while they are read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.errors import CorruptData
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

FULL = '{"nextSnapshot":7}'


class _Writer:
    """Another engine: it goes on writing while the catalog waits."""

    def __init__(self, file: Path, steps: list[str]) -> None:
        self._file = file
        self._steps = iter(steps)

    def go_on(self, seconds: float) -> None:
        self._file.write_text(next(self._steps, self._file.read_text()))


def _catalog(tmp_path: Path, writer: _Writer) -> SqlCatalog:
    return SqlCatalog.open(
        f"sqlite:///{tmp_path}/headwater.db",
        warehouse="main",
        location=str(tmp_path / "lake"),
        runtime=replace(SYSTEM_RUNTIME, sleep=writer.go_on),
        create=True,
    )


@pytest.fixture
def halfway(tmp_path: Path, orders: Identifier, orders_schema: Schema) -> tuple[Path, Identifier]:
    """A table with a consumer file that is empty so far."""
    with closing(_catalog(tmp_path, _Writer(tmp_path / "unused", []))) as catalog:
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        catalog.consumers.reset(orders, "theirs", 1)
        path = catalog.tables.get(orders).path.removeprefix("file://")
    file = Path(path, "consumer", "consumer-theirs")
    file.write_text("")
    return file, orders


def test_a_file_half_written_is_read_again(
    tmp_path: Path, halfway: tuple[Path, Identifier]
) -> None:
    file, orders = halfway
    with closing(_catalog(tmp_path, _Writer(file, ['{"nextS', FULL]))) as catalog:
        (found,) = catalog.consumers.list(orders).items
    assert found.next_snapshot == 7


def test_a_file_that_stays_broken_is_told(tmp_path: Path, halfway: tuple[Path, Identifier]) -> None:
    file, orders = halfway
    with (
        closing(_catalog(tmp_path, _Writer(file, []))) as catalog,
        pytest.raises(CorruptData, match="consumer-theirs"),
    ):
        catalog.consumers.list(orders)
