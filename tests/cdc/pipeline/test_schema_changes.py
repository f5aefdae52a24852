"""Schema changes of a source, followed in order with its rows."""

from __future__ import annotations

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.running_changes import follow_changes
from tests.cdc.source_logs import only_mariadb, with_files

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.settings import OnDrop
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.sink.schema_changes import Narrowing

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20) NOT NULL, c DATETIME(3))"
ROWS = "INSERT INTO t VALUES (1, 10, 'x', '2024-01-02 03:04:05.678'), (2, NULL, 'y', NULL)"


def columns(follower: Follower, table: str = "t") -> list[str]:
    """The lake's columns with their types."""
    schema = follower.lake.table(f"lake.{table}").schema
    return [f"{field.name} {field.type}" for field in schema.fields]


def ids(follower: Follower) -> dict[str, int]:
    """The field ids by the columns' names."""
    return {field.name: field.id for field in follower.lake.table("lake.t").schema.fields}


def resnapshot(origin: Origin, follower: Follower, value: str = "") -> None:
    state = PipelineState.open(follower.lake, "lake", "shop")
    state.request(f"resnapshot:{TableName(origin.database, 't').escaped}", value)


@pytest.fixture(autouse=True)
def table(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.once()


def write(origin: Origin, key: int, table: str = "t") -> None:
    """Insert a row by the names of columns that all shapes have, and change one."""
    origin.run(f"INSERT INTO {table} (id, b) VALUES ({key}, 'row {key}')")
    origin.run(f"UPDATE {table} SET b = CONCAT(b, '!') WHERE id = {key - 1}")


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE t ADD COLUMN d INT",),
        ("ALTER TABLE t ADD COLUMN d INT NOT NULL DEFAULT 5 AFTER id",),
        ("ALTER TABLE t ADD d TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD e TEXT FIRST",),
        ("ALTER TABLE t DROP COLUMN a",),
        ("ALTER TABLE t RENAME COLUMN a TO z",),
        ("ALTER TABLE t CHANGE a c2 INT AFTER c, CHANGE b b VARCHAR(30) NOT NULL FIRST",),
        ("ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN c TO a",),
        ("ALTER TABLE t MODIFY a BIGINT AFTER c",),
        ("ALTER TABLE t MODIFY b VARCHAR(200) NOT NULL",),
        ("ALTER TABLE t MODIFY a VARCHAR(30)",),
        ("ALTER TABLE t MODIFY c DATE",),
        ("ALTER TABLE t MODIFY a SMALLINT",),
        ("ALTER TABLE t MODIFY a INT COMMENT 'the count'", "ALTER TABLE t COMMENT = 'all of it'"),
        ("ALTER TABLE t MODIFY a INT NOT NULL DEFAULT 0",),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",),
        ("ALTER TABLE t ADD d INT AS (a + 1) STORED",),
        ("ALTER TABLE t ADD d INT, DROP a", "ALTER TABLE t ADD a TEXT", "ALTER TABLE t DROP d"),
        ("ALTER TABLE t ENGINE = InnoDB, ADD INDEX (b)",),
    ],
    ids=str,
)
def test_columns_follow(origin: Origin, follower: Follower, statements: tuple[str, ...]) -> None:
    origin.run("SET SESSION sql_mode = ''")
    write(origin, 3)
    for number, statement in enumerate(statements):
        origin.run(statement)
        write(origin, 10 + number)
    follower.once()
    follower.check("t")
    write(origin, 20)
    follower.once()
    follower.check("t")
    assert follower.phases() == {"t": TablePhase.STREAMING}


@pytest.mark.parametrize(
    ("clauses", "default"),
    [
        ("MODIFY b VARCHAR(20)", "latin1"),
        ("CHANGE b c VARCHAR(20) NOT NULL", "latin1"),
        ("MODIFY b TEXT", "latin1"),
        ("MODIFY b VARCHAR(20) ASCII", "utf8mb4"),
        ("MODIFY b VARCHAR(20) UNICODE", "utf8mb4"),
        ("CHARACTER SET latin1, MODIFY b VARCHAR(20)", "utf8mb4"),
    ],
)
def test_characters_that_another_character_set_lacks(
    origin: Origin, follower: Follower, clauses: str, default: str
) -> None:
    origin.run(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE words (id INT PRIMARY KEY, b VARCHAR(10) CHARACTER SET utf8mb4 NOT NULL) "
        f"CHARACTER SET {default}",
        "INSERT INTO words VALUES (1, '日本'), (2, 'été'), (3, '😀')",
    )
    follower.once()
    origin.run(f"ALTER TABLE words {clauses}")
    follower.once()
    follower.check("words")


@pytest.mark.parametrize("type_", ["ENUM", "SET"])
def test_names_that_the_default_character_set_lacks(
    origin: Origin, follower: Follower, type_: str
) -> None:
    """The server replaces them in strict sessions, too."""
    origin.run(
        f"CREATE TABLE words (id INT PRIMARY KEY, b {type_}('日', 'a') CHARACTER SET utf8mb4) "
        "CHARACTER SET latin1",
        "INSERT INTO words VALUES (1, '日'), (2, 'a')",
    )
    follower.once()
    origin.session(
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
        f"ALTER TABLE words MODIFY b {type_}('日', 'a')",
    )
    follower.once()
    follower.check("words")


@pytest.mark.parametrize(
    "clauses",
    [
        "MODIFY at DATETIME(3)",
        "MODIFY name VARCHAR(20) COLLATE utf8mb4_bin, ALGORITHM = COPY",
        "MODIFY name VARCHAR(20), ALGORITHM = COPY",
    ],
)
def test_columns_that_are_computed_from_redefined_ones(
    origin: Origin, follower: Follower, clauses: str
) -> None:
    name = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
    origin.run(
        f"CREATE TABLE computed (id INT PRIMARY KEY, at DATETIME, name {name}, "
        "is_a INT AS (name = 'A') STORED, size INT AS (LENGTH(CONCAT(at))) STORED) "
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "INSERT INTO computed (id, at, name) VALUES (1, '2020-01-01', 'a')",
    )
    follower.once()
    origin.session("SET SESSION sql_mode = 'STRICT_ALL_TABLES'", f"ALTER TABLE computed {clauses}")
    follower.once()
    follower.check("computed")


@only_mariadb
@pytest.mark.parametrize(
    ("columns", "options", "rejection"),
    [
        ("id INT PRIMARY KEY, v INT", "ENGINE = InnoDB `PAGE_COMPRESSED`='0'", None),
        ("id INT PRIMARY KEY, v VARCHAR(80) DEFAULT CURRENT_USER", "", None),
        ("id INT PRIMARY KEY, v INT", "WITH SYSTEM VERSIONING", "system-versioned"),
    ],
)
def test_created_by_statements_with_other_words(
    origin: Origin, follower: Follower, columns: str, options: str, rejection: str | None
) -> None:
    def create() -> None:
        for name in "tu":
            origin.run(
                f"CREATE TABLE {name} ({columns}) {options}", f"INSERT INTO {name} (id) VALUES (1)"
            )

    follow_changes(follower, lambda: origin.run("DROP TABLE t"), create)
    if rejection is None:
        follower.check("t", "u")
    else:
        states = follower.states()
        assert all(rejection in str(states[name].reason) for name in "tu")


@only_mariadb
@pytest.mark.parametrize("options", ["", "WITH SYSTEM VERSIONING"])
def test_a_kept_table_that_the_log_alone_has_again(
    origin: Origin, follower: Follower, options: str
) -> None:
    origin.run("DROP TABLE t")
    follower.once()
    rows = follower.rows("t")
    origin.run(f"CREATE TABLE t (id INT PRIMARY KEY) {options}")
    origin.session("SET SESSION sql_log_bin = 0", "DROP TABLE t")
    follower.change(on_drop=OnDrop.DROP)
    follower.once()
    assert follower.rows("t") == rows
    assert follower.phases() == {"t": TablePhase.GONE}


@only_mariadb  # MySQL's collations begin with their character set.
def test_collations_that_do_not_name_a_character_set(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE words (id VARCHAR(20) PRIMARY KEY, a INT, b INT) CHARACTER SET utf8mb4",
        "INSERT INTO words VALUES ('x', 1, 1), ('日', 2, 2), ('z', 3, 3)",
    )
    follower.once()
    origin.run(
        "ALTER TABLE words MODIFY id VARCHAR(20) COLLATE uca1400_as_cs, "
        "ADD c TEXT(100) COLLATE uca1400_ai_ci"
    )
    # Rows are looked up by their keys, and the table is read in ranges.
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE words SET a = 5, c = REPEAT('x', 300) WHERE id = '日'",
    )
    follower.once()
    follower.check("words")
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE words SET a = 6 WHERE id IN ('x', 'z')"
    )
    follower.once()
    follower.check("words")


def test_comments_follow(origin: Origin, follower: Follower) -> None:
    origin.run("ALTER TABLE t COMMENT = 'all of it', MODIFY a INT COMMENT 'the count'")
    follower.once()
    schema = follower.lake.table("lake.t").schema
    assert (schema.comment, schema.field_by_name["a"].description) == ("all of it", "the count")
    origin.run("ALTER TABLE t COMMENT '', MODIFY a INT")
    follower.once()
    schema = follower.lake.table("lake.t").schema
    assert (schema.comment, schema.field_by_name["a"].description) == (None, None)
    follower.check("t")


def test_field_ids_survive_renames(origin: Origin, follower: Follower) -> None:
    before = ids(follower)
    origin.run("ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN c TO a, MODIFY b TEXT NOT NULL")
    follower.once()
    after = ids(follower)
    assert (after["a"], after["c"], after["b"]) == (before["c"], before["a"], before["b"])


def test_narrowing_can_be_refused(origin: Origin, follower: Follower) -> None:
    origin.run("ALTER TABLE t MODIFY a SMALLINT")
    follower.change(narrowing=Narrowing.FAIL)
    follower.once()
    state = follower.states()["t"]
    assert state.phase is TablePhase.QUARANTINED
    assert "undo the change" in str(state.reason)


def test_a_changed_key_stops_its_table_alone(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE other (id INT PRIMARY KEY)")
    follower.once()
    origin.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)")
    origin.run("INSERT INTO t VALUES (1, 0, 'z', NULL)", "INSERT INTO other VALUES (1)")
    follower.once()
    follower.check("other")
    state = follower.states()["t"]
    assert state.phase is TablePhase.QUARANTINED
    assert "headwater cdc resnapshot" in str(state.reason)
    assert "--replace" in str(state.reason)
    resnapshot(origin, follower, "replace")
    follower.once()
    follower.check("t", "other")
    assert follower.lake.table("lake.t").schema.primary_keys == ("id", "b")


@with_files
def test_truncated_dropped_and_made_again(origin: Origin, follower: Follower) -> None:
    origin.run("TRUNCATE TABLE t", "INSERT INTO t VALUES (7, 7, 'seven', NULL)")
    follower.once()
    follower.check("t")
    origin.run("DROP TABLE t")
    follower.once()
    assert follower.phases() == {"t": TablePhase.GONE}
    assert len(follower.rows("t")) == 1
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, other DOUBLE)", "INSERT INTO t VALUES (1, 0.5)")
    follower.once()
    follower.check("t")


def test_a_dropped_table_can_be_dropped(origin: Origin, follower: Follower) -> None:
    follower.change(on_drop=OnDrop.DROP)
    origin.run("DROP TABLE t")
    follower.once()
    assert not follower.lake.table_exists("lake.t")


def test_a_renamed_table(origin: Origin, follower: Follower) -> None:
    origin.run("RENAME TABLE t TO u", "INSERT INTO u VALUES (3, 3, 'three', NULL)")
    follower.once()
    follower.check("u")
    assert not follower.lake.table_exists("lake.t")
    assert follower.phases() == {"u": TablePhase.STREAMING}


@pytest.mark.parametrize(
    "clauses",
    [
        "MODIFY a TINYINT",
        "DROP a, ADD a INT",
        "ADD d INT DEFAULT 5 AFTER id",
        "RENAME COLUMN a TO z",
    ],
)
def test_columns_that_a_statement_changes_while_it_renames_their_table(
    origin: Origin, follower: Follower, clauses: str
) -> None:
    origin.run("SET SESSION sql_mode = ''", "INSERT INTO t VALUES (3, 300, 'three', NULL)")
    follower.once()
    follow_changes(follower, lambda: origin.run(f"ALTER TABLE t {clauses}, RENAME TO u"))
    write(origin, 4, "u")
    follower.once()
    follower.check("u")


@with_files
def test_two_tables_that_swap_names(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE u (id INT PRIMARY KEY, x TEXT)", "INSERT INTO u VALUES (1, 'one')")
    follower.once()
    origin.run("RENAME TABLE t TO tmp, u TO t, tmp TO u", "INSERT INTO t VALUES (2, 'two')")
    follower.once()
    follower.check("t", "u")


@with_files
@pytest.mark.parametrize("is_stopped", [False, True])
def test_gh_ost_twice(origin: Origin, follower: Follower, is_stopped: bool) -> None:
    for number in range(2):
        origin.run(
            "CREATE TABLE _t_ghc (id BIGINT PRIMARY KEY, hint TEXT)",
            "CREATE TABLE _t_gho LIKE t",
            f"ALTER TABLE _t_gho ADD COLUMN d{number} INT NOT NULL DEFAULT {number}",
            "INSERT INTO _t_gho (id, a, b, c) SELECT id, a, b, c FROM t",
        )
        write(origin, 10 + 10 * number)
        if not is_stopped:
            follower.once()
        origin.run(
            "REPLACE INTO _t_gho (id, a, b, c) SELECT id, a, b, c FROM t",
            "RENAME TABLE t TO _t_del, _t_gho TO t",
            "DROP TABLE _t_ghc, _t_del",
        )
        write(origin, 15 + 10 * number)
    follower.once()
    follower.check("t")
    assert set(follower.phases()) == {"t"}


def test_an_interrupted_online_change(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE _t_new LIKE t", "ALTER TABLE _t_new ADD COLUMN d INT DEFAULT 4")
    follower.once()
    origin.run("DROP TABLE _t_new")
    write(origin, 5)
    follower.once()
    origin.run("CREATE TABLE _t_new LIKE t", "INSERT INTO _t_new SELECT * FROM t")
    origin.run("RENAME TABLE t TO _t_old, _t_new TO t", "DROP TABLE _t_old")
    follower.once()
    follower.check("t")


def test_partitions(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
        "PARTITION p2 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO p VALUES (1, 1), (11, 1), (21, 1), (22, 1)",
        "CREATE TABLE x (id INT PRIMARY KEY, v INT)",
        "INSERT INTO x VALUES (12, 9), (13, 9)",
    )
    follower.once()
    origin.run("ALTER TABLE p DROP PARTITION p0", "INSERT INTO p VALUES (2, 2)")
    follower.once()
    follower.check("p", "x")
    origin.run("ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE x")
    follower.once()
    origin.run("ALTER TABLE p TRUNCATE PARTITION p2", "INSERT INTO p VALUES (30, 3)")
    follower.once()
    follower.check("p", "x")


@only_mariadb  # MySQL has no two-phase ALTER.
def test_two_phase_alter(origin: Origin, follower: Follower) -> None:
    origin.session("SET SESSION binlog_alter_two_phase = 1", "ALTER TABLE t ADD d INT DEFAULT 3")
    write(origin, 5)
    follower.once()
    follower.check("t")


def test_what_is_not_understood_quarantines_its_table_alone(
    origin: Origin, follower: Follower
) -> None:
    origin.run("CREATE TABLE other (id INT PRIMARY KEY)")
    follower.once()
    if origin.server.flavour == "mariadb":
        origin.run("ALTER TABLE t ADD SYSTEM VERSIONING")
    else:
        origin.run("ALTER TABLE t SECONDARY_ENGINE = foo")
    origin.run("INSERT INTO other VALUES (1)")
    follower.once()
    follower.check("other")
