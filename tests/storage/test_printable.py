"""Text that is safe to print."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.errors import Invalid
from headwater.storage.printable import has_unprintable, printable, printable_json

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_JOINERS = "\u200c\u200d"


@given(text=_TEXT)
def test_no_control_format_or_separator_character_is_left(text: str) -> None:
    shown = printable(text)
    categories = {
        unicodedata.category(character) for character in shown if character not in _JOINERS
    }
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert has_unprintable(text) == (shown != text)


@given(value=st.dictionaries(_TEXT, _TEXT))
def test_json_keeps_its_values(value: dict[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    shown = printable_json(text)
    assert json.loads(shown) == value
    assert not has_unprintable(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("caf\u00e9 \u0646\u200c\u0645 \U0001f469\u200d\U0001f52c", None),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b\x85c", r"a\u2028b\x85c"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_characters_are_written_as_python_writes_them(text: str, shown: str | None) -> None:
    assert printable(text) == (text if shown is None else shown)


def test_errors_quote_names_escaped() -> None:
    error = Invalid("no table '\u202eelbat'\nat \x1b[31m", private="at \x1b[31m")
    assert str(error) == error.message == "no table '\\u202eelbat'\nat \\x1b[31m"
    assert error.private is not None
    assert error.private in error.message
