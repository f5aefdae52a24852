"""The order in which Java's ``HashMap`` gives its entries.

Paimon writes indexes in this order. They are the same indexes in any other; this one makes them the
same bytes, but where more than 8 entries share a place in the map: Java may then take another.
Source: ``DataFileIndexWriter.java``, ``FileIndexOptions.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headwater.storage.schema.file_indexes import FileIndex

__all__ = ["hash_map_order", "in_map_order"]

_NOT_NESTED, _NESTED = 1237, 1231


def hash_map_order(
    hashes: npt.NDArray[np.uint32], inserted: npt.NDArray[np.int64], *, by_put: bool = False
) -> npt.NDArray[np.int64]:
    """The order of the entries of a map.

    Args:
        hashes: The keys' ``hashCode``.
        inserted: Numbers that grow in the order in which the keys came.
        by_put: True if ``put`` inserted them, which appends to a place in the map and makes room
            after it; False for ``computeIfAbsent``, which does neither.
    """
    places = 16
    while len(hashes) - (not by_put) > places * 3 // 4:
        places *= 2
    spread = (hashes ^ (hashes >> np.uint32(16))) & np.uint32(places - 1)
    return np.lexsort((inserted if by_put else -inserted, spread)).astype(np.int64)


def in_map_order(
    indexes: Sequence[FileIndex], bodies: Mapping[str, Mapping[str, bytes | None]]
) -> dict[str, dict[str, bytes | None]]:
    """Indexes by name and kind, in the order in which Java writes them.

    Args:
        indexes: The indexes that were built.
        bodies: Their bodies, and perhaps older ones.
    """
    columns = list(dict.fromkeys((index.column, index.map_key) for index in indexes))
    hashes = [_column_hash(*column) for column in columns]
    rank = {columns[at]: number for number, at in enumerate(_ordered(hashes))}
    by_column = sorted(indexes, key=lambda index: rank[index.column, index.map_key])
    kinds = _by_name(list(dict.fromkeys(index.kind for index in by_column)))
    names: dict[str, None] = {}
    for kind in kinds:
        own = [index.name for index in by_column if index.kind == kind]
        names |= dict.fromkeys(_by_name(own, by_put=True))
    names |= dict.fromkeys(bodies)
    return {
        name: {
            kind: bodies[name][kind] for kind in _by_name(_first(kinds, bodies[name]), by_put=True)
        }
        for name in _by_name([name for name in names if name in bodies])
    }


def _first(order: Sequence[str], among: Mapping[str, object]) -> list[str]:
    return [name for name in dict.fromkeys((*order, *among)) if name in among]


def _by_name(names: Sequence[str], *, by_put: bool = False) -> list[str]:
    return [names[at] for at in _ordered([_text(name) for name in names], by_put=by_put)]


def _ordered(hashes: Sequence[int], *, by_put: bool = False) -> list[int]:
    inserted = np.arange(len(hashes))
    found: list[int] = hash_map_order(np.array(hashes, np.uint32), inserted, by_put=by_put).tolist()
    return found


def _text(text: str) -> int:
    """``String.hashCode``."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    value = 0
    for unit in units.tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def _column_hash(column: str, key: str | None) -> int:
    """``FileIndexOptions.Column.hashCode``."""
    nested = (0, _NOT_NESTED) if key is None else (_text(key), _NESTED)
    value = 1
    for part in (_text(column), *nested):
        value = (31 * value + part) & 0xFFFFFFFF
    return value
