"""Paimon's functions of BLOB descriptors, as SQL functions of Spark's session.

Source: ``BlobDescriptor.java``, ``PathToDescriptorFunction.java``,
``DescriptorToStringFunction.java``.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.model.identifier import SYSTEM_DATABASE
from headwater.spark.names import quoted
from headwater.spark.sql.context import SqlContext
from headwater.storage.formats.blob_descriptor import descriptor

__all__ = ["DESCRIPTOR_FUNCTIONS", "register_descriptor_function"]

_WHOLE_FILE = descriptor("", 0, -1)
_HEAD, _SPAN = _WHOLE_FILE[:9], _WHOLE_FILE[-16:]
_VERSION = _HEAD[0]


def register_descriptor_function(context: SqlContext, name: str) -> str:
    """Make a function of descriptors one of Spark's session; its name there, in backquotes."""
    call = quoted(f"{SYSTEM_DATABASE}.{name}")
    signature, body = DESCRIPTOR_FUNCTIONS[name]
    context.session.spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {call}{signature} RETURN {body}"
    )
    return call


def _path_to_descriptor() -> str:
    length = "lpad(hex(octet_length(path)), 8, '0')"
    return (
        f"concat(X'{_HEAD.hex()}', unhex({_reversed(length, 4)}), encode(path, 'UTF-8'), "
        f"X'{_SPAN.hex()}')"
    )


def _descriptor_to_string() -> str:
    version = "CAST(conv(hex(substr(descriptor, 1, 1)), 16, 10) AS INT)"
    # Version 1 has no magic number.
    length_at = f"IF({version} > 1, 10, 2)"
    length = f"CAST({_integer(length_at, 4)} AS INT)"
    uri_at = f"({length_at} + 4)"
    offset_at = f"({uri_at} + {length})"
    return f"""CASE
        WHEN descriptor IS NULL THEN NULL
        WHEN octet_length(descriptor) < 1 THEN {_rejected("it is empty")}
        WHEN {version} > {_VERSION} THEN {_rejected(f"its version is later than {_VERSION}")}
        WHEN {version} > 1 AND substr(descriptor, 2, 8) <> X'{_HEAD[1:].hex()}'
        THEN {_rejected("it lacks the magic number")}
        WHEN octet_length(descriptor) < {uri_at} + 15 THEN {_rejected("it is cut short")}
        WHEN substr(descriptor, {length_at} + 3, 1) >= X'80'
        THEN {_rejected("the length of its URI is negative")}
        WHEN octet_length(descriptor) < {offset_at} + 15 THEN {_rejected("it is cut short")}
        ELSE concat('BlobDescriptor{{version=', {version}, ', uri=\\'',
            decode(substr(descriptor, {uri_at}, {length}), 'UTF-8'), '\\', offset=',
            {_integer(offset_at, 8)}, ', length=', {_integer(f"{offset_at} + 8", 8)}, '}}')
    END"""


def _integer(at: str, size: int) -> str:
    """The little-endian integer at a place of the descriptor, as text."""
    return f"conv({_reversed(f'hex(substr(descriptor, {at}, {size}))', size)}, 16, -10)"


def _reversed(digits: str, size: int) -> str:
    """Hexadecimal digits with the bytes in the opposite order."""
    pairs = (f"substr({digits}, {2 * at + 1}, 2)" for at in reversed(range(size)))
    return f"concat({', '.join(pairs)})"


def _rejected(reason: str) -> str:
    return f"raise_error('sys.descriptor_to_string: not a descriptor of a BLOB: {reason}')"


DESCRIPTOR_FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "path_to_descriptor": ("(path STRING) RETURNS BINARY", _path_to_descriptor()),
    "descriptor_to_string": ("(descriptor BINARY) RETURNS STRING", _descriptor_to_string()),
}
"""Parameters and bodies of the functions, by their names."""
