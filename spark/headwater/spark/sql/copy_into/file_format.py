"""``FILE_FORMAT = (TYPE = CSV, …)``: a format's options, as Spark's readers and writers have them.

Source: ``CopyOptions.scala``, ``PaimonSqlExtensions.g4``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["NO_VALUE", "FileFormat", "FileType", "boolean_clause", "read_format"]

NO_VALUE = "\0headwater.no-value"
"""The text of a CSV field without a value, by which an empty field in quotes differs from it."""

_SUFFIXES: Mapping[str, str] = {
    "GZIP": ".gz", "BZIP2": ".bz2", "ZSTD": ".zst", "LZ4": ".lz4", "SNAPPY": ".snappy",
    "DEFLATE": ".deflate",
}  # fmt: skip
_READER_OPTIONS: Mapping[str, str] = {
    "FIELD_DELIMITER": "sep", "QUOTE": "quote", "ESCAPE": "escape", "SKIP_HEADER": "header",
    "MULTI_LINE": "multiLine",
}  # fmt: skip
_WRITER_OPTIONS: Mapping[str, str] = {
    "FIELD_DELIMITER": "sep", "QUOTE": "quote", "ESCAPE": "escape", "HEADER": "header",
    "DATE_FORMAT": "dateFormat", "TIMESTAMP_FORMAT": "timestampFormat",
    "COMPRESSION": "compression",
}  # fmt: skip
_FLAGS = frozenset(("SKIP_HEADER", "MULTI_LINE", "EMPTY_FIELD_AS_NULL", "HEADER"))
_TRUTH: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}


class FileType(StrEnum):
    """The formats of files."""

    CSV = "CSV"
    JSON = "JSON"
    PARQUET = "PARQUET"


_LOADED: Mapping[FileType, frozenset[str]] = {
    FileType.CSV: frozenset(
        ("FIELD_DELIMITER", "SKIP_HEADER", "QUOTE", "ESCAPE", "NULL_IF", "EMPTY_FIELD_AS_NULL",
         "COMPRESSION")
    ),
    FileType.JSON: frozenset(("MULTI_LINE", "NULL_IF", "EMPTY_FIELD_AS_NULL", "COMPRESSION")),
    FileType.PARQUET: frozenset(("COMPRESSION",)),
}  # fmt: skip
_WRITTEN: Mapping[FileType, frozenset[str]] = {
    FileType.CSV: frozenset(("FIELD_DELIMITER", "HEADER", "QUOTE", "ESCAPE", "COMPRESSION")),
    FileType.JSON: frozenset(("DATE_FORMAT", "TIMESTAMP_FORMAT", "COMPRESSION")),
    FileType.PARQUET: frozenset(("COMPRESSION",)),
}


@dataclass(frozen=True)
class FileFormat:
    """A format and its options.

    Attributes:
        type: The format.
        options: The options' values by their names, in capitals.
        null_if: Texts that stand for null.
    """

    type: FileType
    options: Mapping[str, str]
    null_if: tuple[str, ...] = ()

    @property
    def empty_is_null(self) -> bool:
        """True if an empty text is null."""
        return self._flag("EMPTY_FIELD_AS_NULL")

    @property
    def reader_options(self) -> dict[str, str]:
        """The options of Spark's reader; rows that it cannot read are kept as text."""
        found = {"mode": "PERMISSIVE"} if self.type is not FileType.PARQUET else {}
        if self.type is FileType.CSV:
            # A row with too few or too many fields is noticed only where all are read.
            found |= {"columnPruning": "false", "nullValue": NO_VALUE, "emptyValue": ""}
        return found | self._given(_READER_OPTIONS)

    @property
    def writer_options(self) -> dict[str, str]:
        """The options of Spark's writer."""
        return self._given(_WRITER_OPTIONS)

    def check_name(self, name: str) -> None:
        """Check that Spark reads a file by the compression that the format says.

        Raises:
            Invalid: The file's name tells Spark of another.
        """
        codec = self.options.get("COMPRESSION", "").upper()
        if not codec or self.type is FileType.PARQUET:
            return
        suffix = _SUFFIXES.get(codec, "")
        known = next((end for end in _SUFFIXES.values() if name.endswith(end)), "")
        if known != suffix:
            raise Invalid(
                f"file '{name}' is not one of COMPRESSION = {codec}, whose names end with "
                f"'{suffix}': a name tells the compression; leave the option out"
            )

    def _given(self, names: Mapping[str, str]) -> dict[str, str]:
        return {
            names[key]: str(_TRUTH[value.lower()]).lower() if key in _FLAGS else value
            for key, value in self.options.items()
            if key in names
        }

    def _flag(self, key: str) -> bool:
        return _TRUTH[self.options.get(key, "false").lower()]


def read_format(statement: Statement, *, loads: bool) -> FileFormat:
    """Read ``FILE_FORMAT = (TYPE = CSV, key = value, …)``.

    Args:
        statement: Read up to it.
        loads: True if files of it are read, false if they are written.

    Raises:
        Invalid: An option stands twice, or its value is none of those it has.
        Unsupported: The format, or an option of it, is not known.
    """
    if statement.peek("FILEFORMAT"):
        raise statement.unexpected("FILE_FORMAT = (TYPE = …), as Paimon writes it")
    statement.expect("FILE_FORMAT", "=", "(")
    options: dict[str, str] = {}
    null_if: tuple[str, ...] = ()
    while not statement.accept(")"):
        if options:
            statement.expect(",")
        key = statement.name().upper()
        if key in options:
            raise Invalid(f"FILE_FORMAT: {key} stands twice")
        statement.expect("=")
        if statement.peek("("):
            if key != "NULL_IF":
                raise statement.unexpected(f"one value of {key}")
            null_if = tuple(_strings(statement))
            options[key] = ""
        else:
            options[key] = _value(statement)
            if key == "NULL_IF":
                null_if = (options[key],)
    kind = options.pop("TYPE", None)
    if kind is None:
        raise Invalid("FILE_FORMAT says no TYPE: write FILE_FORMAT = (TYPE = CSV, …)")
    if kind.upper() not in FileType.__members__:
        raise Unsupported(f"FILE_FORMAT: TYPE is one of {', '.join(FileType)}, not {kind}")
    found = FileFormat(FileType[kind.upper()], options, null_if)
    _check(found, (_LOADED if loads else _WRITTEN)[found.type], loads=loads)
    return found


def _check(found: FileFormat, known: frozenset[str], *, loads: bool) -> None:
    for key, value in found.options.items():
        if key not in known:
            verb = "read" if loads else "written"
            raise Unsupported(
                f"FILE_FORMAT: {key} is no option of {found.type} files that are {verb}; there are "
                f"{', '.join(sorted(known))}"
            )
        if key in _FLAGS and value.lower() not in _TRUTH:
            raise Invalid(f"FILE_FORMAT: {key} is TRUE or FALSE, not '{value}'")
        if key == "COMPRESSION" and loads and value.upper() not in (*_SUFFIXES, "NONE"):
            raise Invalid(
                f"FILE_FORMAT: COMPRESSION is one of NONE, {', '.join(_SUFFIXES)}, not '{value}'"
            )


def _value(statement: Statement) -> str:
    try:
        return statement.constant()
    except Invalid:
        return statement.name()


def _strings(statement: Statement) -> list[str]:
    statement.expect("(")
    found = [statement.string()]
    while statement.accept(","):
        found.append(statement.string())
    statement.expect(")")
    return found


def boolean_clause(statement: Statement) -> bool:
    """Read ``= TRUE`` or ``= FALSE`` after a clause's name."""
    statement.expect("=")
    for word, value in (("TRUE", True), ("FALSE", False)):
        if statement.accept(word):
            return value
    raise statement.unexpected("TRUE or FALSE")
