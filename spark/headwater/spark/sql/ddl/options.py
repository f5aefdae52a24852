"""The properties that a table is made with: keys, and options of Paimon's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from headwater.spark.source.format_table import FILE_FORMATS
from headwater.storage.capabilities.checks import OPTIONS, find_option
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["COMMENT", "PATH", "check_options", "provider_options"]

COMMENT = "comment"
PATH = "path"
# Not among the options of a table's data, but of what it is.
_OF_TABLES = frozenset({"primary-key", "partition", "type", "path"})
# What several readers of files without snapshots take (``FormatTable.java``).
_OF_FORMATS = frozenset(("lineSep", "compression"))
_OWN = ("headwater", "paimon")


def provider_options(provider: str | None) -> dict[str, str]:
    """The options that ``USING`` stands for.

    Raises:
        Unsupported: The catalog does not keep such tables.
    """
    name = "paimon" if provider is None else provider.lower()
    if name in _OWN:
        return {}
    if name in FILE_FORMATS:
        return {"type": "format-table", "file.format": name}
    raise Unsupported(
        f"USING {provider}: a table is of {', '.join(_OWN)}, or of files in "
        f"{', '.join(FILE_FORMATS)} alone"
    )


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options that mean nothing to anybody.

    Raises:
        Invalid: The message names each, and what may have been meant.
    """
    is_format = options.get("type") == "format-table"
    unknown = [
        key
        for key in options
        if key not in _OF_TABLES
        and find_option(key) is None
        and not (is_format and key in _OF_FORMATS)
    ]
    if unknown:
        raise Invalid("; ".join(_refusal(key, _known()) for key in sorted(unknown)))


def _refusal(key: str, known: Iterable[str]) -> str:
    close = get_close_matches(key, known, n=1)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    return f"'{key}' is no option of a table{meant}"


def _known() -> list[str]:
    return [*_OF_TABLES, *(key for each in OPTIONS for key in (each.key, *each.aliases))]
