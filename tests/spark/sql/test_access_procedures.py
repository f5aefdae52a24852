"""Paimon's procedures about permissions and policies, over a catalog that asks nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.server.restricted import SCHEMA, concat, leaf

from headwater.spark.sql.context import SqlContext
from headwater.storage.errors import AlreadyExists, HeadwaterError, Invalid, NotFound

if TYPE_CHECKING:
    from tests.spark.sql.conftest import Run

DONE = [(True,)]
ORDERS = "database => 'db', table => 'orders'"
EMEA, NONE, HIDDEN = (
    json.dumps(document)
    for document in (leaf("EQUAL", "region", "EMEA"), leaf("IS_NULL", "region"), concat("***"))
)


@pytest.fixture(autouse=True)
def _orders(context: SqlContext) -> None:
    context.catalog.create_table("db.orders", SCHEMA, options={"query-auth.enabled": "true"})


def test_permissions_are_granted_again_listed_and_revoked(run: Run) -> None:
    what = f"resource_type => 'table', access => 'select', principal => 'ada', {ORDERS}"
    for end in ("2097-01-01T00:00:00Z", "2098-01-01T00:00:00Z"):
        assert run(f"CALL sys.grant_permission({what}, expire_time => '{end}')") == DONE
    listing = f"CALL sys.list_permissions(resource_type => 'TABLE', {ORDERS})"
    assert run(listing) == [
        ("TABLE", "db", "orders", None, None, "SELECT", "ada", None, None, end, None)
    ]
    assert run("SHOW GRANTS ON orders TO ada")[0][:4] == ("ada", "SELECT", None, "TABLE")
    for _ in range(2):
        assert run(f"CALL sys.revoke_permission({what})") == DONE
        assert run(listing) == []


def test_columns_are_arrays(run: Run, answered: Callable[[str], pa.Table]) -> None:
    what = f"resource_type => 'COLUMN', access => 'SELECT', principal => 'ada', {ORDERS}"
    listing = f"CALL sys.list_permissions(resource_type => 'COLUMN', {ORDERS}, principal => 'ada')"
    for argument, place in (("column_names", 7), ("excluded_column_names", 8)):
        call = f"CALL sys.grant_permission({what}, {argument} => array('id', 'region'))"
        assert run(call) == DONE
        (row,) = run(listing)
        assert (row[place], row[15 - place]) == (["id", "region"], None)
    assert answered(listing).schema.field("column_names").type == pa.list_(pa.string())
    positional = "'COLUMN', 'SELECT', 'bob', 'db', 'orders', NULL, NULL, NULL, ARRAY('id'), NULL"
    assert run(f"CALL sys.grant_permission({positional})") == DONE
    assert run("SHOW GRANTS ON orders TO bob")[0][:3] == ("bob", "SELECT", "id")


def test_listings_come_in_pages(run: Run) -> None:
    for principal in ("ada", "bob"):
        where = f"'CATALOG', 'CREATEDATABASE', '{principal}'"
        assert run(f"CALL sys.grant_permission({where})") == DONE
    listing = "CALL sys.list_permissions(resource_type => 'CATALOG', max_results => 1"
    (first,) = run(f"{listing})")
    (second,) = run(f"{listing}, page_token => '{first[-1]}')")
    assert (first[6], second[6], second[-1]) == ("ada", "bob", None)


def test_policies_are_made_listed_and_dropped_and_never_replaced(run: Run) -> None:
    what = f"{ORDERS}, policy_type => 'row_filter', principal => 'ada'"
    mask = f"{ORDERS}, policy_type => 'COLUMN_MASKING', principal => 'ada'"
    masked = f"{mask}, on_column => 'phone', transform_json => '{HIDDEN}'"
    assert run(f"CALL sys.create_policy({what}, predicate_json => '{EMEA}')") == DONE
    assert run(f"CALL sys.create_policy({masked})") == DONE
    with pytest.raises(AlreadyExists, match="drop it first"):
        run(f"CALL sys.create_policy({what}, predicate_json => '{NONE}')")
    masking, filtering = run(f"CALL sys.list_policies({ORDERS})")
    assert masking[:6] == ("db", "orders", "COLUMN_MASKING", "ada", None, "phone")
    assert filtering[:4] == ("db", "orders", "ROW_FILTER", "ada")
    assert json.loads(str(masking[6])) == concat("***")
    assert json.loads(str(filtering[4]))["literals"] == ["EMEA"]
    assert (masking[7], filtering[5:]) == (None, (None, None, None))
    assert run(f"CALL sys.list_policies({ORDERS}, policy_type => 'ROW_FILTER')") == [filtering]
    with pytest.raises(NotFound):
        run(f"CALL sys.drop_policy({mask}, column => 'region')")
    assert run(f"CALL sys.drop_policy({mask}, column => 'region', if_exists => true)") == DONE
    assert run(f"CALL sys.drop_policy({mask}, column => 'phone')") == DONE
    assert run(f"CALL sys.drop_policy({what})") == DONE
    assert run(f"CALL sys.list_policies({ORDERS})") == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("grant_permission('ROLE', 'SELECT', 'ada')", "is not a resource type"),
        ("grant_permission('TABLE', 'SELECT', 'ada', 'db')", "needs the name of its table"),
        ("grant_permission('TABLE', 'USE', 'ada', 'db', 'orders')", "cannot be granted"),
        ("grant_permission('TABLE', 'SELECT', 'ada', 'db', 'none')", "does not exist"),
        ("grant_permission('COLUMN', 'SELECT', 'ada', 'db', 'orders')", "needs 'columns'"),
        (
            "grant_permission(resource_type => 'COLUMN', access => 'SELECT', principal => 'ada', "
            f"{ORDERS}, column_names => 'id')",
            "ARRAY",
        ),
        (
            "grant_permission(resource_type => 'COLUMN', access => 'SELECT', principal => 'ada', "
            f"{ORDERS}, column_names => array('id'), excluded_column_names => array('region'))",
            "exactly one",
        ),
        (
            "grant_permission(resource_type => 'TABLE', access => 'SELECT', principal => 'ada', "
            f"{ORDERS}, expire_time => 'tomorrow')",
            "not an instant",
        ),
        ("list_permissions(resource_type => 'CATALOG', max_results => 0)", "at least 1"),
        (f"list_policies({ORDERS}, max_results => -1)", "at least 1"),
        ("create_policy('db', 'orders', 'VIEW', 'ada')", "is not a type of policy"),
        ("create_policy('db', 'orders', 'ROW_FILTER', 'ada')", "'predicate_json'"),
        ("create_policy('db', 'orders', 'COLUMN_MASKING', 'ada', '{}')", "is for ROW_FILTER"),
        ("drop_policy('db', 'orders', 'COLUMN_MASKING', 'ada')", "name it"),
    ],
)
def test_what_is_not_understood_is_refused(run: Run, call: str, words: str) -> None:
    with pytest.raises(HeadwaterError, match=words) as caught:
        run(f"CALL sys.{call}")
    assert isinstance(caught.value, Invalid | NotFound)
    assert run("SHOW GRANTS ON orders") == []
    assert run("SHOW POLICIES ON orders") == []
