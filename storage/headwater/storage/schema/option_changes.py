"""Table options as a schema changes: which may change, and which name columns.

Source: ``SchemaManager.checkAlterTableOption``, ``applyRenameColumnsToOptions``, the options marked
``@Immutable`` in ``CoreOptions.java``, and ``SchemaValidation.validateFieldsPrefix``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.storage.errors import Invalid
from headwater.storage.options import CLUSTERING_COLUMNS, TableOptions, is_true
from headwater.storage.schema.path_options import check_path_options
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.table_type import TYPE_OPTION, TableType

__all__ = [
    "check_field_options",
    "check_laid_over",
    "check_option_change",
    "columns_with_options",
    "indexed_by",
    "is_unchanged",
    "listed_names",
    "options_about",
    "options_at",
    "renamed_in_options",
]

# Changing them would make the data there unreadable, or wrong.
_IMMUTABLE = frozenset(
    {
        "type",
        "bucket-key",
        "bucket-function.type",
        "data-file.path-directory",
        "merge-engine",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "rowkind.field",
        "primary-key",
        "primary-key.nullable",
        "partition",
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "blob-field",
        "blob-descriptor-field",
        "blob-view-field",
        "pk-clustering-override",
        "path",
    }
)
# As well for a handle: files are found by them, so that what it writes the table would not find.
_PLACING = frozenset({"bucket", "partition.default-name", "partition.legacy-name"})
# What a table has that does not say it; of the others that is false, or nothing.
_UNSAID = {"bucket": "-1", "bucket-function.type": "default", "merge-engine": "deduplicate",
           "partition.default-name": "__DEFAULT_PARTITION__",
           "partition.legacy-name": "true"}  # fmt: skip
# Their values are lists of columns.
_COLUMN_LISTS = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    *CLUSTERING_COLUMNS,
    "upsert-key",
)
# As well, and the indexes that they name know a column by its name.
_INDEXED = (
    "pk-vector.index.columns",
    "pk-btree.index.columns",
    "pk-bitmap.index.columns",
    "pk-multivalue.index.columns",
    "pk-full-text.index.columns",
)
_FIELDS = "fields."
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
# What stands after the columns in ``fields.<columns>.<…>``, with columns for a value or without.
_NAMING_SUFFIXES = (".sequence-group", ".nested-key")


def is_unchanged(
    options: Mapping[str, str],
    key: str,
    value: str,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
) -> bool:
    """True if an option says already what it is set to.

    Keys that were given as options stand beside them (``SchemaManager.isUnchangedNormalizedKey``).
    """
    present = options.get(key)
    if key == TYPE_OPTION:
        return value.strip().lower() == (present or TableType.TABLE).lower()
    if present is None and key in ("primary-key", "partition"):
        keys = primary_keys if key == "primary-key" else partition_keys
        return listed_names(value) == list(keys)
    return present == value


def check_option_change(
    options: Mapping[str, str], key: str, value: str | None, *, has_snapshots: bool
) -> None:
    """Refuse to set an option to another value, or to remove it (None); raises Invalid."""
    # A format or object table holds data without snapshots: its type never changes.
    if key == TYPE_OPTION:
        raise Invalid("option 'type' cannot be changed; create another table")
    if not has_snapshots:
        return
    if key in _IMMUTABLE:
        raise Invalid(f"option '{key}' cannot be changed once the table holds data")
    if key == "bucket":
        if value is None:
            raise Invalid("option 'bucket' cannot be removed once the table holds data")
        before = TableOptions(options).bucket
        after = TableOptions({"bucket": value}).bucket
        if before != after and -1 in (before, after):
            raise Invalid("option 'bucket' cannot change from or to -1")
    present = options.get(key, "false").lower()
    wanted = (value or "false").lower()
    modifiable = is_true(options, "deletion-vectors.modifiable")
    if key == "deletion-vectors.enabled" and present != wanted and not modifiable:
        raise Invalid(
            f"option '{key}' cannot be changed once the table holds data: rows could come twice; "
            "compact the table fully and set 'deletion-vectors.modifiable' = 'true' to allow it"
        )
    one_way = key in ("ignore-delete", "ignore-update-before")
    if one_way and present == "true" and wanted == "false":
        raise Invalid(f"option '{key}' cannot be changed from true to false")
    if key in CLUSTERING_COLUMNS and "pk-clustering-override" in options:
        raise Invalid(
            f"option '{key}' cannot be changed while 'pk-clustering-override' is set: the files "
            "there are sorted by it"
        )


def check_laid_over(schema: TableSchema, options: Mapping[str, str]) -> None:
    """Refuse options of one handle that only its table can have; raises Invalid.

    Files tell by their schema where they lie, how their rows are merged, whether whoever wrote them
    marked the rows that they replace, and by what they are sorted
    (``SchemaManager.checkAlterTableOption``, which Paimon asks about such options, too).
    """
    check_path_options(options)
    keys = (schema.primary_keys, schema.partition_keys)
    for key, value in options.items():
        if key not in _IMMUTABLE and key not in _PLACING:
            continue
        unsaid = _UNSAID.get(key, "false")
        if schema.options.get(key, unsaid).strip() == value.strip():
            continue
        if not is_unchanged(schema.options, key, value, *keys):
            raise Invalid(
                f"option '{key}' cannot be laid over a table, whose files are written and read by "
                "its own: a handle with another would show wrong rows, or write such as the table "
                "does not find; create another table"
            )
    if not schema.primary_keys:
        return
    clusters = schema.table_options.overrides_key_order
    laid = schema.with_options(options).table_options
    if laid.overrides_key_order != clusters or (
        clusters and laid.clustering_columns != schema.table_options.clustering_columns
    ):
        raise Invalid(
            "options 'pk-clustering-override' and 'clustering.columns' cannot be laid over a table "
            "with a primary key: its files are sorted by what the table says; create another table"
        )
    key = "deletion-vectors.enabled"
    if key not in options:
        return
    if laid.deletion_vectors_enabled != schema.table_options.deletion_vectors_enabled:
        raise Invalid(
            f"option '{key}' of a table with a primary key cannot be laid over it: rows could come "
            "twice; alter the table, or set 'deletion-vectors.merge-on-read' to read level 0"
        )


def options_about(options: Mapping[str, str], column: str) -> list[str]:
    """The options that would name nothing without a column."""
    found = [
        key for key in (*_COLUMN_LISTS, *_INDEXED) if column in listed_names(options.get(key, ""))
    ]
    for key, value in options.items():
        names_it = column in (_columns_of(key) or ())
        if names_it or (key.endswith(_NAMING_SUFFIXES) and column in listed_names(value)):
            found.append(key)
    return found


def indexed_by(options: Mapping[str, str], column: str) -> str | None:
    """The option that makes an index of a primary-key table over a column; None without one."""
    return next((key for key in _INDEXED if column in listed_names(options.get(key, ""))), None)


def renamed_in_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The options after columns got other names, all at once.

    Args:
        options: The options.
        names: The new name of each column that has one, by the old one.
    """

    def renamed(columns: Sequence[str]) -> str:
        return ",".join(names.get(name, name) for name in columns)

    result: dict[str, str] = {}
    for key, value in options.items():
        columns = _columns_of(key)
        if _lists_columns(key) and any(name in names for name in listed_names(value)):
            value = renamed(listed_names(value))
        if columns is not None and any(name in names for name in columns):
            suffix = key[len(_FIELDS) + len(",".join(columns)) :]
            key = f"{_FIELDS}{renamed(columns)}{suffix}"
        result[key] = value
    return result


def options_at(now: TableSchema, then: TableSchema) -> dict[str, str]:
    """The options of one version of a schema, with the columns' names of another.

    Options name columns, which may have had other names. Where an option of `now` names a column
    that `then` does not have, what `then` says of the option counts.

    Args:
        now: The version whose options they are.
        then: The version whose columns they name.
    """
    present = {item.name for item in now.fields if item.id in then.field_by_id}
    kept: dict[str, str] = {}
    unknown: set[str] = set()
    for key, value in now.options.items():
        named = [*(listed_names(value) if _lists_columns(key) else ()), *(_columns_of(key) or ())]
        if present.issuperset(named):
            kept[key] = value
        else:
            unknown.add(key)
    names = {
        item.name: then.field_by_id[item.id].name
        for item in now.fields
        if item.name in present and then.field_by_id[item.id].name != item.name
    }
    former = {key: value for key, value in then.options.items() if key in unknown}
    return {**renamed_in_options(kept, names), **former}


def _lists_columns(key: str) -> bool:
    """True if the option's value is a list of columns."""
    return key in (*_COLUMN_LISTS, *_INDEXED) or (
        _columns_of(key) is not None and key.endswith(_NAMING_SUFFIXES)
    )


def check_field_options(options: Mapping[str, str], columns: Sequence[str]) -> None:
    """Refuse options about columns that do not exist; raises Invalid."""
    for key in options:
        for name in _columns_of(key) or ():
            if name not in columns:
                raise Invalid(f"option '{key}' is about column '{name}', which does not exist")


def columns_with_options(options: Mapping[str, str]) -> set[str]:
    """The columns that have options of their own."""
    return {name for key in options for name in _columns_of(key) or ()}


def _columns_of(key: str) -> list[str] | None:
    """The columns in ``fields.<column>,<column>.<…>``; None for an option of another kind."""
    if not key.startswith(_FIELDS) or key == _DEFAULT_FUNCTION:
        return None
    middle, dot, _ = key.removeprefix(_FIELDS).partition(".")
    return middle.split(",") if dot else None


def listed_names(text: str) -> list[str]:
    """The columns that an option's value lists, between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
