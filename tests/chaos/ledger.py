"""The ledger: what clients were about to commit, and what they were told of it.

Each client process appends to a file of its own, one JSON object a line, before it commits and
after. A line that is cut short was being written when the process was killed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

__all__ = ["ClientLedger", "Entry", "Fate", "Ledger", "Row"]

Row = tuple[Any, ...]


class Fate(StrEnum):
    """What a client was told of a commit.

    Attributes:
        ACKNOWLEDGED: It is there.
        REFUSED: It is not there, and never will be.
        UNKNOWN: The client does not know, or was killed before it was told.
    """

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Entry:
    """A commit, by its name, and its rows."""

    name: str
    table: str
    rows: tuple[Row, ...]
    fate: Fate


class ClientLedger:
    """The file of one client process."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8", buffering=1)

    def begin(self, name: str, table: str, rows: Sequence[Row]) -> None:
        """Note a commit that is about to be sent."""
        self._write({"begin": name, "table": table, "rows": [list(row) for row in rows]})

    def end(self, name: str, fate: Fate, why: str = "") -> None:
        """Note what was told of it."""
        self._write({"end": name, "fate": fate.value, "why": why})

    def wrong(self, text: str) -> None:
        """Note what must not happen, as the client saw it."""
        self._write({"wrong": text})

    def _write(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")


class Ledger:
    """The files of all clients.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, client: str) -> ClientLedger:
        """The file that a client appends to."""
        return ClientLedger(self._folder / f"{client}.jsonl")

    def entries(self) -> Mapping[str, Entry]:
        """All commits by name."""
        begun: dict[str, tuple[str, tuple[Row, ...]]] = {}
        fates: dict[str, Fate] = {}
        for line in self._lines():
            if "begin" in line:
                rows = tuple(tuple(row) for row in line["rows"])
                begun[line["begin"]] = (line["table"], rows)
            elif "end" in line:
                fates[line["end"]] = Fate(line["fate"])
        return {
            name: Entry(name, table, rows, fates.get(name, Fate.UNKNOWN))
            for name, (table, rows) in begun.items()
        }

    def wrongs(self) -> Sequence[str]:
        """What clients saw that must not happen."""
        return [line["wrong"] for line in self._lines() if "wrong" in line]

    def counts(self) -> Counter[Fate]:
        """How many commits have which fate."""
        return Counter(entry.fate for entry in self.entries().values())

    def acknowledged_by_client(self) -> dict[str, int]:
        """How many commits of each client process were acknowledged."""
        found: Counter[str] = Counter()
        for line in self._lines():
            if line.get("fate") == Fate.ACKNOWLEDGED.value:
                found[line["end"].rpartition("-")[0]] += 1
        return dict(found)

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # its writer was killed
