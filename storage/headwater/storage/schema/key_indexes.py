"""The rules for indexes that primary-key tables have of their columns (``pk-….index.columns``).

Paimon's own writers build them of the files that compactions write, and its readers open no table
that breaks a rule. Source: ``SchemaValidation.java`` (``validatePrimaryKeyIndexColumns``,
``validatePrimaryKeySortedIndexes``, ``validatePrimaryKeyVectorIndex``,
``validatePrimaryKeyFullTextIndex``), ``KeySerializer.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.options import MergeEngine
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import ArrayType, DataType, VectorType

__all__ = ["check_key_indexes"]

_NOT_SORTED = (Root.BINARY, Root.VARBINARY, Root.BLOB, Root.GEOMETRY, Root.GEOGRAPHY)
_METRICS = ("l2", "cosine", "inner_product")


def _is_sorted(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root not in _NOT_SORTED


def _is_array(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType) and _is_sorted(data_type.element)


def _is_vector(data_type: DataType) -> bool:
    return isinstance(data_type, VectorType) and data_type.element.root is Root.FLOAT


def _is_text(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root in (Root.CHAR, Root.VARCHAR)


_KINDS: Mapping[str, tuple[str, Callable[[DataType], bool]]] = {
    "btree": ("of a type that has an order, and no bytes", _is_sorted),
    "bitmap": ("of a type that has an order, and no bytes", _is_sorted),
    "multivalue": ("an array of such values", _is_array),
    "vector": ("of type VECTOR<FLOAT, n>", _is_vector),
    "full-text": ("of type CHAR, VARCHAR or STRING", _is_text),
}
# Searched by a row's rank, of one column each.
_SEARCHED = ("vector", "full-text")


def check_key_indexes(schema: TableSchema) -> None:
    """Check the options of a table's own indexes; raises Invalid naming the option."""
    owner: dict[str, str] = {}
    for kind, (needed, fits) in _KINDS.items():
        option = f"pk-{kind}.index.columns"
        if not schema.options.get(option, "").strip():
            continue
        names = [name.strip() for name in schema.options[option].split(",")]
        _check_table(schema, option, kind in _SEARCHED)
        for name in names:
            if name not in schema.field_by_name:
                raise Invalid(f"'{option}' names column '{name}', which does not exist")
            if name in owner:
                raise Invalid(
                    f"column '{name}' is named twice by '{owner[name]}' and '{option}': it has one "
                    "such index at most"
                )
            owner[name] = option
            found = schema.field_by_name[name].type
            if not fits(found):
                raise Invalid(
                    f"'{option}' names column '{name}' of type {found}; it must be {needed}"
                )
        if kind in _SEARCHED and len(names) > 1:
            raise Invalid(f"'{option}' must name one column, not {len(names)}")
        if kind == "vector":
            _check_vector(schema.options, names[0])


def _check_table(schema: TableSchema, option: str, is_searched: bool) -> None:
    options = schema.table_options
    if not schema.primary_keys:
        raise Invalid(f"'{option}' needs a primary key")
    marks = options.deletion_vectors_enabled
    if not marks and not (is_searched and options.merge_engine is MergeEngine.FIRST_ROW):
        raise Invalid(f"'{option}' needs 'deletion-vectors.enabled' = 'true'")
    if marks and not options.marks_superseded_rows:
        raise Invalid(f"'{option}' excludes 'deletion-vectors.merge-on-read'")
    if options.bucket < 1 and options.bucket != POSTPONE_BUCKET:
        raise Invalid(
            f"'{option}' needs a fixed number of buckets, or {POSTPONE_BUCKET}: 'bucket' is "
            f"{options.bucket}"
        )
    if options.overrides_key_order:
        raise Invalid(f"'{option}' excludes 'pk-clustering-override'")


def _check_vector(options: Mapping[str, str], name: str) -> None:
    key = f"fields.{name}.pk-vector.index.type"
    if not options.get(key, "").strip():
        raise Invalid(f"'pk-vector.index.columns' needs '{key}', the kind of the index")
    metric = options.get(f"fields.{name}.pk-vector.distance.metric", _METRICS[-1])
    if metric.lower().replace("-", "_") not in _METRICS:
        raise Invalid(
            f"'fields.{name}.pk-vector.distance.metric' must be one of {', '.join(_METRICS)}, not "
            f"'{metric}'"
        )
