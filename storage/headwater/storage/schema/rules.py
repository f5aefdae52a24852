"""The rules for a schema (``Schema.java``, ``SchemaValidation.java``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import (
    RECORD_EXPIRE_TIME,
    RECORD_TIME_FIELD,
    ChangelogProducer,
    MergeEngine,
    TableOptions,
    is_true,
)
from headwater.storage.schema.bucket_key import check_bucket_function
from headwater.storage.schema.chain import check_chain
from headwater.storage.schema.column_directives import apply_directives
from headwater.storage.schema.default_values import check_default_value
from headwater.storage.schema.file_indexes import check_file_indexes
from headwater.storage.schema.foreign_tables import (
    OBJECT_FIELDS,
    check_format_options,
    foreign_schema,
)
from headwater.storage.schema.key_indexes import check_key_indexes
from headwater.storage.schema.map_layouts import check_map_layouts
from headwater.storage.schema.option_changes import check_field_options
from headwater.storage.schema.option_values import check_option_values
from headwater.storage.schema.path_options import check_path_options
from headwater.storage.schema.sequence_groups import check_partial_update
from headwater.storage.schema.system_fields import check_column_names
from headwater.storage.schema.table_schema import Schema, TableSchema, highest_field_id
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.schema.type_rules import check_kept_types
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    FieldIds,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)

__all__ = [
    "check_record_time",
    "check_schema",
    "keys_from_option",
    "new_table_schema",
    "reassign_field_ids",
    "replacing_schema",
    "with_key_nullability",
]


def new_table_schema(schema: Schema, now_millis: int) -> TableSchema:
    """The first version of a new table's schema.

    Directives in the columns' comments are obeyed (`headwater.storage.schema.column_directives`);
    the options ``primary-key`` and ``partition`` become keys and leave the options; key columns
    become NOT NULL; field ids that are missing or used twice are replaced.

    Raises:
        Invalid: The schema is not allowed; the message says which rule it breaks.
    """
    _check_creation(schema.options)
    kind = table_type(schema.options)
    schema = apply_directives(schema) if kind.has_snapshots else foreign_schema(schema, kind)
    options = dict(schema.options)
    primary_keys = keys_from_option(options, "primary-key", schema.primary_keys)
    partition_keys = keys_from_option(options, "partition", schema.partition_keys)
    fields = schema.fields
    ids = list(_field_ids(fields))
    if len(set(ids)) < len(ids) or min(ids, default=0) < 0:
        counter = FieldIds()
        fields = tuple(_renumbered(item, counter) for item in fields)
    fields = with_key_nullability(fields, primary_keys, options)
    for item in fields:
        check_default_value(item.name, item.type, item.default_value)
    table_schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest_field_id(fields),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=schema.comment,
        time_millis=now_millis,
    )
    check_schema(table_schema)
    check_column_names(table_schema.field_by_name)
    return table_schema


def replacing_schema(old: TableSchema, schema: Schema, now_millis: int) -> TableSchema:
    """The next version of a schema that has nothing of the one before but its partitions.

    Every column gets a new id, so that nothing in older files passes for it.

    Raises:
        Invalid: The schema is not allowed.
        Unsupported: It has other partitions, by which the files there are found.
    """
    new = new_table_schema(schema, now_millis)
    ids = FieldIds(old.highest_field_id)
    fields = tuple(_renumbered(item, ids) for item in new.fields)
    changed = replace(new, id=old.id + 1, fields=fields, highest_field_id=ids.highest)
    kept, asked = _partition_columns(old), _partition_columns(changed)
    if kept != asked:
        raise Unsupported(
            "a table that is replaced keeps its partition keys and their types, "
            f"{', '.join(kept) or 'none'}: not {', '.join(asked) or 'none'}; drop the table and "
            "create it again"
        )
    return changed


def _partition_columns(schema: TableSchema) -> list[str]:
    return [f"{item.name} {replace(item.type, nullable=True)}" for item in schema.partition_fields]


def _check_creation(options: Mapping[str, str]) -> None:
    # CatalogUtils.validateCreateTable
    if is_true(options, "auto-create"):
        raise Invalid("option 'auto-create' is for reading files without a catalog; leave it out")
    rows = options.get("target-file-row-num", "1").strip()
    if not rows.isdigit() or int(rows) < 1:
        raise Invalid(f"'target-file-row-num' must be a number of at least 1, not '{rows}'")


def check_schema(schema: TableSchema, present: Collection[str] = ()) -> None:
    """Check a new version of a schema before it is stored; raises Invalid naming the rule.

    Args:
        schema: The new version.
        present: The names of the columns of the version before.
    """
    names = [item.name for item in schema.fields]
    if not names:
        raise Invalid("a table needs at least one column")
    _refuse_duplicates(names, "column")
    kind = table_type(schema.options)
    if kind.has_snapshots:
        check_column_names(names, present)
    for keys, role in ((schema.primary_keys, "primary key"), (schema.partition_keys, "partition")):
        _refuse_duplicates(keys, f"{role} column")
        for key in keys:
            if key not in names:
                raise Invalid(f"{role} column '{key}' is not among the columns {', '.join(names)}")
            key_type = schema.field_by_name[key].type
            if isinstance(key_type, VariantType):
                raise Invalid(f"{role} column '{key}' must not be of type VARIANT")
            if not isinstance(key_type, AtomicType):
                raise Invalid(f"{role} column '{key}' must not be of a nested type")
            if key_type.root.is_opaque or key_type.root is Root.BLOB:
                raise Invalid(f"{role} column '{key}' must not be of type {key_type.root}")
    check_path_options(schema.options)
    if kind is TableType.FORMAT:
        check_format_options(schema.options)
    if kind is TableType.OBJECT and schema.fields != OBJECT_FIELDS:
        raise Invalid(
            "an object table's columns cannot be changed: a listing of its files fills them"
        )
    if not kind.has_snapshots:
        return
    if not schema.primary_keys and schema.table_options.has_nullable_keys:
        raise Invalid("'primary-key.nullable' needs a primary key")
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        raise Invalid(
            "the primary key must have a column beside the partition columns: otherwise a "
            "partition could hold one row only"
        )
    _check_options(schema)
    check_kept_types(schema)
    check_key_indexes(schema)


def _check_options(schema: TableSchema) -> None:
    check_field_options(schema.options, list(schema.field_by_name))
    check_file_indexes(schema.options, schema.fields)
    check_map_layouts(schema)
    options = schema.table_options
    _check_bucket_key(schema)
    if not schema.primary_keys and options.changelog_producer is not ChangelogProducer.NONE:
        # Paimon's own words, which its clients look for.
        raise Invalid(
            "Can not set changelog-producer on table without primary keys; declare a primary key, "
            "or leave the option out"
        )
    _check_upsert_keys(schema)
    _check_sequence_fields(schema)
    if options.orders_by_snapshot:
        _check_snapshot_order(schema)
    if options.merge_engine is MergeEngine.FIRST_ROW:
        _check_first_row(options)
    if options.merge_engine is MergeEngine.PARTIAL_UPDATE and schema.primary_keys:
        check_partial_update(schema)
    if options.deletion_vectors_enabled:
        _check_deletion_vectors(options)
    for name in options.clustering_columns:
        _require_column(schema, name, "clustering.columns")
    if options.overrides_key_order:
        _check_key_clustering(schema)
    kind_field = options.row_kind_field
    if kind_field is not None:
        _require_column(schema, kind_field, "rowkind.field")
    check_record_time(schema)
    if schema.primary_keys and options.highest_level < 1:
        raise Invalid(f"option 'num-levels' must be at least 2, not {options.highest_level + 1}")
    check_option_values(schema)
    check_chain(schema)


def _require_column(schema: TableSchema, name: str, option: str) -> None:
    """Refuse an option that names a column which the table does not have; raises Invalid."""
    if name not in schema.field_by_name:
        raise Invalid(
            f"{option} column '{name}' does not exist; the columns are "
            f"{', '.join(schema.field_by_name)}"
        )


def _check_bucket_key(schema: TableSchema) -> None:
    """The rules of the columns that rows are spread over buckets by; raises Invalid."""
    options = schema.table_options
    bucket = options.bucket
    declared = schema.options.get("bucket-key", "").strip()
    bucket_keys = [name.strip() for name in declared.split(",")] if declared else []
    if bucket == -1 and bucket_keys:
        raise Invalid("'bucket-key' needs a fixed number of buckets; set 'bucket' or drop it")
    for key in bucket_keys:
        _require_column(schema, key, "bucket-key")
        if key in schema.partition_keys:
            raise Invalid(f"bucket-key column '{key}' must not be a partition column")
        if schema.primary_keys and key not in schema.primary_keys:
            raise Invalid(f"bucket-key column '{key}' must be part of the primary key")
        if not isinstance(schema.field_by_name[key].type, AtomicType):
            raise Invalid(f"bucket-key column '{key}' must not be of a nested type")
    if bucket > 0 and not schema.primary_keys and not bucket_keys:
        raise Invalid("an append table with a fixed number of buckets needs a 'bucket-key'")
    if bucket != -1:
        check_bucket_function(
            options.bucket_function, [field.type for field in schema.bucket_key_fields]
        )


def _check_sequence_fields(schema: TableSchema) -> None:
    """The rules of the columns that tell which of two rows is the newer; raises Invalid."""
    sequence_fields = schema.table_options.sequence_fields
    _refuse_duplicates(sequence_fields, "sequence.field column")
    for name in sequence_fields:
        _require_column(schema, name, "sequence.field")
        if f"fields.{name}.aggregate-function" in schema.options:
            raise Invalid(
                f"sequence.field column '{name}' must not have an aggregate function: it keeps "
                "its newest value"
            )
    keyed_by_partition = set(schema.partition_keys) <= set(schema.primary_keys)
    if sequence_fields and schema.primary_keys and not keyed_by_partition:
        raise Invalid("'sequence.field' needs every partition column to be part of the primary key")


def _check_snapshot_order(schema: TableSchema) -> None:
    """The rules of ``SchemaValidation.validateSnapshotSequenceOrdering``; raises Invalid."""
    key = "'sequence.snapshot-ordering'"
    if not schema.primary_keys:
        raise Invalid(f"{key} needs a primary key: it orders rows of one key")
    if schema.table_options.sequence_fields:
        raise Invalid(f"{key} and 'sequence.field' exclude each other: set one of them")
    if not schema.table_options.write_only:
        raise Invalid(
            f"{key} needs 'write-only' = 'true': writers of other engines would compact rows that "
            "have no snapshot yet"
        )


def _check_deletion_vectors(options: TableOptions) -> None:
    """The rules of ``SchemaValidation.validateForDeletionVectors``."""
    if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        raise Invalid(
            "deletion vectors work with the changelog-producer none, input or lookup, not "
            f"{options.changelog_producer}"
        )


def _check_key_clustering(schema: TableSchema) -> None:
    """The rules of ``SchemaValidation.validatePkClusteringOverride``; raises Invalid."""
    options, what = schema.table_options, "'pk-clustering-override'"
    columns = options.clustering_columns
    if not columns:
        raise Invalid(f"{what} needs 'clustering.columns', the columns that files are sorted by")
    _refuse_duplicates(columns, "clustering.columns column")
    if options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        raise Invalid(
            f"{what} works with the merge engine deduplicate or first-row, not "
            f"{options.merge_engine}"
        )
    if not options.deletion_vectors_enabled and options.merge_engine is MergeEngine.DEDUPLICATE:
        raise Invalid(
            f"{what} needs 'deletion-vectors.enabled' = 'true': rows that are replaced are marked"
        )
    if options.record_expire_time is not None:
        raise Invalid(f"{what} excludes '{RECORD_EXPIRE_TIME}'")
    if options.sequence_fields:
        raise Invalid(f"{what} excludes 'sequence.field': of a key's rows the last written counts")
    if options.changelog_producer not in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        raise Invalid(
            f"{what} works with the changelog-producer none or input, not "
            f"{options.changelog_producer}"
        )


def check_record_time(schema: TableSchema) -> None:
    """Check the column by which rows expire; raises Invalid if it is missing or holds no times."""
    name = schema.table_options.record_time_field
    if name is None:
        if schema.primary_keys and schema.table_options.record_expire_time is not None:
            raise Invalid(
                f"option '{RECORD_EXPIRE_TIME}' needs '{RECORD_TIME_FIELD}', the column that holds "
                "the time of each row; set both at once"
            )
        return
    _require_column(schema, name, RECORD_TIME_FIELD)
    result = schema.field_by_name[name].type
    if not isinstance(result, AtomicType) or result.root not in _RECORD_TIMES:
        raise Invalid(
            f"{RECORD_TIME_FIELD} column '{name}' must be of type INT, BIGINT or TIMESTAMP, not "
            f"{result}"
        )


_RECORD_TIMES = (Root.INT, Root.BIGINT, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def _check_first_row(options: TableOptions) -> None:
    """The rules of ``SchemaValidation.java`` for ``merge-engine=first-row``."""
    producer = options.changelog_producer
    if producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
        raise Invalid(
            "'merge-engine' = 'first-row' works with the changelog-producer none or lookup, "
            f"not {producer}"
        )
    if options.sequence_fields:
        raise Invalid(
            "'merge-engine' = 'first-row' keeps the row that was written first: "
            "'sequence.field' cannot be used with it"
        )
    if options.deletion_vectors_enabled and not options.overrides_key_order:
        raise Invalid("'merge-engine' = 'first-row' deletes no rows and needs no deletion vectors")


def with_key_nullability(
    fields: Sequence[DataField], primary_keys: Sequence[str], options: Mapping[str, str]
) -> tuple[DataField, ...]:
    """The fields, those of the primary key NOT NULL unless the options say otherwise."""
    nullable = TableOptions(options).has_nullable_keys
    return tuple(
        replace(item, type=replace(item.type, nullable=nullable))
        if item.name in primary_keys
        else item
        for item in fields
    )


def keys_from_option(
    options: dict[str, str], option: str, declared: tuple[str, ...]
) -> tuple[str, ...]:
    """Take keys that were given as an option out of the options.

    Raises:
        Invalid: There are keys, too.
    """
    text = options.pop(option, None)
    if text is None:
        return declared
    if declared:
        raise Invalid(f"define the {option} either as a key or as an option, not as both")
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_upsert_keys(schema: TableSchema) -> None:
    """As ``SchemaValidation.java``."""
    keys = schema.table_options.upsert_keys
    if keys and schema.primary_keys:
        raise Invalid(
            f"'upsert-key' ({', '.join(keys)}) is for tables without a primary key, and this one "
            f"has {', '.join(schema.primary_keys)}; leave one out"
        )
    for name in keys:
        _require_column(schema, name, "upsert-key")
        if not isinstance(schema.field_by_name[name].type, AtomicType):
            raise Invalid(f"upsert-key column '{name}' must not be of a nested type")


def _refuse_duplicates(names: Sequence[str], what: str) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise Invalid(f"{what} {', '.join(twice)} is named twice")


def _field_ids(fields: Sequence[DataField]) -> Iterator[int]:
    for item in fields:
        yield item.id
        yield from _type_field_ids(item.type)


def _type_field_ids(data_type: DataType) -> Iterator[int]:
    match data_type:
        case ArrayType() | MultisetType():
            yield from _type_field_ids(data_type.element)
        case MapType():
            yield from _type_field_ids(data_type.key)
            yield from _type_field_ids(data_type.value)
        case RowType():
            yield from _field_ids(data_type.fields)
        case AtomicType() | VariantType() | VectorType():
            return


def _renumbered(item: DataField, ids: FieldIds) -> DataField:
    identifier = ids.take()
    return replace(item, id=identifier, type=reassign_field_ids(item.type, ids))


def reassign_field_ids(data_type: DataType, ids: FieldIds) -> DataType:
    """The same type with new ids for its nested fields (``ReassignFieldId.java``)."""
    match data_type:
        case AtomicType() | VariantType() | VectorType():
            return data_type
        case ArrayType() | MultisetType():
            return replace(data_type, element=reassign_field_ids(data_type.element, ids))
        case MapType():
            key = reassign_field_ids(data_type.key, ids)
            return replace(data_type, key=key, value=reassign_field_ids(data_type.value, ids))
        case RowType():
            return replace(
                data_type, fields=tuple(_renumbered(item, ids) for item in data_type.fields)
            )
