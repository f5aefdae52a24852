"""Decisions about rights: an answer that was asked for before an end of rights is not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Engine, event
from tests.conftest import NewSqlite
from tests.server.restricted import PEOPLE, SCHEMA, filter_policy, leaf

from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.principal import Principal, Scope, acting_as
from headwater.catalog.model.rights import Thing
from headwater.catalog.sql import SqlCatalog
from headwater.client import connect
from headwater.client.connect import DATABASE_FILE
from headwater.server.access.decisions import Decisions
from headwater.server.access.needs import Need
from headwater.storage.errors import Forbidden, NotFound
from headwater.storage.runtime import SYSTEM_RUNTIME

ADA = Principal("ada", scopes=frozenset({Scope.WRITE}), asks_permission=True)
TABLE = PermissionTarget(TargetType.TABLE, PEOPLE.database, PEOPLE.name)


@pytest.fixture
def catalog(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    """A table of people that somebody may read."""
    new_sqlite(tmp_path / "lake" / DATABASE_FILE)
    with connect(tmp_path / "lake") as lake:
        lake.create_database(PEOPLE.database)
        lake.create_table(str(PEOPLE), SCHEMA, options={"query-auth.enabled": "true"})
        assert isinstance(lake.catalog, SqlCatalog)
        lake.catalog.permissions.grant(Grant(TABLE, Access.SELECT, ADA.name))
        yield lake.catalog


@contextmanager
def _once_after(table: str, change: Callable[[], None]) -> Iterator[None]:
    """Change something right after the first statement that asks a table."""
    left = [change]

    def act(_: object, __: object, statement: str, *___: object) -> None:
        if left and statement.startswith("SELECT") and f"FROM {table}" in statement:
            left.pop()()

    event.listen(Engine, "after_cursor_execute", act)
    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", act)
    assert not left


def test_a_right_that_was_revoked_while_it_was_asked_for_is_not_remembered(
    catalog: SqlCatalog,
) -> None:
    decisions = Decisions(SYSTEM_RUNTIME)
    thing = Thing(TargetType.TABLE, PEOPLE.database, PEOPLE.name)
    need = Need(thing, frozenset({Access.SELECT}))

    def revoke() -> None:
        with decisions.ending_rights():
            catalog.permissions.revoke(TABLE, Access.SELECT, ADA.name)

    async def asked() -> None:
        await decisions.demand(ADA, catalog, need)

    with _once_after("hw_grants", revoke):
        anyio.run(asked)
    assert not decisions.remembers(ADA, catalog, need)
    with pytest.raises(NotFound):
        anyio.run(asked)
    # One that nobody ended is.
    catalog.permissions.grant(Grant(TABLE, Access.SELECT, ADA.name))
    anyio.run(asked)
    assert decisions.remembers(ADA, catalog, need)


def test_a_policy_made_while_one_was_asked_for_restricts_the_next_change(
    catalog: SqlCatalog,
) -> None:
    decisions = Decisions(SYSTEM_RUNTIME)

    def restrict() -> None:
        with decisions.ending_rights(), acting_as(None):
            catalog.policies.create(
                PEOPLE, filter_policy(ADA.name, leaf("EQUAL", "region", "EMEA"))
            )

    async def asked() -> None:
        with acting_as(ADA):
            await decisions.demand_all_rows(ADA, catalog, PEOPLE)

    with _once_after("hw_policies", restrict):
        anyio.run(asked)
    with pytest.raises(Forbidden, match="policies restrict"):
        anyio.run(asked)


@pytest.mark.parametrize("wrong_by", [0, -3_600_000], ids=["right", "set back"])
def test_what_is_remembered_lasts_ten_seconds_by_every_clock(
    catalog: SqlCatalog, wrong_by: int
) -> None:
    wrong, passed = 0, 0.0
    runtime = replace(
        SYSTEM_RUNTIME,
        now_millis=lambda: SYSTEM_RUNTIME.now_millis() + round(1000 * passed) + wrong,
        monotonic=lambda: passed,
    )
    decisions = Decisions(runtime)
    thing = Thing(TargetType.TABLE, PEOPLE.database, PEOPLE.name)
    need = Need(thing, frozenset({Access.SELECT}))

    async def asked() -> None:
        with acting_as(ADA):
            await decisions.demand(ADA, catalog, need)
            await decisions.demand_all_rows(ADA, catalog, PEOPLE)

    anyio.run(asked)
    # By another server.
    catalog.permissions.revoke(TABLE, Access.SELECT, ADA.name)
    catalog.policies.create(PEOPLE, filter_policy(ADA.name, leaf("EQUAL", "region", "EMEA")))
    wrong = wrong_by
    anyio.run(asked)
    passed = 10.0
    with pytest.raises(NotFound):
        anyio.run(asked)
    catalog.permissions.grant(Grant(TABLE, Access.SELECT, ADA.name))
    with pytest.raises(Forbidden, match="policies restrict"):
        anyio.run(asked)
