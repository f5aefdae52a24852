"""DDL without effect, unclear or arbitrary statements, and statements built from parts."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp
from tests.cdc.test_ddl_statements import COLUMNS, Case

from headwater.cdc.ddl import (
    AddColumns,
    AlterPhase,
    Change,
    ChangeColumn,
    ColumnDefinition,
    CreateTable,
    Default,
    DropColumns,
    Irrelevant,
    NotUnderstood,
    Position,
    RenameColumns,
    RenameTables,
    Syntax,
    TableName,
    Truncate,
    interpret,
)

INDEX = "adds an index or a constraint"
OPTIONS = "sets table options"
# Statement, the tables it names, why it has no effect.
WITHOUT_EFFECT = [
    ("CREATE UNIQUE INDEX `u` ON `orders` (`email`)", ["orders"], "creates an index"),
    ("DROP INDEX `u` ON `orders`", ["orders"], "drops an index"),
    (
        "ALTER TABLE `orders` ADD CONSTRAINT `u` UNIQUE (`a`, `b`), RENAME INDEX x TO y",
        ["orders"],
        f"{INDEX} and renames an index",
    ),
    (
        "ALTER TABLE orders ADD KEY comment_author_email (comment_author_email(10)), "
        "ADD FULLTEXT INDEX f (a, b) WITH PARSER ngram COMMENT 'x', ADD CHECK (a > 0) NOT ENFORCED",
        ["orders"],
        INDEX,
    ),
    (
        "ALTER TABLE `orders` ENGINE = InnoDB AUTO_INCREMENT=7, "
        "DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin",
        ["orders"],
        OPTIONS,
    ),
    ("ALTER TABLE orders ENGINE=InnoDB", ["orders"], OPTIONS),
    ("ALTER TABLE orders DISABLE KEYS", ["orders"], OPTIONS),
    ("ALTER TABLE orders ORDER BY a, b DESC, FORCE", ["orders"], OPTIONS),
    (
        "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS "
        "SELECT 1",
        [],
        "creates a view",
    ),
    (
        "CREATE DEFINER=root@localhost PROCEDURE p() BEGIN DROP TABLE t; END",
        [],
        "creates a procedure",
    ),
    ("GRANT SELECT ON shop.* TO 'a'@'%'", [], "GRANT changes neither rows nor columns"),
    ("CREATE USER IF NOT EXISTS 'a'@'%'", [], "creates a user"),
    ("ALTER DATABASE shop CHARACTER SET utf8mb4", [], "alters a database"),
    ("ANALYZE TABLE orders", [], "ANALYZE changes neither rows nor columns"),
    ("CREATE TEMPORARY TABLE x (a INT)", [], "a temporary table is not in the log"),
    ("CREATE SEQUENCE s START WITH 1", [], "creates a sequence"),
]


@pytest.mark.parametrize(("sql", "tables", "reason"), WITHOUT_EFFECT)
def test_a_statement_has_no_effect(sql: str, tables: list[str], reason: str) -> None:
    assert interpret(sql, "shop") == (
        Irrelevant(reason, tuple(TableName("shop", table) for table in tables)),
    )


# Statement, tables named, whether others may be meant, a part of the reason.
NOT_UNDERSTOOD = [
    ("ALTER TABLE orders ADD COLUMN c HYPERTYPE", ["orders"], False, "a type of column c"),
    ("ALTER TABLE orders ADD c INT ENFROCED", ["orders"], False, "'ENFROCED'"),
    ("ALTER TABLE orders ENGINE=BLACKHOLE", ["orders"], False, "engine BLACKHOLE"),
    ("ALTER TABLE orders FROBNICATE", ["orders"], False, "a clause of ALTER TABLE"),
    ("ALTER TABLE orders FROBNICATE, RENAME TO t", ["orders"], True, "'FROBNICATE"),
    ("ALTER TABLE orders ADD SYSTEM VERSIONING", ["orders"], False, "system-versioned"),
    ("ALTER TABLE orders UNION=(a, b)", ["orders"], True, "a clause of ALTER TABLE"),
    ("ALTER TABLE orders ADD c INT DEFAULT 'x", [], True, "not closed"),
    ("ALTER TABLE orders ADD c INT /*!50000 NOT NULL", [], True, "not closed"),
    ("ALTER TABLE orders ADD c INT; DROP TABLE t", ["orders"], True, "the end"),
    ("ALTER TABLE orders,", ["orders"], False, "a clause"),
    ("ALTER TABLE orders ADD c INT,", ["orders"], False, "the end of the statement"),
    ("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", ["t"], False, "system-versioned"),
    ("RENAME TABLE a TO b, c", ["a", "b", "c"], False, "TO"),
    ("DROP TABLE a b", ["a"], False, "the end of the statement"),
    ("UPDATE orders SET a = 1", ["orders"], True, "binlog_format must be ROW"),
    ("XA COMMIT 'x'", [], True, "a statement"),
    ("SET STATEMENT sql_mode='ANSI_QUOTES' FOR ALTER TABLE t ADD a INT", [], True, "sql_mode"),
    ("", [], True, "the end of the statement"),
]


@pytest.mark.parametrize(("sql", "tables", "any_table", "reason"), NOT_UNDERSTOOD)
def test_nothing_is_guessed(sql: str, tables: list[str], any_table: bool, reason: str) -> None:
    (change,) = interpret(sql, "shop")
    assert isinstance(change, NotUnderstood)
    assert reason in change.reason
    assert [name.table for name in change.tables] == tables
    assert change.any_table is any_table


@pytest.mark.parametrize(
    ("sql", "changes_rows"),
    [
        ("UPDATE orders SET a = 1", True),
        ("/* app */ INSERT INTO orders VALUES (1)", True),
        ("SET STATEMENT max_statement_time = 1 FOR DELETE FROM orders", True),
        ("DELETE o.* FROM orders o", True),
        ("# app\nUPDATE orders SET a = 'x", True),
        ("/* app */ ALTER TABLE orders ADD a INT DEFAULT 'x", False),
        ("/* UPDATE */ FROBNICATE", False),
        ("ALTER TABLE orders FROBNICATE", False),
    ],
)
def test_statements_that_change_rows_alone(sql: str, changes_rows: bool) -> None:
    (change,) = interpret(sql, "shop")
    assert isinstance(change, NotUnderstood)
    assert change.changes_rows is changes_rows


PREFIXES = ["ALTER TABLE t ", "CREATE TABLE t ", "RENAME TABLE ", "DROP ", "SET STATEMENT ", ""]
KEYWORDS = (
    "ADD COLUMN DROP CHANGE MODIFY RENAME TO AS PARTITION BY CONVERT CHARACTER SET INT NULL NOT "
    "DEFAULT PRIMARY KEY IF EXISTS SELECT LIKE FOR ON INDEX FIRST AFTER CHECK REFERENCES UNIQUE "
    "ALTER EXCHANGE WITH TABLE FROM DEFINER ALGORITHM"
)
SYMBOLS = "( ) , ; ` ' \" . = /* */ /*! /*!50000 -- # \\ \0 a b é 1 0x1F"
FRAGMENTS = KEYWORDS.split() + SYMBOLS.split(" ")
SYNTAXES = st.builds(Syntax, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@given(
    st.sampled_from(PREFIXES),
    st.text() | st.lists(st.sampled_from(FRAGMENTS)).map(" ".join),
    st.none() | st.just("shop"),
    SYNTAXES,
    st.sampled_from(AlterPhase),
)
@example("", "\ud800", None, Syntax(), AlterPhase.WHOLE)
def test_any_text_is_interpreted_without_an_error(
    prefix: str, text: str, database: str | None, syntax: Syntax, phase: AlterPhase
) -> None:
    changes = interpret(prefix + text, database, syntax=syntax, phase=phase)
    assert changes
    assert all(isinstance(change, Change) for change in changes)


@given(st.text().filter(lambda text: not text.strip().isascii()), SYNTAXES)
def test_arbitrary_text_is_not_understood(text: str, syntax: Syntax) -> None:
    (change,) = interpret(text, "shop", syntax=syntax)
    assert isinstance(change, NotUnderstood)
    assert change.concerns(TableName("any", "table"))


def test_deep_parentheses_are_read_without_recursion() -> None:
    depth = 100_000
    sql = f"ALTER TABLE t ADD c INT DEFAULT {'(' * depth}1{')' * depth}"
    (change,) = interpret(sql, "shop")
    assert isinstance(change, AddColumns)


def test_a_statement_that_is_too_long_is_not_read() -> None:
    (change,) = interpret("INSERT INTO t VALUES (1)" + ",(1)" * 1_000_000, "shop")
    assert isinstance(change, NotUnderstood)
    assert "4000024 characters" in change.reason


def test_a_large_table_is_read() -> None:
    names = [f"c{index}" for index in range(4096)]
    sql = f"CREATE TABLE t ({', '.join(f'{name} INT NOT NULL DEFAULT 0' for name in names)})"
    (change,) = interpret(sql, "shop")
    assert isinstance(change, CreateTable)
    assert [column.name for column in change.columns] == names


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
)
TYPES = st.sampled_from(
    ["INT", "varchar(20)", "enum('a','it''s','(,')", "DECIMAL(10, 2) UNSIGNED", "json", "point"]
)
SPACES = st.sampled_from(
    [" ", "\n\t", " /* a, b; ADD c INT */ ", " -- ' \n", " # ` \n", " /*!50000 */ ", "/**/"]
)
DEFAULTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[str], ColumnDefinition]:
    """The words of a column definition, and the definition."""
    name, type_, default = draw(NAMES), draw(TYPES), draw(DEFAULTS)
    nullable, position = draw(st.booleans()), draw(st.none() | st.just("") | NAMES)
    words = [quoted(name), type_]
    attributes = [["NULL"] if nullable else ["NOT", "NULL"]]
    if default is not None:
        attributes.append(["DEFAULT", literal(default)])
    comment = draw(DEFAULTS)
    if comment is not None:
        attributes.append(["COMMENT", literal(comment)])
    words += [word for attribute in draw(st.permutations(attributes)) for word in attribute]
    if position is not None:
        words += ["AFTER", quoted(position)] if position else ["FIRST"]
    return words, ColumnDefinition(
        name,
        type_,
        nullable=nullable,
        default=None if default is None else Default(literal(default), default),
        comment=comment,
        position=None if position is None else Position(position or None),
    )


@st.composite
def alterations(draw: st.DrawFn) -> tuple[str, tuple[Change, ...]]:
    """An ALTER TABLE, and its changes: drops, then renames, then the others in their order."""
    table = TableName(draw(NAMES), draw(NAMES))
    clauses: list[list[str]] = []
    dropped: list[str] = []
    renames: list[tuple[str, str]] = []
    others: list[Change] = []
    for clause in draw(st.lists(st.sampled_from(["ADD", "DROP", "RENAME", "MODIFY"]), min_size=1)):
        column = ["COLUMN"] if draw(st.booleans()) else []
        if clause == "DROP":
            dropped.append(draw(NAMES))
            clauses.append(["DROP", *column, quoted(dropped[-1])])
        elif clause == "RENAME":
            renames.append((draw(NAMES), draw(NAMES)))
            clauses.append(
                ["RENAME", "COLUMN", *(quoted(renames[-1][0]), "TO", quoted(renames[-1][1]))]
            )
        else:
            words, definition = draw(columns())
            clauses.append([clause, *column, *words])
            last = others[-1] if others else None
            if clause == "MODIFY":
                others.append(ChangeColumn(table, definition))
            elif isinstance(last, AddColumns):
                others[-1] = AddColumns(table, (*last.columns, definition))
            else:
                others.append(AddColumns(table, (definition,)))
    words = ["ALTER", "TABLE", f"{quoted(table.database)}.{quoted(table.table)}"]
    for index, parts in enumerate(clauses):
        words += ([","] if index else []) + parts
    sql = draw(SPACES) + "".join(word + draw(SPACES) for word in words)
    changes: list[Change] = [DropColumns(table, tuple(dropped))] if dropped else []
    changes += [RenameColumns(table, tuple(renames))] if renames else []
    return sql, (*changes, *others)


@given(alterations())
def test_a_built_alter_table_is_interpreted_as_built(
    alteration: tuple[str, tuple[Change, ...]],
) -> None:
    """apache/flink-cdc#4183: a position that a statement names is kept, whatever the names are."""
    sql, changes = alteration
    assert interpret(sql, None) == changes


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=6),
    SPACES,
)
def test_renames_move_tables_as_one_after_the_other_does(
    pairs: list[tuple[str, str]], space: str
) -> None:
    """apache/flink-cdc#4064: what stands under a name after a swap is another table."""
    contents = {name: name for name in "abcd"}
    valid = []
    for old, new in pairs:
        if old in contents and new not in contents:
            contents[new] = contents.pop(old)
            valid.append((old, new))
        elif old in contents:
            free = f"free{len(valid)}"
            contents[free] = contents.pop(old)
            valid.append((old, free))
    if not valid:
        return
    sql = f"RENAME{space}TABLE " + ",".join(f"`{old}`{space}TO `{new}`" for old, new in valid)
    (change,) = interpret(sql, "shop")
    assert isinstance(change, RenameTables)
    moves = {old.table: new.table for old, new in change.moves.items() if old != new}
    assert moves == {old: new for new, old in contents.items() if old != new}
    replaced = {new.table: old.table for new, old in change.replaced.items()}
    assert replaced == {new: old for new, old in contents.items() if new in "abcd" and new != old}


@pytest.mark.parametrize("sql", ["ALTER TABLE t ADD c INT", "ALTER TABLE t FROBNICATE"])
def test_only_the_commit_of_a_two_phase_alter_has_an_effect(sql: str) -> None:
    """MariaDB logs the text at START ALTER and again at COMMIT ALTER, or ROLLBACK ALTER."""
    for phase in (AlterPhase.START, AlterPhase.ROLLBACK):
        (change,) = interpret(sql, "shop", phase=phase)
        assert isinstance(change, Irrelevant)
        assert change.tables == (TableName("shop", "t"),)
    assert interpret(sql, "shop", phase=AlterPhase.COMMIT) == interpret(sql, "shop")


def test_only_mariadb_executes_its_own_comments() -> None:
    sql = "ALTER TABLE t ADD c INT /*M!100300 INVISIBLE */ /*! NOT NULL */"
    (on_mariadb,) = interpret(sql, "shop", syntax=Syntax(mariadb=True))
    (on_mysql,) = interpret(sql, "shop")
    assert isinstance(on_mariadb, AddColumns)
    assert isinstance(on_mysql, AddColumns)
    assert (on_mariadb.columns[0].invisible, on_mysql.columns[0].invisible) == (True, False)
    assert not on_mysql.columns[0].nullable


def test_a_table_without_a_database_needs_the_session_s() -> None:
    (change,) = interpret("TRUNCATE t", None)
    assert isinstance(change, NotUnderstood)
    assert "no database" in change.reason
    assert interpret("TRUNCATE s.t", None) == (Truncate(TableName("s", "t")),)


def test_a_statement_that_changes_a_system_table_concerns_no_other() -> None:
    """Amazon RDS writes its heartbeat as a statement whatever ``binlog_format`` is."""
    (change,) = interpret("INSERT INTO mysql.rds_heartbeat2(id, value) VALUES (1, 2)", "shop")
    assert isinstance(change, NotUnderstood)
    assert not change.concerns(TableName("shop", "orders"))


@pytest.mark.parametrize(
    "case", [case for case in COLUMNS if case.syntax == Syntax()], ids=lambda case: case.sql[:60]
)
def test_sqlglot_reads_the_same_columns(case: Case) -> None:
    """Where sqlglot's parser makes a tree of a statement, it names the same columns."""
    try:
        tree = sqlglot.parse_one(case.sql, dialect="mysql")
    except sqlglot.ParseError:
        pytest.skip("sqlglot does not parse it")
    if not isinstance(tree, exp.Alter):
        pytest.skip("sqlglot keeps it as an opaque command")
    actions = tree.args["actions"]
    names = {action.name for action in actions if type(action) is exp.ColumnDef}
    changes = interpret(case.sql, "shop")
    columns = {
        column.name
        for change in changes
        if isinstance(change, AddColumns)
        for column in change.columns
    }
    assert columns == names
    renames = {
        (action.this.name, action.args["to"].name)
        for action in actions
        if isinstance(action, exp.RenameColumn)
    }
    assert renames <= {
        pair for change in changes if isinstance(change, RenameColumns) for pair in change.renames
    }
