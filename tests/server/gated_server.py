"""A server whose storage waits, while the file GATE exists, before it writes a snapshot.

Usage: gated_server.py SETTINGS GATE

SETTINGS is JSON. A write that waits says so by making the file GATE.waiting.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from headwater.server.run import run
from headwater.server.settings import load_settings
from headwater.storage.files.local import LocalFileAccess

__all__ = ["serve"]

_write_if_absent = LocalFileAccess.write_if_absent


def serve(settings: dict[str, Any], gate: str) -> None:
    """Serve in this process, by one worker."""
    _put_gate(Path(gate))
    run(load_settings(settings))


def _put_gate(gate: Path) -> None:
    def gated(self: LocalFileAccess, path: str, data: bytes) -> bool:
        while "/snapshot/" in path and gate.exists():
            gate.with_suffix(".waiting").touch()
            time.sleep(0.01)
        return _write_if_absent(self, path, data)

    LocalFileAccess.write_if_absent = gated  # type: ignore[method-assign]


if __name__ in ("__main__", "__mp_main__"):
    # A worker is a new interpreter that loads this file, too.
    _put_gate(Path(sys.argv[2]))

if __name__ == "__main__":
    run(load_settings(json.loads(sys.argv[1])))
