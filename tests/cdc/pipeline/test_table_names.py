"""Tables of the lake that have other names than those of the source."""

from __future__ import annotations

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import with_files
from tests.cdc.waiting import until

from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.target_names import TargetNames
from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.errors import Invalid

TABLE = "(id INT PRIMARY KEY, v INT)"


def test_names_have_prefixes_and_follow_renames(origin: Origin, follower: Follower) -> None:
    origin.run(f"CREATE TABLE a {TABLE}", "INSERT INTO a VALUES (1, 1), (2, 2)")
    follower.change(layout=LayoutRules(TargetNames("ods_", "_s", mapping={"c": "third"})))
    # A name of an option that no table has yet.
    with pytest.raises(Invalid, match="option 'table-mapping': no followed table has the name 'c'"):
        follower.once()
    assert follower.lake.list_tables("lake") == []
    origin.run(f"CREATE TABLE c {TABLE}")
    follower.once()
    assert {"ods_a_s", "third"} <= set(follower.lake.list_tables("lake"))
    assert all(verdict.is_equal for verdict in follower.verify().values())
    origin.run(
        "INSERT INTO a VALUES (3, 3)",
        "RENAME TABLE a TO b",
        "UPDATE b SET v = 9 WHERE id = 1",
        "DROP TABLE c",
        "RENAME TABLE b TO c",
        "DELETE FROM c WHERE id = 2",
    )
    follower.once()
    assert follower.rows("third") == [{"id": 1, "v": 9}, {"id": 3, "v": 3}]
    assert follower.verify()["c"].is_equal


def test_clashing_names_create_nothing(origin: Origin, follower: Follower) -> None:
    origin.run(f"CREATE TABLE a {TABLE}", f"CREATE TABLE ods_b {TABLE}", f"CREATE TABLE d {TABLE}")
    follower.change(layout=LayoutRules(TargetNames(mapping={"a": "ods_b", "d": "cdc_state"})))
    with pytest.raises(Invalid) as error:
        follower.once()
    assert "are both table lake.ods_b of the lake; name one of them with tab" in error.value.message
    assert "lake.cdc_state of the lake is where pipelines keep" in error.value.message
    assert follower.lake.list_tables("lake") == []


def test_a_rename_to_a_name_that_is_taken(origin: Origin, follower: Follower) -> None:
    origin.run(f"CREATE TABLE a {TABLE}", f"CREATE TABLE b {TABLE}", "INSERT INTO b VALUES (1, 1)")
    follower.change(layout=LayoutRules(TargetNames(mapping={"b": "c"})))
    follower.once()
    origin.run("RENAME TABLE a TO c", "INSERT INTO b VALUES (2, 2)", "INSERT INTO c VALUES (3, 3)")
    follower.once()
    follower.once()
    state = follower.states()["c"]
    assert (state.target, state.phase) == ("", TablePhase.QUARANTINED)
    assert state.reason is not None
    assert f"lake.c of the lake follows {origin.table('b')}" in state.reason
    assert follower.rows("c") == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]
    assert follower.verify()["b"].is_equal


def test_a_name_that_is_too_long(origin: Origin, follower: Follower) -> None:
    origin.run(f"CREATE TABLE a {TABLE}", "INSERT INTO a VALUES (1, 1)")
    follower.change(layout=LayoutRules(TargetNames("p" * 150)))
    follower.once()
    long = "n" * 60
    origin.run(f"RENAME TABLE a TO {long}", f"INSERT INTO {long} VALUES (2, 2)")
    follower.once()
    state = follower.states()[long]
    assert state.phase is TablePhase.QUARANTINED, state
    assert "bytes" in (state.reason or "")
    assert len(follower.rows("p" * 150 + "a")) == 1


def test_other_names_at_a_later_start_are_rejected(origin: Origin, follower: Follower) -> None:
    origin.run(f"CREATE TABLE a {TABLE}", "INSERT INTO a VALUES (1, 1)")
    follower.once()
    follower.change(layout=LayoutRules(TargetNames("ods_")))
    with pytest.raises(Invalid, match=r"another name than before \('ods_a', not 'a'\)"):
        follower.once()
    follower.change(layout=LayoutRules(TargetNames()))
    origin.run("INSERT INTO a VALUES (2, 2)")
    follower.once()
    assert follower.verify()["a"].is_equal


@with_files
@pytest.mark.parametrize("is_known", [False, True])
def test_a_table_that_gives_its_name_away(
    origin: Origin, follower: Follower, is_known: bool
) -> None:
    """Its rows are followed under its other name, which another table may have had before."""
    origin.run(f"CREATE TABLE orders {TABLE}", "INSERT INTO orders VALUES (1, 1), (2, 2)")
    if is_known:
        origin.run(f"CREATE TABLE orders_2025 {TABLE}", "INSERT INTO orders_2025 VALUES (9, 9)")
    follower.once()
    with RunningPipeline(follower.pipeline()) as running:

        def is_followed(table: str) -> bool:
            phases = follower.phases()
            settled = {TablePhase.STREAMING, TablePhase.GONE}
            return phases.get(table) is TablePhase.STREAMING and set(phases.values()) <= settled

        if is_known:
            origin.run("DROP TABLE orders_2025")
        origin.run(f"CREATE TABLE orders_new {TABLE}", "INSERT INTO orders_new VALUES (3, 3)")
        until(lambda: is_followed("orders_new"))
        origin.run(
            "RENAME TABLE orders TO orders_2025, orders_new TO orders",
            "INSERT INTO orders VALUES (4, 4)",
            "INSERT INTO orders_2025 VALUES (5, 5)",
            f"CREATE TABLE later {TABLE}",
        )
        until(lambda: is_followed("later"))
        origin.run("UPDATE orders_2025 SET v = v + 1", "INSERT INTO later VALUES (1, 1)")
        until(lambda: follower.count("later") == 1)
        running.stop()
        running.wait(60)
    follower.check("orders", "orders_2025", "later")
