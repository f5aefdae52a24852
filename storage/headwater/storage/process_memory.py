"""How a process that runs for long uses memory: settings of Python's collector, glibc and Arrow.

They are for whole processes: a library that sets them would surprise the program that uses it.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ARROW_KEEPS_MEMORY", "keep_objects", "keep_released_memory", "return_large_blocks"]

ARROW_KEEPS_MEMORY: Mapping[str, str] = MappingProxyType({"MIMALLOC_PURGE_DELAY": "10000"})
"""Variables with which Arrow's allocator keeps released memory, in ms: from batch to batch."""

# Objects made before they are looked through for garbage: some hundred requests' worth.
_GARBAGE_THRESHOLD = 10_000
# Options of glibc's mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# The initial value of the second one, and its largest.
_MAPPED_BLOCK_BYTES, _MAX_MAPPED_BLOCK_BYTES = 128 * 1024, 32 << 20
_KEPT_BYTES = 256 << 20


def keep_objects() -> None:
    """Never look again whether the objects of now are garbage: most are modules and classes.

    A collection would look through hundreds of thousands, for a tenth of a second and more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)


def return_large_blocks() -> None:
    """Have glibc return the memory of large blocks to the system once they are released.

    It maps large blocks by themselves, but raises the size from which it does so to that of the
    largest block released so far. Later blocks share the heap then, whose pages go back only from
    its end.
    """
    _set_option(_M_MMAP_THRESHOLD, _MAPPED_BLOCK_BYTES)


def keep_released_memory() -> None:
    """Have glibc and Arrow keep memory that is released, for blocks that follow.

    The system clears each page that it hands out, which takes longer than what is done with it.
    Arrow's allocator reads variables when it is loaded, so this comes before `import pyarrow`;
    those that the environment has stay as they are.
    """
    _set_option(_M_MMAP_THRESHOLD, _MAX_MAPPED_BLOCK_BYTES)
    _set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    for name, value in ARROW_KEEPS_MEMORY.items():
        os.environ.setdefault(name, value)


def _set_option(option: int, value: int) -> None:
    """Set an option of malloc, where the C library has such."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(option, value)
