"""The times that partition values stand for, as ``PartitionTimeExtractorTest.java`` has them."""

from __future__ import annotations

from datetime import datetime

import pytest

from headwater.storage.errors import Invalid
from headwater.storage.rows.partition_times import PartitionTimes


@pytest.mark.parametrize(
    ("pattern", "formatter", "values", "expected"),
    [
        (None, None, ["2023-01-01"], datetime(2023, 1, 1)),
        (None, None, ["2023-1-9", "other"], datetime(2023, 1, 9)),
        (None, None, ["2023-01-01 20:08:08"], datetime(2023, 1, 1, 20, 8, 8)),
        (None, None, ["2023-01-01 20:08:08.25"], datetime(2023, 1, 1, 20, 8, 8, 250_000)),
        (None, None, ["2023-13-32"], datetime(2024, 2, 1)),
        ("$a-$b-01", None, ["2023", "7"], datetime(2023, 7, 1)),
        ("$a $b:00:00", None, ["2023-01-01", "20"], datetime(2023, 1, 1, 20)),
        (None, "yyyyMMdd", ["20230131"], datetime(2023, 1, 31)),
        (None, "yyyyMMdd", ["20230231"], datetime(2023, 2, 28)),
        ("$a$b", "yyyyMMddHH", ["20230101", "07"], datetime(2023, 1, 1, 7)),
        (None, "yyyy-MM-dd'T'HH:mm", ["2023-01-01T07:30"], datetime(2023, 1, 1, 7, 30)),
        (None, "d/M/yy", ["9/12/23"], datetime(2023, 12, 9)),
        (None, "yyyyMMdd", ["2023-01-01"], None),
        (None, "yyyyMMdd", ["20230132"], None),
        (None, None, ["19723"], None),
        (None, None, ["today"], None),
        (None, None, [None], None),
        ("$b", None, ["2023-01-01", None], None),
        ("$a", None, ["2023-01-01", None], datetime(2023, 1, 1)),
        ("$a", None, ["$b", "2023-01-01"], None),
        (None, None, ["2023-01-01", None], datetime(2023, 1, 1)),
        (None, None, ["99999-01-01"], None),
    ],
)
def test_values_are_read_as_paimon_reads_them(
    pattern: str | None,
    formatter: str | None,
    values: list[str | None],
    expected: datetime | None,
) -> None:
    named = dict(zip("ab", values, strict=False))
    assert PartitionTimes(pattern, formatter).time(named) == expected


def test_the_longest_name_in_a_pattern_counts() -> None:
    values = {"dt": "2023-01-01", "dt1": "2024-02-02"}
    assert PartitionTimes("$dt1").time(values) == datetime(2024, 2, 2)
    assert PartitionTimes("$dt").time(values) == datetime(2023, 1, 1)


@pytest.mark.parametrize("formatter", ["yyyyMMdd[HH]", "EEE yyyyMMdd", "yyyyMM", "yyyyMMdd yyyy"])
def test_other_forms_are_refused(formatter: str) -> None:
    with pytest.raises(Invalid, match=r"partition\.timestamp-formatter"):
        PartitionTimes(None, formatter).time({"a": "20230101"})
