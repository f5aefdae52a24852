"""Partitions in the arguments of procedures: ``dt=1,hh=2;dt=3`` are two."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.table.table import Table
from headwater.spark.sql.call.procedure import Arguments
from headwater.spark.sql.names import column_name
from headwater.storage.errors import Invalid
from headwater.storage.predicate.tree import And, Comparison, IsNull, Or, Predicate
from headwater.storage.rows.partition import static_partition

__all__ = ["chosen_partitions", "partition_condition", "partitions_of_text"]


def partitions_of_text(table: Table, text: str) -> list[dict[str, str]]:
    """The partitions that a text names: commas part columns, semicolons partitions.

    Raises:
        Invalid: The text has another form, or names a column twice.
        NotFound: A column is no partition column.
    """
    found: list[dict[str, str]] = []
    for one in text.split(";"):
        if not one.strip():
            continue
        spec: dict[str, str] = {}
        for part in one.split(","):
            key, equals, value = part.partition("=")
            if not equals:
                raise Invalid(f"'{one.strip()}' is not a partition such as dt=2026-01-01,hh=5")
            name = column_name(table.schema.partition_fields, key.strip().strip("`"))
            if name in spec:
                raise Invalid(f"the partition '{one.strip()}' has '{name}' twice")
            spec[name] = _unquoted(value.strip())
        found.append(spec)
    if not found:
        raise Invalid(f"'{text}' names no partition")
    return found


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def partition_condition(table: Table, spec: Mapping[str, str]) -> Predicate:
    """The condition that rows of a partition fulfil; raises Invalid for a value of another type."""
    return And(
        tuple(
            IsNull(name) if value is None else Comparison(name, "=", value)
            for name, value in static_partition(table.storage, spec).items()
        )
    )


def chosen_partitions(arguments: Arguments, table: Table) -> str | Predicate | None:
    """The condition that ``partitions`` or ``where`` say; None where neither is given.

    Raises:
        Invalid: Both are given.
    """
    partitions, where = arguments.text("partitions"), arguments.text("where")
    if partitions is None:
        return where
    if where is not None:
        raise Invalid("partitions and where say both what is meant: give one of them")
    specs = partitions_of_text(table, partitions)
    return Or(tuple(partition_condition(table, spec) for spec in specs))
