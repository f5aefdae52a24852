"""Options of format tables, whose directory holds files of one format and nothing of Paimon's.

Source: ``CoreOptions.java``, ``CsvOptions.java``, ``JsonOptions.java``, ``TextOptions.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options.option_map import OptionMap, parse_boolean

__all__ = ["FormatOptions", "TextFormat"]

_COMPRESSION = ("file.compression", "format-table.file.compression", "compression")
_HIVE = "format-table.commit-hive-sync-url"
_DEFAULT_COMPRESSION = {"parquet": "snappy", "orc": "zstd"}
_MODES = ("permissive", "dropmalformed", "failfast")

# A setting of a format, and the names that Paimon takes for it.
_CSV: Mapping[str, tuple[str, ...]] = {
    "field-delimiter": ("csv.field-delimiter", "field-delimiter", "seq", "delimiter"),
    "line-delimiter": ("csv.line-delimiter", "lineSep"),
    "quote-character": ("csv.quote-character", "quote"),
    "escape-character": ("csv.escape-character", "escape"),
    "include-header": ("csv.include-header", "header"),
    "null-literal": ("csv.null-literal", "nullvalue"),
    "mode": ("csv.mode", "mode"),
}
_JSON: Mapping[str, tuple[str, ...]] = {
    "line-delimiter": ("json.line-delimiter",),
    "ignore-parse-errors": ("json.ignore-parse-errors",),
    "map-null-key-mode": ("json.map-null-key-mode",),
    "map-null-key-literal": ("json.map-null-key-literal",),
}
_TEXT: Mapping[str, tuple[str, ...]] = {"line-delimiter": ("text.line-delimiter", "lineSep")}
_SETTINGS = {"csv": _CSV, "json": _JSON, "text": _TEXT}
_NEVER_EMPTY = ("field-delimiter", "line-delimiter", "quote-character", "escape-character")


class _Reader(StrEnum):
    PAIMON = "paimon"
    ENGINE = "engine"


class _Spread(StrEnum):
    NONE = "none"
    HASH = "hash"
    PARTITION_DYNAMIC = "partition_dynamic"


@dataclass(frozen=True)
class TextFormat:
    """The form of files of text.

    Attributes:
        line_delimiter: The end of a line.
        field_delimiter: The end of a field of CSV.
        quote: The character around a field of CSV with special characters.
        escape: The character before such a one.
        has_header: True if the first line of a CSV file names its columns.
        null_literal: The text of a field of CSV without a value.
        mode: The treatment of malformed rows: ``permissive``, ``dropmalformed``, ``failfast``.
    """

    line_delimiter: str = "\n"
    field_delimiter: str = ","
    quote: str = '"'
    escape: str = "\\"
    has_header: bool = False
    null_literal: str = ""
    mode: str = "permissive"


class FormatOptions(OptionMap):
    """The options of a format table, typed."""

    @property
    def file_format(self) -> str:
        """The format of its files, in lower case."""
        return self.raw.get("file.format", "parquet").strip().lower()

    @property
    def compression(self) -> str:
        """The compression of new files, in lower case (``formatTableFileCompression``)."""
        given = next((self.raw[key] for key in _COMPRESSION if key in self.raw), None)
        return (given or _DEFAULT_COMPRESSION.get(self.file_format, "none")).strip().lower()

    @property
    def values_alone_in_paths(self) -> bool:
        """True if a partition's directories have the names of values, without their columns'."""
        return self._boolean("format-table.partition-path-only-value", False)

    @property
    def names_as_engine(self) -> bool:
        """True if partitions are named as Spark names them, without ``partition.legacy-name``."""
        return self._choice("format-table.implementation", _Reader.PAIMON) is _Reader.ENGINE

    @property
    def file_prefix(self) -> str:
        """The beginning of new files' names, if one was asked for."""
        return self.raw.get("data-file.prefix", "")

    @property
    def most_rows_of_file(self) -> int:
        """The rows that a new file holds at most; 0 for any number."""
        return self._integer("target-file-row-num", 0)

    @property
    def spreads_by_partition(self) -> bool:
        """True if one task writes all rows of a partition (``partition.sink-strategy``)."""
        return self._choice("partition.sink-strategy", _Spread.NONE) is _Spread.HASH

    @property
    def text(self) -> TextFormat:
        """The form of its text.

        Raises:
            Invalid: A value is none of those that there are.
            Unsupported: A setting of the format is not known, or readers take it differently.
        """
        known = _SETTINGS.get(self.file_format, {})
        names = {name for all_names in known.values() for name in all_names}
        prefix = f"{self.file_format}."
        unknown = [key for key in self.raw if key.startswith(prefix) and key not in names]
        if known and unknown:
            raise Unsupported(
                f"option '{unknown[0]}': files of {self.file_format} have no such setting here; "
                f"they have {', '.join(each[0] for each in known.values())}"
            )
        given = {
            setting: self.raw[key]
            for setting, keys in known.items()
            for key in reversed(keys)
            if key in self.raw
        }
        mode = given.get("mode", TextFormat.mode).strip().lower()
        if mode not in _MODES:
            raise Invalid(f"option '{_CSV['mode'][0]}' is one of {', '.join(_MODES)}; not '{mode}'")
        if self.file_format == "json":
            ends = given.get("line-delimiter", TextFormat.line_delimiter)
            if self.raw.get("lineSep", ends) != ends:
                raise Unsupported(
                    "option 'lineSep': Paimon's readers of json pass it over, and those of Spark "
                    "do not; unset it, or set 'json.line-delimiter' to the same"
                )
            drops = _flag(given, "ignore-parse-errors", "json.ignore-parse-errors")
            mode = "dropmalformed" if drops else "failfast"
        return TextFormat(
            given.get("line-delimiter", TextFormat.line_delimiter),
            given.get("field-delimiter", TextFormat.field_delimiter),
            given.get("quote-character", TextFormat.quote),
            given.get("escape-character", TextFormat.escape),
            _flag(given, "include-header", _CSV["include-header"][0]),
            given.get("null-literal", TextFormat.null_literal),
            mode,
        )

    def refuse_empty(self) -> None:
        """Refuse delimiters, quotes and escapes of no character; Invalid (``CatalogUtils``)."""
        known = _SETTINGS.get(self.file_format, {})
        for name in (name for setting in _NEVER_EMPTY for name in known.get(setting, ())):
            if self.raw.get(name) == "":
                raise Invalid(f"option '{name}' must not be empty")

    def refuse_hive(self) -> None:
        """Refuse a table whose partitions are to be told to a Hive metastore; Unsupported."""
        if self.raw.get(_HIVE):
            raise Unsupported(
                f"'{_HIVE}' asks for partitions to be registered in a Hive metastore, which "
                "Headwater does not do: unset it, or write with another engine"
            )


def _flag(given: Mapping[str, str], setting: str, key: str) -> bool:
    text = given.get(setting)
    return False if text is None else parse_boolean(text, key)
