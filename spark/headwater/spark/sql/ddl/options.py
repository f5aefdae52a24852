"""The properties that a table is made with: keys, and options of Paimon's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from headwater.spark.source.format_table import FILE_FORMATS
from headwater.storage.capabilities import OPTIONS, find_option, is_own_property
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema.table_type import TableType

__all__ = ["COMMENT", "PATH", "check_options", "check_properties", "provider_options"]

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
    """Refuse options of a statement that are not options of tables.

    Raises:
        Invalid: The message names each, and the nearest option.
    """
    unknown = [key for key in options if not _is_option(key)]
    if unknown:
        raise Invalid("; ".join(_refusal(key, _OF_TABLES) for key in sorted(unknown)))


def check_properties(options: Mapping[str, str]) -> None:
    """Refuse properties of a table that are neither options nor the user's own.

    Raises:
        Invalid: The message names each, and the nearest option.
    """
    others = _OF_TABLES
    if options.get("type") == TableType.FORMAT:
        others |= _OF_FORMATS
    unknown = [
        key
        for key in options
        if not (key in others or _is_option(key) or is_own_property(key, others))
    ]
    if unknown:
        listed = "; ".join(_refusal(key, others) for key in sorted(unknown))
        raise Invalid(f"{listed}; a property of your own needs a namespace, such as 'team.owner'")


def _is_option(key: str) -> bool:
    return key in _OF_TABLES or find_option(key) is not None


def _refusal(key: str, others: Iterable[str]) -> str:
    known = [*others, *(name for option in OPTIONS for name in (option.key, *option.aliases))]
    close = get_close_matches(key.lower(), known, n=1)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    return f"'{key}' is not an option of a table{meant}"
