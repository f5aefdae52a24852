"""The dictionaries of names (``metadata``) that the objects of variants refer to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.variants.layout import (
    Numbers,
    bytes_of,
    check,
    numbers_at,
    runs,
    slices,
)

__all__ = ["Names"]

_VERSION = 1


class Names:
    """The distinct dictionaries of a column.

    Args:
        metadata: The column's ``metadata``; null where the variant is.

    Attributes:
        codes: The dictionary of each row, as `ids` and `ranks` number them; 0 for a null.

    Raises:
        ValueError: One of them is no dictionary.
    """

    def __init__(self, metadata: pa.Array) -> None:
        encoded = pc.dictionary_encode(metadata.cast(pa.large_binary()))
        self.codes: Numbers = pc.fill_null(encoded.indices.cast(pa.int64()), 0).to_numpy(
            zero_copy_only=False
        )
        data, places = bytes_of(encoded.dictionary)
        begins, ends = places[:-1], places[1:]
        check(begins < ends, "its metadata is empty")
        header = data[begins].astype(np.int64)
        check(header & 0x0F == _VERSION, "its metadata is of another version")
        widths = (header >> 6) + 1
        counts = numbers_at(data, begins + 1, widths)
        texts = begins + 1 + widths * (counts + 2)
        check(texts <= ends, "its metadata is cut off")
        owners, numbers = runs(counts + 1)
        offsets = numbers_at(
            data, begins[owners] + 1 + widths[owners] * (numbers + 1), widths[owners]
        )
        is_last = numbers == counts[owners]
        check(texts + offsets[is_last] <= ends, "its metadata is cut off")
        lengths = np.diff(offsets, append=0)[~is_last]
        check(lengths >= 0, "its metadata's offsets fall")
        self._owners = owners[~is_last]
        self._numbers = numbers[~is_last]
        self._counts = counts
        self._firsts = np.cumsum(counts) - counts
        self._names = slices(data, texts[self._owners] + offsets[~is_last], lengths)
        self._ranks: Numbers = (
            pc.rank(self._names, sort_keys="ascending", tiebreaker="dense")
            .to_numpy()
            .astype(np.int64)
        )

    def ids(self, name: str) -> Numbers:
        """The number that each dictionary gives a name; -1 where it has none."""
        found = np.full(max(len(self._counts), 1), -1, np.int64)
        places = np.flatnonzero(
            pc.equal(self._names, pa.scalar(name.encode(), pa.large_binary())).to_numpy(
                zero_copy_only=False
            )
        )
        found[self._owners[places]] = self._numbers[places]
        return found

    def ranks(self, codes: Numbers, ids: Numbers) -> Numbers:
        """Numbers that order names as their UTF-8 bytes do; equal for the same name.

        Raises:
            ValueError: A dictionary has no name of that number.
        """
        if len(ids):
            known = self._counts[codes] if len(self._counts) else np.zeros(len(ids), np.int64)
            check(ids < known, "it refers to a name that its metadata lacks")
        return self._ranks[self._firsts[codes] + ids] if len(ids) else ids

    def texts(self, codes: Numbers, ids: Numbers) -> pa.Array:
        """The names themselves, as LARGE_BINARY; the numbers must be known."""
        return self._names.take(pa.array(self._firsts[codes] + ids))
