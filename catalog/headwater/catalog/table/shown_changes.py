"""Changes of a table whose rows are filtered for a reader: exact, or refused.

A reader of a part of a table must be able to keep that part by its changes. So a row that leaves
the part is a deletion for the reader, and one that comes into it an insertion, though for the table
both are updates. To know that takes both sides of each update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.catalog.table.scan import Changes
from headwater.storage.errors import Forbidden
from headwater.storage.options.choices import ChangelogProducer
from headwater.storage.predicate.restriction import Restriction
from headwater.storage.rows.kinds import KIND_NAMES, RowKind
from headwater.storage.schema.read_start import IncrementalMode

__all__ = ["WholeUpdates", "check_exact", "parts_updates"]

_TELL_BOTH_SIDES = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
_BEFORE, _AFTER = KIND_NAMES[RowKind.UPDATE_BEFORE], KIND_NAMES[RowKind.UPDATE_AFTER]
_INSERT, _DELETE = KIND_NAMES[RowKind.INSERT], KIND_NAMES[RowKind.DELETE]


def parts_updates(changes: Changes, restriction: Restriction) -> bool:
    """True if filters may show one side of an update without the other.

    What depends on the key alone is the same on both.
    """
    keys = frozenset(changes.storage.schema.primary_keys)
    return bool(keys) and not restriction.filter_columns <= keys


def check_exact(name: str, changes: Changes, restriction: Restriction) -> None:
    """Refuse changes of which a filtered reader would be told too little.

    Delta files and changelogs that writers wrote (``changelog-producer=input``) do not tell what a
    row was before, and a difference of snapshots tells only what it is.

    Args:
        name: The table's name in error messages.
        changes: The changes.
        restriction: The row filters.

    Raises:
        Forbidden: The filters part updates, and both sides of each are not known.
    """
    if not parts_updates(changes, restriction):
        return
    storage = changes.storage
    schemas = {plan.snapshot.schema_id for plan in changes.plans} or {storage.schema.id}
    producers = {
        storage.schema_by_id(number).table_options.changelog_producer for number in schemas
    }
    if changes.source is IncrementalMode.CHANGELOG and producers <= set(_TELL_BOTH_SIDES):
        return
    raise Forbidden(
        f"table {name}: policies restrict what you see of it by columns that are no part of its "
        "key, and its changes do not say what rows were before, so that you could not be told of "
        "rows that you are not shown any more: read its rows, or have its owner set "
        "changelog-producer to lookup or full-compaction and read the changelog"
    )


class WholeUpdates:
    """Makes what is left of an update, of which a filter shows one side, an insertion or deletion.

    The two sides of an update follow each other. Batches are passed in order.

    Args:
        kind: The column with the kinds of rows, as text.
        keys: The columns of the primary key.
    """

    def __init__(self, kind: str, keys: Sequence[str]) -> None:
        self._kind = kind
        self._keys = tuple(keys)
        self._held: pa.RecordBatch | None = None

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A batch, with what was held back before it, without what is held back of its end."""
        if self._held is not None and rows.num_rows:
            rows = pa.concat_batches([self._held, rows])
            self._held = None
        if not rows.num_rows:
            return rows
        last = rows.num_rows - 1
        if rows.column(self._kind)[last].as_py() == _BEFORE:
            self._held = rows.slice(last)
            # The one that is held has no part in what is decided of the others.
            rows = rows.slice(0, last)
        return self._whole(rows)

    def rest(self) -> pa.RecordBatch | None:
        """The row that is held back, when no others follow."""
        held, self._held = self._held, None
        return None if held is None else self._whole(held)

    def _whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        at = rows.schema.get_field_index(self._kind)
        kinds = rows.column(at)
        before, after = _mask(pc.equal(kinds, _BEFORE)), _mask(pc.equal(kinds, _AFTER))
        pair = before[:-1] & after[1:]
        for name in self._keys if pair.any() else ():
            column = rows.column(name)
            same = pc.equal(column.slice(0, len(column) - 1), column.slice(1))
            # A key that a mask makes null is like any other that it does.
            pair &= _mask(pc.fill_null(same, True))
        first, second = np.append(pair, False), np.insert(pair, 0, False)
        kinds = pc.if_else(pa.array(before & ~first), _DELETE, kinds)
        kinds = pc.if_else(pa.array(after & ~second), _INSERT, kinds)
        return rows.set_column(at, rows.schema.field(at), kinds)


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask
