"""The part of a table that a reader is shown: row filters first, then column masks.

The JSON is that of `headwater.storage.predicate.policy_terms`. Several filters must all be true
(``TableQueryAuthResult.extractPredicate``). Filters and the inputs of masks see the values as they
are stored; whatever the reader asks for sees the masked ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.storage.errors import Forbidden, HeadwaterError, Invalid
from headwater.storage.predicate.filter import filter_rows, to_expression
from headwater.storage.predicate.json_form import predicate_from_json
from headwater.storage.predicate.policy_terms import Term, Terms, transform_columns, transformed
from headwater.storage.predicate.tree import And, Predicate
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField, Json, to_arrow
from headwater.storage.types.local_time import Zone

__all__ = ["RestrictedRows", "Restriction"]


@dataclass(frozen=True)
class Restriction:
    """The row filters and column masks of one reader.

    Attributes:
        filters: Predicates as JSON, all of which must be true.
        masks: Transforms as JSON, by the column whose values they replace.
    """

    filters: tuple[str, ...] = ()
    masks: Mapping[str, str] | None = None

    def __bool__(self) -> bool:
        """True if the reader is not shown everything."""
        return bool(self.filters or self.masks)

    @property
    def fingerprint(self) -> str:
        """A text that is the same for the same filters and masks, and tells nothing of them."""
        document = json.dumps([self.filters, sorted((self.masks or {}).items())])
        return hashlib.sha256(document.encode()).hexdigest()

    @property
    def filter_columns(self) -> frozenset[str]:
        """The columns that decide which rows the reader is shown."""
        return frozenset(name for text in self.filters for name in _columns(text))

    def masked(self, columns: Iterable[str]) -> frozenset[str]:
        """Those of some columns whose values are replaced."""
        return frozenset(columns) & frozenset(self.masks or {})

    def columns_for(self, wanted: Iterable[str]) -> list[str]:
        """The columns that must be read to show some: their own first."""
        needed = dict.fromkeys(wanted)
        for name in self.masked(tuple(needed)):
            needed.update(dict.fromkeys(sorted(_columns((self.masks or {})[name]))))
        needed.update(dict.fromkeys(sorted(self.filter_columns)))
        return list(needed)

    def check(self, table: str, present: TableSchema, then: TableSchema) -> None:
        """Refuse to read rows of another schema in which a policy would miss its columns.

        Args:
            table: The table's name in error messages.
            present: The table's latest schema, which the policies were checked against.
            then: The schema that rows are read by.

        Raises:
            Forbidden: A column that a policy names is another one there, or is not there.
        """
        inputs = set(self.filter_columns)
        inputs.update(name for text in (self.masks or {}).values() for name in _columns(text))
        for name in sorted(inputs | set(self.masks or {})):
            column = present.field_by_name.get(name)
            found = then.field_by_name.get(name)
            if column is not None:
                by_id = then.field_by_id.get(column.id)
                if found is None and by_id is None and name not in inputs:
                    continue
                if _same(column, found) and found == by_id:
                    continue
            raise Forbidden(
                f"table {table}: what you may see of it depends on column '{name}', which is not "
                f"the same in schema {then.id} of the rows asked for; read the latest rows instead"
            )

    def pruning(self, schema: TableSchema) -> tuple[Predicate, ...]:
        """Predicates that are true of every row that the filters show, and perhaps of others."""
        return tuple(predicate_from_json(text, schema) for text in self.filters)


def _same(column: DataField, found: DataField | None) -> bool:
    if found is None or column.id != found.id:
        return False
    return replace(column.type, nullable=True) == replace(found.type, nullable=True)


def _columns(text: str) -> frozenset[str]:
    return transform_columns(_parsed(text))


def _parsed(text: str) -> Json:
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid("a policy is not JSON") from None
    return document


class RestrictedRows:
    """Shows rows of a table as a restriction allows.

    Args:
        table: The table's name in error messages.
        restriction: The row filters and column masks.
        schema: The schema of the rows.
        where: The reader's own condition, over the values that the reader is shown.
        zone: Gives the zone of local times.

    Raises:
        Forbidden: A filter or a mask is not understood; then nothing is shown.
        Unsupported: The condition is too long.
    """

    def __init__(
        self,
        table: str,
        restriction: Restriction,
        schema: TableSchema,
        where: Predicate | None,
        zone: Zone,
    ) -> None:
        self._table = table
        self._schema = schema
        terms = Terms(schema, zone)
        masks: dict[str, Term] = {}
        try:
            conditions = tuple(terms.predicate(_parsed(text)) for text in restriction.filters)
            for name, text in (restriction.masks or {}).items():
                if name in schema.field_by_name:
                    masks[name] = _mask(_parsed(text), schema, schema.column(name), zone)
            keep = to_expression(And(conditions), terms.schema)
        except HeadwaterError:
            raise self._failure("is not understood") from None
        self._terms = terms.terms
        self._keep = keep if conditions else None
        self._masks = masks
        self._where = None if where is None else to_expression(where, schema)

    def shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the reader is shown, with masked values.

        Args:
            rows: Rows with at least the columns that `Restriction.columns_for` names.

        Raises:
            Forbidden: A filter or a mask fails on some row; no value is told.
        """
        try:
            if self._keep is not None:
                rows = self._filtered(rows, [term(rows) for term in self._terms])
            masked = {
                name: mask(rows) for name, mask in self._masks.items() if name in rows.schema.names
            }
        except (HeadwaterError, pa.ArrowException):
            # Their texts may show values.
            raise self._failure("cannot be applied to its rows") from None
        if masked:
            columns = [masked.get(name, rows.column(name)) for name in rows.schema.names]
            rows = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
        if self._where is None:
            return rows
        return _one_batch(filter_rows(rows, self._where))

    def _filtered(self, rows: pa.RecordBatch, terms: Sequence[pa.Array]) -> pa.RecordBatch:
        assert self._keep is not None
        names = [f"column{at}" for at in range(rows.num_columns)]
        names += [f"term{at}" for at in range(len(terms))]
        wider = pa.RecordBatch.from_arrays([*rows.columns, *terms], names=names)
        kept = _one_batch(filter_rows(wider, self._keep))
        return pa.RecordBatch.from_arrays(kept.columns[: rows.num_columns], schema=rows.schema)

    def _failure(self, what: str) -> Forbidden:
        return Forbidden(
            f"table {self._table}: a row filter or column mask that applies to you {what}, so that "
            "nothing is shown; ask who manages its policies"
        )


def _mask(node: Json, schema: TableSchema, column: DataField, zone: Zone) -> Term:
    arrow = to_arrow(column.type)
    if isinstance(node, dict) and node.get("name") == "NULL":
        if not column.type.nullable:
            raise Invalid("a mask would be null")
        return lambda rows: pa.nulls(rows.num_rows, arrow)
    term, _ = transformed(node, schema, zone)

    def masked(rows: pa.RecordBatch) -> pa.Array:
        values = term(rows)
        if values.null_count and not column.type.nullable:
            raise Invalid("a mask is null")
        return values if values.type == arrow else values.cast(arrow)

    return masked


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    if batches:
        return batches[0]
    arrays = [pa.array([], field.type) for field in rows.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
