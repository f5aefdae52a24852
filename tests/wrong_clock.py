"""A server's process whose clock goes wrong when a test says so."""

from __future__ import annotations

import mmap
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.storage.runtime import SYSTEM_RUNTIME

__all__ = ["WrongClock", "serve"]

_MILLIS = struct.Struct("q")


class WrongClock:
    """The file that says by how much a clock is wrong.

    Args:
        path: The file; it is made, with a clock that is right, when it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(_MILLIS.pack(0))

    def set(self, millis: int) -> None:
        """Let the clock be wrong by so much; 0 is right."""
        with self.path.open("r+b") as file, mmap.mmap(file.fileno(), _MILLIS.size) as place:
            place[: _MILLIS.size] = _MILLIS.pack(millis)


def serve(settings: dict[str, Any], clock: str) -> None:
    """Serve, with a clock that goes wrong by as many milliseconds as a file says."""
    from headwater.server.run import run
    from headwater.server.settings import load_settings

    with open(clock, "rb") as file:
        offset = mmap.mmap(file.fileno(), _MILLIS.size, access=mmap.ACCESS_READ)

    def now_millis() -> int:
        (wrong,) = _MILLIS.unpack(offset[: _MILLIS.size])
        return SYSTEM_RUNTIME.now_millis() + int(wrong)

    run(load_settings(settings), replace(SYSTEM_RUNTIME, now_millis=now_millis))
