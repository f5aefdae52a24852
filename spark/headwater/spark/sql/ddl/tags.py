"""``ALTER TABLE … TAG``: names for snapshots are made, replaced, renamed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from headwater.catalog.table.table import Table
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType

__all__ = ["TAG_CLAUSES", "delete_tags"]

_UNITS = {
    "DAYS": timedelta(days=1),
    "DAY": timedelta(days=1),
    "HOURS": timedelta(hours=1),
    "HOUR": timedelta(hours=1),
    "MINUTES": timedelta(minutes=1),
    "MINUTE": timedelta(minutes=1),
}


def _create(statement: Statement, table: Table) -> None:
    """``CREATE TAG [IF NOT EXISTS] name [AS OF VERSION 1] [RETAIN 2 DAYS]``."""
    statement.expect("CREATE", "TAG")
    ignore = statement.accept("IF", "NOT", "EXISTS")
    name, snapshot_id, retained = _read_tag(statement)
    try:
        table.create_tag(name, snapshot_id, retained=retained)
    except AlreadyExists as error:
        if not ignore or error.resource_type is not ResourceType.TAG:
            raise


def _replace(statement: Statement, table: Table) -> None:
    """``[CREATE OR] REPLACE TAG name …``: where there is none, one is made in either case."""
    statement.accept("CREATE", "OR")
    statement.expect("REPLACE", "TAG")
    name, snapshot_id, retained = _read_tag(statement)
    try:
        table.replace_tag(name, snapshot_id, retained=retained)
    except NotFound as error:
        if error.resource_type is not ResourceType.TAG:
            raise
        table.create_tag(name, snapshot_id, retained=retained)


def _read_tag(statement: Statement) -> tuple[str, int | None, timedelta | None]:
    name = statement.name()
    snapshot_id = statement.integer() if statement.accept("AS", "OF", "VERSION") else None
    retained: timedelta | None = None
    if statement.accept("RETAIN"):
        count = statement.integer()
        unit = next((word for word in _UNITS if statement.accept(word)), None)
        if unit is None:
            raise statement.unexpected("DAYS, HOURS or MINUTES")
        retained = count * _UNITS[unit]
    statement.end()
    return name, snapshot_id, retained


def _delete(statement: Statement, table: Table) -> None:
    """``DELETE TAG [IF EXISTS] name``, or several in one name, with commas between them."""
    statement.expect("DELETE", "TAG")
    ignore = statement.accept("IF", "EXISTS")
    names = statement.name()
    statement.end()
    delete_tags(table, names, ignore_if_not_exists=ignore)


def delete_tags(table: Table, names: str, *, ignore_if_not_exists: bool = False) -> None:
    """Delete tags, all or none.

    Args:
        table: The table.
        names: Their names, with commas between them.
        ignore_if_not_exists: Pass over those that do not exist.

    Raises:
        NotFound: One does not exist; none is deleted.
    """
    found: list[str] = []
    for name in dict.fromkeys(each.strip() for each in names.split(",")):
        try:
            found.append(table.tag(name).name)
        except NotFound:
            if not ignore_if_not_exists:
                raise
    for name in found:
        table.delete_tag(name)


def _rename(statement: Statement, table: Table) -> None:
    """``RENAME TAG a TO b``."""
    statement.expect("RENAME", "TAG")
    name = statement.name()
    statement.expect("TO")
    new_name = statement.name()
    statement.end()
    table.rename_tag(name, new_name)


TAG_CLAUSES: Mapping[tuple[str, ...], Callable[[Statement, Table], None]] = {
    ("CREATE", "TAG"): _create,
    ("REPLACE", "TAG"): _replace,
    ("CREATE", "OR", "REPLACE", "TAG"): _replace,
    ("DELETE", "TAG"): _delete,
    ("RENAME", "TAG"): _rename,
}
