"""Names of the lake's tables."""

from __future__ import annotations

import pytest

from headwater.cdc.model.tables import TableName
from headwater.cdc.model.target_names import TargetNames
from headwater.storage.errors import Invalid

ORDERS = TableName("shop", "orders")


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (TargetNames(), "orders"),
        (TargetNames("ods_", "_v1"), "ods_orders_v1"),
        (TargetNames("a_", "_b", {"shop": "s_"}), "s_orders_b"),
        (TargetNames("a_", "_b", {"crm": "s_"}, {"shop": "_s"}), "a_orders_s"),
        (TargetNames("a_", mapping={"orders": "sales"}), "sales"),
        (TargetNames(mapping={"orders": "sales", "shop.orders": "best"}), "best"),
        (TargetNames(mapping={"Orders": "sales"}), "orders"),
        (TargetNames("a_", with_database=True), "a_shop_orders"),
    ],
)
def test_names(names: TargetNames, table: str) -> None:
    assert names.table(ORDERS) == table


def test_a_mapping_without_a_name_is_rejected() -> None:
    with pytest.raises(Invalid, match="'orders=', which lacks a name"):
        TargetNames(mapping={"orders": ""})


def test_names_that_no_table_has() -> None:
    names = TargetNames("", "", {"shop": "", "crm": ""}, {"x": ""}, {"orders": "a", "b.c": "d"})
    assert names.unused([ORDERS]) == [
        ("table-prefix-db", "crm"),
        ("table-suffix-db", "x"),
        ("table-mapping", "b.c"),
    ]
