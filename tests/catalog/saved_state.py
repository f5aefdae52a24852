"""The state of a warehouse at one moment, to begin from again and again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, select

from headwater.catalog.sql.database.models import Base


class SavedState:
    """What a warehouse holds now: its files, and the rows of its database.

    To make that anew through a catalog, before each step of a walk, takes longer than the step.

    Args:
        engine: The database, which holds nothing but this warehouse.
        location: The folder of the warehouse's files.
        room: A folder, not yet there, where its files are kept.
    """

    def __init__(self, engine: Engine, location: Path, room: Path) -> None:
        self._location = location
        self._room = room
        shutil.copytree(location, room)
        self._engine = engine
        with self._engine.connect() as connection:
            self._rows: dict[str, list[dict[str, Any]]] = {
                table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
                for table in Base.metadata.sorted_tables
            }

    def restore(self) -> None:
        """Make the warehouse what it was; nobody may be at work in it."""
        shutil.rmtree(self._location)
        shutil.copytree(self._room, self._location)
        tables = Base.metadata.sorted_tables
        with self._engine.begin() as connection:
            for table in reversed(tables):
                connection.execute(table.delete())
            for table in tables:
                if rows := self._rows[table.name]:
                    connection.execute(insert(table), rows)
