"""The table of capabilities: options, types and modes that this engine follows, keeps or refuses.

Every refusal and the section of ``docs/compatibility.md`` come from here. May import errors."""

from __future__ import annotations

from headwater.storage.capabilities.checks import (
    OPTIONS,
    find_option,
    is_own_property,
    refuse_options,
    unsupported_mode,
)
from headwater.storage.capabilities.honoured_options import QUERY_AUTH
from headwater.storage.capabilities.model import Operation, Option, Refusal, Values
from headwater.storage.capabilities.modes import MODES
from headwater.storage.capabilities.refused_options import FILE_FORMATS
from headwater.storage.capabilities.types import (
    INNER_BLOB,
    INNER_VECTOR,
    KEPT_TYPES,
    unsupported_type,
)

__all__ = [
    "FILE_FORMATS",
    "INNER_BLOB",
    "INNER_VECTOR",
    "KEPT_TYPES",
    "MODES",
    "OPTIONS",
    "QUERY_AUTH",
    "Operation",
    "Option",
    "Refusal",
    "Values",
    "find_option",
    "is_own_property",
    "refuse_options",
    "unsupported_mode",
    "unsupported_type",
]
