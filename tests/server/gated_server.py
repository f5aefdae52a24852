"""A server whose storage waits, while the file GATE exists, before it writes a snapshot.

Usage: gated_server.py SETTINGS GATE

SETTINGS is JSON. A write that waits says so by making the file GATE.waiting.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from headwater.server.run import run
from headwater.server.settings import load_settings
from headwater.storage.files.local import LocalFileAccess

GATE = Path(sys.argv[2])
_write_if_absent = LocalFileAccess.write_if_absent


def _gated(self: LocalFileAccess, path: str, data: bytes) -> bool:
    while "/snapshot/" in path and GATE.exists():
        GATE.with_suffix(".waiting").touch()
        time.sleep(0.01)
    return _write_if_absent(self, path, data)


# Above the guard: a worker is a new interpreter that loads this file, too.
LocalFileAccess.write_if_absent = _gated  # type: ignore[method-assign]

if __name__ == "__main__":
    run(load_settings(json.loads(sys.argv[1])))
