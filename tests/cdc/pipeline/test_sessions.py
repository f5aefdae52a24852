"""Sessions whose settings keep rows, or parts of them, out of the log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import MARIADB, MYSQL_FILES, only_mariadb, only_mysql, with_files

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.state import PipelineState, TablePhase, TableState
from headwater.storage.errors import Invalid

DOCUMENTS = (
    "CREATE TABLE documents (id INT PRIMARY KEY, title VARCHAR(30) NOT NULL DEFAULT 'none', "
    "body LONGTEXT, n INT NOT NULL DEFAULT 7)"
)


@pytest.fixture(autouse=True)
def documents(origin: Origin, follower: Follower) -> None:
    rows = ", ".join(f"({key}, 'title {key}', REPEAT('x', {key}), {key})" for key in range(1, 40))
    origin.run(DOCUMENTS, f"INSERT INTO documents VALUES {rows}")
    follower.once()


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_partial_images(origin: Origin, follower: Follower, image: str) -> None:
    origin.session(
        f"SET SESSION binlog_row_image = '{image}'",
        "UPDATE documents SET title = 'new' WHERE id = 1",
        "UPDATE documents SET body = 'short', id = 101 WHERE id = 2",
        "DELETE FROM documents WHERE id = 3",
        "INSERT INTO documents (id) VALUES (50), (51)",
        "UPDATE documents SET n = n + 1 WHERE id > 30",
        "INSERT INTO documents VALUES (60, 'a', 'b', 1)",
        "DELETE FROM documents WHERE id = 60",
    )
    origin.run("UPDATE documents SET n = 100 WHERE id = 31", "DELETE FROM documents WHERE id = 50")
    follower.once()
    follower.check("documents")
    assert follower.phases() == {"documents": TablePhase.STREAMING}


def test_inserted_rows_without_any_column(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE settings (name VARCHAR(20) NOT NULL DEFAULT 'main' PRIMARY KEY, n INT)",
        "INSERT INTO settings VALUES ('other', 1)",
    )
    follower.once()
    origin.session("SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO settings VALUES ()")
    follower.once()
    follower.check("settings", "documents")
    assert follower.phases() == dict.fromkeys(["documents", "settings"], TablePhase.STREAMING)


@pytest.mark.parametrize("is_explicit", [0, 1])
def test_timestamps_that_are_not_null_by_a_setting(
    origin: Origin, follower: Follower, is_explicit: int
) -> None:
    origin.session(
        f"SET SESSION explicit_defaults_for_timestamp = {is_explicit}",
        "ALTER TABLE documents ADD COLUMN at TIMESTAMP",
    )
    follower.once()
    follower.check("documents")


class _WritingProgress(ProgressLog):
    """Logs a statement, which says nothing of its rows, after each batch that reads a table."""

    def __init__(self, origin: Origin) -> None:
        super().__init__()
        self._origin = origin
        self.begun: list[bool] = []

    def states(self, states: Mapping[TableName, TableState]) -> None:
        super().states(states)
        reading = states[self._origin.table("documents")].reading
        if reading is not None and len(self.begun) < 40:
            self.begun.append(reading.after is not None)
            self._origin.session(
                "SET SESSION binlog_format = 'STATEMENT'", "UPDATE documents SET n = n + 1"
            )


def test_a_reading_goes_on_while_statements_come(origin: Origin, follower: Follower) -> None:
    follower.change(range_rows=1, batch_seconds=0.05)
    # Tasks read all ranges in one batch.
    follower.executor = None
    origin.session("SET SESSION binlog_format = 'STATEMENT'", "UPDATE documents SET n = n + 1")
    pipeline = follower.pipeline()
    pipeline.progress = progress = _WritingProgress(origin)
    pipeline.run(once=True)
    follower.once()
    follower.check("documents")
    # It would begin with the first row after each statement.
    assert any(progress.begun)


@only_mysql  # MariaDB has no partial updates.
def test_partial_updates_of_json(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE j (id INT PRIMARY KEY, v JSON)")
    origin.run("""INSERT INTO j VALUES (1, '{"a": 1, "b": "text of some length"}'), (2, '[1]')""")
    follower.once()
    origin.session(
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE j SET v = JSON_SET(v, '$.a', 2) WHERE id = 1",
        "UPDATE j SET id = 3 WHERE id = 2",
    )
    follower.once()
    follower.check("j", "documents")


def test_statements_in_the_log(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, what TEXT)")
    origin.run(
        "CREATE TRIGGER watch AFTER UPDATE ON documents FOR EACH ROW "
        "INSERT INTO audit (what) VALUES (NEW.title)"
    )
    follower.once()
    origin.session(
        "SET SESSION binlog_format = 'STATEMENT'",
        "UPDATE documents SET title = 'by statement' WHERE id < 5",
        "DELETE FROM documents WHERE id = 9",
    )
    follower.once()
    follower.check("documents", "audit")
    assert set(follower.phases().values()) == {TablePhase.STREAMING}


@pytest.mark.parametrize(
    "statement",
    [
        "/* app='shop', route=1 */ UPDATE documents SET title = 'new' WHERE id < 5",
        "-- from the shop\nUPDATE documents SET title = 'new' WHERE id < 5",
        "/* app */ DELETE d.* FROM documents d WHERE d.id = 9",
        "/*!50000 UPDATE */ documents SET title = 'new' WHERE id < 5",
    ],
)
def test_statements_behind_other_text(origin: Origin, follower: Follower, statement: str) -> None:
    origin.session("SET SESSION binlog_format = 'STATEMENT'", statement)
    follower.once()
    follower.check("documents")


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE documents",
        "ALTER TABLE documents DROP COLUMN body",
        "ALTER TABLE documents RENAME TO letters",
    ],
)
def test_a_temporary_table_of_the_same_name(
    origin: Origin, follower: Follower, statement: str
) -> None:
    origin.session(
        "SET SESSION binlog_format = 'STATEMENT'",
        "CREATE TEMPORARY TABLE documents (id INT PRIMARY KEY, body INT)",
        statement,
    )
    origin.run("UPDATE documents SET n = 0 WHERE id = 5")
    follower.once()
    follower.check("documents")
    assert follower.phases() == {"documents": TablePhase.STREAMING}


def test_a_column_that_is_filled_by_the_session(origin: Origin, follower: Follower) -> None:
    """The server marks the statement as one that uses a temporary table."""
    origin.session("ALTER TABLE documents ADD COLUMN c INT DEFAULT (CONNECTION_ID())")
    origin.run("UPDATE documents SET n = 0 WHERE id = 5")
    follower.once()
    follower.check("documents")
    assert follower.phases() == {"documents": TablePhase.STREAMING}


@only_mariadb
def test_a_statement_with_settings_of_its_own(origin: Origin, follower: Follower) -> None:
    statement = "SET STATEMENT max_statement_time = 60 FOR UPDATE documents SET title = 'new'"
    origin.session("SET SESSION binlog_format = 'STATEMENT'", statement)
    follower.once()
    follower.check("documents")


def _check_its_end(origin: Origin, follower: Follower, end: str, *tables: str) -> None:
    """Follow the prepared transaction 'one' and then its end, and compare tables after each."""
    follower.once()
    follower.check(*tables)
    origin.session(f"XA {end} 'one'")
    follower.once()
    follower.check(*tables)


@with_files
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_prepared_transactions(origin: Origin, follower: Follower, end: str) -> None:
    origin.session(
        "XA START 'one'",
        "UPDATE documents SET n = 5 WHERE id = 5",
        "INSERT INTO documents (id) VALUES (70)",
        "XA END 'one'",
        "XA PREPARE 'one'",
    )
    _check_its_end(origin, follower, end, "documents")
    assert len(follower.rows("documents")) == 39 + (end == "COMMIT")


@only_mysql
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_prepared_partial_updates_of_json(origin: Origin, follower: Follower, end: str) -> None:
    origin.run("CREATE TABLE j (id INT PRIMARY KEY, v JSON)")
    origin.run("""INSERT INTO j VALUES (1, '{"a": 1, "b": "text of some length"}'), (2, '[1]')""")
    follower.once()
    origin.session(
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "XA START 'one'",
        "UPDATE j SET v = JSON_SET(v, '$.a', 2) WHERE id = 1",
        "XA END 'one'",
        "XA PREPARE 'one'",
    )
    _check_its_end(origin, follower, end, "j", "documents")
    assert follower.states()["j"].prepared == ()


@with_files
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_prepared_statements_in_the_log(origin: Origin, follower: Follower, end: str) -> None:
    origin.session(
        "SET SESSION binlog_format = 'STATEMENT'",
        "XA START 'one'",
        "UPDATE documents SET n = 5 WHERE id = 5",
        "DELETE FROM documents WHERE id = 9",
        "XA END 'one'",
        "XA PREPARE 'one'",
    )
    _check_its_end(origin, follower, end, "documents")
    assert len(follower.rows("documents")) == 39 - (end == "COMMIT")


def test_a_transaction_of_one_phase(origin: Origin, follower: Follower) -> None:
    origin.session(
        "XA START 'one'",
        "UPDATE documents SET n = 5 WHERE id = 5",
        "INSERT INTO documents (id) VALUES (70)",
        "XA END 'one'",
        "XA COMMIT 'one' ONE PHASE",
    )
    follower.once()
    follower.check("documents")


def test_rows_that_were_never_logged(origin: Origin, follower: Follower) -> None:
    origin.session(
        "SET SESSION sql_log_bin = 0",
        "DELETE FROM documents WHERE id = 7",
        "UPDATE documents SET title = 'silent' WHERE id = 8",
    )
    follower.once()
    assert len(follower.rows("documents")) == 39
    state = PipelineState.open(follower.lake, "lake", "shop")
    name = TableName(origin.database, "documents").escaped
    state.request(f"resnapshot:{name}", "")
    origin.run("INSERT INTO documents (id) VALUES (80)")
    follower.once()
    follower.check("documents")
    assert state.requests() == {}


# With GTIDs MySQL rejects transactions of several engines.
@pytest.mark.parametrize("source", [MARIADB, MYSQL_FILES], indirect=True)
def test_a_rolled_back_transaction_with_other_engines(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE notes (id INT PRIMARY KEY, v INT) ENGINE = MyISAM")
    follower.once()
    origin.session(
        "BEGIN",
        "INSERT INTO notes VALUES (1, 1)",
        "UPDATE documents SET n = 0 WHERE id = 1",
        "SAVEPOINT s",
        "UPDATE documents SET n = 0 WHERE id = 2",
        "ROLLBACK TO s",
        "INSERT INTO notes VALUES (2, 1)",
        "ROLLBACK",
    )
    follower.once()
    follower.check("documents", "notes")


@with_files
def test_events_that_the_server_lost(origin: Origin, follower: Follower) -> None:
    """A statement that does not fit into the cache of the log has changed rows nonetheless."""
    origin.run("CREATE TABLE notes (id INT PRIMARY KEY, v LONGTEXT) ENGINE = MyISAM")
    follower.once()
    values = ", ".join(f"({key}, REPEAT('x', 1000))" for key in range(100))
    ((size,),) = origin.server.rows("SELECT @@GLOBAL.max_binlog_stmt_cache_size")
    origin.run("SET GLOBAL max_binlog_stmt_cache_size = 4096")
    try:
        with pytest.raises(Invalid, match="max_binlog_stmt_cache_size"):
            origin.session(f"INSERT INTO notes VALUES {values}")
    finally:
        origin.run(f"SET GLOBAL max_binlog_stmt_cache_size = {size}")
    assert origin.server.rows("SELECT COUNT(*) FROM notes") != [(0,)]
    follower.once()
    origin.run("INSERT INTO documents (id) VALUES (70)")
    follower.once()
    follower.check("notes", "documents")
    positions = set()
    for key in range(71, 74):
        origin.run(f"INSERT INTO documents (id) VALUES ({key})")
        follower.once()
        positions.add(follower.states()["notes"].position)
    follower.check("notes", "documents")
    # They were read again once, although MariaDB sends its report to each reader of the file.
    assert len(positions) == 1
