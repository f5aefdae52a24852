"""Partitions in the arguments of procedures: ``dt=1,hh=2;dt=3`` are two."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.table.table import Table
from headwater.spark.char_types import holds
from headwater.spark.condition_text import is_read_alike
from headwater.spark.sql.call.procedure import Arguments
from headwater.spark.sql.names import column_name
from headwater.spark.write.condition_needs import rows_told
from headwater.spark.write.update import TARGET
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported
from headwater.storage.predicate.filter import columns_of, parse_predicate
from headwater.storage.predicate.tree import And, Comparison, IsNull, Or, Predicate
from headwater.storage.rows.partition import static_partition
from headwater.storage.types.atomic_type import Root

__all__ = ["chosen_partitions", "chosen_rows", "partition_condition", "partitions_of_text"]


def partitions_of_text(table: Table, text: str) -> list[dict[str, str]]:
    """The partitions that a text names: commas part columns, semicolons partitions.

    Raises:
        Invalid: The text has another form, or names a column twice; or the table has no partitions.
        NotFound: A column is no partition column.
    """
    if not table.schema.partition_keys:
        raise Invalid(f"table {table.name} has no partitions, and '{text}' cannot name one")
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


def chosen_partitions(arguments: Arguments, table: Table) -> Predicate | None:
    """The condition that ``partitions`` or ``where`` say; None where neither is given.

    Raises:
        Invalid: Both are given, or one of them is not of its form.
        NotFound: A column does not exist.
        Unsupported: As `chosen_rows`.
    """
    partitions = arguments.text("partitions")
    if partitions is None:
        return chosen_rows(arguments, table)
    if arguments.text("where") is not None:
        raise Invalid("partitions and where say both what is meant: give one of them")
    specs = partitions_of_text(table, partitions)
    return Or(tuple(partition_condition(table, spec) for spec in specs))


def chosen_rows(arguments: Arguments, table: Table) -> Predicate | None:
    """The condition that ``where`` says, as Spark reads it; None where it is not given.

    Raises:
        Invalid: It is no condition.
        NotFound: A column does not exist.
        Unsupported: Only Spark could tell of rows whether they fulfil it.
    """
    where = arguments.text("where")
    if where is None:
        return None
    schema = table.schema
    problem: HeadwaterError
    try:
        own = parse_predicate(where, schema, any_case=True)
        kinds = [schema.column(name).type for name in columns_of(own)]
        if is_read_alike(where, own, schema) and not any(holds(k, (Root.CHAR,)) for k in kinds):
            return own
        problem = Unsupported(
            f"argument 'where': '{where}' is not understood here as Spark reads it: compare "
            "columns with constants, moments with their zone, as in '2026-01-31 12:00:00Z'"
        )
    except (Invalid, NotFound, Unsupported) as error:
        problem = error
    told = rows_told(arguments.context.session.spark, table.storage, where, TARGET)
    if told is None:
        raise problem
    return told
