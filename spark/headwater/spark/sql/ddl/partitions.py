"""``ALTER TABLE … ADD PARTITION`` and ``DROP PARTITION``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from headwater.catalog.model.partitions import PartitionInfo
from headwater.catalog.table.table import Table
from headwater.spark.char_columns import with_stored_texts
from headwater.spark.source.format_table import is_format_table
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.columns import read_partition
from headwater.spark.sql.names import column_name
from headwater.spark.sql.statement import Statement
from headwater.spark.write.format_table import check_named_values
from headwater.spark.write.partition_moments import in_session_zone
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.rows.partition import check_unambiguous, static_partition
from headwater.storage.scan.format_partitions import find_partitions, partition_directory
from headwater.storage.types.values import StorageValue, partition_text

__all__ = [
    "PARTITION_CLAUSES",
    "matching_partitions",
    "partition_texts",
    "partition_values",
    "refuse_directories",
    "repair_partitions",
]


def partition_values(
    context: SqlContext, table: Table, partition: Mapping[str, str | None]
) -> dict[str, object]:
    """A partition's values as Spark reads them, by the columns' own names.

    Raises:
        Invalid: The table has no partitions, a column stands twice, or a value is not a timestamp.
        NotFound: A column is not a partition column.
    """
    fields = table.schema.partition_fields
    if not fields:
        raise Invalid(f"table {table.name} has no partitions: leave PARTITION out")
    named = {column_name(fields, key): value for key, value in partition.items()}
    if len(named) < len(partition):
        raise Invalid(f"the partition ({', '.join(partition)}) has a column twice")
    spark = context.session.spark
    return with_stored_texts(spark, table.schema, in_session_zone(spark, table.schema, named))


def partition_texts(
    context: SqlContext, table: Table, partition: Mapping[str, str | None]
) -> dict[str, str]:
    """A partition's values as in directory names, by the columns' own names.

    Raises:
        Invalid: A value is not of its column's type.
        NotFound: A column is not a partition column.
    """
    schema = table.schema
    values = static_partition(table.storage, partition_values(context, table, partition))
    return {
        key: partition_text(values[key], schema.column(key), schema.table_options)
        for key in schema.partition_keys
        if key in values
    }


def matching_partitions(
    context: SqlContext, table: Table, partitions: Sequence[Mapping[str, str | None]]
) -> list[dict[tuple[StorageValue, ...], PartitionInfo]]:
    """For each of some partitions, those that have its values in the columns it names.

    Raises:
        Invalid: A value is not of its column's type, or ambiguous.
        NotFound: A column is not a partition column.
    """
    keys = table.schema.partition_keys
    named = [partition_values(context, table, item) for item in partitions]
    wanted = [static_partition(table.storage, item).items() for item in named]
    present = table.partitions_by_values()
    for item in named:
        check_unambiguous(table.storage, item, present)
    return [
        {
            values: found
            for values, found in present.items()
            if items <= dict(zip(keys, values, strict=True)).items()
        }
        for items in wanted
    ]


def _read_partitions(statement: Statement) -> list[dict[str, str | None]]:
    result: list[dict[str, str | None]] = []
    while True:
        result.append(read_partition(statement))
        statement.accept(",")
        if not statement.peek("PARTITION"):
            return result


def _add(statement: Statement, table: Table, context: SqlContext) -> None:
    """``ADD [IF NOT EXISTS] PARTITION (a = 1) [PARTITION (…)]``, where the catalog keeps them."""
    statement.expect("ADD")
    ignore = statement.accept("IF", "NOT", "EXISTS")
    named = _read_partitions(statement)
    specs = [partition_texts(context, table, item) for item in named]
    if statement.peek("LOCATION"):
        raise Unsupported("ADD PARTITION … LOCATION is not supported: the files of a table are its")
    statement.end()
    for spec in specs:
        _require_all(table, spec)
    if is_format_table(table):
        refuse_directories(table, "ADD PARTITION")
        for item in named:
            values = partition_values(context, table, item)
            check_named_values(table, values, static_partition(table.storage, values))
        # A table into which nothing has been written yet has no folder.
        table.storage.files.make_directory(table.storage.layout.location)
        for spec in specs:
            table.storage.files.make_directory(partition_directory(table.storage, spec))
    table.catalog.partitions.create(table.identifier, specs, ignore_if_exists=ignore)


def _require_all(table: Table, spec: Mapping[str, str]) -> None:
    missing = [key for key in table.schema.partition_keys if key not in spec]
    if missing:
        raise Invalid(f"table {table.name}: name the partition's '{missing[0]}', too")


def _drop(statement: Statement, table: Table, context: SqlContext) -> None:
    """``DROP [IF EXISTS] PARTITION (a = 1) [, PARTITION (…)] [PURGE]``, all as one commit."""
    statement.expect("DROP")
    ignore = statement.accept("IF", "EXISTS")
    named = _read_partitions(statement)
    statement.accept("PURGE")
    statement.end()
    if is_format_table(table):
        refuse_directories(table, "DROP PARTITION")
    meant = matching_partitions(context, table, named)
    for spec, found in zip(named, meant, strict=True):
        if not found and not ignore:
            texts = partition_texts(context, table, spec)
            name = "/".join(f"{key}={value}" for key, value in texts.items())
            raise NotFound(
                f"table {table.name} has no partition {name}",
                resource_type=ResourceType.PARTITION,
                resource_name=name,
            )
    # By values: a blank text has the directory's name of null.
    wanted = [
        partition_values(context, table, each)
        for each, found in zip(named, meant, strict=True)
        if found
    ]
    if not wanted:
        return
    if is_format_table(table):
        _drop_directories(table, {values for found in meant for values in found})
        return
    dropped = {values: each for found in meant for values, each in found.items()}
    if not table.schema.table_options.partitions_in_catalog or table.info.is_external:
        table.drop_partitions(*wanted)
        return
    # A name stays if rows of another value have it.
    present = table.partitions_by_values().items()
    left = {each.name for values, each in present if values not in dropped}
    table.drop_partitions(*wanted)
    gone = {each.name: each.spec for each in dropped.values() if each.name not in left}
    table.catalog.partitions.drop(table.identifier, list(gone.values()))


def _drop_directories(table: Table, wanted: Collection[tuple[StorageValue, ...]]) -> None:
    gone = [
        info.spec
        for info in table.partitions()
        if tuple(static_partition(table.storage, info.spec).values()) in wanted
    ]
    table.catalog.partitions.drop(table.identifier, gone)
    for spec in gone:
        table.storage.files.delete_tree(partition_directory(table.storage, spec))


def refuse_directories(table: Table, what: str) -> None:
    """Refuse a statement about partitions that the catalog does not keep; Unsupported."""
    if not table.schema.table_options.partitions_in_catalog:
        raise Unsupported(
            f"table {table.name}: the partitions of this format table are its directories; {what} "
            "is for those that the catalog keeps ('metastore.partitioned-table' = 'true')"
        )


def _recover(statement: Statement, table: Table, context: SqlContext) -> None:
    """``RECOVER PARTITIONS``: as ``MSCK REPAIR TABLE``."""
    statement.expect("RECOVER", "PARTITIONS")
    statement.end()
    repair_partitions(table, adds=True, drops=False)


def repair_partitions(table: Table, *, adds: bool, drops: bool) -> None:
    """Bring the catalog's partitions of a format table in line with its directories.

    Args:
        table: The table.
        adds: Register the directories that the catalog does not know.
        drops: Forget the partitions that have no directory.

    Raises:
        Unsupported: It is not a table of files alone, or the catalog does not keep its partitions.
    """
    if not is_format_table(table):
        raise Unsupported(
            f"table {table.name}: commits tell the catalog of its partitions; MSCK REPAIR TABLE is "
            "for format tables (USING csv and the like). For a table that other engines wrote "
            "without the catalog write CALL sys.repair('database.table')"
        )
    refuse_directories(table, "MSCK REPAIR TABLE")
    there = {tuple(each.spec.items()): each.spec for each in find_partitions(table.storage)}
    known = {tuple(each.spec.items()): each.spec for each in table.partitions()}
    kept = table.catalog.partitions
    if adds and (added := [there[key] for key in there if key not in known]):
        kept.create(table.identifier, added, ignore_if_exists=True)
    if drops and (gone := [known[key] for key in known if key not in there]):
        kept.drop(table.identifier, gone)


PARTITION_CLAUSES: Mapping[tuple[str, ...], Callable[[Statement, Table, SqlContext], None]] = {
    ("ADD", "PARTITION"): _add,
    ("ADD", "IF", "NOT", "EXISTS"): _add,
    ("DROP", "PARTITION"): _drop,
    ("DROP", "IF", "EXISTS"): _drop,
    ("RECOVER", "PARTITIONS"): _recover,
}
