"""The section on options of the page on compatibility is the table of capabilities.

Run as a program, this file writes the section anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from headwater.storage.capabilities import KEPT_TYPES, MODES, OPTIONS, Option

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- capabilities -->\n", "<!-- end of capabilities -->\n"


def test_the_page_says_what_the_table_says() -> None:
    # If not: .venv/bin/python tests/docs/test_capabilities.py
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == section()


def section() -> str:
    """The section in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "Refused, and for what:\n"
    yield "| option | what it says | refused for | unless it is | because, or instead |"
    yield "|---|---|---|---|---|"
    for option in OPTIONS:
        for refusal in option.refusals:
            which = {None: "", True: " (primary-key tables)", False: " (other tables)"}
            operations = refusal.operations.names + which[refusal.keyed]
            cells = (_keys(option), option.note, operations, refusal.exceptions, refusal.because)
            yield f"| {' | '.join(cells)} |"
    yield "\nFollowed:\n"
    yield from ("| option | what it says |", "|---|---|")
    for option in OPTIONS:
        if option.is_honoured and not option.refusals:
            yield f"| {_keys(option)} | {option.note} |"
    yield "\nKept for other engines, because they mean nothing to this one:\n"
    kept = (option for option in OPTIONS if not option.is_honoured and not option.refusals)
    for reason, options in groupby(kept, lambda option: option.note):
        yield f"- **{reason}**: {', '.join(map(_keys, options))}"
    yield "\nRefused whatever the options say:\n"
    yield from ("| what a table has | refused for |", "|---|---|")
    for name, mode in MODES.items():
        yield f"| {name} | {mode.refused} |"
    for name, reason in KEPT_TYPES.items():
        yield f"| a column of type {name} ({reason}) | reading it, and writing the table |"


def _keys(option: Option) -> str:
    return ", ".join(f"`{key}`" for key in (option.key, *option.aliases))


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + section() + END + rest.partition(END)[2], encoding="utf-8")
