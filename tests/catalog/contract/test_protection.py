"""Protection refuses drops and nothing else, over every catalog."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Forbidden, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema


def test_nothing_is_protected_by_itself(catalog: Catalog, table: Identifier) -> None:
    assert not catalog.protection.is_database_protected(table.database)
    assert not catalog.protection.is_table_protected(table)


def test_a_protected_table_is_not_dropped(catalog: Catalog, table: Identifier) -> None:
    catalog.protection.protect_table(table)
    assert catalog.protection.is_table_protected(table)
    drops: tuple[Callable[[], None], ...] = (
        lambda: catalog.tables.drop(table),
        lambda: catalog.tables.drop(table, ignore_if_not_exists=True),
        lambda: catalog.databases.drop(table.database),
    )
    for drop in drops:
        with pytest.raises(Forbidden, match="headwater unprotect") as error:
            drop()
        assert error.value.resource_type is ResourceType.TABLE
        assert error.value.resource_name == "sales.orders"
    assert list(catalog.tables.list(table.database).items) == [table.name]
    catalog.protection.protect_table(table, False)
    catalog.tables.drop(table)
    assert list(catalog.tables.list(table.database).items) == []


def test_a_protected_database_is_not_dropped(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    catalog.protection.protect_database(table.database)
    assert catalog.protection.is_database_protected(table.database)
    with pytest.raises(Forbidden) as error:
        catalog.databases.drop(table.database)
    assert error.value.resource_type is ResourceType.DATABASE
    assert error.value.resource_name == "sales"
    # Its tables come and go.
    catalog.tables.drop(table)
    catalog.tables.create(table, orders_schema)
    catalog.protection.protect_database(table.database, False)
    catalog.databases.drop(table.database)
    assert list(catalog.databases.list().items) == []


def test_a_protected_table_can_be_changed_and_stays_protected(
    catalog: Catalog, table: Identifier
) -> None:
    catalog.protection.protect_table(table)
    catalog.protection.protect_table(table)
    catalog.tables.alter(table, [SetOption("write-only", "true")])
    renamed = Identifier(table.database, "renamed")
    catalog.tables.rename(table, renamed)
    assert catalog.protection.is_table_protected(renamed)
    with pytest.raises(Forbidden):
        catalog.tables.drop(renamed)


def test_what_is_not_there_cannot_be_protected(catalog: Catalog) -> None:
    for action in (
        lambda: catalog.protection.protect_database("none"),
        lambda: catalog.protection.is_database_protected("none"),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is ResourceType.DATABASE
    none = Identifier("none", "none")
    for action in (
        lambda: catalog.protection.protect_table(none),
        lambda: catalog.protection.is_table_protected(none),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is ResourceType.TABLE
