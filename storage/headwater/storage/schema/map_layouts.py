"""The MAP columns that new files hold as columns of their keys, as a table's options say.

Source: ``SchemaValidation.validateMapStorageLayout``, ``MapSharedShreddingUtils.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options import KeyPlacement, MapLayout, TableOptions
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.shredded_maps.layout import CODECS
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    DataField,
    DataType,
    MapType,
    MultisetType,
    VariantType,
    VectorType,
)
from headwater.storage.types.type_parts import type_parts

__all__ = ["ShreddedMap", "check_map_layouts", "shredded_maps"]

_PREFIX, _SUFFIX = "fields.", ".map.storage-layout"
_FORMATS = ("parquet", "orc")


@dataclass(frozen=True)
class ShreddedMap:
    """The form that new files give a MAP column.

    Attributes:
        most_columns: The most columns for values.
        policy: The way in which keys find columns.
    """

    most_columns: int
    policy: KeyPlacement


def shredded_maps(options: TableOptions, columns: Sequence[DataField]) -> Mapping[str, ShreddedMap]:
    """Those of the columns that new files hold so; raises Invalid for a malformed option."""
    return {
        item.name: ShreddedMap(
            options.map_column_limit(item.name), options.map_key_placement(item.name)
        )
        for item in columns
        if _has_text_keys(item.type) and options.map_layout(item.name) is MapLayout.SHARED_SHREDDING
    }


def _has_text_keys(data_type: DataType) -> bool:
    if not isinstance(data_type, MapType) or not isinstance(data_type.key, AtomicType):
        return False
    return data_type.key.root is Root.VARCHAR


def check_map_layouts(schema: TableSchema) -> None:
    """Refuse options about the form of MAP columns that cannot be followed; raises Invalid."""
    options = schema.table_options
    shredded: list[DataField] = []
    for key in schema.options:
        if not (key.startswith(_PREFIX) and key.endswith(_SUFFIX)):
            continue
        name = key[len(_PREFIX) : -len(_SUFFIX)]
        item = schema.field_by_name.get(name)
        if item is None:
            raise Invalid(f"option '{key}' is about column '{name}', which does not exist")
        if not isinstance(item.type, MapType):
            raise Invalid(f"option '{key}': column '{name}' is of type {item.type}, not a MAP")
        if options.map_layout(name) is not MapLayout.SHARED_SHREDDING:
            continue
        if not _has_text_keys(item.type) or item.type.key.nullable:
            raise Invalid(
                f"option '{key}' needs a MAP with keys of type STRING NOT NULL, but column "
                f"'{name}' is of type {item.type}"
            )
        shredded.append(item)
    if not shredded:
        return
    # Reading them tells malformed ones.
    shredded_maps(options, shredded)
    _check_files(schema)
    _check_types(schema, shredded)


def _check_files(schema: TableSchema) -> None:
    options = schema.table_options
    why = f"'fields.<column>{_SUFFIX}' = '{MapLayout.SHARED_SHREDDING}'"
    formats = {
        "file.format": options.file_format,
        **{
            f"file.format.per.level.{at}": each
            for at, each in options.file_format_per_level.items()
        },
        "changelog-file.format": options.changelog_file_format,
    }
    codecs = {
        "file.compression": options.file_compression,
        **{
            f"file.compression.per.level.{at}": each
            for at, each in options.file_compression_per_level.items()
        },
        "changelog-file.compression": options.changelog_file_compression,
    }
    for found, allowed in ((formats, _FORMATS), (codecs, CODECS)):
        for option, value in found.items():
            if value and value.lower() not in allowed:
                raise Invalid(
                    f"{why} allows {', '.join(allowed)} in option '{option}', not '{value}'"
                )
    if options.bucket == -2:
        raise Invalid(f"{why} excludes 'bucket' = '-2'")


def _check_types(schema: TableSchema, shredded: Sequence[DataField]) -> None:
    why = f"'fields.<column>{_SUFFIX}' = '{MapLayout.SHARED_SHREDDING}'"
    for item in schema.fields:
        if any(isinstance(part, VariantType | MultisetType) for part in type_parts(item.type)):
            raise Invalid(f"{why} excludes columns such as '{item.name}' of type {item.type}")
    for item in shredded:
        assert isinstance(item.type, MapType)
        for part in type_parts(item.type.value):
            is_blob = isinstance(part, AtomicType) and part.root is Root.BLOB
            if is_blob or isinstance(part, VectorType):
                raise Invalid(f"{why}: the values of column '{item.name}' have {part} in them")
