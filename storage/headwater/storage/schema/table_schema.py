"""A table's schema: columns, keys, options; and its file ``schema/schema-<id>``.

Source: ``docs/concepts/spec/schema.md``, ``TableSchema.java``, ``SchemaSerializer.java``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from headwater.storage.errors import CorruptData, Invalid, NotFound, ResourceType
from headwater.storage.options import TableOptions
from headwater.storage.schema.given import given_names, given_options
from headwater.storage.schema.system_fields import TRACKING_FIELDS
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    FieldIds,
    Json,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    arrow_field,
    from_arrow,
)

__all__ = ["CURRENT_SCHEMA_VERSION", "Schema", "TableSchema", "highest_field_id"]

CURRENT_SCHEMA_VERSION = 3


@dataclass(frozen=True)
class Schema:
    """A user's wish for a new table; it becomes a `TableSchema` with id 0."""

    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @staticmethod
    def from_arrow(
        arrow: pa.Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """A schema with the columns of an Arrow schema.

        Raises:
            Invalid: An option is no text, or keys are not lists of names.
            Unsupported: A column's Arrow type has no Paimon type.
        """
        ids = FieldIds()
        fields: list[DataField] = []
        for column in arrow:
            identifier = ids.take()
            fields.append(
                DataField(identifier, column.name, from_arrow(column.type, column.nullable, ids))
            )
        return Schema(
            tuple(fields),
            given_names(partition_keys, "partition_keys"),
            given_names(primary_keys, "primary_keys"),
            given_options(options or {}),
            comment,
        )

    @staticmethod
    def from_json(document: Json) -> Schema:
        """Read the wire form; raises Invalid when it is malformed. ``"options": null`` is empty.

        A schema without fields is read, too: some tables' columns are known without it.
        """
        if not isinstance(document, dict):
            raise Invalid("a schema must be a JSON object")
        fields = document.get("fields")
        if not isinstance(fields, list):
            raise Invalid("a schema needs a list 'fields'")
        comment = document.get("comment")
        if comment is not None and not isinstance(comment, str):
            raise Invalid("a schema's 'comment' must be a string")
        return Schema(
            tuple(DataField.from_json(item) for item in fields),
            _names(document, "partitionKeys"),
            _names(document, "primaryKeys"),
            _options(document),
            comment,
        )

    def to_json(self) -> dict[str, Json]:
        """The wire form."""
        document: dict[str, Json] = {
            "fields": [item.to_json() for item in self.fields],
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            document["comment"] = self.comment
        return document


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema.

    Attributes:
        id: The version's number, from 0.
        fields: The columns in order.
        highest_field_id: The highest field id ever used, nested fields included.
        partition_keys: Column names.
        primary_keys: Column names, partition keys included; empty for an append table.
        options: Paimon's table options.
        comment: The table's comment; None is not an empty one.
        time_millis: The version's creation time, milliseconds since the epoch.
        version: The file format's version.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None
    time_millis: int
    version: int = CURRENT_SCHEMA_VERSION

    @cached_property
    def table_options(self) -> TableOptions:
        """A typed view of the options."""
        return TableOptions(self.options)

    @cached_property
    def field_by_name(self) -> Mapping[str, DataField]:
        """The columns by present name."""
        return {item.name: item for item in self.fields}

    @cached_property
    def field_by_id(self) -> Mapping[int, DataField]:
        """The columns by field id."""
        return {item.id: item for item in self.fields}

    @property
    def tracking_fields(self) -> Mapping[str, DataField]:
        """The columns of row ids and sequence numbers by name; none without row tracking."""
        return TRACKING_FIELDS if self.table_options.tracks_rows else {}

    @cached_property
    def moved_columns(self) -> tuple[str, ...]:
        """The names of what a row keeps when it is moved to another file: in a row-tracking table
        its id and its version, too.
        """
        return (*self.field_by_name, *self.tracking_fields)

    def column(self, name: str) -> DataField:
        """A column, with row tracking also ``_ROW_ID`` or ``_SEQUENCE_NUMBER``.

        Raises:
            NotFound: (COLUMN) It does not exist; the message names the columns there are.
        """
        found = self.field_by_name.get(name) or self.tracking_fields.get(name)
        if found is None:
            raise NotFound(
                f"column '{name}' does not exist; the columns are {', '.join(self.field_by_name)}",
                resource_type=ResourceType.COLUMN,
                resource_name=name,
            )
        return found

    def columns(self, names: Sequence[str]) -> tuple[DataField, ...]:
        """Several columns, in the order of the names."""
        return tuple(self.column(name) for name in names)

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns in partition-key order."""
        return self.columns(self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The primary key without partition columns: the key that files are sorted by."""
        return self.columns([k for k in self.primary_keys if k not in self.partition_keys])

    @cached_property
    def bucket_key_fields(self) -> tuple[DataField, ...]:
        """The columns that a row's bucket is computed from; empty for an unbucketed table."""
        declared = self.options.get("bucket-key", "").strip()
        if declared:
            return self.columns([name.strip() for name in declared.split(",")])
        return self.key_fields

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return pa.schema([arrow_field(item) for item in self.fields])

    @property
    def crosses_partitions(self) -> bool:
        """True if a key may be in any partition, and its bucket is the one that it came to."""
        within = set(self.partition_keys) <= set(self.primary_keys)
        return bool(self.primary_keys) and not within and self.table_options.bucket == -1

    def with_options(self, options: Mapping[str, str]) -> TableSchema:
        """The same schema with other options laid over its own."""
        return replace(self, options={**self.options, **options})

    def to_schema(self) -> Schema:
        """The wire form's part of it."""
        return Schema(
            self.fields, self.partition_keys, self.primary_keys, self.options, self.comment
        )

    def to_json(self) -> str:
        """The text of the schema file."""
        document: dict[str, Json] = {
            "version": self.version,
            "id": self.id,
            "fields": [item.to_json() for item in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            document["comment"] = self.comment
        document["timeMillis"] = self.time_millis
        return json.dumps(document, indent=2, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes, where: str = "a schema") -> TableSchema:
        """Read a schema file.

        Files of version 1 and 2 get the defaults of their time (``SchemaSerializer.java``): one
        bucket for version 1, ORC for both.

        Raises:
            CorruptData: The text is not a schema; the message names `where`.
        """
        try:
            document = json.loads(text)
            if not isinstance(document, dict):
                raise Invalid("it is not a JSON object")
            version = int(document.get("version", 1))
            options = _options(document)
            if version <= 1:
                options.setdefault("bucket", "1")
            if version <= 2:
                options.setdefault("file.format", "orc")
            return TableSchema(
                id=int(document["id"]),
                fields=tuple(DataField.from_json(item) for item in document["fields"]),
                highest_field_id=int(document["highestFieldId"]),
                partition_keys=_names(document, "partitionKeys"),
                primary_keys=_names(document, "primaryKeys"),
                options=options,
                comment=document.get("comment"),
                time_millis=int(document.get("timeMillis", 0)),
                version=version,
            )
        except (ValueError, KeyError, TypeError, Invalid) as error:
            raise CorruptData(f"{where} is not a valid schema file: {error}") from error


def highest_field_id(fields: Sequence[DataField]) -> int:
    """The highest field id in use, nested fields included; -1 when there is none."""
    return max((_highest(item) for item in fields), default=-1)


def _highest(item: DataField) -> int:
    return max(item.id, _highest_in_type(item.type))


def _highest_in_type(data_type: DataType) -> int:
    match data_type:
        case AtomicType() | VariantType() | VectorType():
            return -1
        case ArrayType() | MultisetType():
            return _highest_in_type(data_type.element)
        case MapType():
            return max(_highest_in_type(data_type.key), _highest_in_type(data_type.value))
        case RowType():
            return highest_field_id(data_type.fields)


def _names(document: Mapping[str, Json], key: str) -> tuple[str, ...]:
    value = document.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"'{key}' must be a list of column names")
    return tuple(str(item) for item in value)


def _options(document: Mapping[str, Json]) -> dict[str, str]:
    value = document.get("options")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("'options' must be an object of strings")
    options: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, bool):
            options[key] = "true" if item else "false"
        elif isinstance(item, str | int | float):
            options[key] = str(item)
        elif item is not None:
            raise Invalid(f"option '{key}' must be a string, not {item!r}")
    return options
