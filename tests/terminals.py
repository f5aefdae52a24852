"""Programs that run on a terminal, and what they draw there."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run_on_terminal"]


def run_on_terminal(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    stdout: bool = True,
) -> tuple[bytes, str]:
    """Run a program on a terminal of its own, until it ends well.

    Args:
        command: The program and its arguments.
        environment: Variables beside those of this process.
        stdout: Whether its output is drawn, too, as what it writes of errors is.

    Returns:
        What it has drawn, and its output if that was not.
    """
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal if stdout else subprocess.PIPE,
        stderr=terminal,
        text=True,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(terminal)
    drawn = b""
    while True:
        try:
            drawn += os.read(screen, 65536)
        except OSError:  # The other side is closed.
            break
    os.close(screen)
    output, _ = process.communicate()
    assert process.returncode == 0, drawn
    return drawn, output or ""
