"""A MariaDB server as a source: addresses, and what keeps it from being followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.information_schema import read_tables
from headwater.cdc.mysql.server import Address, Flavour, MySQLServer
from headwater.storage.errors import Forbidden, Invalid, Unavailable


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense", "is not a URL"),
        ("postgresql://u@h", "'postgresql' is not MySQL or MariaDB"),
        ("mysql://u@", "the host is missing"),
        ("mysql://h:3306", "the user is missing"),
        ("mysql://u@h/shop", "a database is named; choose tables with --include"),
        ("mysql://u@h:99999", "the port is 99999, and not between 1 and 65535"),
        ("mysql://u@h?ssl=1", "the option 'ssl' is not known"),
        ("mysql://u@h?ssl-mode=a&ssl-mode=b", "the option 'ssl-mode' is there twice"),
        ("mysql://u@h?ssl-mode=on", "ssl-mode is 'on', and not one of disabled, preferred, req"),
        ("mysql://u@h?ssl-cert=c.pem", "ssl-cert and ssl-key are needed together"),
        ("mysql://u@h?ssl-mode=required&ssl-ca=c.pem", "ssl-mode required verifies nothing"),
        ("mysql://u@h?ssl-cert=c&ssl-key=k", "ssl-mode preferred does not require encryption"),
    ],
)
def test_bad_addresses_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        Address.from_url(text)


def test_a_password_is_never_shown() -> None:
    address = Address.from_url("mysql://u:secret@h")
    assert (address.host, address.port, address.password) == ("h", 3306, "secret")
    assert "secret" not in repr(address)
    for text in ("mysql://u:secret@h/shop", "oracle://u:secret@h", "mysql://u:secret@"):
        with pytest.raises(Invalid) as error:
            Address.from_url(text)
        assert "secret" not in str(error.value)
    assert Address.from_url("mysql://u@h", "given").password == "given"
    with pytest.raises(Invalid, match="the password is given twice"):
        Address.from_url("mysql://u:secret@h", "given")


@pytest.fixture
def administrator(mariadb_url: str) -> Iterator[MySQLServer]:
    with MySQLServer(Address.from_url(mariadb_url.replace("headwater@", "root@"))) as server:
        server.rows("DROP DATABASE IF EXISTS shop")
        server.rows("CREATE DATABASE shop")
        yield server
        server.rows("DROP DATABASE shop")


@pytest.mark.mariadb
def test_settings_and_privileges_that_are_missing(
    administrator: MySQLServer, mariadb_url: str
) -> None:
    assert administrator.flavour is Flavour.MARIADB
    subjects = {finding.subject for finding in administrator.findings()}
    assert subjects == {
        "setting log_bin",
        "setting binlog_format",
        "setting binlog_row_metadata",
    }
    administrator.rows("CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'x'")
    address = Address.from_url(mariadb_url.replace("headwater@", "reader:x@"))
    with MySQLServer(address) as reader:
        findings = [str(finding) for finding in reader.findings()]
    for privilege in ("REPLICATION SLAVE", "BINLOG MONITOR"):
        assert (
            f"privilege {privilege}: user 'reader' does not have it; GRANT {privilege} ON *.* "
            "TO 'reader'"
        ) in findings
    administrator.rows("DROP USER reader@'%'")


@pytest.mark.mariadb
def test_who_is_rejected_and_what_is_not_there(mariadb_url: str) -> None:
    with pytest.raises(Forbidden, match="rejects user 'nobody'"):
        MySQLServer(Address.from_url(mariadb_url.replace("headwater@", "nobody:x@")))
    with pytest.raises(Unavailable, match=r"at 127\.0\.0\.1:1 cannot be reached"):
        MySQLServer(Address.from_url("mysql://u@127.0.0.1:1"))


@pytest.mark.mariadb
def test_tables_as_the_information_schema_has_them(administrator: MySQLServer) -> None:
    for statement in (
        "CREATE TABLE shop.orders (id BIGINT UNSIGNED, `a b` VARCHAR(8) COLLATE utf8mb4_bin "
        "NOT NULL DEFAULT 'x' COMMENT 'it''s', c DECIMAL(5,2), d INT AS (id + 1) STORED, "
        "PRIMARY KEY (`a b`, id)) COMMENT 'all orders'",
        "CREATE TABLE shop.keyless (id INT)",
        "CREATE TABLE shop.armenian (id INT PRIMARY KEY, a TEXT CHARACTER SET armscii8)",
        "CREATE TABLE shop.versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE SEQUENCE shop.numbers",
        "CREATE VIEW shop.seen AS SELECT 1",
    ):
        administrator.rows(statement)
    tables = read_tables(administrator)
    # Other tests have tables on the same server.
    (orders,) = [table for table in tables.followed if table.name.database == "shop"]
    assert (orders.name, orders.primary_key) == (TableName("shop", "orders"), ("a b", "id"))
    assert orders.comment == "all orders"
    key, text, price, sum_ = orders.columns
    assert (str(key.type), key.source_type) == (
        "DECIMAL(20, 0) NOT NULL",
        "bigint(20) unsigned",
    )
    assert (str(text.type), text.default, text.comment) == (
        "VARCHAR(8) NOT NULL",
        "'x'",
        "it's",
    )
    assert text.collation == "utf8mb4_bin"
    assert (str(price.type), sum_.is_generated) == ("DECIMAL(5, 2)", True)
    problems = {str(finding.table): finding.problem for finding in tables.findings}
    assert problems["shop.keyless"] == "it has no primary key"
    assert "system-versioned" in problems["shop.versioned"]
    assert problems["shop.armenian"] == "its character set armscii8 is not supported"
    assert problems["shop.numbers"] == "it is a sequence"
    only = read_tables(administrator, [TableName("shop", "keyless")])
    assert (only.followed, len(only.findings)) == ([], 1)
