"""The record of what each client was seen to do with each kind of table, and its page.

    make test-interop
    python -m tests.interop.matrix

The tests leave in ``.interop/matrix/`` what they saw; this program makes it the record,
``tests/interop/matrix.json``, and writes the table of ``docs/compatibility.md`` anew. The tests
fail when they see something else than the record says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from tests.interop.matrix_modes import TITLES, WRONG

__all__ = [
    "BEGIN",
    "END",
    "IS_WRONG",
    "NOT_OFFERED",
    "NOT_RUN",
    "PAGE",
    "WORKS",
    "leave",
    "record",
    "section",
]

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).parent / "matrix.json"
PAGE = ROOT / "docs" / "compatibility.md"
SEEN = ROOT / ".interop" / "matrix"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"

WORKS, IS_WRONG = "works", "wrong"
NOT_RUN, NOT_OFFERED = "not run", "not offered"
Outcomes: TypeAlias = Mapping[str, str]
"""By direction: `WORKS` and so on, or the message of who refused."""


def record() -> dict[str, dict[str, Outcomes]]:
    """By client and kind, what was seen."""
    found: dict[str, dict[str, Outcomes]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def leave(client: str, kind: str, outcomes: Outcomes) -> None:
    """Leave what a test saw."""
    folder = SEEN / client
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{kind}.json").write_text(json.dumps(outcomes), encoding="utf-8")


def section() -> str:
    """The section of the page, in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    clients = record()
    yield "| | " + " | ".join(clients) + " |"
    yield "|---|" + "---|" * len(clients)
    notes: dict[str, int] = {}
    for kind, title in TITLES.items():
        cells = (_cell(client, kind, seen.get(kind, {}), notes) for client, seen in clients.items())
        yield f"| {title} | " + " | ".join(cells) + " |"
    yield ""
    for text, number in notes.items():
        yield f"{number}. {text}"


def _cell(client: str, kind: str, outcomes: Outcomes, notes: dict[str, int]) -> str:
    if all(outcome == WORKS for outcome in outcomes.values()):
        return "✓" if outcomes else ""
    marks: dict[str, list[str]] = {}
    for direction, outcome in outcomes.items():
        if outcome == WORKS:
            mark = "✓"
        elif outcome in (NOT_RUN, NOT_OFFERED):
            mark = outcome
        else:
            text = outcome
            if outcome == IS_WRONG:
                text = f"Wrong: {WRONG[client, kind, direction]}"
            mark = f"[{notes.setdefault(text, len(notes) + 1)}]"
        marks.setdefault(mark, []).append(direction)
    return "; ".join(f"{', '.join(directions)} {mark}" for mark, directions in marks.items())


def main() -> None:
    found = record() if RECORD.exists() else {}
    for folder in sorted(SEEN.iterdir(), key=lambda path: path.name.swapcase()):
        client = found.setdefault(folder.name, {})
        for path in folder.glob("*.json"):
            client[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    ordered = {
        client: {name: kinds[name] for name in TITLES if name in kinds}
        for client, kinds in found.items()
    }
    text = json.dumps(ordered, indent=1, ensure_ascii=False)
    RECORD.write_text(f"{text}\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + section() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
