"""A client's process: a JSON request a line on stdin, a marked line of JSON for each answer.

Importing a client takes longer than most of what it is asked for, so one process does it once.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

MARK = "answer "
"""The beginning of an answer; libraries print lines of their own."""


def serve(commands: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Answer requests until there are no more; an error is an answer, too."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = commands[request["command"]](request)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - a panic of Rust is no Exception
            answer = {"error": traceback.format_exc()}
        print(f"\n{MARK}{json.dumps(answer)}", flush=True)
