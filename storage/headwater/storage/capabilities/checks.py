"""Look an option up, and refuse what this engine does not do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from headwater.storage.capabilities.honoured_options import HONOURED_OPTIONS
from headwater.storage.capabilities.kept_options import KEPT_OPTIONS
from headwater.storage.capabilities.model import Operation, Option
from headwater.storage.capabilities.modes import MODES
from headwater.storage.capabilities.refused_options import REFUSED_OPTIONS
from headwater.storage.errors import Unsupported

__all__ = ["OPTIONS", "find_option", "is_own_property", "refuse_options", "unsupported_mode"]

OPTIONS: tuple[Option, ...] = (*REFUSED_OPTIONS, *HONOURED_OPTIONS, *KEPT_OPTIONS)
"""Every option of Paimon's tables, and what this engine does about it."""

_BY_KEY: Mapping[str, Option] = {
    key: option for option in OPTIONS for key in (option.key, *option.aliases)
}
_PATTERNS = tuple(option for option in OPTIONS if option.is_pattern)
# How much of a name must be alike for it to be taken for another one.
_ALIKE = 0.8
# Of settings of sessions.
_NAMESPACES = frozenset(("headwater", "paimon", "spark"))
_WITH_DEFAULT = tuple(option for option in REFUSED_OPTIONS if option.default is not None)


def find_option(key: str) -> Option | None:
    """The row of an option; None for a key that is not Paimon's, which is kept as it is."""
    exact = _BY_KEY.get(key)
    return exact or next((option for option in _PATTERNS if option.names(key)), None)


def is_own_property(key: str, others: Iterable[str] = ()) -> bool:
    """Whether a key is a property of the user's own, which means nothing to any engine.

    It has a namespace: a part before its first dot. Neither that nor the key may be, or resemble,
    that of an option, in any case of letters: then the option was meant. Nor may the namespace be
    that of a session's settings.

    Args:
        key: A key of a table's properties.
        others: Further keys with a meaning.
    """
    folded = key.casefold()
    namespace, *names = (part.strip() for part in folded.split("."))
    if not names or not all((namespace, *names)):
        return False
    known = {each.casefold() for each in (*_BY_KEY, *others)}
    if get_close_matches(folded, known, 1, _ALIKE):
        return False
    namespaces = _NAMESPACES.union(each.split(".", 1)[0] for each in known)
    return not get_close_matches(namespace, namespaces, 1, _ALIKE)


def refuse_options(
    table: str, options: Mapping[str, str], operation: Operation, *, keyed: bool
) -> None:
    """Refuse a table that this engine would handle wrongly.

    Args:
        table: The table's name in error messages.
        options: The table's options.
        operation: The operations to check; the last one names them in the message.
        keyed: Whether the table has a primary key.

    Raises:
        Unsupported: The message names each option, its value and what to do.
    """
    given = dict(options)
    for option in _WITH_DEFAULT:
        if option.default is not None and not any(map(option.names, given)):
            given[option.key] = option.default
    refused: list[str] = []
    for key, value in given.items():
        known = find_option(key)
        if known is None or not known.refusals:
            continue
        refusal = known.forbidden(value, operation, given, keyed=keyed)
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
