"""`headwater db`: which revision a database is at, and bringing it to another."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.migrations import newest

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def said(result: subprocess.CompletedProcess[str]) -> str:
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def test_the_way_up_and_down(headwater: Headwater, tmp_path: Path) -> None:
    assert said(headwater("db", "current")) == (
        "the database has no tables yet: run 'headwater db upgrade'"
    )
    assert not list(tmp_path.iterdir())  # looking makes nothing
    assert said(headwater("db", "upgrade")) == f"the database is at revision {newest()}"
    assert said(headwater("db", "current")) == (
        f"the database is at revision {newest()}, the newest"
    )
    assert said(headwater("db", "downgrade", "0001")) == "the database is at revision 0001"
    assert said(headwater("db", "current")) == (
        f"the database is at revision 0001; the newest is {newest()}: run 'headwater db upgrade'"
    )


@pytest.mark.mariadb
def test_the_database_is_named_by_an_option_or_a_variable(
    headwater: Headwater, new_mariadb_database: Callable[[], str]
) -> None:
    url = new_mariadb_database()
    said(headwater("db", "upgrade", "--database-url", url))
    assert said(headwater("db", "current", HEADWATER_DATABASE_URL=url)).endswith("the newest")


def test_a_downgrade_that_cannot_be_is_one_line(headwater: Headwater) -> None:
    result = headwater("db", "downgrade", "0001")
    assert result.returncode == 1
    assert result.stderr == (
        "headwater: the catalog's database has no tables yet: run 'headwater db upgrade'\n"
    )
    said(headwater("db", "upgrade"))
    said(headwater("token", "create", "ann", "--scope", "administer"))
    result = headwater("db", "downgrade", "0001")
    assert result.returncode == 1
    assert "has no place for 1 tokens" in result.stderr
    assert said(headwater("db", "downgrade", "0001", "--discard")).endswith("0001")
