"""Names of the tables that online schema change tools make."""

from __future__ import annotations

import pytest

from headwater.cdc.ddl import TableName
from headwater.cdc.ddl.online_changes import is_tool_table

FOLLOWED = {"orders", "_private", "a_new", "log_20240101000000"}


def followed(name: TableName) -> bool:
    return name.database == "shop" and name.table in FOLLOWED


@pytest.mark.parametrize(
    "table",
    [
        "_orders_gho",
        "_orders_ghc",
        "_orders_del",
        "_orders_20240131235959_del",
        "_log_20240101000000_gho",
        "_log_20240101000000_20240131235959_del",
        "__private_gho",
        "_orders_new",
        "__orders_new",
        "__________orders_new",
        "_orders_old",
        "__orders_old",
        "__private_old",
        "_a_new_new",
        "__osc_new_orders",
        "__osc_chg_orders",
        "__osc_old_orders",
        "lhmn_orders",
        "lhma_2024_01_31_23_59_59_123_orders",
        "_vt_vrp_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_",
        "_vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_",
        "_vt_HOLD_6ace8bcef73211ea87e9f875a4d24e90_20200915120410",
        "_vt_DROP_6ace8bcef73211ea87e9f875a4d24e90_20200915120410",
        "_4e5dcf80_354b_11eb_82cd_f875a4d24e90_20201203114014_vrepl",
    ],
)
def test_tables_of_tools(table: str) -> None:
    assert is_tool_table(TableName("shop", table), followed)


@pytest.mark.parametrize(
    "table",
    [
        "orders",
        "_private",
        "orders_gho",
        "orders_new",
        "_other_gho",
        "_orders_gho_",
        "_orders_2024_del",
        "___________orders_new",
        "_orders_newer",
        "__osc_ins_orders",
        "lhma_2024_orders",
        "lhmn_other",
        "_vt_settings",
        "_vt_vrp_6ace8bce_20200915120410_",
    ],
)
def test_tables_that_only_look_like_them(table: str) -> None:
    assert not is_tool_table(TableName("shop", table), followed)


def test_the_table_of_another_database_is_not_meant() -> None:
    assert not is_tool_table(TableName("other", "_orders_gho"), followed)
