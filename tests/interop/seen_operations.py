"""Prints the table of docs/compatibility.md: each operation, and the clients that use it.

    python tests/interop/seen_operations.py 'pypaimon 2.1.0'=release.txt …

Each file has one request a line: method, path and status, as ``HEADWATER_SEEN`` collects them (see
`pypaimon_suite/host.py`). A request counts when it was answered with less than 500, 501 apart.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "openapi" / "headwater.json"


def operations() -> Mapping[tuple[str, str], str]:
    """What each operation of Paimon's API does, by its method and path."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return {
        (method.upper(), path): operation["summary"]
        for path, methods in paths.items()
        if path.startswith("/v1/")
        for method, operation in methods.items()
    }


def seen_in(requests: str) -> set[tuple[str, str]]:
    """The operations that a log of requests shows."""
    # The path with the fewest variables wins, as in the server.
    templates = sorted({path for _, path in operations()}, key=lambda path: path.count("{"))
    patterns = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in templates]
    found = set()
    for method, path, status in re.findall(r"^([A-Z]+) ([^?\s]+)\S* (\d+)", requests, re.MULTILINE):
        if int(status) < 500 or int(status) == 501:
            match = next((known for pattern, known in patterns if pattern.fullmatch(path)), None)
            if match is not None:
                found.add((method, match))
    return found


def main(arguments: list[str]) -> None:
    clients = {}
    for argument in arguments:
        name, _, file = argument.rpartition("=")
        clients[name] = seen_in(Path(file).read_text())
    print("| operation | | " + " | ".join(clients) + " |")
    print("|---|---|" + ":-:|" * len(clients))
    for (method, path), summary in operations().items():
        marks = ["✓" if (method, path) in seen else "" for seen in clients.values()]
        print(f"| `{method} {path}` | {summary} | " + " | ".join(marks) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
