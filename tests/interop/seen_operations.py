"""Prints the table of docs/compatibility.md: each operation, and the clients that called it.

    make test-interop
    python tests/interop/seen_operations.py

The tests drive each client through all the operations that it has, on a server of its own, and
leave in ``.interop/seen/`` what that server counted. An operation counts as seen when the server
answered the client with success at least once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tests import plain_http

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "openapi" / "headwater.json"
PAGE = ROOT / "docs" / "compatibility.md"
SEEN = ROOT / ".interop" / "seen"

_COUNTED = re.compile(
    r'^headwater_http_requests_total{method="(\w+)",route="([^"]+)",status="2\d\d"}', re.MULTILINE
)


def operations() -> Mapping[str, str]:
    """What each operation of Paimon's API does, by its method and path."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return {
        f"{method.upper()} {path}": operation["summary"]
        for path, methods in paths.items()
        if path.startswith("/v1/")
        for method, operation in methods.items()
    }


def seen_by(client: str, uri: str, token: str) -> set[str]:
    """The operations that a server, which only this client has used, answered with success."""
    headers = {"Authorization": f"Bearer {token}"}
    counts = plain_http.get(f"{uri}/metrics", headers=headers).raise_for_status().text
    answered = {f"{method} {route}" for method, route in _COUNTED.findall(counts)}
    found = answered & set(operations())
    SEEN.mkdir(parents=True, exist_ok=True)
    (SEEN / client).write_text("".join(f"{each}\n" for each in sorted(found)))
    return found


def documented(client: str) -> set[str]:
    """The operations that the page says the client was seen using."""
    rows = re.findall(r"^\| (?:operation|`[A-Z]+ /v1/).*$", PAGE.read_text(), re.MULTILINE)
    head, *body = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    if client not in head:
        raise ValueError(f"{PAGE.name} has no column {client}")
    column = head.index(client)
    return {row[0].strip("`") for row in body if row[column]}


def main() -> None:
    clients = {
        path.name: set(path.read_text().splitlines())
        # The column of one client beside the other, older releases first.
        for path in sorted(SEEN.iterdir(), key=lambda path: path.name.swapcase())
    }
    print("| operation | | " + " | ".join(clients) + " |")
    print("|---|---|" + ":-:|" * len(clients))
    for operation, summary in operations().items():
        marks = ["✓" if operation in seen else "" for seen in clients.values()]
        print(f"| `{operation}` | {summary} | " + " | ".join(marks) + " |")


if __name__ == "__main__":
    main()
