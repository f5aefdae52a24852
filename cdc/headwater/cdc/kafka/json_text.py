"""JSON of many messages at once: where the members of objects are, all messages together.

A value is a range of the messages' bytes, which becomes a value of Arrow later: numbers keep all of
their digits, and a value that nobody asks for costs its scan only. Arrow's JSON reader checks the
syntax; it cannot read the values, as it must know the type of each member before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headwater.cdc.columns.gather import LogBytes
from headwater.cdc.columns.text import binary_column
from headwater.storage.errors import CorruptData

__all__ = ["Cells", "JsonBatch", "Members"]

Positions = npt.NDArray[np.int64]

_QUOTE, _BACKSLASH, _NEWLINE = b'"\\\n'
_OPEN, _CLOSE, _COLON, _COMMA = 1, 2, 3, 4
_NULL = ord("n")
_TOKENS = np.zeros(256, np.uint8)
_TOKENS[[ord("{"), ord("[")]] = _OPEN
_TOKENS[[ord("}"), ord("]")]] = _CLOSE
_TOKENS[ord(":")] = _COLON
_TOKENS[ord(",")] = _COMMA
_IS_SPACE = np.zeros(256, np.bool_)
_IS_SPACE[list(b" \t\r\n")] = True


@dataclass(frozen=True)
class Cells:
    """A value in each of some rows.

    Attributes:
        begins, ends: Where each value is in the bytes; both 0 where a row has none.
    """

    begins: Positions
    ends: Positions

    @property
    def is_present(self) -> npt.NDArray[np.bool_]:
        """Which rows have a value, perhaps ``null``."""
        return self.ends > 0

    def take(self, rows: npt.NDArray[np.int64]) -> Cells:
        """The values of some of the rows."""
        return Cells(self.begins[rows], self.ends[rows])

    @staticmethod
    def missing(rows: int) -> Cells:
        """No value in any row."""
        return Cells(np.zeros(rows, np.int64), np.zeros(rows, np.int64))


@dataclass(frozen=True)
class Members:
    """The members of one object in each of some rows.

    Attributes:
        rows: How many rows.
        cells: The value of each member by its name.
    """

    rows: int
    cells: dict[str, Cells]

    def __getitem__(self, name: str) -> Cells:
        return self.cells.get(name) or Cells.missing(self.rows)


class JsonBatch:
    """Texts, each of which is one value of JSON.

    Args:
        texts: The texts.
        subject: What they are, for messages.
        place: Where a text is, for messages; by default its index among all.

    Raises:
        CorruptData: One is not JSON.
    """

    def __init__(
        self, texts: Sequence[bytes], subject: str, place: Callable[[int], str] | None = None
    ) -> None:
        self._subject, self.rows = subject, len(texts)
        self._place = place or (lambda row: f"{subject}: number {row}")
        # Between texts, so that each is a line to Arrow.
        self.log = LogBytes.joined([b"\n".join(texts), b"\n"])
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        ends = np.cumsum(lengths + 1) - 1
        self._data = np.frombuffer(self.log.buffer, np.uint8)[: self.log.size]
        self.values = self._trimmed(Cells(ends - lengths, ends))
        self._check_syntax()
        self._scan()

    def _check_syntax(self) -> None:
        if not self.rows:
            return
        # Arrow has objects only: a text of another kind is the value of a member.
        options = pj.ParseOptions(
            explicit_schema=pa.schema([]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        )
        first = self._data[np.minimum(self.values.begins, self.log.size - 1)]
        if (first != ord("{")).any():
            row = int(np.flatnonzero(first != ord("{"))[0])
            raise self.wrong(row, "is not an object of JSON")
        try:
            read = pj.read_json(
                pa.BufferReader(pa.py_buffer(self._data)),
                pj.ReadOptions(use_threads=False, block_size=max(self.log.size, 1) + 1),
                options,
            )
        except pa.ArrowInvalid as error:
            raise CorruptData(f"{self._subject} are not JSON: {error}") from error
        if read.num_rows != self.rows:
            raise CorruptData(
                f"{self._subject} are not JSON: {self.rows} messages have {read.num_rows} objects"
            )

    def wrong(self, row: int, problem: str) -> CorruptData:
        """The error of a text."""
        text = bytes(self._data[self.values.begins[row] : self.values.ends[row]][:80])
        return CorruptData(f"{self._place(row)} {problem}: {text!r}")

    def check(self, cells: Cells, is_right: npt.NDArray[np.bool_], problem: str) -> None:
        """Check values besides ``null``.

        Args:
            cells: The values.
            is_right: Which of them are right.
            problem: What the others are, such as "is not an array".

        Raises:
            CorruptData: One is not right.
        """
        wrong = ~is_right & ~self.is_null(cells)
        if not wrong.any():
            return
        begin, end = (bounds[wrong.argmax()] for bounds in (cells.begins, cells.ends))
        row = int(np.searchsorted(self.values.begins, begin, side="right")) - 1
        text = bytes(self._data[begin:end][:80]).decode(errors="replace")
        raise CorruptData(f"{self._place(row)} has the value {text}, which {problem}")

    def begins_with(self, cells: Cells, letters: bytes) -> npt.NDArray[np.bool_]:
        """Which rows have a value whose first letter is one of some."""
        is_one = np.zeros(256, np.bool_)
        is_one[list(letters)] = True
        begins: npt.NDArray[np.bool_] = cells.is_present & is_one[self._data[cells.begins]]
        return begins

    def _scan(self) -> None:
        """Find the tokens outside of strings, the strings, and the bracket that closes each one."""
        data = self._data
        is_quote = data == _QUOTE
        escapes = np.flatnonzero(data == _BACKSLASH)
        if len(escapes):
            # Of a run of backslashes every other one is escaped.
            begins = np.flatnonzero(np.diff(escapes, prepend=-2) != 1)
            runs = np.diff(begins, append=len(escapes))
            after = escapes[begins] + runs
            is_quote[after[runs % 2 == 1]] = False
        in_string = np.cumsum(is_quote, dtype=np.uint8) & 1
        kinds = _TOKENS[data]
        kinds[in_string.view(np.bool_)] = 0
        # Positions of quotes: one that begins a string, one that ends it, and so on.
        self._quotes = np.flatnonzero(is_quote)
        self._tokens = np.flatnonzero(kinds)
        self._kinds = kinds[self._tokens]
        steps = np.zeros(len(self._kinds), np.int64)
        steps[self._kinds == _OPEN] = 1
        steps[self._kinds == _CLOSE] = -1
        # That of a bracket is that of its contents.
        self._depths = np.cumsum(steps) + (self._kinds == _CLOSE)
        self._closing = self._matched()

    def _matched(self) -> Positions:
        """For each token that opens, the number of the one that closes it."""
        closing = np.full(len(self._tokens), -1, np.int64)
        (brackets,) = np.nonzero(self._kinds <= _CLOSE)
        # Those of one depth alternate.
        order = brackets[np.argsort(self._depths[brackets], kind="stable")]
        closing[order[::2]] = order[1::2]
        return closing

    def members(self, cells: Cells) -> Members:
        """The members of the object in each row; rows without a value have none.

        Raises:
            CorruptData: A value is not an object, or has a member twice.
        """
        rows = self._objects(cells)
        opens = np.searchsorted(self._tokens, cells.begins[rows])
        owners, names, values = self._pairs(opens)
        if not len(owners):
            return Members(len(cells.begins), {})
        encoded = self.text(names).dictionary_encode()
        codes = encoded.indices.to_numpy()
        by_name: dict[str, Cells] = {}
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            (places,) = np.nonzero(codes == code)
            at = rows[owners[places]]
            if len(at) > 1 and (at[1:] == at[:-1]).any():
                raise CorruptData(
                    f"{self._subject}: an object has two members '{name}'; which one counts is not "
                    "known"
                )
            member = Cells.missing(len(cells.begins))
            member.begins[at], member.ends[at] = values.begins[places], values.ends[places]
            by_name[name] = member
        return Members(len(cells.begins), by_name)

    def items(self, cells: Cells) -> tuple[Positions, Cells]:
        """The items of the array in each row: the row and the value of each item.

        Raises:
            CorruptData: A value is not an array.
        """
        rows = self._objects(cells, "[")
        opens = np.searchsorted(self._tokens, cells.begins[rows])
        (commas,) = np.nonzero(self._kinds == _COMMA)
        before = np.sort(np.concatenate([opens, commas]))
        owners = np.searchsorted(opens, before, side="right") - 1
        arrays = opens[np.maximum(owners, 0)] if len(opens) else before
        inside = (owners >= 0) & (before < self._closing[arrays])
        inside &= self._depths[before] == self._depths[arrays]
        before, owners = before[inside], owners[inside]
        values = self._following(before)
        is_item = values.ends > values.begins
        return rows[owners[is_item]], Cells(values.begins[is_item], values.ends[is_item])

    def _objects(self, cells: Cells, bracket: str = "{") -> Positions:
        is_one = self.begins_with(cells, bracket.encode())
        self.check(cells, is_one, f"is not an {'object' if bracket == '{' else 'array'} of JSON")
        return np.flatnonzero(is_one)

    def _pairs(self, opens: Positions) -> tuple[Positions, Cells, Cells]:
        """The members of objects: the number of the object, the name and the value of each."""
        if not len(opens):
            empty = Cells.missing(0)
            return np.zeros(0, np.int64), empty, empty
        (colons,) = np.nonzero(self._kinds == _COLON)
        owners = np.searchsorted(opens, colons, side="right") - 1
        objects = opens[np.maximum(owners, 0)]
        inside = (owners >= 0) & (colons < self._closing[objects])
        # Not in an object within it.
        inside &= self._depths[colons] == self._depths[objects]
        colons, owners = colons[inside], owners[inside]
        before = np.searchsorted(self._quotes, self._tokens[colons])
        names = Cells(self._quotes[before - 2], self._quotes[before - 1] + 1)
        return owners, names, self._following(colons)

    def _following(self, tokens: Positions) -> Cells:
        """The value that follows each of some tokens."""
        following = tokens + 1
        is_nested = self._kinds[following] == _OPEN
        ends = self._tokens[following].copy()
        ends[is_nested] = self._tokens[self._closing[following[is_nested]]] + 1
        return self._trimmed(Cells(self._tokens[tokens] + 1, ends))

    def _trimmed(self, cells: Cells) -> Cells:
        """Values without the spaces around them."""
        begins, ends = cells.begins, cells.ends
        while (
            left := _IS_SPACE[self._data[np.minimum(begins, len(self._data) - 1)]] & (begins < ends)
        ).any():
            begins = begins + left
        while (right := _IS_SPACE[self._data[np.maximum(ends - 1, 0)]] & (begins < ends)).any():
            ends = ends - right
        return Cells(begins, ends)

    # Values -----------------------------------------------------------------------------------

    def is_null(self, cells: Cells) -> npt.NDArray[np.bool_]:
        """Which rows have no value, or ``null``."""
        nulls: npt.NDArray[np.bool_] = ~cells.is_present | (self._data[cells.begins] == _NULL)
        return nulls

    def is_string(self, cells: Cells) -> npt.NDArray[np.bool_]:
        """Which rows have a string."""
        return self.begins_with(cells, b'"')

    def raw(self, cells: Cells) -> pa.Array:
        """The values as they are written, as ``binary``; ``null`` is null."""
        nulls = self.is_null(cells)
        return self._taken(cells.begins, cells.ends, nulls)

    def text(self, cells: Cells) -> pa.Array:
        """The values as ``string``: strings without quotes and escapes, others as written.

        Raises:
            CorruptData: A string is not one of JSON.
        """
        strings = self.is_string(cells)
        inner = Cells(cells.begins + strings, cells.ends - strings)
        values = self._taken(inner.begins, inner.ends, self.is_null(cells))
        try:
            text = values.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise CorruptData(f"{self._subject}: a string is not UTF-8") from error
        if not len(text) or not (self._data == _BACKSLASH).any():
            return text
        escaped = np.asarray(pc.fill_null(pc.match_substring(text, "\\"), False))
        (places,) = np.nonzero(escaped & strings)
        if not len(places):
            return text
        quoted = self._taken(cells.begins[places], cells.ends[places], np.zeros(len(places), bool))
        try:
            plain = pl.Series(quoted.cast(pa.string())).str.json_decode(pl.String)
        except pl.exceptions.PolarsError as error:
            raise CorruptData(f"{self._subject}: a string is not one of JSON: {error}") from error
        mask = np.zeros(len(text), np.bool_)
        mask[places] = True
        replacements = plain.to_arrow().cast(pa.string())
        return pc.replace_with_mask(text, pa.array(mask), replacements)

    def _taken(self, begins: Positions, ends: Positions, nulls: npt.NDArray[np.bool_]) -> pa.Array:
        lengths = ends - begins
        if nulls.any():
            lengths = np.where(nulls, 0, lengths)
            # Rows without a value lie where the last one before them ends.
            begins = np.maximum.accumulate(np.where(nulls, 0, ends))
            begins = np.where(nulls, begins, ends - lengths)
        return binary_column(self.log, begins, nulls if nulls.any() else None, lengths)
