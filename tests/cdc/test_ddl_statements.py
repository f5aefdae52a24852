"""Statements of real tools, what they are interpreted as, and which tables must be read again.

Each case is: where the statement comes from, its text, its changes, the tables to read again. The
default database is ``shop``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from headwater.cdc.ddl import (
    AddColumns,
    Change,
    ChangeColumn,
    ChangeDefault,
    CharacterSetChange,
    ColumnDefinition,
    CreateTable,
    Default,
    DropColumns,
    DropDatabase,
    DropTables,
    ForeignKey,
    ForeignKeyChange,
    Irrelevant,
    KeyChange,
    PartitionChange,
    Position,
    RenameColumns,
    RenameTables,
    RowEffect,
    RowsReplaced,
    Syntax,
    TableComment,
    TableName,
    Truncate,
    interpret,
)


class Case(NamedTuple):
    source: str
    sql: str
    changes: list[Change]
    reread: list[TableName]
    syntax: Syntax = Syntax()


def shop(table: str) -> TableName:
    return TableName("shop", table)


def col(name: str, type_: str, **attributes: Any) -> ColumnDefinition:
    return ColumnDefinition(name, type_, **attributes)


def added(*columns: ColumnDefinition, table: str = "orders") -> AddColumns:
    return AddColumns(shop(table), columns)


def changed(column: ColumnDefinition, former: str | None = None) -> ChangeColumn:
    return ChangeColumn(shop("orders"), column, former)


def renamed(*pairs: tuple[str, str]) -> RenameTables:
    return RenameTables(tuple((shop(old), shop(new)) for old, new in pairs))


def partitions(operation: str, effect: RowEffect, *names: str, other: str = "") -> PartitionChange:
    return PartitionChange(ORDERS, operation, effect, names, shop(other) if other else None)


ORDERS = shop("orders")
MARIADB = Syntax(mariadb=True)
FIRST = Position()
NULL = Default("NULL")

COLUMNS = [
    Case(
        "phpMyAdmin",
        "ALTER TABLE `orders` ADD `note` VARCHAR(255) NULL DEFAULT NULL AFTER `status`;",
        [added(col("note", "VARCHAR(255)", default=NULL, position=Position("status")))],
        [],
    ),
    Case(
        "phpMyAdmin, apache/paimon#2843: rows that exist get the default without an event",
        "ALTER TABLE `orders` ADD `channel` VARCHAR(20) CHARACTER SET utf8mb4 COLLATE "
        "utf8mb4_general_ci NOT NULL DEFAULT 'web' COMMENT 'it''s\\nnew' FIRST",
        [
            added(
                col(
                    "channel",
                    "VARCHAR(20)",
                    character_set="utf8mb4",
                    collation="utf8mb4_general_ci",
                    nullable=False,
                    default=Default("'web'", "web"),
                    comment="it's\nnew",
                    position=FIRST,
                )
            )
        ],
        [ORDERS],
    ),
    Case(
        "Rails",
        "ALTER TABLE `orders` ADD `deleted_at` datetime(6), ADD `kind` int DEFAULT -1 NOT NULL",
        [
            added(
                col("deleted_at", "datetime(6)"),
                col("kind", "int", default=Default("-1", "-1"), nullable=False),
            )
        ],
        [ORDERS],
    ),
    Case(
        "Django: NOT NULL without a default fills rows with ''",
        "ALTER TABLE `orders` ADD COLUMN `slug` varchar(50) NOT NULL",
        [added(col("slug", "varchar(50)", nullable=False))],
        [ORDERS],
    ),
    Case(
        "Django",
        "ALTER TABLE `orders` ADD COLUMN `parent_id` bigint NULL , ADD CONSTRAINT "
        "`orders_parent_fk` FOREIGN KEY (`parent_id`) REFERENCES `orders`(`id`)",
        [
            added(col("parent_id", "bigint")),
            ForeignKeyChange(
                ORDERS, (ForeignKey(("parent_id",), ORDERS, ("id",), "orders_parent_fk"),)
            ),
        ],
        [],
    ),
    Case(
        "Hibernate",
        "alter table orders add column total decimal(38,2), add column state "
        "enum ('NEW','it''s, done')",
        [added(col("total", "decimal(38,2)"), col("state", "enum ('NEW','it''s, done')"))],
        [],
    ),
    Case(
        "Flyway: several columns in parentheses",
        "ALTER TABLE orders ADD (a INT NOT NULL, b DECIMAL(10,2) DEFAULT 0.00, KEY (a))",
        [
            added(
                col("a", "INT", nullable=False),
                col("b", "DECIMAL(10,2)", default=Default("0.00", "0.00")),
            )
        ],
        [ORDERS],
    ),
    Case(
        "MariaDB",
        "ALTER ONLINE TABLE IF EXISTS orders WAIT 10 ADD COLUMN IF NOT EXISTS u UUID DEFAULT "
        "uuid(), ADD COLUMN ip INET6 AFTER u, ALGORITHM=INSTANT, LOCK=NONE",
        [
            added(
                col("u", "UUID", default=Default("uuid()"), conditional=True),
                col("ip", "INET6", position=Position("u")),
            )
        ],
        [ORDERS],
        MARIADB,
    ),
    Case(
        "MariaDB: a setting for one statement",
        "SET STATEMENT max_statement_time=0, lock_wait_timeout=5 FOR ALTER TABLE orders "
        "NOWAIT ADD c INT",
        [added(col("c", "INT"))],
        [],
        MARIADB,
    ),
    Case(
        "generated columns are in the rows",
        "ALTER TABLE orders ADD total INT GENERATED ALWAYS AS (price * (qty + 1)) STORED NOT NULL, "
        "ADD half INT AS (total / 2) VIRTUAL COMMENT 'x'",
        [
            added(
                col("total", "INT", generated="price * (qty + 1)", stored=True, nullable=False),
                col("half", "INT", generated="total / 2", comment="x"),
            )
        ],
        [ORDERS],
    ),
    Case(
        "a TIMESTAMP is NOT NULL or not, as a setting says",
        "ALTER TABLE orders ADD at TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
        [added(col("at", "TIMESTAMP", nullable=None, on_update="CURRENT_TIMESTAMP"))],
        [ORDERS],
    ),
    Case(
        "MySQL 8",
        "ALTER TABLE orders ADD COLUMN g POINT NOT NULL SRID 4326 /*!80023 INVISIBLE */, "
        "ADD j JSON DEFAULT (JSON_ARRAY(1, ')'))",
        [
            added(
                col("g", "POINT", nullable=False, invisible=True),
                col("j", "JSON", default=Default("(JSON_ARRAY(1, ')'))")),
            )
        ],
        [ORDERS],
    ),
    Case(
        "WordPress plugin: a key of its own",
        "ALTER TABLE wp_log ADD COLUMN `id` bigint(20) unsigned NOT NULL auto_increment "
        "PRIMARY KEY FIRST",
        [
            added(
                col(
                    "id",
                    "bigint(20) unsigned",
                    nullable=False,
                    auto_increment=True,
                    position=FIRST,
                ),
                table="wp_log",
            ),
            KeyChange(shop("wp_log"), False, ("id",)),
        ],
        [shop("wp_log")],
    ),
    Case(
        "national and long types",
        "ALTER TABLE orders ADD a NATIONAL CHARACTER VARYING(10), ADD b DOUBLE PRECISION UNSIGNED, "
        "ADD c LONG VARCHAR, ADD `2fa` SERIAL",
        [
            added(
                col("a", "NATIONAL CHARACTER VARYING(10)"),
                col("b", "DOUBLE PRECISION UNSIGNED"),
                col("c", "LONG VARCHAR"),
                col("2fa", "SERIAL", nullable=False, auto_increment=True),
            )
        ],
        [ORDERS],
    ),
    Case(
        "apache/flink-cdc#4183: the position of a modified column counts",
        "ALTER TABLE orders MODIFY amount BIGINT(20) UNSIGNED ZEROFILL NOT NULL AFTER id",
        [
            changed(
                col(
                    "amount",
                    "BIGINT(20) UNSIGNED ZEROFILL",
                    nullable=False,
                    position=Position("id"),
                )
            )
        ],
        [ORDERS],
    ),
    Case(
        "Rails: change_table_comment",
        "ALTER TABLE `orders` COMMENT 'what was \\'sold\\''",
        [TableComment(ORDERS, "what was 'sold'")],
        [],
    ),
    Case(
        "Rails: change_column",
        "ALTER TABLE `orders` CHANGE `title` `title` text DEFAULT NULL COMMENT ''",
        [changed(col("title", "text", default=NULL, comment=""))],
        [ORDERS],
    ),
    Case(
        "Rails: rename_column of old versions",
        "ALTER TABLE `orders` CHANGE `title` `name` varchar(255) DEFAULT 'a' NOT NULL",
        [
            RenameColumns(ORDERS, (("title", "name"),)),
            changed(
                col("name", "varchar(255)", default=Default("'a'", "a"), nullable=False), "title"
            ),
        ],
        [ORDERS],
    ),
    Case(
        "two names swapped with CHANGE",
        "ALTER TABLE orders CHANGE a b INT, CHANGE b a INT",
        [
            RenameColumns(ORDERS, (("a", "b"), ("b", "a"))),
            changed(col("b", "INT"), "a"),
            changed(col("a", "INT"), "b"),
        ],
        [ORDERS],
    ),
    Case(
        "two names swapped, Rails 8",
        "ALTER TABLE `orders` RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`",
        [RenameColumns(ORDERS, (("a", "b"), ("b", "a")))],
        [],
    ),
    Case(
        "MariaDB's forms of IF EXISTS",
        "ALTER TABLE orders DROP COLUMN IF EXISTS a, DROP b CASCADE, "
        "RENAME COLUMN IF EXISTS c TO d, MODIFY COLUMN IF EXISTS e INT, "
        "ALTER COLUMN IF EXISTS f SET DEFAULT NULL",
        [
            DropColumns(ORDERS, ("a", "b"), if_exists=True),
            RenameColumns(ORDERS, (("c", "d"),), if_exists=True),
            changed(col("e", "INT", conditional=True)),
            ChangeDefault(ORDERS, "f", NULL, if_exists=True),
        ],
        [ORDERS],
        MARIADB,
    ),
    Case(
        "a column replaced by another one of the same name: drops apply first",
        "ALTER TABLE orders ADD COLUMN v BIGINT, DROP COLUMN v",
        [DropColumns(ORDERS, ("v",)), added(col("v", "BIGINT"))],
        [],
    ),
    Case(
        "Django",
        "ALTER TABLE `orders` ALTER COLUMN `status` DROP DEFAULT, ALTER `kind` SET DEFAULT "
        "_utf8mb4'x' 'y'",
        [
            ChangeDefault(ORDERS, "status", None),
            ChangeDefault(ORDERS, "kind", Default("_utf8mb4'x' 'y'", "xy")),
        ],
        [],
    ),
    Case(
        "Liquibase: a list of all sorts, adds and moves stay in order",
        "ALTER TABLE shop.orders ADD a INT, MODIFY b INT AFTER a, ADD c INT AFTER b, DROP d, "
        "RENAME TO archive.orders, ADD INDEX (a), ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
        [
            DropColumns(ORDERS, ("d",)),
            added(col("a", "INT")),
            changed(col("b", "INT", position=Position("a"))),
            added(col("c", "INT", position=Position("b"))),
            RenameTables(((ORDERS, TableName("archive", "orders")),)),
        ],
        [ORDERS],
    ),
    Case(
        "Django: all text columns",
        "ALTER TABLE `orders` CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        [CharacterSetChange(ORDERS, "utf8mb4", "utf8mb4_0900_ai_ci")],
        [ORDERS],
    ),
    Case(
        "a column with comments and semicolons in its name",
        "/* ApplicationName=DBeaver */ ALTER TABLE orders\n\tADD -- why\n `a; -- b``c` INT # end",
        [added(col("a; -- b`c", "INT"))],
        [],
    ),
    Case(
        "ANSI_QUOTES and NO_BACKSLASH_ESCAPES",
        'ALTER TABLE "orders" ADD "a ""b" VARCHAR(3) DEFAULT \'\\\'',
        [added(col('a "b', "VARCHAR(3)", default=Default("'\\'", "\\")))],
        [ORDERS],
        Syntax(ansi_quotes=True, backslash_escapes=False),
    ),
    Case(
        "lower_case_table_names=1: the log's events have lower case",
        "ALTER TABLE Shop.ORDERS ADD Note INT",
        [added(col("Note", "INT"))],
        [],
        Syntax(lower_case_names=True),
    ),
]

TABLES = [
    Case(
        "gh-ost creates its copy",
        "create /* gh-ost */ table `shop`.`_orders_gho` like `shop`.`orders`",
        [CreateTable(shop("_orders_gho"), like=ORDERS)],
        [],
    ),
    Case(
        "gh-ost alters its copy",
        "alter /* gh-ost */ table `shop`.`_orders_gho` add column c varchar(255), "
        "add index c_idx(c)",
        [added(col("c", "varchar(255)"), table="_orders_gho")],
        [],
    ),
    Case(
        "gh-ost's changelog table",
        "create /* gh-ost */ table `shop`.`_orders_ghc` (\n\tid bigint unsigned auto_increment,\n"
        "\tlast_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,\n"
        "\thint varchar(64) charset ascii not null,\n\tprimary key(id),\n"
        "\tunique key hint_uidx(hint)\n) auto_increment=256 comment='Ghost changelog'",
        [
            CreateTable(
                shop("_orders_ghc"),
                (
                    col("id", "bigint unsigned", nullable=False, auto_increment=True),
                    col(
                        "last_update",
                        "timestamp",
                        nullable=False,
                        default=Default("CURRENT_TIMESTAMP"),
                        on_update="CURRENT_TIMESTAMP",
                    ),
                    col("hint", "varchar(64)", character_set="ascii", nullable=False),
                ),
                ("id",),
            )
        ],
        [],
    ),
    Case(
        "gh-ost swaps: apache/flink-cdc#4064, #3876",
        "rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, "
        "`shop`.`_orders_gho` to `shop`.`orders`",
        [renamed(("orders", "_orders_del"), ("_orders_gho", "orders"))],
        [ORDERS],
    ),
    Case(
        "pt-online-schema-change creates its copy",
        "CREATE TABLE `shop`.`_orders_new` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `v` char(10) "
        "CHARACTER SET latin1 DEFAULT NULL,\n  PRIMARY KEY (`id`),\n  KEY `v` (`v`(3) DESC) "
        "USING BTREE\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
        [
            CreateTable(
                shop("_orders_new"),
                (
                    col("id", "int", nullable=False, auto_increment=True),
                    col("v", "char(10)", character_set="latin1", default=NULL),
                ),
                ("id",),
            )
        ],
        [],
    ),
    Case(
        "pt-online-schema-change's trigger",
        "CREATE DEFINER=`root`@`%` TRIGGER `pt_osc_shop_orders_del` AFTER DELETE ON "
        "`shop`.`orders` FOR EACH ROW BEGIN DELETE IGNORE FROM `shop`.`_orders_new`; END",
        [Irrelevant("creates a trigger")],
        [],
    ),
    Case(
        "MySQL 9's function in JavaScript",
        "CREATE DEFINER=`root`@`%` FUNCTION `double`(n INT) RETURNS int LANGUAGE JAVASCRIPT AS "
        "$$ // it's /* twice \n return 2 * n $$",
        [Irrelevant("creates a function")],
        [],
    ),
    Case(
        "MySQL 9's library",
        "CREATE LIBRARY `lib` LANGUAGE JAVASCRIPT AS $js$ const $$ = `it's`; $js$",
        [Irrelevant("creates a library")],
        [],
    ),
    Case(
        "MySQL 9's view of rows as JSON",
        "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`%` SQL SECURITY DEFINER JSON RELATIONAL "
        "DUALITY VIEW `dv` AS SELECT JSON_DUALITY_OBJECT('_id': `id`) FROM `orders`",
        [Irrelevant("creates a view")],
        [],
    ),
    Case(
        "MariaDB's names with dollars",
        "ALTER TABLE orders ADD COLUMN $$a int, ADD COLUMN b$$ int",
        [added(col("$$a", "int"), col("b$$", "int"))],
        [],
        Syntax(mariadb=True),
    ),
    Case(
        "pt-online-schema-change swaps: apache/paimon#3450",
        "RENAME TABLE `shop`.`orders` TO `shop`.`_orders_old`, `shop`.`_orders_new` TO "
        "`shop`.`orders`",
        [renamed(("orders", "_orders_old"), ("_orders_new", "orders"))],
        [ORDERS],
    ),
    Case(
        "pt-online-schema-change drops the old table",
        "DROP TABLE IF EXISTS `shop`.`_orders_old` /* generated by server */",
        [DropTables((shop("_orders_old"),), if_exists=True)],
        [],
    ),
    Case(
        "Vitess swaps with a third name",
        "RENAME TABLE `orders` TO `_vt_swap`, `_vt_vrp_1` TO `orders`, `_vt_swap` TO `_vt_vrp_1`",
        [renamed(("orders", "_vt_swap"), ("_vt_vrp_1", "orders"), ("_vt_swap", "_vt_vrp_1"))],
        [ORDERS, shop("_vt_vrp_1")],
    ),
    Case(
        "Vitess collects garbage",
        "RENAME TABLE `orders` TO `_vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_`",
        [renamed(("orders", "_vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_"))],
        [],
    ),
    Case(
        "MariaDB",
        "RENAME TABLES IF EXISTS a WAIT 5 TO b, c NOWAIT TO a",
        [
            RenameTables(
                ((shop("a"), shop("b")), (shop("c"), shop("a"))),
                if_exists=True,
            )
        ],
        [shop("a")],
        MARIADB,
    ),
    Case(
        "Rails",
        "ALTER TABLE `orders` RENAME AS `orders_2025`",
        [renamed(("orders", "orders_2025"))],
        [],
    ),
    Case(
        "mysqldump",
        "/*!50001 CREATE TABLE `t` (`a` tinyint(1) DEFAULT '0') ENGINE=MyISAM */",
        [CreateTable(shop("t"), (col("a", "tinyint(1)", default=Default("'0'", "0")),))],
        [],
    ),
    Case(
        "Laravel",
        "create table `users` (`id` bigint unsigned not null auto_increment primary key, `email` "
        "varchar(255) not null, `at` timestamp null, `team` bigint references teams(id) on delete "
        "set null, check (`id` > 0)) default character set utf8mb4 collate 'utf8mb4_unicode_ci'",
        [
            CreateTable(
                shop("users"),
                (
                    col("id", "bigint unsigned", nullable=False, auto_increment=True),
                    col("email", "varchar(255)", nullable=False),
                    col("at", "timestamp"),
                    col("team", "bigint"),
                ),
                ("id",),
                (ForeignKey(("team",), shop("teams"), ("id",), on_delete="SET NULL"),),
            )
        ],
        [],
    ),
    Case(
        "MySQL 8: an invisible key that the server generated, and a query with row events",
        "CREATE TABLE `t` (`my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT "
        "/*!80023 INVISIBLE */, `a` int DEFAULT NULL, PRIMARY KEY (`my_row_id`)) START TRANSACTION",
        [
            CreateTable(
                shop("t"),
                (
                    col(
                        "my_row_id",
                        "bigint unsigned",
                        nullable=False,
                        auto_increment=True,
                        invisible=True,
                    ),
                    col("a", "int", default=NULL),
                ),
                ("my_row_id",),
            )
        ],
        [],
    ),
    Case(
        "a partitioned table",
        "CREATE TABLE t (id INT, dt DATE NOT NULL, PRIMARY KEY (id, dt)) PARTITION BY "
        "RANGE COLUMNS(dt) (PARTITION p0 VALUES LESS THAN ('2024-01-01') ENGINE = InnoDB)",
        [
            CreateTable(
                shop("t"),
                (col("id", "INT", nullable=False), col("dt", "DATE", nullable=False)),
                ("id", "dt"),
            )
        ],
        [],
    ),
    Case(
        "a query in the log: its rows are not",
        "CREATE OR REPLACE TABLE t ENGINE=InnoDB AS SELECT * FROM orders WHERE 1=0",
        [CreateTable(shop("t"), as_select=True, or_replace=True)],
        [shop("t")],
    ),
    Case(
        "columns and a query",
        "CREATE TABLE IF NOT EXISTS t (a INT) REPLACE SELECT 1 AS a UNION SELECT 2",
        [CreateTable(shop("t"), (col("a", "INT"),), as_select=True, if_not_exists=True)],
        [shop("t")],
    ),
    Case(
        "MySQL on a session's end",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `orders`",
        [Irrelevant("a temporary table is not in the log")],
        [],
    ),
    Case(
        "several tables",
        "DROP TABLE `orders`,`archive`.`orders` WAIT 3 CASCADE",
        [DropTables((ORDERS, TableName("archive", "orders")))],
        [],
        MARIADB,
    ),
    Case("a database", "DROP DATABASE IF EXISTS `shop`", [DropDatabase("shop", True)], []),
    Case("all rows", "TRUNCATE `shop`.`orders`", [Truncate(ORDERS)], []),
    Case("all rows, Flyway", "TRUNCATE TABLE orders NOWAIT;", [Truncate(ORDERS)], [], MARIADB),
]

ROWS = [
    Case(
        "ageing out",
        "ALTER TABLE orders DROP PARTITION IF EXISTS p0, p1",
        [partitions("DROP PARTITION", RowEffect.REMOVED, "p0", "p1")],
        [ORDERS],
    ),
    Case(
        "ageing out",
        "ALTER TABLE orders TRUNCATE PARTITION ALL",
        [partitions("TRUNCATE PARTITION", RowEffect.REMOVED)],
        [ORDERS],
    ),
    Case(
        "both tables get other rows",
        "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE orders_old WITHOUT VALIDATION",
        [partitions("EXCHANGE PARTITION", RowEffect.REPLACED, "p0", other="orders_old")],
        [ORDERS, shop("orders_old")],
    ),
    Case(
        "MariaDB",
        "ALTER TABLE orders CONVERT PARTITION p0 TO TABLE orders_p0",
        [partitions("CONVERT PARTITION", RowEffect.REMOVED, "p0", other="orders_p0")],
        [ORDERS, shop("orders_p0")],
        MARIADB,
    ),
    Case(
        "MariaDB",
        "ALTER TABLE orders CONVERT TABLE orders_p0 TO PARTITION p0 VALUES LESS THAN (9)",
        [partitions("CONVERT TABLE", RowEffect.REPLACED, "p0", other="orders_p0")],
        [ORDERS, shop("orders_p0")],
        MARIADB,
    ),
    Case(
        "a new month",
        "ALTER TABLE orders REORGANIZE PARTITION pmax INTO (PARTITION p9 VALUES LESS THAN (9), "
        "PARTITION pmax VALUES LESS THAN MAXVALUE)",
        [partitions("REORGANIZE PARTITION", RowEffect.NONE, "pmax")],
        [],
    ),
    Case(
        "a new month",
        "ALTER TABLE orders ADD PARTITION (PARTITION p10 VALUES LESS THAN (10))",
        [partitions("ADD PARTITION", RowEffect.NONE)],
        [],
    ),
    Case(
        "partitioning follows a clause without a comma",
        "ALTER TABLE orders ADD c INT PARTITION BY HASH(id) PARTITIONS 4",
        [added(col("c", "INT")), partitions("PARTITION BY", RowEffect.NONE)],
        [],
    ),
    Case(
        "no partitions",
        "ALTER TABLE orders REMOVE PARTITIONING",
        [partitions("REMOVE PARTITIONING", RowEffect.NONE)],
        [],
    ),
    Case(
        "a key replaced",
        "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY USING BTREE (id, dt)",
        [KeyChange(ORDERS, True, ("id", "dt"))],
        [],
    ),
    Case(
        "a key dropped as an index",
        "DROP INDEX `PRIMARY` ON orders",
        [KeyChange(ORDERS, True, None)],
        [],
    ),
    Case(
        "a key dropped as a constraint",
        "ALTER TABLE orders DROP CONSTRAINT `PRIMARY`",
        [KeyChange(ORDERS, True, None)],
        [],
    ),
    Case(
        "Altinity/clickhouse-sink-connector#421: cascades make no events",
        "ALTER TABLE orders ADD CONSTRAINT fk FOREIGN KEY ix (c) REFERENCES crm.customers (id) "
        "ON DELETE CASCADE ON UPDATE NO ACTION, DROP FOREIGN KEY old_fk",
        [
            ForeignKeyChange(
                ORDERS,
                (
                    ForeignKey(
                        ("c",),
                        TableName("crm", "customers"),
                        ("id",),
                        "fk",
                        "CASCADE",
                        "NO ACTION",
                    ),
                ),
                ("old_fk",),
            )
        ],
        [],
    ),
    Case(
        "ALTER IGNORE removes duplicates",
        "ALTER IGNORE TABLE orders ADD UNIQUE u (email)",
        [RowsReplaced(ORDERS, "ALTER IGNORE may have removed rows")],
        [ORDERS],
        MARIADB,
    ),
    Case(
        "mydumper: a table's file replaced",
        "ALTER TABLE orders IMPORT TABLESPACE",
        [RowsReplaced(ORDERS, "IMPORT TABLESPACE")],
        [ORDERS],
    ),
    Case(
        "a damaged table",
        "REPAIR TABLE orders QUICK",
        [RowsReplaced(ORDERS, "REPAIR may have removed rows")],
        [ORDERS],
    ),
]


@pytest.mark.parametrize(
    "case", COLUMNS + TABLES + ROWS, ids=lambda case: f"{case.source}: {case.sql[:50]}"
)
def test_a_statement_is_interpreted(case: Case) -> None:
    changes = interpret(case.sql, "shop", syntax=case.syntax)
    assert list(changes) == case.changes
    reread = {table for change in changes for table in change.tables_to_reread}
    assert reread == set(case.reread)
    assert all(change.concerns(table) for change in changes for table in change.tables), (
        "a change concerns its tables"
    )
