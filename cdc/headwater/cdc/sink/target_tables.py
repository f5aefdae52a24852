"""The lake's tables that follow a source's: their schemas to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.queries.names import check_table_name
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.sink.appended_rows import APPENDED_KIND, check_kind_column, kind_field
from headwater.cdc.sink.united_schemas import uniting_changes
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid
from headwater.storage.options.choices import MergeEngine
from headwater.storage.options.field_options import RECORD_EXPIRE_TIME
from headwater.storage.options.table_options import TableOptions
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import DataField
from headwater.storage.write.creation import refuse_unwritable

__all__ = ["check_existing", "check_new", "check_options", "target_schema"]

_POSTPONE_BUCKET = -2
# With these a table drops or reorders rows by itself.
_UNLIKE_OPTIONS = (
    "sequence.field",
    "rowkind.field",
    RECORD_EXPIRE_TIME,
    "partition.expiration-time",
)


def target_schema(
    source: SourceTable,
    options: Mapping[str, str] | None = None,
    partition_keys: Sequence[str] = (),
) -> Schema:
    """The schema of a new table of the lake.

    Args:
        source: The table that it follows, with columns that are the lake's alone.
        options: Table options.
        partition_keys: Its partition columns.

    Raises:
        Unsupported: The source's table has no key, and a column named as that of row kinds.
    """
    check_kind_column(source)
    options = dict(options or {})
    if not source.primary_key and "bucket-key" not in options:
        # The number of buckets is meant for tables whose key tells the bucket.
        options.pop("bucket", None)
    # The first one: columns that the source gets later are behind the others.
    kinds = () if source.primary_key else (kind_field(),)
    fields = [
        DataField(number, column.name, column.type, column.comment or None)
        for number, column in enumerate(source.columns, len(kinds))
    ]
    return Schema(
        (*kinds, *fields),
        primary_keys=tuple(source.primary_key),
        partition_keys=tuple(partition_keys),
        options=options,
        comment=source.comment or None,
    )


def check_options(options: Mapping[str, str]) -> None:
    """Check that tables with some options have the source's rows.

    Raises:
        Invalid: An option has a wrong value, or makes a table other than its source.
    """
    problems = list(_unlike(TableOptions(options)))
    if problems:
        raise Invalid(
            f"the lake's tables would not have the source's rows: {', '.join(problems)}; leave the "
            "option out"
        )


def check_new(
    target: str,
    source: SourceTable,
    options: Mapping[str, str],
    partition_keys: Sequence[str] = (),
) -> None:
    """Check that a table can be created in the lake, and can follow a source's table.

    Args:
        target: The lake's table.
        source: The table of the source, with columns that are the lake's alone.
        options: Table options.
        partition_keys: The partition columns.

    Raises:
        Invalid: The lake does not have tables of that name; or the options do not fit the table.
        Unsupported: Headwater does not write such a table.
    """
    check_table_name(Identifier.parse(target))
    schema = target_schema(source, options, partition_keys)
    refuse_unwritable(target, schema, "use that engine")
    created = new_table_schema(schema, 0)
    differences = [*_differences(created, source), *_rule_differences(created, source)]
    if differences:
        raise Invalid(
            f"table {target} of the lake would differ from {source.name} of the source: "
            f"{', '.join(differences)}; choose other table options"
        )


def check_existing(
    lake: Lake,
    target: str,
    source: SourceTable,
    partition_keys: Sequence[str] = (),
    *,
    is_merged: bool = False,
) -> None:
    """Check that an existing table of the lake can follow a source's table.

    Args:
        lake: The lake.
        target: The lake's table.
        source: The table of the source, with columns that are the lake's alone.
        partition_keys: The partition columns that it must have; none for any.
        is_merged: Whether it may have columns of other tables, and get those of this one.

    Raises:
        Invalid: Its columns or its key differ; all differences are named.
        NotFound: There is no such table.
        Unsupported: It is merged, and the table's columns do not go together with its own.
    """
    schema = lake.table(target).schema
    if is_merged:
        uniting_changes(schema, source)
    differences = [] if is_merged else [*_differences(schema, source)]
    differences += _rule_differences(schema, source)
    if partition_keys and tuple(schema.partition_keys) != tuple(partition_keys):
        differences.append(
            f"its partition columns are ({', '.join(schema.partition_keys)}), and "
            f"({', '.join(partition_keys)}) are needed"
        )
    if differences:
        raise Invalid(
            f"table {target} of the lake differs from {source.name} of the source: "
            f"{', '.join(differences)}; drop it, or choose another database of the lake"
        )


def _differences(schema: TableSchema, source: SourceTable) -> Sequence[str]:
    existing = {field.name: str(field.type) for field in schema.fields}
    # Columns of the key are NOT NULL in the lake, whatever the type mapping.
    wanted = {
        column.name: str(
            replace(column.type, nullable=False)
            if column.name in source.primary_key
            else column.type
        )
        for column in source.columns
    }
    if not source.primary_key:
        wanted[APPENDED_KIND] = str(kind_field().type)
    differences = [f"column '{name}' is missing" for name in wanted if name not in existing]
    differences += [f"column '{name}' is not the source's" for name in existing.keys() - wanted]
    for name, type_ in wanted.items():
        if name in existing and existing[name] != type_:
            differences.append(f"column '{name}' is {existing[name]}, and {type_} is needed")
    if tuple(schema.primary_keys) != tuple(source.primary_key):
        key = ", ".join(source.primary_key)
        differences.append(
            f"its primary key is ({', '.join(schema.primary_keys)}), and ({key}) is needed"
        )
    return differences


def _rule_differences(schema: TableSchema, source: SourceTable) -> Iterator[str]:
    """Partitions and options with which a table would not have the source's rows."""
    outside = [name for name in schema.partition_keys if name not in source.primary_key]
    if source.primary_key and outside and not schema.crosses_partitions:
        yield (
            f"its partition column '{outside[0]}' is not in the primary key, so that a row that "
            "moves would be in two partitions unless bucket is -1"
        )
    yield from _unlike(schema.table_options)


def _unlike(options: TableOptions) -> Iterator[str]:
    """Options with which a table's rows are not those that were written."""
    if options.merge_engine is not MergeEngine.DEDUPLICATE:
        yield f"merge-engine is {options.merge_engine}, and deduplicate is needed"
    if options.ignore_delete:
        yield "ignore-delete keeps deleted rows"
    if options.bucket == _POSTPONE_BUCKET:
        yield "bucket is -2, which hides rows until a compaction"
    for name in _UNLIKE_OPTIONS:
        if name in options.raw:
            yield f"{name} is set"
