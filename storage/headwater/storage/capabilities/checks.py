"""Look an option up, and refuse what this engine does not do."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.capabilities.honoured_options import HONOURED_OPTIONS
from headwater.storage.capabilities.kept_options import KEPT_OPTIONS
from headwater.storage.capabilities.model import Operation, Option
from headwater.storage.capabilities.modes import MODES
from headwater.storage.capabilities.refused_options import REFUSED_OPTIONS
from headwater.storage.errors import Unsupported

__all__ = ["OPTIONS", "find_option", "refuse_options", "unsupported_mode"]

OPTIONS: tuple[Option, ...] = (*REFUSED_OPTIONS, *HONOURED_OPTIONS, *KEPT_OPTIONS)
"""Every option of Paimon's tables, and what this engine does about it."""

_BY_KEY: Mapping[str, Option] = {
    key: option for option in OPTIONS for key in (option.key, *option.aliases)
}
_PATTERNS = tuple(option for option in OPTIONS if option.is_pattern)
_WITH_DEFAULT = tuple(option for option in REFUSED_OPTIONS if option.default is not None)


def find_option(key: str) -> Option | None:
    """The row of an option; None for a key that is not Paimon's, which is kept as it is."""
    found = _BY_KEY.get(key)
    return found or next((option for option in _PATTERNS if option.names(key)), None)


def refuse_options(
    table: str, options: Mapping[str, str], operation: Operation, *, keyed: bool
) -> None:
    """Refuse a table that this engine would handle wrongly.

    Args:
        table: The table's name in error messages.
        options: The table's options.
        operation: The operations to check; the last one names them in the message.
        keyed: True if the table has a primary key.

    Raises:
        Unsupported: The message names each option, its value and what to do.
    """
    given = dict(options)
    for option in _WITH_DEFAULT:
        if option.default is not None and not any(map(option.names, given)):
            given[option.key] = option.default
    refused: list[str] = []
    for key, value in given.items():
        found = find_option(key)
        if found is None or not found.refusals:
            continue
        refusal = found.forbidden(value, operation, given, keyed=keyed)
        if refusal is not None:
            why = f" ({refusal.because})" if refusal.because else ""
            with_key = " with a primary key" if refusal.keyed else ""
            refused.append(f"{key}={value}{with_key}{why}")
    if refused:
        verb = operation.verb
        raise Unsupported(
            f"table {table}: Headwater does not yet {verb} tables with {', '.join(refused)}; "
            f"use another Paimon engine to {verb} it"
        )


def unsupported_mode(mode: str, what: str) -> Unsupported:
    """The refusal of a table's data.

    Args:
        mode: A name of `MODES`.
        what: The beginning of the sentence: the table, and what was found where.
    """
    return Unsupported(f"{what}, {MODES[mode].sentence}")
