"""The rules for tables with columns of types that only some engines know.

Engines that lack these types still keep them for others, so their rules are checked here and
nowhere else. Source: ``SchemaValidation.java``
(``validateGeospatialTypes``, ``validateRowTracking``, ``validateBlobNesting``,
``validateBlobFields`` and its kin, ``validatePrimaryKeyBlobConfiguration``,
``validateSequenceGroupOrderingFields``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.storage.errors import Invalid
from headwater.storage.options import CLUSTERING_COLUMNS, ChangelogProducer, MergeEngine, is_true
from headwater.storage.schema.blob_columns import is_plain_blob
from headwater.storage.schema.option_changes import listed_names
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataType,
    MapType,
    VectorType,
)
from headwater.storage.types.type_parts import atomic_parts

__all__ = ["check_kept_types", "is_blob"]

_ROW_TRACKING = "row-tracking.enabled"
_DATA_EVOLUTION = "data-evolution.enabled"
_CLUSTERING = "clustering.incremental"
_DESCRIPTORS = "blob-descriptor-field"
_FORMER_DESCRIPTORS = "blob.stored-descriptor-fields"
_VIEWS = "blob-view-field"
_PARQUET = "parquet"


def is_blob(data_type: DataType) -> bool:
    """True if a column of it is in files of its own, which bear its name (``BlobType.java``)."""
    match data_type:
        case ArrayType():
            data_type = data_type.element
        case MapType():
            data_type = data_type.value
    return isinstance(data_type, AtomicType) and data_type.root is Root.BLOB


def check_kept_types(schema: TableSchema) -> None:
    """Check columns and options of a Paimon table; raises Invalid naming the column or option."""
    _check_row_tracking(schema)
    _check_blobs(schema)
    _check_blob_options(schema)
    _check_vectors(schema)
    _check_places(schema)


def _check_row_tracking(schema: TableSchema) -> None:
    options = schema.table_options
    is_tracking = is_true(schema.options, _ROW_TRACKING)
    if is_tracking and schema.primary_keys:
        raise Invalid(f"'{_ROW_TRACKING}' is for tables without a primary key")
    if is_tracking and options.bucket != -1:
        raise Invalid(f"'{_ROW_TRACKING}' needs 'bucket' = '-1', not '{options.bucket}'")
    is_clustered = is_true(schema.options, _CLUSTERING)
    if is_clustered and schema.primary_keys:
        raise Invalid(f"'{_CLUSTERING}' is for tables without a primary key")
    if is_clustered and options.bucket != -1:
        if schema.options.get("bucket-append-ordered", "true").strip().lower() != "false":
            raise Invalid(
                f"'{_CLUSTERING}' gives up the order of rows in a bucket: it needs "
                "'bucket-append-ordered' = 'false' where 'bucket' is not -1"
            )
        if options.deletion_vectors_enabled:
            raise Invalid(
                f"'{_CLUSTERING}' excludes 'deletion-vectors.enabled' where 'bucket' is not -1"
            )
    if not is_true(schema.options, _DATA_EVOLUTION):
        return
    if not is_tracking:
        raise Invalid(f"'{_DATA_EVOLUTION}' needs option '{_ROW_TRACKING}' = 'true'")
    if is_clustered:
        raise Invalid(f"'{_DATA_EVOLUTION}' excludes '{_CLUSTERING}': set one of them alone")


def _check_blobs(schema: TableSchema) -> None:
    blobs = [item.name for item in schema.fields if is_blob(item.type)]
    for item in schema.fields:
        is_nested = any(part.root is Root.BLOB for part in atomic_parts(item.type))
        # Paimon lays such maps out in another way, and looks at their values there.
        option = schema.options.get(f"fields.{item.name}.map.storage-layout", "")
        if is_nested and not is_blob(item.type) and option.lower() != "shared-shredding":
            raise Invalid(
                f"column '{item.name}' of type {item.type}: a BLOB stands by itself, or is an "
                "array's element or a map's value"
            )
    if not blobs:
        return
    if not schema.primary_keys and not is_true(schema.options, _DATA_EVOLUTION):
        raise Invalid(
            f"column '{blobs[0]}': a table without primary key takes BLOB columns only with option "
            f"'{_DATA_EVOLUTION}' = 'true'"
        )
    if len(blobs) == len(schema.fields):
        raise Invalid("a table needs a column that is no BLOB")


def _check_blob_options(schema: TableSchema) -> None:
    options = schema.options
    columns = {item.name for item in schema.fields if is_blob(item.type)}
    for name in _named(options, "blob-field"):
        if name not in columns:
            raise Invalid(
                f"'blob-field' names '{name}', which is not a column of type BLOB, ARRAY<BLOB> or "
                "MAP<…, BLOB>"
            )
    plain = {item.name for item in schema.fields if is_plain_blob(item.type)}
    descriptors = _named(options, _DESCRIPTORS if _DESCRIPTORS in options else _FORMER_DESCRIPTORS)
    views = _named(options, _VIEWS)
    for option, names in ((_DESCRIPTORS, descriptors), (_VIEWS, views)):
        for name in names:
            if name not in plain:
                raise Invalid(
                    f"'{option}' names '{name}', which is not a column of type BLOB; arrays and "
                    "maps can be in 'blob-field' alone"
                )
    for name in views:
        if name in descriptors:
            raise Invalid(f"column '{name}' cannot be in both '{_VIEWS}' and '{_DESCRIPTORS}'")
    if schema.table_options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        _check_sequence_groups(schema)
    managed = [item.name for item in schema.fields if item.name in columns - {*descriptors, *views}]
    if schema.primary_keys and managed:
        _check_managed_blobs(schema, managed)


def _check_sequence_groups(schema: TableSchema) -> None:
    for key in filter(_is_sequence_group, schema.options):
        for name in key.removeprefix("fields.").removesuffix(".sequence-group").split(","):
            if name not in schema.field_by_name:
                raise Invalid(f"option '{key}' is about column '{name}', which does not exist")
            ordering = schema.field_by_name[name].type
            if any(part.root is Root.BLOB for part in atomic_parts(ordering)):
                raise Invalid(f"column '{name}' of type {ordering} cannot order rows in '{key}'")


def _is_sequence_group(option: str) -> bool:
    return option.startswith("fields.") and option.endswith(".sequence-group")


def _check_managed_blobs(schema: TableSchema, managed: Sequence[str]) -> None:
    """Check a primary-key table with BLOBs that are in files of their own."""
    options, what = schema.table_options, f"column '{managed[0]}' of BLOBs"
    if options.merge_engine is MergeEngine.AGGREGATION:
        raise Invalid(f"{what} is not for 'merge-engine' = 'aggregation'")
    if options.changelog_producer is not ChangelogProducer.NONE:
        raise Invalid(
            f"{what} needs 'changelog-producer' = 'none', not '{options.changelog_producer}'"
        )
    if "data-file.external-paths" in schema.options:
        raise Invalid(f"{what} excludes option 'data-file.external-paths'")
    if is_true(schema.options, "pk-clustering-override"):
        raise Invalid(f"{what} excludes option 'pk-clustering-override'")
    for option in ("bucket-key", "sequence.field"):
        for name in _named(schema.options, option):
            if name in managed:
                raise Invalid(f"column '{name}' of BLOBs cannot be in '{option}'")
    if options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return
    for key, value in schema.options.items():
        for name in listed_names(value) if _is_sequence_group(key) else ():
            if name in managed and not options.ignore_delete:
                _check_aggregate(schema.options, name)


def _check_aggregate(options: Mapping[str, str], column: str) -> None:
    default = options.get("fields.default-aggregate-function")
    function = options.get(f"fields.{column}.aggregate-function", default)
    ignored = f"fields.{column}.ignore-retract"
    if function not in (None, "last_value") and not is_true(options, ignored):
        raise Invalid(
            f"column '{column}' of BLOBs cannot have the aggregate function '{function}', for "
            f"retracting rows bear none; '{ignored}' = 'true' leaves those rows out"
        )


def _check_vectors(schema: TableSchema) -> None:
    vectors = [
        name for name, item in schema.field_by_name.items() if isinstance(item.type, VectorType)
    ]
    for name in _named(schema.options, "vector-field"):
        if name not in vectors:
            raise Invalid(f"'vector-field' names '{name}', which is not a column of type VECTOR")
    if not schema.options.get("vector.file.format", "").strip():
        return
    if len(vectors) == len(schema.fields):
        raise Invalid("with 'vector.file.format' a table needs a column that is no VECTOR")
    if not is_true(schema.options, _DATA_EVOLUTION):
        raise Invalid(f"'vector.file.format' needs option '{_DATA_EVOLUTION}' = 'true'")


def _check_places(schema: TableSchema) -> None:
    places = {
        item.name: item.type
        for item in schema.fields
        if any(part.root.is_geospatial for part in atomic_parts(item.type))
    }
    if not places:
        return
    first, options = next(iter(places)), schema.options
    formats = {
        "file.format": options.get("file.format", _PARQUET),
        "changelog-file.format": options.get("changelog-file.format", _PARQUET),
    }
    for item in options.get("file.format.per.level", "").split(","):
        level, _, name = item.partition(":")
        if level.strip():
            formats[f"file.format.per.level' of level '{level.strip()}"] = name
    for option, name in formats.items():
        if name.strip().lower() != _PARQUET:
            raise Invalid(
                f"column '{first}' of type {places[first]} needs files of format parquet, but "
                f"'{option}' is '{name.strip()}'"
            )
    clustering = next((key for key in CLUSTERING_COLUMNS if key in options), CLUSTERING_COLUMNS[0])
    for option in (clustering, "bucket-key", "sequence.field"):
        for name in _named(options, option):
            if name in places:
                raise Invalid(f"column '{name}' of type {places[name]} cannot be in '{option}'")
    storage = options.get("metadata.iceberg.storage", "disabled").strip().lower()
    if storage == "disabled":
        return
    if storage == "rest-catalog":
        raise Invalid(
            f"column '{first}' of type {places[first]} is not for 'metadata.iceberg.storage' = "
            "'rest-catalog'"
        )
    if options.get("metadata.iceberg.format-version", "2").strip() != "3":
        raise Invalid(
            f"column '{first}' of type {places[first]} needs 'metadata.iceberg.format-version' = "
            "'3' where Iceberg's metadata is written"
        )
    for name, data_type in places.items():
        if any(part.root is Root.GEOGRAPHY and "," in part.crs for part in atomic_parts(data_type)):
            raise Invalid(f"column '{name}': Iceberg's metadata takes no comma in a CRS")


def _named(options: Mapping[str, str], option: str) -> list[str]:
    return listed_names(options.get(option, ""))
