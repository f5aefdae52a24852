"""Tables whose events come from more than one connector or database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cdc.kafka.conftest import Follower

from headwater.cdc.kafka.origins import Origin, united_origins
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Unsupported

ORDERS = TableName("shop", "orders")
# Those of SQL Server and PostgreSQL: a table's namespace is its schema.
FIRST = {"name": "s1", "db": "db1", "schema": "shop"}
OTHERS = [{**FIRST, "db": "db2"}, {**FIRST, "name": "s2"}]


@pytest.mark.parametrize(
    ("known", "new", "united"),
    [
        (None, Origin("s", "d"), Origin("s", "d")),
        (Origin("s", "d"), None, Origin("s", "d")),
        (None, None, None),
        (Origin("s", "d"), Origin("s", "d"), Origin("s", "d")),
        (Origin(None, "d"), Origin("s", "d"), Origin("s", "d")),
        (Origin("s", "d"), Origin(None, "d"), Origin("s", "d")),
        (Origin(None, "d"), Origin(None, "d"), Origin(None, "d")),
    ],
)
def test_origins_that_may_be_the_same(
    known: Origin | None, new: Origin | None, united: Origin | None
) -> None:
    texts = [None if origin is None else origin.to_json() for origin in (known, new, united)]
    assert united_origins(ORDERS, *texts[:2]) == texts[2]


@pytest.mark.parametrize(
    ("known", "new", "names"),
    [
        (Origin("s", "d"), Origin("s", "e"), "connector 's', database 'd' and from .* 'e'"),
        (Origin("s", "d"), Origin("t", "d"), "connector 's', .* and from connector 't'"),
        (Origin(None, "d"), Origin(None, "e"), "come from database 'd' and from database 'e'"),
        (Origin(None, "d"), Origin("s", "e"), "come from database 'd' and from connector 's'"),
    ],
)
def test_different_origins_are_rejected(known: Origin, new: Origin, names: str) -> None:
    with pytest.raises(Unsupported, match=f"events of shop.orders .*{names}.* two pipelines"):
        united_origins(ORDERS, known.to_json(), new.to_json())


@pytest.mark.cdc_kafka
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("schemas", [True, False])
def test_a_table_of_two_origins_in_one_batch(
    follower: Follower, other: dict[str, str], schemas: bool
) -> None:
    topic = follower.topic("all")
    orders = follower.table("orders", topic, schemas=schemas, source=FIRST)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    replace(orders, rows={}, source=other).insert({"id": 1, "item": "y", "amount": 2})
    assert not follower.once()
    assert f"connector 's1', database 'db1' and from connector '{other['name']}'" in (
        follower.reason("orders")
    )


@pytest.mark.cdc_kafka
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("truncates", [True, False])
def test_a_table_of_two_origins_after_a_restart(
    follower: Follower, other: dict[str, str], truncates: bool
) -> None:
    topic = follower.topic("all")
    orders = follower.table("orders", topic, source=FIRST)
    items = follower.table("items", topic, source=FIRST)
    for table in (orders, items):
        table.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    second = replace(orders, rows={}, source=other)
    if truncates:
        second.truncate()
    else:
        second.insert({"id": 1, "item": "y", "amount": 2})
    items.update((1,), amount=2)
    assert not follower.once()
    assert "come from connector 's1', database 'db1' and" in follower.reason("orders")
    follower.check(orders, items)


@pytest.mark.cdc_kafka
def test_an_origin_without_a_connector_takes_the_first_one(follower: Follower) -> None:
    topic = follower.topic("all")
    orders = follower.table("orders", topic, source={**FIRST, "name": None})
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    assert follower.states()["orders"].storage == Origin(None, "db1").to_json()
    orders.source = FIRST
    orders.insert({"id": 2, "item": "x", "amount": 1})
    assert follower.once()
    assert follower.states()["orders"].storage == Origin("s1", "db1").to_json()
    follower.check(orders)
    assert [verdict.is_equal for verdict in follower.verdicts()] == [True]
