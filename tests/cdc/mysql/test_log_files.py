"""Files of a server's log, in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.mysql.log_files import LogFile
from headwater.storage.errors import CorruptData

numbers = st.one_of(st.integers(1, 3), st.sampled_from([999_999, 1_000_000]))
names = st.builds("{}.{:06d}".format, st.sampled_from(["log", "mysql-bin", "a.b"]), numbers)
files = st.builds(LogFile, st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1), names)


@given(files)
def test_files_are_read_as_they_were_written(file: LogFile) -> None:
    assert LogFile.from_text(str(file)) == file


@given(files, files)
def test_files_are_ordered_by_their_numbers(one: LogFile, other: LogFile) -> None:
    """The file after log.999999 is log.1000000, which sorts before it as text."""
    (base, number), (other_base, other_number) = (
        (name.rpartition(".")[0], int(name.rpartition(".")[2])) for name in (one.name, other.name)
    )
    is_one_log = base == other_base
    assert one.is_before(other.name) == (is_one_log and number < other_number)
    assert one.is_followed_by(other) == (is_one_log and number + 1 == other_number)


@pytest.mark.parametrize("text", ["", "1/2", "1/2/log", "x/2/log.000001", "1//log.000001"])
def test_what_is_not_a_file_is_rejected(text: str) -> None:
    with pytest.raises(CorruptData, match="is not a file of a log"):
        LogFile.from_text(text)
