"""Messages by their tables and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.kafka.events import OPS, Messages, Rows, table_name
from headwater.cdc.kafka.origins import Origin
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Unsupported

__all__ = ["SOURCE_NAMES", "Tables", "check_ops", "parts_of", "present_rows", "tables_of"]

SOURCE_NAMES = ("name", "db", "schema", "table")
"""The members of an event's ``source`` that tell its table and origin."""


@dataclass(frozen=True)
class Tables:
    """The table of each event.

    Attributes:
        codes: The number of its table and origin.
        names: The tables.
        origins: The origin of each table.
    """

    codes: Rows
    names: Sequence[TableName]
    origins: Sequence[Origin]

    def value(self, row: int) -> TableName:
        """The table of an event."""
        return self.names[int(self.codes[row])]

    def origin(self, row: int) -> Origin:
        """The connector and the database that an event comes from."""
        return self.origins[int(self.codes[row])]


def tables_of(sources: Sequence[pa.Array], messages: Messages, rows: Rows) -> Tables:
    """The table that each event's ``source`` names.

    Args:
        sources: Its members, see `SOURCE_NAMES`.
        messages, rows: The messages, and the number of each event's.

    Raises:
        Unsupported: One names none.
    """
    parts = [source.dictionary_encode() for source in sources]
    codes = np.zeros(len(rows), np.int64)
    for part in parts:
        numbers = pc.fill_null(part.indices.cast(pa.int64()), -1).to_numpy()
        codes = codes * (len(part.dictionary) + 1) + numbers + 1
    _, firsts, dense = np.unique(codes, return_index=True, return_inverse=True)
    names, origins = [], []
    for first in firsts.tolist():
        connector, database, schema, table = (part[first].as_py() for part in parts)
        origins.append(Origin(connector, database))
        names.append(table_name(database, schema, table, messages.place(int(rows[first]))))
    return Tables(dense.astype(np.int64), names, origins)


def parts_of(rows: Rows, *codes: Rows) -> list[Rows]:
    """Rows by their codes, each part in order."""
    if not len(rows):
        return []
    combined = np.zeros(len(rows), np.int64)
    for code in codes:
        combined = combined * (int(code.max(initial=0)) + 1) + code[rows]
    _, dense = np.unique(combined, return_inverse=True)
    order = np.argsort(dense, kind="stable")
    bounds = np.flatnonzero(np.diff(dense[order])) + 1
    return [rows[part] for part in np.split(order, bounds)]


def check_ops(ops: pa.Array, messages: Messages, rows: Rows) -> None:
    """Check that all operations are known.

    Raises:
        Unsupported: One is not.
    """
    unknown = set(pc.unique(ops).drop_null().to_pylist()) - OPS
    if unknown:
        row = pc.index(ops, sorted(unknown)[0]).as_py()
        raise Unsupported(
            f"{messages.place(int(rows[row]))}: operation '{ops[row]}' of an event is not known; "
            "upgrade Headwater"
        )


def present_rows(values: Sequence[bytes | None]) -> Rows:
    """The numbers of values that are not null."""
    return np.flatnonzero(np.fromiter((value is not None for value in values), bool, len(values)))
