"""The steps of a revision, each of which may be taken again.

SQLite and PostgreSQL undo a revision that is interrupted. MariaDB and MySQL commit every change
of a table by itself: there an interrupted revision stays half done, and the next upgrade, which
begins it anew, must pass over what is done already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql, postgresql

__all__ = [
    "DOCUMENT",
    "HASH",
    "ID",
    "NAME",
    "SERIAL",
    "add_column",
    "count_rows",
    "create_index",
    "create_table",
    "drop_column",
    "drop_index",
    "drop_table",
    "has_column",
    "has_table",
    "name_type",
    "refuse_losses",
]

_MARIADB_COLLATION = "utf8mb4_nopad_bin"
_MYSQL_COLLATION = "utf8mb4_0900_bin"
_CHARSET = "utf8mb4"
_ENGINE = "InnoDB"


def name_type(length: int) -> sa.types.TypeEngine[str]:
    """Names compare by code point everywhere; see `headwater.catalog.sql.database.models`."""
    return (
        sa.String(length)
        .with_variant(postgresql.VARCHAR(length, collation="C"), "postgresql")
        .with_variant(mysql.VARCHAR(length, collation=_MYSQL_COLLATION), "mysql")
        .with_variant(mysql.VARCHAR(length, collation=_MARIADB_COLLATION), "mariadb")
    )


NAME = name_type(255)
ID = sa.String(36)
HASH = sa.String(64)
DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def create_table(name: str, *items: sa.schema.SchemaItem) -> None:
    """Create a table."""
    if _inspector().has_table(name):
        return
    op.create_table(
        name,
        *items,
        mysql_engine=_ENGINE,
        mysql_charset=_CHARSET,
        mysql_collate=_MYSQL_COLLATION,
        mariadb_engine=_ENGINE,
        mariadb_charset=_CHARSET,
        mariadb_collate=_MARIADB_COLLATION,
    )


def drop_table(name: str) -> None:
    """Drop a table."""
    if _inspector().has_table(name):
        op.drop_table(name)


def create_index(name: str, table: str, columns: list[str]) -> None:
    """Create an index."""
    if not _has_index(name, table):
        op.create_index(name, table, columns)


def drop_index(name: str, table: str) -> None:
    """Drop an index."""
    if _has_index(name, table):
        op.drop_index(name, table)


def add_column(table: str, column: sa.Column[str] | sa.Column[int] | sa.Column[bool]) -> None:
    """Add a column."""
    if not has_column(table, column.name):
        op.add_column(table, column)


def drop_column(table: str, column: str) -> None:
    """Drop a column."""
    if has_column(table, column):
        op.drop_column(table, column)


def count_rows(table: str, condition: str = "1 = 1") -> int:
    """Count the rows that meet a condition in SQL; none where the table is gone already."""
    if not _inspector().has_table(table):
        return 0
    query = sa.select(sa.func.count()).select_from(sa.table(table)).where(sa.text(condition))
    return op.get_bind().execute(query).scalar_one()


def has_table(name: str) -> bool:
    """True if there is a table."""
    return _inspector().has_table(name)


def has_column(table: str, name: str) -> bool:
    """True if a table has a column."""
    return any(column["name"] == name for column in _inspector().get_columns(table))


def refuse_losses() -> None:
    """Refuse a downgrade while a revision on its way has no place for something.

    All of them are asked before the first one changes anything: not every database could undo it.
    """
    upper = op.get_context().get_current_revision()
    for script in context.script.iterate_revisions(upper, context.get_revision_argument()):
        check = getattr(script.module, "check_losses", None)
        if check is not None:
            check()


def _has_index(name: str, table: str) -> bool:
    return any(index["name"] == name for index in _inspector().get_indexes(table))


def _inspector() -> sa.Inspector:
    # A new one each time: it remembers what it has seen.
    return sa.inspect(op.get_bind())
