"""Names that look alike are different names, on every database: nobody has another's rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES
from tests.server.restricted import filter_policy, leaf

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.principal import GROUP_PREFIX, Principal, Scope, acting_as
from headwater.catalog.model.rights import Thing
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

NAME = "stra\u00dfe \u00e9"
ALIKE = (
    NAME.upper(),
    NAME.capitalize(),
    "strasse \u00e9",
    "stra\u00dfe e",
    "stra\u00dfe e\u0301",
    "stra\u1e9ee \u00e9",
    "stra\u00dfe\u00a0\u00e9",
    "stra\u00dfe \u00e9\u200d",
    "\uff53tra\u00dfe \u00e9",
)
"""Other cases, normalisations, widths and spaces of the name."""
PADDED = (f"{NAME} ", f" {NAME}")
"""Nobody can be called so; that a database would take it for the name must not matter."""


@pytest.fixture
def catalog(migrated_url: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    with closing(opened):
        yield opened


def _caller(name: str, *groups: str) -> Principal:
    scopes = frozenset({Scope.WRITE})
    return Principal(name, frozenset(groups), scopes, asks_permission=True)


def test_rights_are_of_one_name(
    catalog: SqlCatalog, orders: Identifier, orders_schema: Schema
) -> None:
    with acting_as(_caller(NAME)):
        catalog.databases.create("owned")
    catalog.databases.create(orders.database)
    asking = {**orders_schema.options, "query-auth.enabled": "true"}
    catalog.tables.create(orders, replace(orders_schema, options=asking))
    catalog.tables.create(Identifier("owned", "own"), orders_schema)
    table = PermissionTarget(TargetType.TABLE, orders.database, orders.name)
    catalog.permissions.grant(Grant(table, Access.SELECT, NAME))
    catalog.permissions.grant(Grant(table, Access.UPDATE, f"{GROUP_PREFIX}{NAME}"))
    condition = leaf("EQUAL", orders_schema.fields[0].name, 1)
    catalog.policies.create(orders, filter_policy(NAME, condition))
    thing = Thing(TargetType.TABLE, orders.database, orders.name)
    for name in (NAME, *ALIKE, *PADDED):
        for caller in (_caller(name), _caller("ada", name)):
            rights = catalog.access.rights(caller, thing)
            expected = (Access.SELECT if name == caller.name else Access.UPDATE,)
            assert tuple(rights.own) == (expected if name == NAME else ()), (name, caller)
        owned = catalog.access.rights(_caller(name), Thing(TargetType.TABLE, "owned", "own"))
        assert owned.is_visible == (name == NAME), name
        with acting_as(_caller(name)):
            assert bool(catalog.policies.access(orders).restriction) == (name == NAME), name
            listed = list(catalog.databases.list().items)
            assert listed == (["owned", "sales"] if name == NAME else []), name


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_things_are_found_by_their_own_names(catalog: SqlCatalog, orders_schema: Schema) -> None:
    names = (NAME, *ALIKE)
    for name in names:
        catalog.databases.create(name)
        catalog.tables.create(Identifier(name, name), orders_schema)
        target = PermissionTarget(TargetType.TABLE, name, name)
        catalog.permissions.grant(Grant(target, Access.SELECT, f"reader of {name}"))
    for name in names:
        caller = _caller(f"reader of {name}")
        for other in names:
            rights = catalog.access.rights(caller, Thing(TargetType.TABLE, other, other))
            assert rights.is_visible == (other == name), (name, other)


def test_tokens_and_groups_have_their_own_names(migrated_url: str) -> None:
    names = (NAME, *ALIKE)
    with opened_database(migrated_url, SYSTEM_RUNTIME) as database:
        tokens, groups = Tokens(database, SYSTEM_RUNTIME), Groups(database)
        for name in names:
            tokens.create(name)
            groups.add(f"of {name}", name)
        for name in names:
            assert groups.of(name) == {f"of {name}"}
        for name in PADDED:
            assert groups.of(name) == set()
        tokens.revoke(NAME)
        assert {each.name for each in tokens.list()} == set(ALIKE)
