"""Columns of the lake that are computed from one of the source's, by Paimon's functions.

A function gives the same value whenever it is called for the same row, so that a row can be read
again, and compared with the source. See ``Expression.java``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.model.date_format import date_text, strftime_format
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import AtomicType, DataType, Root, parse_type, to_arrow

__all__ = ["ComputedColumn"]

_FORM = "write one such as 'dt=date_format(created_at, yyyy-MM-dd)'"
_DEFINITION = re.compile(r"(?:([^.=()]+)\.)?([^.=()]+)=\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_TEXT = (Root.CHAR, Root.VARCHAR)
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_TIMES = (Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
# How many of an integer's units are a second.
_UNITS = {"0": "s", "3": "ms", "6": "us", "9": "ns"}
_STRING, _INT = parse_type("STRING"), parse_type("INT")
# What String.trim of Java takes away.
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))

_PARTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_TEXTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "trim": lambda values: pc.utf8_trim(values, characters=_BLANKS),
}
# How many arguments may follow the column.
_ARGUMENTS = {
    **dict.fromkeys(_PARTS, (0, 1)),
    **dict.fromkeys(_TEXTS, (0, 0)),
    "date_format": (1, 2),
    "substring": (1, 2),
    "truncate": (1, 1),
}


@dataclass(frozen=True)
class ComputedColumn:
    """A column of the lake that is computed.

    Attributes:
        text: Its definition, ``name=function(column, argument …)``; a table of the lake and a dot
            before it restrict it to that table.
        table: That table; None for all.
        name: The column's name.
        function: The function, in lower case.
        column: The source's column; None for ``cast``, which is a constant.
        arguments: What follows it.
    """

    text: str
    table: str | None
    name: str
    function: str
    column: str | None
    arguments: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> ComputedColumn:
        """Read a definition; Invalid."""
        match = _DEFINITION.fullmatch(text)
        if match is None:
            raise Invalid(f"option 'computed-column' is '{text}', which is not one; {_FORM}")
        table, name, function = match[1], match[2].strip(), match[3].lower()
        arguments = tuple(part.strip() for part in match[4].split(","))
        column: str | None = None
        if function == "now":
            raise Invalid(
                f"option 'computed-column' is '{text}': 'now' gives another value each time that "
                "a row is read; use a column of the source, or the snapshots' property "
                "'cdc.source-time'"
            )
        if function != "cast":
            column, arguments = arguments[0], arguments[1:]
        computed = ComputedColumn(
            text, table.strip() if table else None, name, function, column, arguments
        )
        computed._check_arguments()
        return computed

    def type(self, columns: Mapping[str, DataType]) -> DataType:
        """The type of its values.

        Args:
            columns: The types of the source's columns in the lake.

        Raises:
            Invalid: The column is missing, or the function does not take its type.
        """
        if self.column is None:
            return self._constant_type()
        source = columns.get(self.column)
        if source is None:
            raise self._error(f"the table has no column '{self.column}'", "name one of its columns")
        root = source.root if isinstance(source, AtomicType) else None
        result = source
        taken: tuple[Root, ...]
        if self.function in _TEXTS or self.function == "substring":
            taken, result = _TEXT, _STRING
        elif self.function == "truncate":
            taken = (*_TEXT, *_INTEGERS)
        else:
            taken = (*_TIMES, *_INTEGERS)
            result = _STRING if self.function == "date_format" else _INT
        if root not in taken:
            raise self._error(
                f"column '{self.column}' is {source}, and {self.function} takes "
                f"{', '.join(dict.fromkeys(map(str, taken)))}",
                "use another column or function",
            )
        return replace(result, nullable=source.nullable)

    def values(self, columns: Mapping[str, pa.Array], count: int, type_: DataType) -> pa.Array:
        """The values of rows.

        Args:
            columns: The rows' columns.
            count: How many rows.
            type_: The column's type in the lake.

        Raises:
            Invalid: A value does not fit into the column.
        """
        arrow = to_arrow(type_)
        try:
            if self.column is None:
                return pa.repeat(self._constant(), count).cast(arrow)
            return self._computed(columns[self.column]).cast(arrow)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise self._error(f"a value cannot be computed: {error}", "use another one") from error

    def _computed(self, values: pa.Array) -> pa.Array:
        if self.function in _TEXTS:
            return _TEXTS[self.function](values)
        if self.function == "substring":
            begin, *end = map(int, self.arguments)
            return pc.utf8_slice_codeunits(values, begin, end[0] if end else None)
        if self.function == "truncate":
            return _truncated(values, int(self.arguments[0]))
        instants = _instants(values, self._unit())
        if self.function == "date_format":
            return date_text(instants, self.arguments[0])
        return _PARTS[self.function](instants)

    def _unit(self) -> str:
        """The unit of integers that are times."""
        given = self.arguments[1:] if self.function == "date_format" else self.arguments
        return _UNITS[given[0]] if given else "s"

    def _constant_type(self) -> DataType:
        type_ = parse_type(self.arguments[1]) if len(self.arguments) > 1 else _STRING
        return replace(type_, nullable=False)

    def _constant(self) -> pa.Scalar:
        return pa.scalar(self.arguments[0]).cast(to_arrow(self._constant_type()))

    def _check_arguments(self) -> None:
        if self.function == "cast":
            self._check_constant()
            return
        if self.function not in _ARGUMENTS:
            known = ", ".join(sorted((*_ARGUMENTS, "cast")))
            raise self._error(f"'{self.function}' is not a function", f"the functions are {known}")
        least, most = _ARGUMENTS[self.function]
        if not self.column or not least <= len(self.arguments) <= most:
            raise self._error(
                f"{self.function} takes a column and {least} to {most} arguments", _FORM
            )
        if self.function in ("substring", "truncate"):
            numbers = [int(text) if text.isdecimal() else -1 for text in self.arguments]
            least = 1 if self.function == "truncate" else 0
            if min(numbers) < least or sorted(numbers) != numbers:
                raise self._error(f"'{', '.join(self.arguments)}' are not its numbers", _FORM)
            return
        if self.function == "date_format":
            strftime_format(self.arguments[0])
        unit = self.arguments[1:] if self.function == "date_format" else self.arguments
        if unit and unit[0] not in _UNITS:
            raise self._error(
                f"'{unit[0]}' is not a precision of times that are integers",
                "use 0 (seconds), 3, 6 or 9",
            )

    def _check_constant(self) -> None:
        if not 1 <= len(self.arguments) <= len(("value", "type")):
            raise self._error("cast takes a value and a type", "write cast(2024, INT)")
        try:
            self._constant()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._error(
                f"'{self.arguments[0]}' is not a {self._constant_type()}", "correct it"
            ) from error

    def _error(self, problem: str, remedy: str) -> Invalid:
        return Invalid(f"computed column '{self.text}': {problem}; {remedy}")


def _instants(values: pa.Array, unit: str) -> pa.Array:
    """Dates, times and integers since 1970 as times without a zone, those of UTC."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64()).cast(pa.timestamp(unit))
    if pa.types.is_date(values.type):
        return values.cast(pa.timestamp("s"))
    return values.cast(pa.timestamp(values.type.unit))


def _truncated(values: pa.Array, width: int) -> pa.Array:
    """The first characters of text; integers down to a multiple."""
    if not pa.types.is_integer(values.type):
        return pc.utf8_slice_codeunits(values, 0, width)
    numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy()
    remainders = np.mod(numbers, width)
    if (numbers < np.iinfo(np.int64).min + remainders).any():
        raise OverflowError(f"a multiple of {width} is below the least BIGINT")
    truncated = pa.array(numbers - remainders)
    return pc.if_else(pc.is_valid(values), truncated, None).cast(values.type)
