"""What tables with columns of types that only some engines know must be like.

Headwater keeps columns of types BLOB, VECTOR, GEOMETRY and GEOGRAPHY for the engines that read and
write them, so their rules are checked here and nowhere else. Source: ``SchemaValidation.java``
(``validateGeospatialTypes``, ``validateRowTracking``, ``validateBlobNesting``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.storage.errors import Invalid
from headwater.storage.schema import TableSchema
from headwater.storage.types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    Root,
    RowType,
)

__all__ = ["check_kept_types", "is_blob"]

_DATA_EVOLUTION = "data-evolution.enabled"
_PARQUET = "parquet"


def is_blob(data_type: DataType) -> bool:
    """Whether a column of it is in files of its own, which bear its name (``BlobType.java``)."""
    match data_type:
        case ArrayType():
            data_type = data_type.element
        case MapType():
            data_type = data_type.value
    return isinstance(data_type, AtomicType) and data_type.root is Root.BLOB


def check_kept_types(schema: TableSchema) -> None:
    """Check columns and options of a Paimon table; raises Invalid naming the column or option."""
    _check_blobs(schema)
    _check_vectors(schema)
    _check_places(schema)


def _check_blobs(schema: TableSchema) -> None:
    blobs = [item.name for item in schema.fields if is_blob(item.type)]
    for item in schema.fields:
        is_nested = any(part.root is Root.BLOB for part in _parts(item.type))
        # Paimon lays such maps out in another way, and looks at their values there.
        option = schema.options.get(f"fields.{item.name}.map.storage-layout", "")
        if is_nested and not is_blob(item.type) and option.lower() != "shared-shredding":
            raise Invalid(
                f"column '{item.name}' of type {item.type}: a BLOB stands by itself, or is an "
                "array's element or a map's value"
            )
    if not blobs:
        return
    if not schema.primary_keys and not _is_true(schema.options, _DATA_EVOLUTION):
        raise Invalid(
            f"column '{blobs[0]}': a table without primary key takes BLOB columns only with option "
            f"'{_DATA_EVOLUTION}' = 'true'"
        )
    if len(blobs) == len(schema.fields):
        raise Invalid("a table needs a column that is no BLOB")


def _check_vectors(schema: TableSchema) -> None:
    vectors = [name for name, item in schema.field_by_name.items() if _root(item.type) == "VECTOR"]
    for name in _named(schema.options, "vector-field"):
        if name not in vectors:
            raise Invalid(f"'vector-field' names '{name}', which is not a column of type VECTOR")
    if not schema.options.get("vector.file.format", "").strip():
        return
    if len(vectors) == len(schema.fields):
        raise Invalid("with 'vector.file.format' a table needs a column that is no VECTOR")
    if not _is_true(schema.options, _DATA_EVOLUTION):
        raise Invalid(f"'vector.file.format' needs option '{_DATA_EVOLUTION}' = 'true'")


def _check_places(schema: TableSchema) -> None:
    places = {
        item.name: item.type
        for item in schema.fields
        if any(part.root.is_geospatial for part in _parts(item.type))
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
    clustering = "clustering.columns"
    if clustering not in options:
        clustering = "sink.clustering.by-columns"
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
        if any(part.root is Root.GEOGRAPHY and "," in part.crs for part in _parts(data_type)):
            raise Invalid(f"column '{name}': Iceberg's metadata takes no comma in a CRS")


def _parts(data_type: DataType) -> Iterator[AtomicType]:
    """The types in a type that have no parts themselves."""
    match data_type:
        case AtomicType():
            yield data_type
        case ArrayType() | MultisetType():
            yield from _parts(data_type.element)
        case MapType():
            yield from _parts(data_type.key)
            yield from _parts(data_type.value)
        case RowType():
            for item in data_type.fields:
                yield from _parts(item.type)


def _root(data_type: DataType) -> str:
    return data_type.root if isinstance(data_type, AtomicType) else ""


def _named(options: Mapping[str, str], option: str) -> list[str]:
    return [name.strip() for name in options.get(option, "").split(",") if name.strip()]


def _is_true(options: Mapping[str, str], option: str) -> bool:
    return options.get(option, "false").strip().lower() == "true"
