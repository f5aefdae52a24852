"""Rows that servers change by themselves, and what their logs have of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pymysql
import pytest
from tests.cdc.conftest import _SETTINGS
from tests.cdc.source_logs import SourceServer
from tests.conftest import mysql_server

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.foreign_keys import (
    logs_cascades,
    read_foreign_keys,
    tables_changed_by_triggers,
)
from headwater.cdc.mysql.server import Address, Flavour, MySQLServer
from headwater.cdc.source.foreign_keys import (
    Comparison,
    ForeignKeyAction,
    ReferentialAction,
    affected_children,
    keys_that_reach,
)
from headwater.storage.rows.kinds import KIND_NAMES

NO_ACTION, RESTRICT, CASCADE, SET_NULL, SET_DEFAULT = ReferentialAction

TABLES = (
    "CREATE TABLE users (id INT, region VARCHAR(9), mail VARCHAR(9) UNIQUE, "
    "PRIMARY KEY (region, id))",
    "CREATE TABLE orders (id INT PRIMARY KEY, region VARCHAR(9), user INT, "
    "CONSTRAINT `user``s` FOREIGN KEY (region, user) REFERENCES users (region, id) "
    "ON UPDATE CASCADE ON DELETE CASCADE) COMMENT '\n  CONSTRAINT `user``s` FOREIGN KEY'",
    "CREATE TABLE `order items` (id INT PRIMARY KEY, `of order` INT, mail VARCHAR(9), "
    "FOREIGN KEY (`of order`) REFERENCES orders (id) ON DELETE SET NULL, "
    "FOREIGN KEY (mail) REFERENCES users (mail) ON UPDATE CASCADE)",
    "CREATE TABLE notes (id INT PRIMARY KEY, item INT, parent INT, "
    "FOREIGN KEY (item) REFERENCES `order items` (id) ON UPDATE SET NULL, "
    "FOREIGN KEY (parent) REFERENCES notes (id) ON DELETE CASCADE)",
    "CREATE TABLE locked (id INT PRIMARY KEY, `order` INT, "
    "FOREIGN KEY (`order`) REFERENCES orders (id) ON DELETE RESTRICT ON UPDATE NO ACTION)",
)


@pytest.fixture
def server(source: SourceServer) -> Iterator[MySQLServer]:
    with MySQLServer(Address(**source.login)) as server:
        yield server


@contextmanager
def reader(source: SourceServer, privileges: str) -> Iterator[MySQLServer]:
    """A session of a user with these privileges alone, on all tables."""
    user = f"reader_{source.database[-8:]}"
    address = Address(**source.login)
    source.run(f"CREATE USER {user}@'%' IDENTIFIED BY 'x'")
    with MySQLServer(address) as server:
        flavour = server.flavour
    if flavour is Flavour.MARIADB:
        root = pymysql.connect(**{**source.login, "user": "root"})
        root.query(f"GRANT {privileges} ON *.* TO {user}@'%'")
        root.close()
    else:
        # The tests' user may not grant, and root does not have a password for this address.
        columns = ", ".join(f"{name.strip()}_priv = 'Y'" for name in privileges.split(","))
        source.run(f"UPDATE mysql.user SET {columns} WHERE user = '{user}'", "FLUSH PRIVILEGES")
    try:
        with MySQLServer(Address(address.host, address.port, user, "x")) as server:
            yield server
    finally:
        source.run(f"DROP USER {user}@'%'")


def names(source: SourceServer, *tables: str) -> frozenset[TableName]:
    return frozenset(TableName(source.database, table) for table in tables)


def in_test(source: SourceServer, actions: Sequence[ForeignKeyAction]) -> set[ForeignKeyAction]:
    """The keys of the test's own database: others have theirs on the same server."""
    return {action for action in actions if action.child.database == source.database}


def test_foreign_keys_that_change_rows(source: SourceServer, server: MySQLServer) -> None:
    source.run(*TABLES)
    users, orders, items, notes = (
        TableName(source.database, table) for table in ("users", "orders", "order items", "notes")
    )
    actions = in_test(source, read_foreign_keys(server))
    unset = {action.on_delete for action in actions} - {CASCADE, SET_NULL}
    # What is not said is NO ACTION to MySQL, and RESTRICT to MariaDB.
    assert len(unset) == 1
    (default,) = unset
    assert default in (NO_ACTION, RESTRICT)
    exact, text = (Comparison.EXACT,), (Comparison.CASE,)
    by_order = ForeignKeyAction(items, ("of order",), orders, ("id",), SET_NULL, default, exact)
    by_user = ForeignKeyAction(
        orders, ("region", "user"), users, ("region", "id"), CASCADE, CASCADE, text + exact
    )
    by_mail = ForeignKeyAction(items, ("mail",), users, ("mail",), default, CASCADE, text)
    by_item = ForeignKeyAction(notes, ("item",), items, ("id",), default, SET_NULL, exact)
    by_note = ForeignKeyAction(notes, ("parent",), notes, ("id",), CASCADE, default, exact)
    assert actions == {by_user, by_order, by_mail, by_item, by_note}
    every = list(actions)
    assert set(keys_that_reach(every, [orders])) == {by_user}
    assert set(keys_that_reach(every, [items])) == {by_user, by_order, by_mail}
    assert keys_that_reach(every, [users]) == []


def test_a_user_who_may_only_read_sees_the_same_keys(
    source: SourceServer, server: MySQLServer
) -> None:
    source.run(*TABLES)
    actions = {
        (action.child, action.columns): action
        for action in in_test(source, read_foreign_keys(server))
    }
    with reader(source, "SELECT") as user:
        seen = in_test(source, read_foreign_keys(user))
    assert {(action.child, action.columns) for action in seen} == actions.keys()
    for action in seen:
        assert action == actions[action.child, action.columns]


@pytest.mark.parametrize(
    ("collation", "comparison"),
    [
        ("utf8mb4_bin", Comparison.BINARY),
        ("utf8mb4_general_ci", Comparison.CASE),
        ("utf8mb4_unicode_520_ci", Comparison.CASE),
        ("utf8mb4_polish_ci", Comparison.CASE),
        ("latin2_general_ci", Comparison.CASE),
        ("utf8mb4_roman_ci", Comparison.LANGUAGE),
        ("utf8mb4_lithuanian_ci", Comparison.LANGUAGE),
    ],
)
def test_how_text_is_compared(
    source: SourceServer, server: MySQLServer, collation: str, comparison: Comparison
) -> None:
    name = f"name VARCHAR(9) CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}"
    source.run(
        f"CREATE TABLE kinds ({name} PRIMARY KEY)",
        f"CREATE TABLE things (id INT PRIMARY KEY, {name}, "
        "FOREIGN KEY (name) REFERENCES kinds (name) ON DELETE CASCADE)",
    )
    (action,) = in_test(source, read_foreign_keys(server))
    assert action.comparisons == (comparison,)


A, B, C, D = (TableName("shop", name) for name in "abcd")


def key(
    child: TableName,
    parent: TableName,
    on_delete: ReferentialAction,
    on_update: ReferentialAction = RESTRICT,
    columns: tuple[str, str] = ("parent", "id"),
) -> ForeignKeyAction:
    return ForeignKeyAction(child, columns[:1], parent, columns[1:], on_delete, on_update)


@pytest.mark.parametrize(
    ("actions", "is_deleted", "updated", "expected"),
    [
        ([key(B, A, CASCADE), key(C, B, CASCADE), key(D, C, SET_NULL)], True, "", {B, C, D}),
        ([key(B, A, CASCADE), key(C, B, CASCADE)], False, ["id"], set()),
        ([key(B, A, RESTRICT, CASCADE)], True, "", set()),
        ([key(B, A, RESTRICT, CASCADE)], False, ["name"], set()),
        ([key(B, A, RESTRICT, SET_DEFAULT)], False, ["name", "id"], {B}),
        # A child whose column is set to NULL is not deleted: its children stay.
        ([key(B, A, SET_NULL), key(C, B, CASCADE)], True, "", {B}),
        # Unless they refer to that column.
        ([key(B, A, SET_NULL), key(C, B, RESTRICT, CASCADE, ("x", "parent"))], True, "", {B, C}),
        ([key(C, B, CASCADE), key(B, A, CASCADE)], True, "", {B, C}),
        # A row that is deleted does not change the rows that follow updates.
        ([key(B, A, CASCADE), key(C, B, RESTRICT, CASCADE)], True, "", {B}),
        # Updated and deleted, but only deletes have an action.
        ([key(B, A, CASCADE, RESTRICT), key(C, B, NO_ACTION, SET_NULL, ("x", "parent"))],
         True, ["id"], {B}),
        # Circles.
        ([key(A, A, CASCADE)], True, "", {A}),
        ([key(B, A, CASCADE), key(A, B, CASCADE)], True, "", {A, B}),
        ([key(B, A, CASCADE), key(C, A, RESTRICT, SET_NULL)], True, ["id"], {B, C}),
    ],
)  # fmt: skip
def test_tables_that_a_change_reaches(
    actions: Sequence[ForeignKeyAction],
    is_deleted: bool,
    updated: Sequence[str],
    expected: set[TableName],
) -> None:
    assert affected_children(actions, A, is_deleted=is_deleted, updated=updated) == expected


def kinds_in_log(source: SourceServer, table: str) -> list[str]:
    contents = source.read_log()
    if all(shape.table != table for shape in contents.rows):
        return []
    return [KIND_NAMES[kind] for kind in contents.decode(table).kinds.to_pylist()]


CASCADES = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) "
    "REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "INSERT INTO parent VALUES (1), (2), (3)",
    "INSERT INTO child VALUES (1, 1), (2, 2), (3, 3)",
    "DELETE FROM parent WHERE id = 1",
    "UPDATE parent SET id = 7 WHERE id = 2",
)
INSERTS = ["+I"] * 3
CHANGES = ["-D", "-U", "+U"]


def test_cascades_in_the_log(source: SourceServer, server: MySQLServer) -> None:
    source.run(*CASCADES)
    assert source.select("SELECT * FROM child ORDER BY id") == [(2, 7), (3, 3)]
    assert kinds_in_log(source, "parent") == INSERTS + CHANGES
    is_logged = logs_cascades(server)
    assert kinds_in_log(source, "child") == INSERTS + (CHANGES if is_logged else [])
    assert is_logged == (server.flavour is Flavour.MYSQL)
    actions = keys_that_reach(read_foreign_keys(server), names(source, "child"))
    parent = TableName(source.database, "parent")
    assert affected_children(actions, parent, is_deleted=True) == names(source, "child")


@pytest.mark.mysql
def test_cascades_that_innodb_does_are_not_in_the_log_of_mysql() -> None:
    with mysql_server(*_SETTINGS, "--innodb-native-foreign-keys=ON") as database:
        source = SourceServer(database.url, database.data, "cascades")
        source.run(*CASCADES)
        assert source.select("SELECT * FROM child ORDER BY id") == [(2, 7), (3, 3)]
        assert kinds_in_log(source, "parent") == INSERTS + CHANGES
        assert kinds_in_log(source, "child") == INSERTS
        with MySQLServer(Address.from_url(database.url)) as server:
            assert not logs_cascades(server)


TRIGGERED = (
    *(f"CREATE TABLE {name} (id INT, x INT)" for name in ("a", "b", "`b c`", "d", "e", "f", "g")),
    "CREATE TRIGGER t1 AFTER INSERT ON a FOR EACH ROW "
    "INSERT INTO b (id, x) VALUES (new.id, IF(1, 2, 3))",
    "CREATE TRIGGER t2 AFTER DELETE ON a FOR EACH ROW DELETE FROM `b c` WHERE id = old.id",
    "CREATE TRIGGER t3 AFTER INSERT ON b FOR EACH ROW UPDATE d SET x = x + 1 WHERE id = new.id",
    "CREATE TRIGGER t4 BEFORE INSERT ON d FOR EACH ROW SET new.x = ABS(new.x)",
    "CREATE PROCEDURE p() UPDATE g SET x = 1",
    "CREATE TRIGGER t5 AFTER INSERT ON e FOR EACH ROW CALL p()",
    "CREATE FUNCTION f_changing() RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
    "BEGIN UPDATE g SET x = 1; RETURN 1; END",
    "CREATE TRIGGER t6 BEFORE INSERT ON f FOR EACH ROW SET new.x = f_changing()",
)


def test_tables_that_triggers_change(source: SourceServer, server: MySQLServer) -> None:
    source.run("SET GLOBAL log_bin_trust_function_creators = 1", *TRIGGERED)
    tables = names(source, "a", "b", "b c", "d", "e", "f", "g")
    assert tables_changed_by_triggers(server, tables) == {
        TableName(source.database, "a"): names(source, "b", "b c", "d"),
        TableName(source.database, "b"): names(source, "d"),
        TableName(source.database, "d"): frozenset(),
        TableName(source.database, "e"): tables,
        TableName(source.database, "f"): tables,
    }
    with reader(source, "SELECT, TRIGGER") as user:
        assert tables_changed_by_triggers(user, names(source, "b", "d")) == {
            TableName(source.database, "b"): names(source, "d"),
            TableName(source.database, "d"): frozenset(),
        }
    with reader(source, "SELECT") as user:
        assert tables_changed_by_triggers(user, tables) == dict.fromkeys(tables, tables)


def test_a_trigger_that_writes_through_a_view_may_change_all(
    source: SourceServer, server: MySQLServer
) -> None:
    source.run(
        "CREATE TABLE a (id INT)",
        "CREATE TABLE b (id INT)",
        "CREATE VIEW `seen of b` AS SELECT * FROM b",
        "CREATE TRIGGER t AFTER INSERT ON a FOR EACH ROW INSERT INTO `seen of b` VALUES (new.id)",
    )
    tables = names(source, "a", "b")
    assert tables_changed_by_triggers(server, tables) == {TableName(source.database, "a"): tables}
