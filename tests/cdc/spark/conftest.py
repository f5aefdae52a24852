"""A database at a source, and a lake that a Spark session and commands follow it into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cdc.service.conftest import source_url
from tests.cdc.source_logs import SourceServer
from tests.cli.conftest import headwater

from headwater.cdc.service import PASSWORD_VARIABLE
from headwater.client import connect

__all__ = ["Shop", "headwater"]


@dataclass(frozen=True)
class Shop:
    """A source's database ``orders`` and ``names``, and the folder of a lake.

    Attributes:
        source: The source.
        place: The folder of a lake with an empty database ``lake``.
    """

    source: SourceServer
    place: Path

    @property
    def options(self) -> dict[str, Any]:
        """The options of a pipeline."""
        return {
            "source": source_url(self.source.address),
            "include": f"{self.source.database}.*",
            "target": "lake",
            "name": "shop",
            "batch_seconds": 0.2,
            "task_rows": 150,
            "task_bytes": 1,
        }

    def arguments(self, *added: str) -> Sequence[str]:
        """The command line of the pipeline."""
        given = [
            text
            for name, value in self.options.items()
            for text in (f"--{name.replace('_', '-')}", str(value))
        ]
        return ["cdc", "mysql", "--catalog", str(self.place), *given, *added]

    def change(self) -> None:
        """Change some rows, and a table's columns."""
        self.source.run(
            "UPDATE orders SET item = 'changed' WHERE id % 5 = 0",
            "DELETE FROM orders WHERE id % 7 = 0",
            "ALTER TABLE names ADD COLUMN note VARCHAR(10) DEFAULT 'new'",
        )


@pytest.fixture
def shop(mariadb: SourceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A source with two tables, and a lake."""
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    place = tmp_path / "lake"
    with connect(place) as lake:
        lake.create_database("lake")
    mariadb.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(20))",
        "INSERT INTO orders SELECT seq, CONCAT('item ', seq) FROM seq_1_to_1000",
        "CREATE TABLE names (name VARCHAR(20) PRIMARY KEY, n INT)",
        "INSERT INTO names SELECT CONCAT('name ', seq), seq FROM seq_1_to_300",
    )
    yield Shop(mariadb, place)
    mariadb.run(f"DROP DATABASE {mariadb.database}")
