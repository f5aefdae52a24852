"""An SQLite database that is migrated once for a process, not once for each lake of a test."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

_SQLITE = "sqlite:///"


@cache
def migrated_sqlite(folder: Path) -> Path:
    """A database with the catalog's tables and nothing in them, made in a folder by migrations."""
    from headwater.migrations.runner import upgrade

    path = folder / "headwater.db"
    upgrade(f"{_SQLITE}{path}")
    return path


@contextmanager
def lakes_begin_migrated(folder: Path) -> Iterator[None]:
    """Let `headwater.client.connect` find a copy where it would migrate a new SQLite database.

    It upgrades the copy as it does any database that is there. Modules that import `upgrade` when
    they are collected migrate anew.
    """
    import headwater.migrations

    upgrade = headwater.migrations.upgrade

    def upgrade_copied(database_url: str, revision: str = "head") -> str:
        path = Path(database_url.removeprefix(_SQLITE))
        if database_url.startswith(_SQLITE) and not path.exists() and path.parent.is_dir():
            copied = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
            shutil.copyfile(migrated_sqlite(folder), copied)
            with suppress(FileExistsError):  # another thread or process was first
                os.link(copied, path)
            copied.unlink()
        return upgrade(database_url, revision)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headwater.migrations, "upgrade", upgrade_copied)
        yield
