"""How a process that runs for long uses memory: settings of Python's collector and of glibc.

They are for whole processes: a library that sets them would surprise the program that uses it.
"""

from __future__ import annotations

import ctypes
import gc

__all__ = ["keep_objects", "keep_released_memory", "return_large_blocks"]

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
    """Have glibc keep memory that is released, for blocks that follow.

    The system clears each page that it hands out, which takes longer than what is done with it.
    """
    _set_option(_M_MMAP_THRESHOLD, _MAX_MAPPED_BLOCK_BYTES)
    _set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _set_option(option: int, value: int) -> None:
    """Set an option of malloc, where the C library has such."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(option, value)
