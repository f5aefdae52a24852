"""Positions in the files of a log, against tuples of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.gtid import GtidSet
from headwater.cdc.mysql.positions import PositionTracker, parse_position
from headwater.cdc.mysql.server import Flavour
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Invalid

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "00000000-0000-0000-0000-0000000000ff"

# Small numbers, so that files and offsets are often equal, and those with more digits.
places = st.tuples(
    st.one_of(st.integers(1, 3), st.sampled_from([999_999, 1_000_000, 10**9])),
    st.one_of(st.integers(4, 7), st.sampled_from([2**32 - 1, 2**32, 2**40])),
)


def at(place: tuple[int, int], *, base: str = "mysql-bin", created: int = 1_764_377_081) -> str:
    number, offset = place
    return f"{SERVER}/{created}/{base}.{number:06d}:{offset}"


def parsed(text: str) -> FilePosition:
    position = parse_position(Flavour.MYSQL, text)
    assert isinstance(position, FilePosition)
    return position


@given(places, places)
def test_positions_are_ordered_as_their_numbers(
    left: tuple[int, int], right: tuple[int, int]
) -> None:
    """The file after mysql-bin.999999 is mysql-bin.1000000, which sorts before it as text."""
    one, other = parsed(at(left)), parsed(at(right))
    assert one.compare(other) == (left > right) - (left < right)
    assert one.contains(other) == (left >= right)
    assert one.union(other) == (one if left >= right else other)
    tracker = PositionTracker(one)
    assert tracker.reaches(other) == (left >= right)
    assert tracker.lacks(other) == (left < right)
    tracker.add(other)
    assert tracker.position() == other
    assert one.is_start == (left[1] < 2**32)


names = st.text("abc-._ @:", min_size=1, max_size=8)


@given(places, names, st.integers(0, 2**32 - 1))
def test_positions_are_read_as_they_were_written(
    place: tuple[int, int], base: str, created: int
) -> None:
    text = at(place, base=base, created=created)
    position = parsed(text)
    assert str(position) == text
    assert (position.server, position.created, position.offset) == (SERVER, created, place[1])
    assert position.file == f"{base}.{place[0]:06d}"


@pytest.mark.parametrize(
    "other",
    [
        f"{OTHER}/1764377081/mysql-bin.000003:154",
        f"{SERVER}/1764377081/other-bin.000003:154",
        f"{SERVER}/1764377082/mysql-bin.000003:154",
    ],
    ids=["another server", "other names", "a file that was made again"],
)
def test_positions_of_two_logs_have_no_order(other: str) -> None:
    one, two = parsed(f"{SERVER}/1764377081/mysql-bin.000003:154"), parsed(other)
    assert one.compare(two) is None
    assert not one.contains(two)
    assert PositionTracker(one).lacks(two)
    with pytest.raises(Invalid, match="different servers"):
        one.union(two)


def test_positions_in_files_have_no_order_with_gtids() -> None:
    one = parsed(at((3, 154)))
    gtids: Position = GtidSet.from_text(f"{SERVER}:1-3")
    assert not one.contains(gtids)
    assert not gtids.contains(one)
    with pytest.raises(Invalid, match="different servers"):
        gtids.union(one)


@pytest.mark.parametrize(
    "text",
    [
        "/",
        f"{SERVER}/mysql-bin.000003:154",
        f"{SERVER}/1764377081/mysql-bin:154",
        f"{SERVER}/1764377081/mysql-bin.000003",
        f"{SERVER}/1764377081/.000003:154",
        f"{SERVER}/1764377081/mysql-bin.000003:-4",
        f"{SERVER.upper()}/1764377081/mysql-bin.000003:154",
        f" {SERVER}/1764377081/mysql-bin.000003:154",
    ],
)
def test_what_is_not_a_position_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="log position"):
        parse_position(Flavour.MYSQL, text)
