"""The types of the catalog's columns, and the options of its tables, on every database.

Why they are as they are is said by `headwater.catalog.sql.database.models`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import BigInteger, Integer, String, Text
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.dialects.mysql import VARCHAR as MYSQL_VARCHAR
from sqlalchemy.dialects.postgresql import VARCHAR as POSTGRESQL_VARCHAR

__all__ = [
    "DOCUMENT",
    "HASH",
    "ID",
    "NAME",
    "SERIAL",
    "SORT_NAME",
    "SORT_NAME_LENGTH",
    "TABLE_OPTIONS",
]

SORT_NAME_LENGTH = 400
"""The number of characters of a partition's name that an index keeps."""

TABLE_OPTIONS: Mapping[str, str] = {
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_0900_bin",
}
"""The options of every table, so that the settings of a server or a database do not count."""

# The collations that take a space at the end for what it is have different names.
NAME = (
    String(255)
    .with_variant(POSTGRESQL_VARCHAR(255, collation="C"), "postgresql")
    .with_variant(MYSQL_VARCHAR(255, collation=TABLE_OPTIONS["mysql_collate"]), "mysql")
    .with_variant(MYSQL_VARCHAR(255, collation=TABLE_OPTIONS["mariadb_collate"]), "mariadb")
)
SORT_NAME = (
    String(SORT_NAME_LENGTH)
    .with_variant(POSTGRESQL_VARCHAR(SORT_NAME_LENGTH, collation="C"), "postgresql")
    .with_variant(
        MYSQL_VARCHAR(SORT_NAME_LENGTH, collation=TABLE_OPTIONS["mysql_collate"]), "mysql"
    )
    .with_variant(
        MYSQL_VARCHAR(SORT_NAME_LENGTH, collation=TABLE_OPTIONS["mariadb_collate"]), "mariadb"
    )
)
ID = String(36)
HASH = String(64)
DOCUMENT = Text().with_variant(LONGTEXT(), "mysql", "mariadb")
SERIAL = BigInteger().with_variant(Integer(), "sqlite")
