"""Processes that are killed, forked off one that has imported all that they need.

A process of its own for each of a hundred steps would spend its time on imports.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["Forks", "serve_forks"]

_ROOT = Path(__file__).parent.parent


class Forks:
    """Runs a module's work in one process after the other.

    Args:
        module: Its main program ends in `serve_forks`.
    """

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", module]
        pipe = subprocess.PIPE
        self._origin = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT)
        self._pid: int | None = None

    def start(self, *arguments: str) -> None:
        """Begin the work in a process; the one before has ended."""
        assert self._pid is None
        assert self._origin.stdin is not None
        self._origin.stdin.write(json.dumps(arguments) + "\n")
        self._origin.stdin.flush()
        name, _, pid = self.line().partition(" ")
        assert name == "forked", "the origin ended: see what it printed"
        self._pid = int(pid)

    def line(self) -> str:
        """What the process prints next."""
        assert self._origin.stdout is not None
        return self._origin.stdout.readline().rstrip("\n")

    def ended(self) -> int:
        """Wait for the process's end; its exit code, or the signal that killed it, negative."""
        name, code = self.line().split()
        assert name == "ended"
        self._pid = None
        return int(code)

    def kill(self) -> None:
        """Kill the process, if it still runs."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self.ended()

    def close(self) -> None:
        """Kill what still runs."""
        self.kill()
        assert self._origin.stdin is not None
        assert self._origin.stdout is not None
        self._origin.stdin.close()
        self._origin.wait()
        self._origin.stdout.close()


def serve_forks(
    work: Callable[..., None], *, prepare: Callable[..., None] = lambda *_: None
) -> None:
    """Do the work once for each line of arguments that comes in, each time in a fork.

    Args:
        work: What a fork does.
        prepare: Called with the same arguments before the fork, for what all forks then share.
    """
    for line in sys.stdin:
        prepare(*json.loads(line))
        pid = os.fork()
        if pid == 0:
            print("forked", os.getpid(), flush=True)
            work(*json.loads(line))
            return  # and end, as a process of its own does
        _, status = os.waitpid(pid, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
