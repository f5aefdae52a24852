"""Children of foreign keys, whose rows the source changes without telling it in the log."""

from __future__ import annotations

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.running_changes import follow_changes
from tests.cdc.pipeline.test_interruptions import ends
from tests.cdc.source_logs import only_mariadb

from headwater.cdc.pipeline.state import TablePhase
from headwater.storage.errors import Invalid

TABLES = (
    "CREATE TABLE customers (id INT PRIMARY KEY, code VARCHAR(10) UNIQUE, name TEXT)",
    "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, "
    "FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE items (id INT PRIMARY KEY, order_id INT, "
    "FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE)",
    "CREATE TABLE notes (id INT PRIMARY KEY, code VARCHAR(10), "
    "FOREIGN KEY (code) REFERENCES customers (code) ON DELETE SET NULL ON UPDATE CASCADE)",
)
ALL = ("customers", "orders", "items", "notes")


@pytest.fixture(autouse=True)
def tables(origin: Origin, follower: Follower) -> None:
    origin.run(*TABLES)
    origin.run(
        "INSERT INTO customers VALUES (1, 'a', 'Ann'), (2, 'b', 'Bob'), (3, 'c', 'Cid')",
        "INSERT INTO orders VALUES (10, 1), (11, 1), (20, 2), (30, 3), (31, NULL)",
        "INSERT INTO items VALUES (100, 10), (101, 11), (200, 20), (300, NULL)",
        "INSERT INTO notes VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    follower.once()


def test_deleted_and_changed_parents(origin: Origin, follower: Follower) -> None:
    origin.run("DELETE FROM customers WHERE id = 1")
    follower.once()
    follower.check(*ALL)
    origin.run("UPDATE customers SET id = 22, code = 'bb' WHERE id = 2")
    follower.once()
    follower.check(*ALL)
    assert {row["code"] for row in follower.rows("notes")} == {None, "bb", "c"}


def test_a_parent_of_a_table_without_rows(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE bills (id INT PRIMARY KEY, code VARCHAR(10), "
        "FOREIGN KEY (code) REFERENCES customers (code) ON DELETE CASCADE)"
    )
    follower.once()
    origin.run("DELETE FROM customers WHERE id = 1")
    follower.once()
    follower.check(*ALL, "bills")


def test_a_child_that_is_made_and_goes_in_one_batch(origin: Origin, follower: Follower) -> None:
    origin.run(
        "INSERT INTO customers VALUES (4, 'd', 'Dan')",
        "INSERT INTO orders VALUES (40, 4)",
        "INSERT INTO items VALUES (400, 40), (401, 30)",
        "DELETE FROM customers WHERE id IN (3, 4)",
        "UPDATE customers SET name = 'Bobby' WHERE id = 2",
    )
    follower.once()
    follower.check(*ALL)


def test_a_foreign_key_that_is_dropped_before_it_is_noticed(
    origin: Origin, follower: Follower
) -> None:
    origin.run("DELETE FROM customers WHERE id = 2")
    ((name,),) = origin.server.rows(
        "SELECT constraint_name FROM information_schema.key_column_usage WHERE table_schema = "
        "DATABASE() AND table_name = 'orders' AND referenced_table_name IS NOT NULL"
    )
    origin.run(f"ALTER TABLE orders DROP FOREIGN KEY {name}")
    follower.once()
    follower.check(*ALL)


@pytest.mark.parametrize(
    "statements",
    [
        (
            "ALTER TABLE orders RENAME COLUMN customer TO x",
            "ALTER TABLE orders RENAME COLUMN former TO customer",
            "ALTER TABLE orders RENAME COLUMN x TO former",
        ),
        ("ALTER TABLE customers RENAME COLUMN id TO x, RENAME COLUMN former TO id",),
        ("RENAME TABLE orders TO purchases",),
        ("RENAME TABLE customers TO clients",),
    ],
)
def test_names_that_change_before_foreign_keys_are_read(
    origin: Origin, follower: Follower, statements: tuple[str, ...]
) -> None:
    origin.run("ALTER TABLE orders ADD former INT", "ALTER TABLE customers ADD former INT")
    follower.once()

    def change() -> None:
        origin.run("DELETE FROM customers WHERE id = 1", *statements)

    follow_changes(follower, change)
    follower.check(*follower.states())


def test_a_child_that_a_copy_replaces(origin: Origin, follower: Follower) -> None:
    def replace_notes() -> None:
        origin.run(
            "CREATE TABLE _notes_new LIKE notes",
            "ALTER TABLE _notes_new ADD FOREIGN KEY (code) REFERENCES customers (code) "
            "ON DELETE SET NULL ON UPDATE CASCADE",
            "INSERT INTO _notes_new SELECT * FROM notes",
            "RENAME TABLE notes TO _notes_old, _notes_new TO notes",
            # A batch is committed while the copy's definition is not known yet.
            "UPDATE customers SET name = 'new'",
        )

    def delete_parent() -> None:
        origin.run("DELETE FROM customers WHERE id = 1")

    follow_changes(follower, replace_notes, delete_parent)
    follower.check(*ALL)


def test_a_parent_whose_rows_cannot_be_deleted(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE tags (id INT PRIMARY KEY, code VARCHAR(10), "
        "FOREIGN KEY (code) REFERENCES customers (code) ON UPDATE CASCADE)",
        "INSERT INTO tags VALUES (1, 'c')",
    )
    follower.once()
    origin.run(
        "UPDATE customers SET code = 'cc' WHERE id = 3",
        "ALTER TABLE customers RENAME COLUMN code TO label",
    )
    follower.once()
    follower.check(*ALL, "tags")


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM customers WHERE id = 4"],
        ["UPDATE customers SET code = 'dd' WHERE id = 4"],
        ["UPDATE customers SET id = 5 WHERE id = 4", "DELETE FROM customers WHERE id = 5"],
    ],
)
def test_a_parent_whose_rows_came_in_the_batch_in_which_parts_of_them_are_logged(
    origin: Origin, follower: Follower, statements: list[str]
) -> None:
    origin.run("INSERT INTO customers VALUES (4, 'd', 'Dan')", "INSERT INTO notes VALUES (4, 'd')")
    origin.session("SET SESSION binlog_row_image = 'MINIMAL'", *statements)
    follower.once()
    follower.check(*ALL)


def test_a_value_that_a_parent_has_within_a_batch(origin: Origin, follower: Follower) -> None:
    origin.run(
        "UPDATE customers SET code = 'z' WHERE id = 1",
        "INSERT INTO notes VALUES (5, 'z')",
    )
    origin.session("SET SESSION binlog_row_image = 'MINIMAL'", "DELETE FROM customers WHERE id = 1")
    follower.once()
    follower.check(*ALL)


def test_a_parent_that_is_read_behind_parts_of_its_rows(origin: Origin, follower: Follower) -> None:
    minimal = "SET SESSION binlog_row_image = 'MINIMAL'"
    origin.session(minimal, "UPDATE customers SET name = 'Anna' WHERE id = 1")
    ends(follower, "write", "customers")
    # The row is read when it has lost the code already.
    origin.session(minimal, "UPDATE customers SET code = 'aa' WHERE id = 1")
    follower.once()
    follower.check(*ALL)


def test_a_parent_that_is_read_when_its_own_parent_is_gone(
    origin: Origin, follower: Follower
) -> None:
    origin.run("ALTER TABLE orders ADD note TEXT")
    follower.once()
    minimal = "SET SESSION binlog_row_image = 'MINIMAL'"
    origin.session(minimal, "UPDATE orders SET note = 'paid' WHERE id = 10")
    ends(follower, "write", "orders")
    # The order is looked up when it is gone, and the log tells later that its customer went.
    origin.run("DELETE FROM customers WHERE id = 1")
    follower.once()
    follower.check(*ALL)


def test_a_tree_with_a_row_without_parent_that_is_read_when_others_are_gone(
    origin: Origin, follower: Follower
) -> None:
    origin.run(
        "CREATE TABLE tree (id INT PRIMARY KEY, parent INT, note TEXT, "
        "FOREIGN KEY (parent) REFERENCES tree (id) ON DELETE CASCADE)",
        "INSERT INTO tree VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 3, 'd')",
    )
    origin.session("SET SESSION foreign_key_checks = 0", "INSERT INTO tree VALUES (5, 99, 'z')")
    follower.once()
    minimal = "SET SESSION binlog_row_image = 'MINIMAL'"
    origin.session(minimal, "UPDATE tree SET note = 'e' WHERE id = 2")
    ends(follower, "write", "tree")
    origin.run("DELETE FROM tree WHERE id = 1")
    follower.once()
    follower.check(*ALL, "tree")


def test_a_grandparent_of_rows_of_which_parts_are_logged(
    origin: Origin, follower: Follower
) -> None:
    origin.run(
        "ALTER TABLE orders ADD label VARCHAR(10)",
        "UPDATE orders SET label = CONCAT('o', id)",
        "ALTER TABLE orders MODIFY label VARCHAR(10) NOT NULL, ADD UNIQUE (label)",
        "CREATE TABLE marks (id INT PRIMARY KEY, label VARCHAR(10), "
        "FOREIGN KEY (label) REFERENCES orders (label) ON DELETE CASCADE)",
        "INSERT INTO marks VALUES (1, 'o10'), (2, 'o20'), (3, 'o30')",
    )
    follower.once()
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE orders SET customer = 2 WHERE id = 10",
        "DELETE FROM customers WHERE id = 2",
    )
    follower.once()
    follower.check(*ALL, "marks")


def test_a_parent_that_is_committed_and_whose_rows_are_logged_in_part(
    origin: Origin, follower: Follower
) -> None:
    follower.change(writers=1)
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "DELETE FROM customers WHERE id = 1",
        "UPDATE customers SET code = 'bb' WHERE id = 2",
    )
    ends(follower, "write", "notes")
    assert [row["id"] for row in follower.rows("customers")] == [2, 3]
    follower.once()
    follower.check(*ALL)


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_children_whose_keys_an_update_changes(
    origin: Origin, follower: Follower, image: str
) -> None:
    origin.run(
        "CREATE TABLE parts (order_id INT, line INT, amount INT, PRIMARY KEY (order_id, line), "
        "FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE bills (order_id INT PRIMARY KEY, "
        "FOREIGN KEY (order_id) REFERENCES orders (id) ON UPDATE CASCADE)",
        "CREATE TABLE `lines` (order_id INT, line INT, PRIMARY KEY (order_id, line), "
        "FOREIGN KEY (order_id) REFERENCES bills (order_id) ON UPDATE CASCADE)",
        "INSERT INTO parts VALUES (30, 1, 10), (30, 2, 20), (31, 1, 70)",
        "INSERT INTO bills VALUES (30), (31)",
        "INSERT INTO `lines` VALUES (30, 1), (31, 1)",
        "DELETE FROM items",
    )
    follower.once()
    update = "UPDATE orders SET id = 32 WHERE id = 30"
    origin.session(f"SET SESSION binlog_row_image = '{image}'", update)
    follower.once()
    follower.check(*ALL, "parts", "bills", "lines")
    assert [row["order_id"] for row in follower.rows("lines")] == [31, 32]


def test_children_whose_keys_change_after_single_ones_were_read(
    origin: Origin, follower: Follower
) -> None:
    origin.run(
        "CREATE TABLE shops (id INT PRIMARY KEY)",
        "CREATE TABLE parts (order_id INT PRIMARY KEY, shop INT, "
        "FOREIGN KEY (order_id) REFERENCES orders (id) ON UPDATE CASCADE, "
        "FOREIGN KEY (shop) REFERENCES shops (id) ON DELETE SET NULL)",
        "INSERT INTO shops VALUES (1)",
        "INSERT INTO parts VALUES (31, 1)",
    )
    follower.once()
    origin.run("DELETE FROM shops WHERE id = 1")
    ends(follower, "write", "parts")
    # The child's row is looked for by its former key.
    origin.run("UPDATE orders SET id = 32 WHERE id = 31")
    follower.once()
    follower.check(*ALL, "parts")


@pytest.mark.parametrize(
    ("collation", "values"),
    [
        ("utf8mb4_general_ci", ("abc", "ABC", "Abc ", "ab")),
        ("utf8mb4_general_ci", ("strasse", "Strasse", "STRA\u00dfE", "str\u00e0sse")),
        ("utf8mb4_unicode_ci", ("e", "\u00e9", "E", "f")),
        ("utf8mb4_unicode_ci", ("\u00e9", "e", "\u00c9", "f")),
        ("utf8mb4_bin", ("abc", "abc  ", "ABC", "ab")),
        ("utf8mb4_roman_ci", ("ivy", "jvy", "IVY", "i")),
    ],
)
@pytest.mark.parametrize("change", ["DELETE FROM kinds", "UPDATE kinds SET name = 'new'"])
def test_children_whose_text_is_equal_by_a_collation(
    origin: Origin, follower: Follower, collation: str, values: tuple[str, ...], change: str
) -> None:
    name = values[0]
    text = f"name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation}"
    origin.run(
        f"CREATE TABLE kinds ({text} PRIMARY KEY)",
        f"CREATE TABLE things (id INT PRIMARY KEY, {text}, "
        "FOREIGN KEY (name) REFERENCES kinds (name) ON DELETE CASCADE ON UPDATE CASCADE)",
    )
    for number, value in enumerate(values):
        origin.run(
            f"INSERT IGNORE INTO kinds VALUES ('{value}')",
            f"INSERT INTO things VALUES ({number}, '{value}')",
        )
    follower.once()
    origin.run(f"{change} WHERE name = '{name}'")
    follower.once()
    follower.check(*ALL, "kinds", "things")
    assert follower.count("things") < len(values) or "UPDATE" in change


@pytest.mark.parametrize(
    ("parent", "child", "later"),
    [
        ("BIGINT", "BIGINT UNSIGNED", "BIGINT"),
        ("BIGINT UNSIGNED", "BIGINT", "BIGINT UNSIGNED"),
        ("INT", "BIGINT", "INT"),
        ("INT", "VARCHAR(20)", "INT"),
        ("TINYINT", "TINYINT(1)", "TINYINT(1)"),
        ("TINYINT(1)", "TINYINT", "TINYINT"),
    ],
)
def test_children_whose_type_in_the_lake_is_another_one(
    origin: Origin, follower: Follower, parent: str, child: str, later: str
) -> None:
    origin.run(
        f"CREATE TABLE kinds (id INT PRIMARY KEY, number {parent} UNIQUE)",
        f"CREATE TABLE things (id INT PRIMARY KEY, kind {child})",
        "INSERT INTO kinds VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO things VALUES (1, 1), (2, 2), (3, NULL)",
    )
    follower.once()
    origin.run(
        f"ALTER TABLE things MODIFY kind {later}",
        "ALTER TABLE things ADD FOREIGN KEY (kind) REFERENCES kinds (number) ON DELETE CASCADE",
    )
    follower.once()
    origin.run("DELETE FROM kinds WHERE id = 1")
    follower.once()
    follower.check(*ALL, "kinds", "things")
    assert [row["id"] for row in follower.rows("things")] == [2, 3]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_parent_that_a_prepared_transaction_changes(
    origin: Origin, follower: Follower, end: str
) -> None:
    origin.session(
        "XA START 'one'",
        "UPDATE customers SET id = 22, code = 'bb' WHERE id = 2",
        "DELETE FROM customers WHERE id = 1",
        "XA END 'one'",
        "XA PREPARE 'one'",
    )
    follower.once()
    origin.session(f"XA {end} 'one'")
    follower.once()
    follower.check(*ALL)


@only_mariadb
def test_a_parent_that_a_statement_changes(origin: Origin, follower: Follower) -> None:
    origin.session(
        "SET SESSION binlog_format = 'STATEMENT'",
        "UPDATE customers SET id = 22, code = 'bb' WHERE id = 2",
        "DELETE FROM customers WHERE id = 1",
    )
    follower.once()
    follower.check(*ALL)


@only_mariadb
def test_a_parent_that_is_not_followed(origin: Origin, follower: Follower) -> None:
    follower.change(include=(f"{origin.database}.orders", f"{origin.database}.items"))
    follower.once()
    # What does not follow a parent does not go on, and its children neither.
    assert set(follower.phases().values()) == {TablePhase.QUARANTINED}
    reason = follower.states()["orders"].reason
    assert reason is not None
    assert f"foreign key changes rows of {origin.table('orders')} with those of" in reason
    follower.change(include=(f"{origin.database}.*",))
    follower.resnapshot(*ALL)
    origin.run("DELETE FROM customers WHERE id = 1")
    follower.once()
    follower.check(*ALL)


@only_mariadb
def test_a_new_pipeline_follows_parents_too(origin: Origin, follower: Follower) -> None:
    follower.change(name="another", include=(f"{origin.database}.orders",))
    with pytest.raises(Invalid, match=r"without an event in the log, and .*customers is not"):
        follower.once()


@only_mariadb
def test_children_of_a_quarantined_parent_wait_for_it(origin: Origin, follower: Follower) -> None:
    origin.run(
        "ALTER TABLE customers ADD UNIQUE (id), DROP PRIMARY KEY, ADD PRIMARY KEY (id, code)"
    )
    origin.run("DELETE FROM customers WHERE id = 1")
    follower.once()
    assert follower.phases() == dict.fromkeys(ALL, TablePhase.QUARANTINED)
