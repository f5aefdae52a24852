"""Partitions: from the serialised row in a manifest to values, names and directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.storage.errors import Invalid
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.padded_text import padded_value
from headwater.storage.types.values import (
    StorageValue,
    parse_partition_text,
    partition_text,
    storage_value,
    value_named_as_null,
)

__all__ = [
    "bucket_directory",
    "check_unambiguous",
    "directory_of_values",
    "partition_spec",
    "partition_texts",
    "partition_values",
    "static_partition",
]


def partition_values(storage: TableStorage, partition: bytes) -> tuple[StorageValue, ...]:
    """The storage values of a serialised partition, in partition-key order."""
    return deserialize_row(partition, [field.type for field in storage.schema.partition_fields])


def partition_spec(storage: TableStorage, partition: bytes) -> tuple[tuple[str, str], ...]:
    """(column name, value as text) of a serialised partition, in partition-key order."""
    return _spec(storage, partition_values(storage, partition))


def _spec(storage: TableStorage, values: Sequence[StorageValue]) -> tuple[tuple[str, str], ...]:
    options = storage.schema.table_options
    fields = storage.schema.partition_fields
    return tuple(
        (field.name, partition_text(value, field, options))
        for field, value in zip(fields, values, strict=True)
    )


def partition_texts(storage: TableStorage, partition: bytes) -> dict[str, str | None]:
    """Each value's text as in its directory's name; None where the value is null."""
    values = partition_values(storage, partition)
    spec = partition_spec(storage, partition)
    return {
        name: None if value is None else text
        for (name, text), value in zip(spec, values, strict=True)
    }


def bucket_directory(storage: TableStorage, partition: bytes, bucket: int) -> str:
    """The URI of the directory that holds a bucket's files."""
    return directory_of_values(storage, partition_values(storage, partition), bucket)


def directory_of_values(storage: TableStorage, values: Sequence[StorageValue], bucket: int) -> str:
    """As `bucket_directory`, of storage values in partition-key order."""
    below = storage.schema.table_options.data_directory
    return storage.layout.bucket_directory(_spec(storage, values), bucket, below)


def check_unambiguous(
    storage: TableStorage,
    partition: Mapping[str, object],
    present: Iterable[Sequence[StorageValue]],
) -> None:
    """Reject a partition's name that is both that of null and that of a text.

    Headwater does not write rows with that text, but other engines do.

    Args:
        storage: The table.
        partition: What the caller gave for some or all partition columns.
        present: The values of the partitions that the table has.

    Raises:
        Invalid: The table has a partition whose value is the text of ``partition.default-name``,
            and the caller gave that text.
    """
    name = storage.schema.table_options.partition_default_name
    places = {
        at: value_named_as_null(field, storage.schema.table_options)
        for at, field in enumerate(storage.schema.partition_fields)
        if partition.get(field.name) == name
    }
    for at, value in places.items():
        if value is not None and any(values[at] == value for values in present):
            column = storage.schema.partition_keys[at]
            raise Invalid(
                f"table {storage.name}: '{name}' is ambiguous for partition column '{column}': it "
                "names the null partition, and another engine wrote rows with that text; name the "
                f"null partition by a null, and delete the others by the condition {column} = "
                f"'{name}'"
            )


def static_partition(
    storage: TableStorage, partition: Mapping[str, object]
) -> dict[str, StorageValue]:
    """The storage values of a partition given by a user, some or all partition columns.

    Text is read as in a partition's directory name, so that ``{"dt": "2026-01-01"}`` names a DATE.

    Raises:
        Invalid: A column is not a partition column, or a value is not of its type.
    """
    keys = storage.schema.partition_keys
    unknown = [name for name in partition if name not in keys]
    if unknown:
        raise Invalid(
            f"table {storage.name}: '{unknown[0]}' is not a partition column; the partition "
            f"columns are {', '.join(keys) or '(none)'}"
        )
    options = storage.schema.table_options
    values: dict[str, StorageValue] = {}
    for name, value in partition.items():
        data_type = storage.schema.column(name).type
        if isinstance(value, str):
            values[name] = padded_value(parse_partition_text(value, data_type, options), data_type)
        else:
            values[name] = storage_value(value, data_type)
    return values
