"""The file indexes that a table's options ask for, and their settings.

Source: ``FileIndexOptions.java``, ``SchemaValidation.validateFileIndex`` and the factories of the
indexes, which say what types they take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import MapLayout, TableOptions, parse_bytes
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType, MapType

__all__ = [
    "BITMAP",
    "BIT_SLICES",
    "BLOOM_FILTER",
    "RANGE_BITMAP",
    "FileIndex",
    "check_file_indexes",
    "file_indexes",
    "index_of_name",
    "indexed_type",
    "takes_type",
    "written_file_indexes",
]

BLOOM_FILTER = "bloom-filter"
BITMAP = "bitmap"
RANGE_BITMAP = "range-bitmap"
BIT_SLICES = "bsi"

_PREFIX = "file-index."
_SUFFIX = ".columns"
_WHOLE = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT})
_TIMES = frozenset({Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
_FLOATS = frozenset({Root.FLOAT, Root.DOUBLE})
_TEXTS = frozenset({Root.CHAR, Root.VARCHAR})
_BYTES = frozenset({Root.BINARY, Root.VARBINARY})
_MOMENTS = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
_ROOTS: Mapping[str, frozenset[Root]] = {
    BLOOM_FILTER: _WHOLE | _TIMES | _FLOATS | _TEXTS | _BYTES,
    BITMAP: _WHOLE | _TIMES | _FLOATS | _TEXTS | {Root.BOOLEAN},
    RANGE_BITMAP: _WHOLE | _TIMES | _FLOATS | _TEXTS | {Root.BOOLEAN, Root.DECIMAL},
    BIT_SLICES: _WHOLE | _TIMES | {Root.DECIMAL},
}
# The digits of a DECIMAL that fit into 64 bits, and those of a timestamp in microseconds.
_MAX_DIGITS = 18
_MAX_PRECISION = 6


@dataclass(frozen=True)
class FileIndex:
    """An index over one column, or over one key of a MAP column, in each data file.

    Attributes:
        kind: The index: ``bloom-filter``, ``bitmap``, ``range-bitmap``, ``bsi`` or another.
        column: The column.
        map_key: The key of a MAP; None for an index over the column's own values.
        settings: The index's settings by name, such as ``fpp``.
    """

    kind: str
    column: str
    map_key: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in index files: the column's, or ``column[key]``."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"

    def option(self, setting: str) -> str:
        """The option that a setting comes from, for error messages."""
        return f"{_PREFIX}{self.kind}.{self.name}.{setting}"

    def number(self, setting: str, default: int, least: int = 1) -> int:
        """A setting that is a whole number; raises Invalid for another value."""
        text = self.settings.get(setting, str(default)).strip()
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number < 2**31:
            raise Invalid(
                f"option '{self.option(setting)}' must be a number from {least}, not '{text}'"
            )
        return number

    def share(self, setting: str, default: float) -> float:
        """A setting between 0 and 1; raises Invalid for another value."""
        text = self.settings.get(setting, str(default)).strip()
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if not 0 < share < 1:
            raise Invalid(f"option '{self.option(setting)}' must be between 0 and 1, not '{text}'")
        return share

    def size(self, setting: str, default: str) -> int:
        """A setting that is a number of bytes; raises Invalid for another value."""
        return parse_bytes(self.settings.get(setting, default), self.option(setting))


def _split_name(name: str) -> tuple[str, str | None]:
    column, bracket, key = name.partition("[")
    return (column, key[:-1]) if bracket and name.endswith("]") else (name, None)


def index_of_name(kind: str, name: str, columns: Mapping[str, DataField]) -> FileIndex | None:
    """The index of a name in an index file; None for an index that Headwater does not read.

    Args:
        kind: The type of the index.
        name: The name: that of a column, or ``column[key]``.
        columns: The columns by name.
    """
    column, key = (name, None) if name in columns else _split_name(name)
    return FileIndex(kind, column, key) if kind in _ROOTS else None


def file_indexes(options: Mapping[str, str]) -> list[FileIndex]:
    """The indexes that options ask for.

    Raises:
        Invalid: A list of columns has a gap, or a setting is of a column that no list names.
    """
    declared: dict[tuple[str, str], dict[str, str]] = {}
    maps: dict[tuple[str, str], dict[str, str]] = {}
    for option, value in options.items():
        if not (option.startswith(_PREFIX) and option.endswith(_SUFFIX)):
            continue
        kind = option[len(_PREFIX) : -len(_SUFFIX)]
        for name in value.split(","):
            if not name.strip():
                raise Invalid(f"option '{option}': '{value}' names a column without a name")
            declared.setdefault((kind, name.strip()), {})
            column, key = _split_name(name.strip())
            if key is not None:
                maps.setdefault((kind, column), {})
    for option, value in options.items():
        parts = option.removeprefix(_PREFIX).split(".")
        if not option.startswith(_PREFIX) or option.endswith(_SUFFIX) or len(parts) != 3:
            continue
        kind, name, setting = parts
        settings = declared.get((kind, name), maps.get((kind, name)))
        if settings is None:
            raise Invalid(
                f"option '{option}' is about column '{name}', which '{_PREFIX}{kind}{_SUFFIX}' "
                "does not name"
            )
        settings[setting] = value
    declared_indexes: list[FileIndex] = []
    for (kind, name), own in declared.items():
        column, key = _split_name(name)
        settings = own if key is None else {**maps[kind, column], **own}
        declared_indexes.append(FileIndex(kind, column, key, settings))
    return declared_indexes


def indexed_type(index: FileIndex, column: DataField) -> DataType:
    """The type of the values that an index holds of a column; raises Invalid without a MAP."""
    if index.map_key is None:
        return column.type
    if not isinstance(column.type, MapType):
        raise Invalid(
            f"a file index over '{index.name}' needs a MAP, but column '{column.name}' is "
            f"{column.type}"
        )
    if not isinstance(column.type.key, AtomicType) or column.type.key.root not in _TEXTS:
        raise Invalid(
            f"a file index over '{index.name}' needs a MAP with keys of text, but those of column "
            f"'{column.name}' are {column.type.key}"
        )
    return column.type.value


def check_file_indexes(options: Mapping[str, str], columns: Sequence[DataField]) -> None:
    """Refuse indexes that cannot be: without their column, or over a type that they do not take.

    Indexes of other kinds than Paimon's are left to the engines that know them.

    Raises:
        Invalid: The message names the option or the column.
    """
    by_name = {column.name: column for column in columns}
    for index in file_indexes(options):
        option = f"{_PREFIX}{index.kind}{_SUFFIX}"
        if index.column not in by_name:
            raise Invalid(f"option '{option}' names column '{index.column}', which does not exist")
        data_type = indexed_type(index, by_name[index.column])
        layout = TableOptions(options).map_layout(index.column)
        if index.map_key is not None and layout is MapLayout.SHARED_SHREDDING:
            raise Invalid(
                f"option '{option}': '{index.name}' is of a MAP that is stored by its keys "
                f"('fields.{index.column}.map.storage-layout'), which have no index"
            )
        if index.kind in _ROOTS and not _takes(index.kind, data_type):
            raise Invalid(
                f"option '{option}': column '{index.name}' is {data_type}, which an index of kind "
                f"{index.kind} cannot hold"
            )
        for check in _CHECKS.get(index.kind, ()):
            check(index)


def takes_type(index: FileIndex, column: DataField) -> bool:
    """Whether an index can hold the values of a column, or of the keys of it that it is over."""
    is_nested = isinstance(column.type, MapType) and index.map_key is not None
    return (is_nested or index.map_key is None) and _takes(index.kind, indexed_type(index, column))


def _takes(kind: str, data_type: DataType) -> bool:
    if not isinstance(data_type, AtomicType) or data_type.root not in _ROOTS[kind]:
        return False
    if data_type.root is Root.DECIMAL:
        return data_type.precision <= _MAX_DIGITS
    if kind == RANGE_BITMAP and data_type.root in _MOMENTS:
        return data_type.precision <= _MAX_PRECISION
    return True


def _check_version(index: FileIndex) -> None:
    version = index.number("version", 2)
    if version > 2:
        raise Invalid(f"option '{index.option('version')}' must be 1 or 2, not '{version}'")


_CHECKS: Mapping[str, Sequence[Callable[[FileIndex], object]]] = {
    BLOOM_FILTER: (
        lambda index: index.number("items", 1_000_000),
        lambda index: index.share("fpp", 0.1),
    ),
    BITMAP: (_check_version, lambda index: index.size("index-block-size", "16 kb")),
    RANGE_BITMAP: (lambda index: index.size("chunk-size", "16 kb"),),
}


def written_file_indexes(
    options: Mapping[str, str], columns: Sequence[DataField]
) -> list[FileIndex]:
    """The indexes that a new data file gets.

    Raises:
        Invalid: As `check_file_indexes`.
        Unsupported: Headwater does not write an index of that kind.
    """
    check_file_indexes(options, columns)
    requested_indexes = file_indexes(options)
    for index in requested_indexes:
        if index.kind not in _ROOTS:
            raise Unsupported(
                f"option '{_PREFIX}{index.kind}{_SUFFIX}': Headwater writes no file index of kind "
                f"'{index.kind}', only {', '.join(_ROOTS)}; write with another Paimon engine"
            )
    return requested_indexes
