"""Batches of the log of a PostgreSQL server."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.postgres.logs import LIMITS, SourceLog, contents, name, source_log

from headwater.cdc.ddl import CreateTable, RenameTables, Truncate
from headwater.cdc.model.tables import TableName
from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.relations import Redefined, Relation, ReplicaIdentity
from headwater.cdc.postgres.slots import find_slot, log_position
from headwater.cdc.source.log_batches import BatchLimits
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Conflict, Invalid, Unavailable
from headwater.storage.rows.kinds import RowKind

pytestmark = pytest.mark.postgresql

INSERT, BEFORE = RowKind.INSERT, RowKind.UPDATE_BEFORE
AFTER, DELETE = RowKind.UPDATE_AFTER, RowKind.DELETE
LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i)"


@pytest.fixture
def log(any_postgres: PostgresDatabase) -> SourceLog:
    any_postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE other (a int)")
    return source_log(any_postgres)


def test_rows_of_followed_tables_are_in_the_order_of_their_transactions(log: SourceLog) -> None:
    log.database.run(
        "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, '')",
        "INSERT INTO other SELECT generate_series(1, 1000)",
        "UPDATE t SET v = 'b' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )
    with log.reader("t") as reader:
        described, batch = log.read(reader)
        known = reader.known(name("t"))
    assert known is not None
    assert described.changes == [Redefined(name("t"), known, None)]
    assert not described.rows
    assert list(batch.rows) == [name("t")]
    assert contents([batch], "t").rows == [
        (INSERT, {"id": "1", "v": "a"}),
        (INSERT, {"id": "2", "v": None}),
        (INSERT, {"id": "3", "v": ""}),
        (AFTER, {"id": "1", "v": "b"}),
        (DELETE, {"id": "2"}),
    ]
    # Also those of the other table, whose rows are not kept.
    assert batch.transactions == 4
    assert 0 < batch.size < 1000


def test_a_batch_tells_when_its_last_transaction_was_committed(log: SourceLog) -> None:
    log.database.run("INSERT INTO t VALUES (1)")
    now = log.database.value("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    with log.reader("t") as reader:
        *_, batch = log.read(reader)
    assert abs(batch.source_time - now) < 60_000


def test_a_description_that_is_known_is_no_change(log: SourceLog) -> None:
    log.database.run("INSERT INTO t VALUES (1)")
    with log.reader("t") as reader:
        (change, _) = log.read(reader)
        known = reader.known(name("t"))
    assert known is not None
    assert [column.name for column in known.columns] == ["id", "v"]
    assert [column.name for column in known.columns if column.is_key] == ["id"]
    assert known.identity is ReplicaIdentity.DEFAULT
    with log.reader("t", known=[known]) as reader:
        (batch,) = log.read(reader)
    assert not batch.changes
    assert change.end.contains(batch.start)


def test_a_large_transaction_that_was_rolled_back(log: SourceLog) -> None:
    """PostgreSQL 18 tells of it, as of one that it has sent before its end."""
    log.database.run(
        "BEGIN",
        "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 50000) g",
        "ROLLBACK",
        "INSERT INTO t VALUES (1)",
    )
    with log.reader("t") as reader:
        batches = log.read(reader)
    assert contents(batches, "t").rows == [(INSERT, {"id": "1", "v": None})]


def test_a_batch_ends_after_the_transaction_that_reaches_its_size(log: SourceLog) -> None:
    for number in range(5):
        log.database.run(f"INSERT INTO t SELECT {number}00 + g FROM generate_series(1, 50) g")
    known = _known(log, "t")
    with log.reader("t", known=[known]) as reader:
        batches = [reader.read_batch(BatchLimits(60, bytes=1)) for _ in range(5)]
    assert [batch.transactions for batch in batches] == [1] * 5
    assert [len(contents([batch], "t").rows) for batch in batches] == [50] * 5
    assert all(one.end == two.start for one, two in pairwise(batches))


def test_many_rows_of_a_transaction_stay_together_beyond_the_memory(log: SourceLog) -> None:
    rows = 40_000
    with log.database.connect() as session:
        with session.cursor().copy("COPY t FROM STDIN") as copy:
            for number in range(rows):
                copy.write_row((number, f"row {number} with some text that takes up memory"))
        session.execute("INSERT INTO other VALUES (1)")
        session.execute("INSERT INTO t VALUES (-1, 'last')")
    known = _known(log, "t")
    with log.reader("t", known=[known], memory_bytes=100_000) as reader:
        batch = reader.read_batch(BatchLimits(60, bytes=1))
        assert batch.transactions == 1
        rows_read = contents([batch], "t").rows
        reader.released()
    assert [row["id"] for _, row in rows_read] == [*map(str, range(rows)), "-1"]
    assert rows_read[777][1]["v"] == "row 777 with some text that takes up memory"


def test_a_restart_neither_repeats_nor_skips_a_transaction(log: SourceLog) -> None:
    """Positions are ends of transactions, of which many are running at once."""
    sessions = [log.database.connect() for _ in range(4)]
    for number in range(40):
        session = sessions[number % 4]
        session.execute(f"INSERT INTO t VALUES ({number}), ({1000 + number})".encode())
        if number % 3 == 0:
            session.commit()
    for session in sessions:
        session.commit()
        session.close()
    known, ids = _known(log, "t"), list[int]()
    position: Position = log.start
    goal = log_position(log.database.connection)
    while not position.contains(goal):
        with log.reader("t", start=position, known=[known]) as reader:
            batch = reader.read_batch(BatchLimits(60, bytes=1))
            assert batch.transactions == 1 or not batch.has_content
            position = batch.end
            # The server may forget what is confirmed, and sends the rest.
            reader.confirm(position)
        ids += [int(row["id"] or 0) for _, row in contents([batch], "t").rows]
    assert sorted(ids) == sorted([*range(40), *range(1000, 1040)])


def test_a_planned_batch_is_read_again_exactly(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (0)")
    with log.reader("t", known=[known]) as reader:
        ends: list[LogPosition] = []
        for number in range(1, 6):
            # The last transaction has nothing to be sent: positions are past the others' ends.
            log.database.run(f"INSERT INTO t VALUES ({number})", "SELECT txid_current()")
            log.read(reader)
            ends.append(reader.position)
    for first, end in enumerate(ends[1:], start=2):
        with log.reader("t", start=ends[first - 2], known=[known]) as reader:
            batch = reader.read_until(end)
            assert (batch.start, batch.end) == (ends[first - 2], end)
            assert contents([batch], "t").rows == [(INSERT, {"id": str(first), "v": None})]
            log.read(reader)
            assert reader.position.contains(ends[-1])


def test_a_planned_batch_has_no_changes_when_it_is_read_again(log: SourceLog) -> None:
    log.database.run("INSERT INTO t VALUES (1)", "ALTER TABLE t ADD w int", "TRUNCATE t")
    log.database.run("INSERT INTO t VALUES (2, 'b', 3)")
    goal = log_position(log.database.connection)
    with log.reader("t") as reader:
        batch = reader.read_until(goal)
    assert not batch.changes
    assert batch.end == goal
    assert contents([batch], "t").rows == [
        (INSERT, {"id": "1", "v": None}),
        (INSERT, {"id": "2", "v": "b", "w": "3"}),
    ]


def test_a_batch_is_read_on_to_a_position(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (0)")
    with log.reader("t", known=[known]) as reader:
        batch = reader.read_batch(BatchLimits(60, bytes=1))
        log.database.run("INSERT INTO t VALUES (1)", "SELECT txid_current()")
        end = log_position(log.database.connection)
        log.database.run("INSERT INTO t VALUES (2)")
        assert reader.read_on(batch, end, 60) == frozenset[TableName | None]([name("t")])
        assert reader.position == batch.end == end
        assert [row["id"] for _, row in contents([batch], "t").rows] == ["0", "1"]
        log.database.run("TRUNCATE t")
        assert reader.read_on(batch, log_position(log.database.connection), 60) is None
        assert [row["id"] for _, row in contents([batch], "t").rows] == ["0", "1", "2"]
        assert log.read(reader)[0].changes == [Truncate(name("t"))]


def test_the_position_of_a_quiet_database_advances(log: SourceLog) -> None:
    """risingwavelabs/risingwave#16697, airbytehq/airbyte#27647, readysettech/readyset#263."""
    with log.reader("t") as reader:
        log.database.run("INSERT INTO other SELECT generate_series(1, 10000)")
        assert log.read(reader) == []
        assert reader.position.lsn > log.start.lsn
        slot = find_slot(log.database.connection, log.source.slot)
        assert slot is not None
        assert slot.confirmed == log.start.lsn, "nothing was confirmed"
        reader.confirm(reader.position)
        _await_confirmation(log, reader.position)


def test_a_position_does_not_advance_within_a_transaction(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (0)")
    with log.reader("t", known=[known]) as reader, log.database.connect() as session:
        log.read(reader)
        session.execute("INSERT INTO t VALUES (1)")
        log.database.run("INSERT INTO other SELECT generate_series(1, 10000)")
        assert log.read(reader) == []
        before = reader.position
        session.commit()
        (batch,) = log.read(reader)
        assert contents([batch], "t").rows == [(INSERT, {"id": "1", "v": None})]
    with log.reader("t", start=before, known=[known]) as reader:
        (batch,) = log.read(reader)
        assert contents([batch], "t").rows == [(INSERT, {"id": "1", "v": None})]


def test_only_what_was_read_is_confirmed(log: SourceLog) -> None:
    """dlt-hub/dlt#933."""
    with log.reader("t") as reader:
        log.database.run("INSERT INTO t VALUES (1)")
        later = log_position(log.database.connection)
        with pytest.raises(Invalid, match="confirm what is committed"):
            reader.confirm(later)
        log.read(reader)
        reader.confirm(later)
        _await_confirmation(log, later)


def test_a_transaction_that_was_cut_off_is_read_again_whole(log: SourceLog) -> None:
    """debezium/debezium#7531 (dbz#1554): many changes with one position in the log."""
    rows = 200_000
    log.database.run(f"INSERT INTO t SELECT g FROM generate_series(1, {rows}) g")
    known = _known(log, "t")
    with log.reader("t", known=[known]) as reader:
        slot = find_slot(log.database.connection, log.source.slot)
        assert slot is not None
        assert not reader.read_batch(BatchLimits(0)).has_content
        log.database.rows(f"SELECT pg_terminate_backend({slot.process}, 10000)")
        with pytest.raises(Unavailable, match="the test's server"):
            assert not reader.read_batch(BatchLimits(3600)).has_content
        position = reader.position
    with log.reader("t", start=position, known=[known]) as reader:
        batches = log.read(reader)
    assert [row["id"] for _, row in contents(batches, "t").rows] == [
        str(number) for number in range(1, rows + 1)
    ]


def test_prepared_transactions_count_when_they_are_committed(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (0)")
    for number, transaction in enumerate(("one", "other"), start=1):
        with log.database.connect() as session:
            session.execute(f"INSERT INTO t VALUES ({number})".encode())
            session.execute(f"PREPARE TRANSACTION '{log.database.name}_{transaction}'".encode())
            session.autocommit = True
    with log.reader("t", known=[known]) as reader:
        (batch,) = log.read(reader)
        position = reader.position
        assert contents([batch], "t").rows == [(INSERT, {"id": "0", "v": None})]
    log.database.run(
        f"ROLLBACK PREPARED '{log.database.name}_one'",
        f"COMMIT PREPARED '{log.database.name}_other'",
    )
    with log.reader("t", start=position, known=[known]) as reader:
        (batch,) = log.read(reader)
    assert contents([batch], "t").rows == [(INSERT, {"id": "2", "v": None})]


def test_what_was_rolled_back_is_not_there(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (0)")
    with log.database.connect() as session:
        session.execute("INSERT INTO t VALUES (1)")
        session.execute("SAVEPOINT s")
        # More than the server keeps in memory.
        session.execute("INSERT INTO t SELECT g, md5(g::text) FROM generate_series(2, 20000) g")
        session.execute("ROLLBACK TO s")
        session.execute("INSERT INTO t VALUES (2)")
        session.commit()
        session.execute("INSERT INTO t VALUES (3)")
        session.rollback()
    with log.reader("t", known=[known]) as reader:
        batches = log.read(reader)
    assert [row["id"] for _, row in contents(batches, "t").rows] == ["0", "1", "2"]


def test_messages_of_programs_and_names_of_types_are_passed_over(log: SourceLog) -> None:
    log.database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE m (id int PRIMARY KEY, mood mood, moods mood[])",
        "SELECT pg_logical_emit_message(true, 'headwater', 'beat')",
        "SELECT pg_logical_emit_message(false, 'headwater', 'beat')",
        "INSERT INTO m VALUES (1, 'sad', '{sad,NULL}')",
    )
    with log.reader("m") as reader:
        rows = contents(log.read(reader), "m").rows
    assert rows == [(INSERT, {"id": "1", "mood": "sad", "moods": "{sad,NULL}"})]


def test_the_server_is_answered_when_it_asks(log: SourceLog) -> None:
    """A server ends a connection that is silent, also where nothing is read from it."""
    source = replace(log.source, dsn=f"{log.database.url}?options=-c%20wal_sender_timeout%3D300ms")
    with replace(log, source=source).reader("t") as reader:
        slot = find_slot(log.database.connection, log.source.slot)
        log.database.rows("SELECT pg_sleep(1)")
        assert find_slot(log.database.connection, log.source.slot) == slot
        log.database.run("INSERT INTO t VALUES (1)")
        assert [row["id"] for _, row in contents(log.read(reader), "t").rows] == ["1"]


# What the log leaves out ------------------------------------------------------------------------


def test_unchanged_long_values_are_left_out_and_not_null(log: SourceLog) -> None:
    """airbytehq/airbyte#30518, bruin-data/ingestr#805."""
    log.database.run(
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL, ADD w text, ADD x text",
        "ALTER TABLE t ALTER w SET STORAGE EXTERNAL",
        f"INSERT INTO t VALUES (1, {LONG}, {LONG}, 'a')",
        "UPDATE t SET x = 'b'",
        "UPDATE t SET w = NULL",
        "UPDATE t SET id = 2",
    )
    with log.reader("t") as reader:
        rows = contents(log.read(reader), "t").rows
    long = log.database.value("SELECT v FROM t")
    assert rows == [
        (INSERT, {"id": "1", "v": long, "w": long, "x": "a"}),
        (AFTER, {"id": "1", "x": "b"}),
        (AFTER, {"id": "1", "w": None, "x": "b"}),
        (BEFORE, {"id": "1"}),
        (AFTER, {"id": "2", "w": None, "x": "b"}),
    ]


def test_a_full_identity_has_the_rows_before_and_their_long_values(log: SourceLog) -> None:
    log.database.run(
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL, ADD x int",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t VALUES (1, {LONG}, NULL)",
        "UPDATE t SET x = 3",
        "DELETE FROM t",
    )
    with log.reader("t") as reader:
        rows = contents(log.read(reader), "t").rows
    long = log.database.value(f"SELECT {LONG}")
    assert rows == [
        (INSERT, {"id": "1", "v": long, "x": None}),
        (BEFORE, {"id": "1", "v": long, "x": None}),
        (AFTER, {"id": "1", "v": long, "x": "3"}),
        (DELETE, {"id": "1", "v": long, "x": "3"}),
    ]


def test_a_row_before_has_the_default_of_a_later_column(log: SourceLog) -> None:
    """MaterializeInc/materialize#23412: a default that was never written."""
    log.database.run(
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t ADD w int NOT NULL DEFAULT 7",
        "UPDATE t SET v = 'b'",
    )
    with log.reader("t") as reader:
        rows = contents(log.read(reader), "t").rows
    assert rows[1:] == [
        (BEFORE, {"id": "1", "v": "a", "w": "7"}),
        (AFTER, {"id": "1", "v": "b", "w": "7"}),
    ]


def test_columns_that_the_source_computes_are_not_in_the_log(log: SourceLog) -> None:
    log.database.run(
        "CREATE TABLE g (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO g VALUES (1)",
    )
    with log.reader("g") as reader:
        (shape,) = contents(log.read(reader), "g").relations
    assert shape.column_names == ("id",)


def test_a_long_key_that_did_not_change_is_that_of_the_row_before(log: SourceLog) -> None:
    log.database.run(
        "CREATE TABLE k (a text, b int, v text, PRIMARY KEY (a, b))",
        "ALTER TABLE k ALTER a SET STORAGE EXTERNAL",
        # The key alone is short enough for its index, and the row is long enough to be divided.
        "INSERT INTO k VALUES (repeat('k', 1500), 1, repeat(md5('x'), 60))",
        "UPDATE k SET b = 2",
    )
    with log.reader("k") as reader:
        rows = contents(log.read(reader), "k").rows
    key = "k" * 1500
    assert rows[1] == (BEFORE, {"a": key, "b": "1"})
    assert (rows[2][0], rows[2][1]["a"], rows[2][1]["b"]) == (AFTER, key, "2")


# Changes of tables ------------------------------------------------------------------------------


def test_a_truncation_comes_before_its_transaction(log: SourceLog) -> None:
    log.database.run("INSERT INTO t VALUES (1)", "INSERT INTO other VALUES (1)")
    with log.database.connect() as session:
        session.execute("INSERT INTO t VALUES (2)")
        session.execute("INSERT INTO other VALUES (2)")
        session.execute("TRUNCATE t, other")
        session.execute("INSERT INTO t VALUES (3)")
    with log.reader("t", selected=["t"]) as reader:
        _, before, truncation, after = log.read(reader)
    assert contents([before], "t").rows == [(INSERT, {"id": "1", "v": None})]
    assert truncation.changes == [Truncate(name("t"))]
    assert not truncation.rows
    assert truncation.start == truncation.end == before.end
    assert contents([after], "t").rows == [(INSERT, {"id": "3", "v": None})]


def test_an_altered_table_is_a_change_before_its_next_rows(log: SourceLog) -> None:
    log.database.run(
        "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t ADD w int NOT NULL DEFAULT 7",
        "ALTER TABLE t RENAME v TO u",
        "INSERT INTO t VALUES (2, 'b')",
    )
    with log.reader("t") as reader:
        first, before, change, after = log.read(reader)
    (relation,), (old,) = contents([after], "t").relations, contents([before], "t").relations
    assert relation.column_names == ("id", "u", "w")
    assert [*first.changes, *change.changes] == [
        Redefined(name("t"), old, None),
        Redefined(name("t"), relation, old),
    ]
    assert contents([after], "t").rows == [(INSERT, {"id": "2", "u": "b", "w": "7"})]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ALTER v TYPE varchar(10)",
        "ALTER TABLE t DROP v, ADD v varchar",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)",
    ],
)
def test_every_difference_of_a_description_is_a_change(log: SourceLog, statement: str) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (1, 'a')")
    log.database.run(statement, "INSERT INTO t VALUES (2, 'b')")
    with log.reader("t", known=[known]) as reader:
        _, change, _ = log.read(reader)
    (redefined,) = change.changes
    assert isinstance(redefined, Redefined)
    assert redefined.before == known
    assert not redefined.is_other_table


def test_a_table_altered_within_a_transaction_is_read_again(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (1, 'a')")
    with log.database.connect() as session:
        session.execute("INSERT INTO t VALUES (2, 'b')")
        session.execute("ALTER TABLE t ADD w int")
        session.execute("INSERT INTO t VALUES (3, 'c', 3)")
        session.execute("INSERT INTO other VALUES (3)")
    with log.reader("t", "other", known=[known]) as reader:
        _, change, mixed = log.read(reader)
    assert [type(each) for each in change.changes] == [Redefined, Redefined]
    assert mixed.rereads == {
        name("t"): "a transaction changed rows of the table and altered it after that"
    }
    assert contents([mixed], "t").rows == [(INSERT, {"id": "3", "v": "c", "w": "3"})]
    assert contents([mixed], "other").rows == [(INSERT, {"a": "3"})]


def test_a_renamed_table_keeps_its_number_and_another_one_has_another(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (1, 'a')")
    log.database.run(
        "ALTER TABLE t RENAME TO old",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t VALUES (2, 'b')",
        "INSERT INTO old VALUES (3, 'c')",
    )
    with log.reader("t", known=[known], selected=["t", "old"]) as reader:
        changes = [batch.changes for batch in log.read(reader) if batch.changes]
    # The name has another table now, and the name of the table that had it is new.
    assert changes == [[CreateTable(name("t"), or_replace=True)], [CreateTable(name("old"))]]


def test_a_table_that_is_renamed_out_of_the_selection_is_a_change(log: SourceLog) -> None:
    known = _known(log, "t", "INSERT INTO t VALUES (1, 'a')")
    log.database.run("ALTER TABLE t RENAME TO away", "INSERT INTO away VALUES (2)")
    with log.reader("t", known=[known]) as reader:
        batches = log.read(reader)
    renamed, redefined = batches[1].changes
    assert renamed == RenameTables(((name("t"), name("away")),))
    assert redefined.tables == (name("away"), name("t"))
    assert [batch.rows.keys() for batch in batches[2:]] == []


def test_rows_of_partitions_are_those_of_their_root(log: SourceLog) -> None:
    log.database.run(
        "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 (v text, id int NOT NULL)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (1, 'a'), (11, 'b')",
        "UPDATE p SET id = 12 WHERE id = 1",
    )
    with log.reader("p") as reader:
        rows = contents(log.read(reader), "p").rows
    assert rows == [
        (INSERT, {"id": "1", "v": "a"}),
        (INSERT, {"id": "11", "v": "b"}),
        (DELETE, {"id": "1"}),
        (INSERT, {"id": "12", "v": "a"}),
    ]


# Slots ------------------------------------------------------------------------------------------


def test_a_slot_in_use_is_refused(log: SourceLog) -> None:
    with (
        log.reader("t"),
        pytest.raises(Conflict, match="is in use by process"),
        log.reader("t", wait_seconds=0),
    ):
        pass


def test_a_slot_past_the_position_is_refused(log: SourceLog) -> None:
    """debezium/debezium#3970 (DBZ-5739), risingwavelabs/risingwave#14060."""
    log.database.run("INSERT INTO t VALUES (1)")
    with log.reader("t") as reader:
        log.read(reader)
        reader.confirm(reader.position)
        _await_confirmation(log, reader.position)
    with (
        pytest.raises(Conflict, match=r"changes are missing.*resnapshot --all"),
        log.reader("t", start=log.start),
    ):
        pass


def _known(log: SourceLog, table: str, statement: str | None = None) -> Relation:
    """What the log says a table is, as a pipeline has recorded it."""
    if statement is not None:
        log.database.run(statement)
    with log.reader(table) as reader:
        log.read(reader)
        known = reader.known(name(table))
    assert known is not None
    return known


def _await_confirmation(log: SourceLog, position: LogPosition) -> None:
    slot = find_slot(log.database.connection, log.source.slot)
    while slot is None or slot.confirmed is None or slot.confirmed < position.lsn:
        slot = find_slot(log.database.connection, log.source.slot)
    assert slot.confirmed == position.lsn


def test_a_position_within_a_commit_is_of_another_log(log: SourceLog) -> None:
    log.database.run("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")
    (_, end), (_, later) = log.database.rows(
        "SELECT xid, max(lsn) - '0/0' FROM pg_logical_slot_peek_binary_changes("
        f"'{log.source.slot}', NULL, NULL, 'proto_version', '1', 'publication_names', "
        f"'{log.source.publication}') GROUP BY xid ORDER BY 2"
    )
    for lsn in (int(end), int(later)):
        with log.reader("t") as reader:
            within, known = log.start.at(lsn - 8), log.start.at(lsn)
            with pytest.raises(Conflict, match=r"it was restored; .*resnapshot --all"):
                reader.read_until(within)
        with log.reader("t") as reader:
            assert reader.read_until(known).end == known


def test_a_position_does_not_go_back_behind_one_that_was_read_until(log: SourceLog) -> None:
    # The log has nothing of the last of them.
    log.database.run("INSERT INTO other VALUES (1)", "CREATE TABLE more (a int)")
    goal = log_position(log.database.connection)
    log.database.run("INSERT INTO t VALUES (1, 'a')")
    with log.reader("t") as reader:
        assert reader.read_until(goal).end == goal
        described = reader.read_batch(LIMITS)
        assert described.changes
        assert described.end == goal
        reader.confirm(goal)
