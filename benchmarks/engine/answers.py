"""The answers of a client: JSON requests, one a line, on standard input; a JSON line for each.

It needs nothing but Python, since clients run in environments of their own.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["answer_requests"]

Step = Callable[[dict[str, Any]], Callable[[], int]]
"""Prepares the work of a request, which is then timed and gives its number of rows."""


def answer_requests(steps: Mapping[str, Step]) -> None:
    """Prepare each step that is asked for, then time it.

    The peak of memory is that of the process: it is the step's own in a process of its own.
    """
    for line in sys.stdin:
        request = json.loads(line)
        work = steps[request["step"]](request)
        before = _memory("VmRSS")
        used = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        rows = work()
        seconds = time.perf_counter() - start
        done = resource.getrusage(resource.RUSAGE_SELF)
        answer = {
            "seconds": seconds,
            "user": done.ru_utime - used.ru_utime,
            "system": done.ru_stime - used.ru_stime,
            "rows": rows,
            "bytes": max(0, _memory("VmHWM") - before),
            "peak": _memory("VmHWM"),
        }
        print(json.dumps(answer), flush=True)


def _memory(name: str) -> int:
    """Bytes of memory that the process holds: now, or at most since it began.

    What `getrusage` tells is at least what the process held that started this one.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
