from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.postgres.positions import LogPosition, lsn_text, parse_lsn
from headwater.storage.errors import Invalid

LSNS = st.integers(0, 2**64 - 1)
POSITIONS = st.builds(LogPosition, st.integers(0, 2**64 - 1), st.integers(1, 2**31), LSNS)


@given(POSITIONS)
def test_a_position_is_read_as_it_writes_itself(position: LogPosition) -> None:
    assert LogPosition.from_text(str(position)) == position


@given(LSNS, LSNS)
def test_the_later_position_contains_the_other_one(one: int, other: int) -> None:
    first, second = LogPosition(7, 1, one), LogPosition(7, 1, other)
    assert first.contains(second) == (one >= other)
    assert first.union(second).lsn == max(one, other)


@pytest.mark.parametrize("other", [LogPosition(8, 1, 1), LogPosition(7, 2, 1)])
def test_positions_of_other_logs_have_no_order(other: LogPosition) -> None:
    """A promoted replica has the log of before, but it may have lost transactions of it."""
    position = LogPosition(7, 1, 5)
    assert not position.contains(other)
    assert not other.contains(position)
    with pytest.raises(Invalid, match="of different servers"):
        position.union(other)


def test_positions_are_written_as_the_server_writes_them() -> None:
    assert str(LogPosition(7431118262741853, 1, 0x16B3748)) == "7431118262741853/1/0/16B3748"
    assert lsn_text(parse_lsn("A/0")) == "A/0"


@pytest.mark.parametrize(
    "text", ["", "0/0", "7/1", "7/1/0", "x/1/0/0", "7/1/0/0/0", "7/1/0/123456789"]
)
def test_other_texts_are_not_positions(text: str) -> None:
    with pytest.raises(Invalid, match="is not a position"):
        LogPosition.from_text(text)
