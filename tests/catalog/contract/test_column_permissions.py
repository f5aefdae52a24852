"""Permissions on columns, over every catalog: they follow the columns through changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.table.table import Table
from headwater.storage.errors import Conflict, Invalid, NotFound, ResourceType
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
)
from headwater.storage.types.atomic_type import AtomicType, Root

COLUMNS = PermissionTarget(TargetType.COLUMN, "sales", "orders")
INT = AtomicType(Root.INT)


def _grant(catalog: Catalog, principal: str, columns: ColumnSet) -> None:
    catalog.permissions.grant(Grant(COLUMNS, Access.SELECT, principal, columns))


def _granted(catalog: Catalog) -> dict[str, ColumnSet | None]:
    return {each.principal: each.columns for each in catalog.permissions.list(COLUMNS).items}


ASKED = SetOption("query-auth.enabled", "true")


@pytest.fixture
def noted(catalog: Catalog, table: Identifier) -> Identifier:
    """A table with columns `amount` and `note`: ada may select `note`, bob all but `note`."""
    catalog.tables.alter(table, [AddColumn(("note",), INT), ASKED])
    _grant(catalog, "ada", ColumnSet(("dt", "note")))
    _grant(catalog, "bob", ColumnSet(excluded=("note",)))
    return table


@pytest.mark.parametrize(
    ("changes", "ada", "bob"),
    [
        ([RenameColumn(("note",), "remark")], ("dt", "remark"), ("remark",)),
        # Names that change places.
        (
            [
                RenameColumn(("note",), "x"),
                RenameColumn(("amount",), "note"),
                RenameColumn(("x",), "amount"),
            ],
            ("dt", "amount"),
            ("amount",),
        ),
        ([DropColumn(("note",))], ("dt",), ("note",)),
        # Another column of the same name is another column, but what was hidden stays so.
        ([DropColumn(("note",)), AddColumn(("note",), INT)], ("dt",), ("note",)),
        ([RenameColumn(("amount",), "sum")], ("dt", "note"), ("note",)),
    ],
)
def test_they_follow_a_change(
    catalog: Catalog,
    noted: Identifier,
    changes: list[SchemaChange],
    ada: tuple[str, ...],
    bob: tuple[str, ...],
) -> None:
    for change in changes:
        catalog.tables.alter(noted, [change])
    assert _granted(catalog) == {"ada": ColumnSet(ada), "bob": ColumnSet(excluded=bob)}


def test_one_without_a_column_left_ends(catalog: Catalog, noted: Identifier) -> None:
    _grant(catalog, "ada", ColumnSet(("note",)))
    catalog.tables.alter(noted, [DropColumn(("note",))])
    assert set(_granted(catalog)) == {"bob"}
    # What bob's excludes besides what is gone can still be changed.
    _grant(catalog, "bob", ColumnSet(excluded=("note", "amount")))
    assert _granted(catalog) == {"bob": ColumnSet(excluded=("note", "amount"))}
    with pytest.raises(NotFound, match="note"):
        _grant(catalog, "eve", ColumnSet(excluded=("note",)))
    with pytest.raises(NotFound, match="note"):
        _grant(catalog, "bob", ColumnSet(("note",)))


def test_they_need_readers_that_ask(catalog: Catalog, table: Identifier) -> None:
    columns = ColumnSet(("amount",))
    with pytest.raises(Conflict, match=r"option 'query-auth\.enabled' to be true") as caught:
        _grant(catalog, "ada", columns)
    assert caught.value.resource_type is ResourceType.TABLE
    before = catalog.tables.get(table).schema
    catalog.tables.alter(table, [ASKED])
    catalog.branches.create(table, "b")
    branch = Identifier("sales", "orders$branch_b")
    _grant(catalog, "ada", columns)
    for change in (RemoveOption(ASKED.key), SetOption(ASKED.key, "false")):
        for name in (table, branch):
            with pytest.raises(Invalid, match=r"permissions on columns: .* must stay true"):
                catalog.tables.alter(name, [change])
    with pytest.raises(Invalid, match="must stay true"):
        catalog.tables.replace(table, before.to_schema())
    with pytest.raises(Invalid, match="must stay true"):
        catalog.snapshots.rollback_schema(table, before.id)
    assert _granted(catalog) == {"ada": columns}
    catalog.permissions.revoke(COLUMNS, Access.SELECT, "ada")
    catalog.tables.alter(branch, [RemoveOption(ASKED.key)])
    _grant(catalog, "ada", columns)
    Table(catalog, catalog.tables.get(branch), SYSTEM_RUNTIME).write({"order_id": [1], "dt": ["x"]})
    with pytest.raises(Invalid, match="must stay true"):
        catalog.branches.fast_forward(table, "b")
    catalog.permissions.revoke(COLUMNS, Access.SELECT, "ada")
    catalog.tables.alter(table, [RemoveOption(ASKED.key)])


def test_they_go_back_with_the_schema(catalog: Catalog, noted: Identifier) -> None:
    before = catalog.tables.get(noted).schema.id
    catalog.tables.alter(noted, [RenameColumn(("note",), "remark")])
    catalog.snapshots.rollback_schema(noted, before)
    assert _granted(catalog) == {
        "ada": ColumnSet(("dt", "note")),
        "bob": ColumnSet(excluded=("note",)),
    }


def test_a_branch_takes_along_what_is_hidden(catalog: Catalog, noted: Identifier) -> None:
    catalog.branches.create(noted, "b")
    branch = Identifier("sales", "orders$branch_b")
    for change in (
        RenameColumn(("note",), "remark"),
        RenameColumn(("amount",), "note"),
        AddColumn(("amount",), INT),
    ):
        catalog.tables.alter(branch, [change])
    _grant(catalog, "eve", ColumnSet(("amount", "dt")))
    before = _granted(catalog)
    Table(catalog, catalog.tables.get(branch), SYSTEM_RUNTIME).write({"order_id": [1], "dt": ["x"]})
    assert _granted(catalog) == before
    catalog.branches.fast_forward(noted, "b")
    # A name that is another column's now opens it to nobody.
    assert _granted(catalog) == {
        "ada": ColumnSet(("dt",)),
        "bob": ColumnSet(excluded=("remark", "note")),
        "eve": ColumnSet(("dt",)),
    }


def test_a_replaced_table_keeps_those_on_names_that_it_still_has(
    catalog: Catalog, noted: Identifier
) -> None:
    before = catalog.tables.get(noted).schema.to_schema()
    _grant(catalog, "eve", ColumnSet(("note",)))
    fields = [each for each in before.fields if each.name != "note"]
    catalog.tables.replace(noted, replace(before, fields=tuple(fields)))
    assert _granted(catalog) == {"ada": ColumnSet(("dt",)), "bob": ColumnSet(excluded=("note",))}
    # It is another column, to which nobody was let.
    catalog.tables.alter(noted, [AddColumn(("note",), INT)])
    assert _granted(catalog) == {"ada": ColumnSet(("dt",)), "bob": ColumnSet(excluded=("note",))}
