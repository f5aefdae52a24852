"""Sizes and durations in Paimon's notation (``MemorySize.java``, ``TimeUtils.java``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.storage.errors import Invalid

__all__ = ["LONGEST", "parse_bytes", "parse_duration", "parse_integer"]

_BYTE_UNITS = dict.fromkeys(("", "b", "bytes"), 1)
for _power, _names in enumerate(
    (
        ("k", "kb", "kibibytes"),
        ("m", "mb", "mebibytes"),
        ("g", "gb", "gibibytes"),
        ("t", "tb", "tebibytes"),
    ),
    1,
):
    _BYTE_UNITS |= dict.fromkeys(_names, 1024**_power)

_TIME_UNITS: dict[str, float] = {"": 1}
for _millis, _short, _long in (
    (86_400_000, ("d",), ("day",)),
    (3_600_000, ("h",), ("hour",)),
    (60_000, ("m", "min"), ("minute",)),
    (1000, ("s",), ("sec", "second")),
    (1, ("ms",), ("milli", "millisecond")),
    (1e-3, ("µs",), ("micro", "microsecond")),
    (1e-6, ("ns",), ("nano", "nanosecond")),
):
    _TIME_UNITS |= dict.fromkeys((*_short, *_long, *(f"{name}s" for name in _long)), _millis)

LONGEST = 2**63 - 1
"""The greatest number that an option can have: Java's long."""

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_QUANTITY = re.compile(r"^\s*([0-9]+)\s*([a-zµ]*)\s*$", re.IGNORECASE)


def _quantity(text: str, units: Mapping[str, float], key: str, example: str) -> int:
    match = _QUANTITY.match(text)
    factor = None if match is None else units.get(match[2].lower())
    if match is None or factor is None:
        raise Invalid(f"option '{key}': '{text}' is not a quantity such as '{example}'")
    # By its length first: Python reads no number of thousands of digits.
    quantity = int(int(match[1]) * factor) if len(match[1]) < 25 else LONGEST + 1
    if quantity > LONGEST:
        raise Invalid(f"option '{key}': '{text}' is more than can be counted")
    return quantity


def parse_integer(text: str, key: str) -> int:
    """A whole number that Java's long holds; raises Invalid for other text."""
    if _INTEGER.fullmatch(text.strip()) is None:
        raise Invalid(f"option '{key}' must be an integer, not '{text}'")
    # By its length first: Python reads no number of thousands of digits.
    number = int(text) if len(text) < 999 else LONGEST + 1
    if abs(number) > LONGEST:
        raise Invalid(f"option '{key}': {text.strip()[:99]} is more than can be counted")
    return number


def parse_bytes(text: str, key: str = "size") -> int:
    """Bytes from Paimon's notation: ``128 mb``, ``64kb``, ``1024``."""
    return _quantity(text, _BYTE_UNITS, key, "128 mb")


def parse_duration(text: str, key: str = "duration") -> int:
    """Milliseconds from Paimon's notation: ``1 h``, ``30 min``, ``500 ms``."""
    return _quantity(text, _TIME_UNITS, key, "1 h")
