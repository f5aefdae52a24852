"""The codecs of data files, by the names that options give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from headwater.storage.errors import Unsupported

__all__ = ["codec_named"]

_Codec = TypeVar("_Codec")


def codec_named(name: str, codecs: Mapping[str, _Codec], format_name: str) -> _Codec:
    """The codec that ``file.compression``, or an option like it, names.

    Args:
        name: The name.
        codecs: Those that the format has.
        format_name: The format, as errors call it.

    Raises:
        Unsupported: There is none of that name.
    """
    codec = codecs.get(name)
    if codec is None:
        raise Unsupported(
            f"{format_name} files have no codec '{name}'; 'file.compression' and the options like "
            f"it may name {', '.join(codecs)}"
        )
    return codec
