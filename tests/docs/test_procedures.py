"""The section on procedures of the page on SQL is the table of procedures.

Run as a program, this file writes the section anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwater.spark.sql.call.procedures import LEFT_OUT, PROCEDURES

PAGE = Path(__file__).parents[2] / "docs" / "spark-sql.md"
BEGIN, END = "<!-- procedures -->\n", "<!-- end of procedures -->\n"
_KINDS = {str: "", int: " BIGINT", bool: " BOOLEAN", list: " ARRAY"}


def test_the_page_says_what_the_table_says() -> None:
    # If not: .venv/bin/python tests/docs/test_procedures.py
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == section()


def section() -> str:
    """The section in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "Arguments in brackets may be left out; they are strings unless another type is said.\n"
    yield from ("| `sys.` | does | gives |", "|---|---|---|")
    for name, procedure in sorted(PROCEDURES.items()):
        parts = (f"{each.name}{_KINDS[each.kind]}" for each in procedure.parameters)
        required = [each.is_required for each in procedure.parameters]
        written = [
            part if must else f"[{part}]" for part, must in zip(parts, required, strict=True)
        ]
        gives = ", ".join(f"`{column}`" for column in procedure.columns)
        yield f"| `{name}({', '.join(written)})` | {procedure.summary} | {gives} |"
    yield "\nPaimon's other procedures are refused:\n"
    yield from ("| `sys.` | because, or instead |", "|---|---|")
    for name, reason in sorted(LEFT_OUT.items()):
        yield f"| `{name}` | {reason} |"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + section() + END + rest.partition(END)[2], encoding="utf-8")
