"""Grants, over every catalog: they are recorded, listed and revoked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.functions import FunctionSpec
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import (
    GRANTABLE,
    Access,
    ColumnSet,
    Grant,
    Holder,
    PermissionTarget,
    SeenTable,
    TargetType,
)
from headwater.catalog.model.views import ViewSchema
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema

TARGETS = (
    PermissionTarget(TargetType.CATALOG),
    PermissionTarget(TargetType.CATALOG_ALL),
    PermissionTarget(TargetType.DATABASE, "sales"),
    PermissionTarget(TargetType.DATABASE_ALL, "sales"),
    PermissionTarget(TargetType.TABLE, "sales", "orders"),
    PermissionTarget(TargetType.COLUMN, "sales", "orders"),
    PermissionTarget(TargetType.VIEW, "sales", view="recent"),
    PermissionTarget(TargetType.FUNCTION, "sales", function="area"),
)
ORDERS = TARGETS[4]
COLUMNS = TARGETS[5]
VIEW = TARGETS[6]
FUNCTION = TARGETS[7]


@pytest.fixture
def objects(catalog: Catalog, table: Identifier) -> None:
    """Something of every kind in a database ``sales``."""
    catalog.tables.alter(table, [SetOption("query-auth.enabled", "true")])
    catalog.views.create(Identifier("sales", "recent"), ViewSchema((), "SELECT 1"))
    catalog.functions.create(Identifier("sales", "area"), FunctionSpec())


def _grant(target: PermissionTarget, access: Access, principal: str = "ada") -> Grant:
    columns = ColumnSet(("amount",)) if target.type is TargetType.COLUMN else None
    return Grant(target, access, principal, columns)


def _granted(catalog: Catalog, target: PermissionTarget) -> list[Grant]:
    return list(catalog.permissions.list(target).items)


def test_whatever_can_be_granted_is_listed_until_it_is_revoked(
    catalog: Catalog, objects: None
) -> None:
    for target in TARGETS:
        assert _granted(catalog, target) == []
        for access in GRANTABLE[target.type]:
            catalog.permissions.grant(_grant(target, access))
    for target in TARGETS:
        assert _granted(catalog, target) == [
            _grant(target, access) for access in sorted(GRANTABLE[target.type])
        ]
    for target in TARGETS:
        for access in GRANTABLE[target.type]:
            catalog.permissions.revoke(target, access, "ada")
        assert _granted(catalog, target) == []


def test_revoking_what_was_not_granted_is_no_error(catalog: Catalog, objects: None) -> None:
    catalog.permissions.grant(_grant(ORDERS, Access.SELECT, "bob"))
    catalog.permissions.revoke(ORDERS, Access.SELECT, "ada")
    catalog.permissions.revoke(ORDERS, Access.UPDATE, "bob")
    assert _granted(catalog, ORDERS) == [_grant(ORDERS, Access.SELECT, "bob")]


def test_a_second_grant_takes_the_place_of_the_first(catalog: Catalog, objects: None) -> None:
    end = 4_102_444_799_123
    for columns, expires_at in (
        (ColumnSet(("amount", "dt")), None),
        (ColumnSet(excluded=("order_id",)), end),
    ):
        grant = Grant(COLUMNS, Access.SELECT, "ada", columns, expires_at)
        catalog.permissions.grant(grant)
        catalog.permissions.grant(grant)
        assert _granted(catalog, COLUMNS) == [grant]


def test_an_end_that_is_past_is_refused(catalog: Catalog, objects: None) -> None:
    with pytest.raises(Invalid, match="past"):
        catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "ada", expires_at=1_000))
    last = 253_402_300_799_999
    catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "ada", expires_at=last))
    assert [grant.expires_at for grant in _granted(catalog, ORDERS)] == [last]
    with pytest.raises(Invalid, match="year 10000"):
        Grant(ORDERS, Access.SELECT, "ada", expires_at=last + 1)


def test_lists_are_narrowed(catalog: Catalog, objects: None) -> None:
    for principal in ("ada", "bob"):
        for access in (Access.SELECT, Access.UPDATE):
            catalog.permissions.grant(_grant(ORDERS, access, principal))
    listed = catalog.permissions.list(ORDERS, principal="bob").items
    assert list(listed) == [
        _grant(ORDERS, Access.SELECT, "bob"),
        _grant(ORDERS, Access.UPDATE, "bob"),
    ]
    listed = catalog.permissions.list(ORDERS, access=Access.UPDATE).items
    assert [grant.principal for grant in listed] == ["ada", "bob"]
    listed = catalog.permissions.list(ORDERS, principal="bob", access=Access.SELECT).items
    assert list(listed) == [_grant(ORDERS, Access.SELECT, "bob")]
    assert list(catalog.permissions.list(ORDERS, principal="eve").items) == []
    with pytest.raises(Invalid):
        catalog.permissions.list(ORDERS, access=Access.CREATETABLE)
    with pytest.raises(Invalid):
        catalog.permissions.list(ORDERS, principal=" ")


def test_lists_come_in_pages(catalog: Catalog, objects: None) -> None:
    grants = [
        _grant(ORDERS, access, principal)
        for principal in ("Ada", "ada", "bo:b", "élan")
        for access in sorted(GRANTABLE[TargetType.TABLE])
    ]
    for grant in reversed(grants):
        catalog.permissions.grant(grant)
    found: list[Grant] = []
    token = None
    while True:
        page = catalog.permissions.list(ORDERS, max_results=5, page_token=token)
        assert len(page.items) <= 5
        found += page.items
        token = page.next_token
        if token is None:
            break
        # What was seen may go; the next page begins where this one ended all the same.
        last = page.items[-1]
        catalog.permissions.revoke(ORDERS, last.access, last.principal)
    assert found == grants
    with pytest.raises(Invalid, match="page token"):
        catalog.permissions.list(ORDERS, page_token="nonsense")


NOT_THERE: Sequence[tuple[PermissionTarget, str, str | None]] = [
    (PermissionTarget(TargetType.DATABASE, "none"), "DATABASE", "none"),
    (PermissionTarget(TargetType.DATABASE_ALL, "none"), "DATABASE", "none"),
    (PermissionTarget(TargetType.TABLE, "sales", "none"), "TABLE", "none"),
    (PermissionTarget(TargetType.TABLE, "none", "orders"), "TABLE", "orders"),
    (PermissionTarget(TargetType.TABLE, "sales", "orders$branch_b"), "TABLE", None),
    (PermissionTarget(TargetType.COLUMN, "sales", "none"), "TABLE", "none"),
    (PermissionTarget(TargetType.VIEW, "sales", view="orders"), "VIEW", "orders"),
    (PermissionTarget(TargetType.FUNCTION, "sales", function="f"), "FUNCTION", "f"),
]


def test_a_target_that_does_not_exist_is_named(
    catalog: Catalog, objects: None, subtests: pytest.Subtests
) -> None:
    for target, kind, name in NOT_THERE:
        with subtests.test(target=target):
            grant = _grant(target, min(GRANTABLE[target.type]))
            with pytest.raises(NotFound) as error:
                catalog.permissions.grant(grant)
            assert error.value.resource_type is ResourceType(kind)
            assert name is None or error.value.resource_name == name
            with pytest.raises(NotFound):
                catalog.permissions.revoke(target, grant.access, "ada")
            with pytest.raises(NotFound):
                catalog.permissions.list(target)


def test_columns_must_be_the_tables(catalog: Catalog, objects: None) -> None:
    for columns in (ColumnSet(("amount", "price")), ColumnSet(excluded=("price",))):
        with pytest.raises(NotFound) as error:
            catalog.permissions.grant(Grant(COLUMNS, Access.SELECT, "ada", columns))
        assert error.value.resource_type is ResourceType.COLUMN
        assert error.value.resource_name == "price"
    assert _granted(catalog, COLUMNS) == []


def test_grants_follow_what_is_renamed(catalog: Catalog, objects: None) -> None:
    catalog.databases.create("archive")
    catalog.permissions.grant(_grant(ORDERS, Access.SELECT))
    catalog.permissions.grant(_grant(VIEW, Access.SELECT))
    catalog.tables.rename(Identifier("sales", "orders"), Identifier("archive", "old"))
    catalog.views.rename(Identifier("sales", "recent"), Identifier("archive", "old"))
    for target in (
        PermissionTarget(TargetType.TABLE, "archive", "old"),
        PermissionTarget(TargetType.VIEW, "archive", view="old"),
    ):
        assert _granted(catalog, target) == [_grant(target, Access.SELECT)]


def test_what_takes_a_dropped_things_name_has_none_of_its_grants(
    catalog: Catalog, objects: None, orders_schema: Schema
) -> None:
    for target in TARGETS[2:]:
        catalog.permissions.grant(_grant(target, min(GRANTABLE[target.type])))
    catalog.tables.drop(Identifier("sales", "orders"))
    catalog.views.drop(Identifier("sales", "recent"))
    catalog.functions.drop(Identifier("sales", "area"))
    catalog.tables.create(Identifier("sales", "orders"), orders_schema)
    catalog.views.create(Identifier("sales", "recent"), ViewSchema((), "SELECT 1"))
    catalog.functions.create(Identifier("sales", "area"), FunctionSpec())
    for target in (ORDERS, COLUMNS, VIEW, FUNCTION):
        assert _granted(catalog, target) == []
    assert len(_granted(catalog, TARGETS[2])) == 1
    catalog.databases.drop("sales")
    catalog.databases.create("sales")
    assert _granted(catalog, TARGETS[2]) == []
    assert _granted(catalog, TARGETS[3]) == []


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (TargetType.CATALOG, {"database": "sales"}),
        (TargetType.DATABASE, {}),
        (TargetType.DATABASE, {"database": " \t"}),
        (TargetType.DATABASE_ALL, {"database": "sales", "table": "orders"}),
        (TargetType.TABLE, {"database": "sales"}),
        (TargetType.TABLE, {"table": "orders"}),
        (TargetType.COLUMN, {"database": "sales", "table": "orders", "view": "v"}),
        (TargetType.VIEW, {"database": "sales", "function": "f"}),
        (TargetType.FUNCTION, {"database": "sales", "view": "v"}),
    ],
)
def test_a_target_has_the_names_that_lead_to_it(kind: TargetType, names: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=kind):
        PermissionTarget(kind, **names)


def test_what_cannot_be_granted_is_refused() -> None:
    with pytest.raises(Invalid, match="CREATETABLE"):
        Grant(ORDERS, Access.CREATETABLE, "ada")
    for principal in ("", " ", "x" * 129, "😀" * 65):
        with pytest.raises(Invalid, match="principal"):
            Grant(ORDERS, Access.SELECT, principal)
    with pytest.raises(Invalid, match="columns"):
        Grant(COLUMNS, Access.SELECT, "ada")
    with pytest.raises(Invalid, match="columns"):
        Grant(ORDERS, Access.SELECT, "ada", ColumnSet(("amount",)))
    for names, excluded in ((None, None), (("a",), ("b",)), ((), None), (("a", "a"), None)):
        with pytest.raises(Invalid, match="columns"):
            ColumnSet(names, excluded)


def test_who_sees_a_thing_and_what_somebody_sees(catalog: Catalog, objects: None) -> None:
    orders = Identifier("sales", "orders")
    for target, access, principal in (
        (ORDERS, Access.SELECT, "ada"),
        (COLUMNS, Access.SELECT, "bob"),
        (PermissionTarget(TargetType.DATABASE_ALL, "sales"), Access.ALL, "group:ops"),
        (PermissionTarget(TargetType.DATABASE, "sales"), Access.LIST, "eve"),
        (PermissionTarget(TargetType.CATALOG_ALL), Access.DROP, "zoe"),
        (PermissionTarget(TargetType.CATALOG), Access.ALL, "moe"),
    ):
        catalog.permissions.grant(_grant(target, access, principal))
    everything = GRANTABLE[TargetType.TABLE]
    columns = (ColumnSet(("amount",)),)
    on_table = [
        Holder("ada", frozenset({Access.SELECT})),
        Holder("bob", frozenset(), columns),
        Holder("group:ops", everything),
        Holder("zoe", frozenset({Access.DROP})),
    ]
    assert list(catalog.permissions.who(ORDERS).items) == on_table
    found: list[Holder] = []
    token: str | None = None
    while True:
        page = catalog.permissions.who(ORDERS, max_results=1, page_token=token)
        found += page.items
        token = page.next_token
        if token is None:
            break
    assert found == on_table
    names = {
        target.type: [each.principal for each in catalog.permissions.who(target).items]
        for target in (TARGETS[0], TARGETS[2], VIEW, FUNCTION)
    }
    assert names == {
        TargetType.CATALOG: ["moe", "zoe"],
        TargetType.DATABASE: ["eve", "group:ops", "zoe"],
        TargetType.VIEW: ["group:ops", "zoe"],
        TargetType.FUNCTION: ["group:ops", "zoe"],
    }
    seen = {name: list(catalog.permissions.of(name).items) for name in ("ada", "bob", "eve", "moe")}
    assert seen == {
        "ada": [SeenTable(orders, frozenset({Access.SELECT}))],
        "bob": [SeenTable(orders, frozenset(), columns)],
        "eve": [SeenTable(orders, frozenset())],
        "moe": [],
    }
    ops = list(catalog.permissions.of("group:ops").items)
    assert ops == [SeenTable(orders, everything)]
    with pytest.raises(NotFound):
        catalog.permissions.who(PermissionTarget(TargetType.TABLE, "sales", "none"))
    for target in (COLUMNS, PermissionTarget(TargetType.CATALOG_ALL)):
        with pytest.raises(Invalid, match="no thing"):
            catalog.permissions.who(target)
