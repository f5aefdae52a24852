"""Names of columns: as texts of Spark write them, and the columns that they mean."""

import re
from collections.abc import Mapping, Sequence

from headwater.storage.schema.table_schema import TableSchema

__all__ = ["column_of", "columns_by_name", "dotted", "named_partition", "parts_of", "quoted"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def quoted(name: str) -> str:
    """A column's name in backquotes: dots and spaces in it are its own."""
    return "`" + name.replace("`", "``") + "`"


def dotted(parts: Sequence[str]) -> str:
    """The name of a field in a struct, as `parts_of` reads it."""
    return ".".join(quoted(part) if "." in part or "`" in part else part for part in parts)


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name between its dots, but for those in backquotes.

    Returns:
        The name alone where it has no such form.
    """
    parts: list[str] = []
    at = 0
    while (found := _PART.match(name, at)) is not None:
        parts.append(found[2] or found[1].replace("``", "`"))
        at = found.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            break
        at += 1
    return (name,)


def column_of(name: str, columns: Sequence[str]) -> str | None:
    """The column that a name in a statement means: as it is written, else in any case."""
    if name in columns:
        return name
    found = [column for column in columns if column.casefold() == name.casefold()]
    return found[0] if len(found) == 1 else None


def columns_by_name(wanted: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """The columns of a source that stand for some of a table, by these: each stands for one.

    Args:
        wanted: The table's columns.
        given: The source's. As they are written, else in any case.
    """
    exact = set(given)
    found = {name: name for name in wanted if name in exact}
    left: dict[str, list[str]] = {}
    for name in given:
        if name not in found:
            left.setdefault(name.casefold(), []).append(name)
    for name in wanted:
        alike = left.get(name.casefold(), [])
        if name not in found and len(alike) == 1:
            found[name] = alike.pop()
    return found


def named_partition(partition: Mapping[str, object], schema: TableSchema) -> dict[str, object]:
    """A partition's values by the names of the table's columns; names of none stay as they are."""
    keys = schema.partition_keys
    return {column_of(name, keys) or name: value for name, value in partition.items()}
