"""The choice of sorted runs to compact, as Paimon's ``UniversalCompactionTest`` has it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import pytest

from headwater.storage.compaction.levels import Levels
from headwater.storage.compaction.universal import full_compaction, pick_compaction
from headwater.storage.manifest.data_file import DataFile, SimpleStats
from headwater.storage.options.compaction_options import CompactionOptions

NOW = 1_700_000_000_000
NONE = SimpleStats(b"", b"", ())


def levels(*runs: tuple[int, int], created: int = NOW) -> Levels:
    """Runs of (level, bytes), the newest first; on level 2 and above a run has two files."""
    files: list[DataFile] = []
    for age, (level, size) in enumerate(runs):
        parts = [size // 2, size - size // 2] if level > 1 else [size]
        for at, part in enumerate(parts):
            number = 1000 - age
            files.append(
                DataFile(
                    f"{age}-{at}", part, 1, b"", b"", NONE, NONE, number, number, 0, level,
                    creation_time=created,
                )
            )  # fmt: skip
    return Levels.of(reversed(files), 5)


def picked(
    runs: Sequence[tuple[int, int]],
    options: Mapping[str, str] | None = None,
    created: int = NOW,
    zone: dt.tzinfo = dt.UTC,
) -> tuple[int, int] | None:
    """The number of runs that are compacted, and the level of the new one."""
    tree = levels(*runs, created=created)
    paimons = {"num-sorted-run.compaction-trigger": "3", "compaction.size-ratio": "1"}
    given = {**paimons, **(options or {})}
    unit = pick_compaction(tree, CompactionOptions(given), NOW, zone)
    if unit is None:
        return None
    names = {file.file_name for file in unit.files}
    count = sum(all(file.file_name in names for file in run.files) for run in tree.runs)
    assert names == {file.file_name for run in tree.runs[:count] for file in run.files}
    assert {file.file_name for file in unit.older} == {
        file.file_name for run in tree.runs[count:] for file in run.files
    }
    assert unit.drops_deletes == (count == len(tree.runs))
    return count, unit.output_level


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # Too few runs.
        ([(0, 1), (0, 1)], None),
        # All others are more than twice as large as the oldest.
        ([(0, 1), (0, 2), (5, 3)], None),
        ([(0, 1), (3, 4), (5, 2)], (3, 5)),
        # Sizes that follow each other within one percent.
        ([(0, 1), (0, 1), (3, 100), (5, 1000)], (2, 2)),
        ([(0, 1), (0, 1), (4, 100), (5, 1000)], (2, 3)),
        ([(0, 1), (0, 1), (1, 100), (5, 1000)], (3, 1)),
        ([(0, 100), (0, 100), (0, 101), (5, 1000)], (3, 4)),
        ([(0, 100), (0, 100), (4, 205), (5, 1000)], (2, 3)),
        ([(0, 100), (2, 90), (4, 500), (5, 1000)], (2, 3)),
        # Nothing follows the newest, but there are too many.
        ([(0, 1), (0, 10), (0, 100), (4, 1000), (5, 10000)], (3, 3)),
        ([(0, 1), (0, 10), (0, 100), (0, 1000), (5, 10000)], (5, 5)),
        ([(0, 1), (2, 10), (3, 100), (4, 1000), (5, 10000)], (3, 3)),
        # Exactly as many as allowed.
        ([(0, 1), (4, 10), (5, 100)], None),
    ],
)  # fmt: skip
def test_runs_are_picked_by_their_sizes(
    runs: Sequence[tuple[int, int]], expected: tuple[int, int] | None
) -> None:
    assert picked(runs) == expected


def test_the_newest_is_never_left_out_and_level_zero_never_the_output() -> None:
    runs = [(0, 1), (0, 1000), (0, 10**6), (1, 10**9), (5, 10**12)]
    assert picked(runs) == (4, 1)
    assert picked([(0, 1), (0, 1000), (0, 10**6), (0, 10**9)]) == (4, 5)


def test_sizes_may_differ_by_the_size_ratio() -> None:
    runs = [(0, 100), (0, 149), (4, 1000), (5, 10000)]
    assert picked(runs, {"num-sorted-run.compaction-trigger": "4"}) is None
    options = {"num-sorted-run.compaction-trigger": "4", "compaction.size-ratio": "49"}
    assert picked(runs, options) == (2, 3)


@pytest.mark.parametrize(
    ("start", "end", "hours_east", "is_off_peak"),
    [
        # It is 22 o'clock in UTC.
        (22, 23, 0, True),
        (20, 22, 0, False),
        (20, 4, 0, True),
        (4, 20, 0, False),
        (23, 4, 0, False),
        (23, 1, 2, True),
        (1, 23, 2, False),
        (22, 22, 0, False),
        (-1, 23, 0, False),
        (22, -1, 0, False),
    ],
)
def test_sizes_may_differ_by_more_at_off_peak_hours(
    start: int, end: int, hours_east: int, is_off_peak: bool
) -> None:
    options = {
        "num-sorted-run.compaction-trigger": "4",
        "compaction.size-ratio": "9",
        "compaction.offpeak-ratio": "40",
        "compaction.offpeak.start.hour": str(start),
        "compaction.offpeak.end.hour": str(end),
    }
    zone = dt.timezone(dt.timedelta(hours=hours_east))
    runs = [(0, 100), (0, 149), (4, 1000), (5, 10000)]
    assert picked(runs, options, zone=zone) == ((2, 3) if is_off_peak else None)


def test_many_small_commits_are_rewritten_a_few_times_and_stay_few_beside_the_oldest() -> None:
    oldest, commits = 1_000_000, 1000
    sizes = [(5, oldest)]
    rewritten, highest = 0, 0
    for _ in range(commits):
        sizes.insert(0, (0, 1000))
        unit = pick_compaction(levels(*sizes), CompactionOptions({}), NOW, dt.UTC)
        if unit is not None:
            size = sum(file.file_size for file in unit.files)
            # All rows are new versions of those of the oldest run.
            made = min(size, oldest) if unit.drops_deletes else size
            count = len({(file.level, file.max_sequence_number) for file in unit.files})
            sizes = [(unit.output_level, made), *sizes[count:]]
            rewritten += made
        assert len(sizes) <= 5
        highest = max(highest, sum(size for _, size in sizes[:-1]))
    assert rewritten < 15 * 1000 * commits
    assert highest < oldest / 3


def test_a_run_joins_that_is_four_times_as_large_unless_the_table_says_otherwise() -> None:
    tree = levels((0, 1), (0, 4), (3, 21), (4, 1000), (5, 10_000))
    for options, count in (({}, 2), ({"compaction.size-ratio": "320"}, 3)):
        unit = pick_compaction(tree, CompactionOptions(options), NOW, dt.UTC)
        assert unit is not None
        assert len({file.file_size for file in unit.files if file.level < 1}) == 2
        assert len({file.level for file in unit.files}) == count - 1
    assert (
        pick_compaction(tree, CompactionOptions({"compaction.size-ratio": "1"}), NOW, dt.UTC)
        is None
    )


def test_amplification_is_limited() -> None:
    runs = [(0, 1), (4, 10), (5, 10)]
    assert picked(runs, {"compaction.max-size-amplification-percent": "109"}) == (3, 5)
    assert picked(runs, {"compaction.max-size-amplification-percent": "110"}) is None


def test_level_zero_is_emptied_if_demanded() -> None:
    runs = [(0, 1), (3, 100), (5, 1000)]
    assert picked(runs, {"compaction.force-up-level-0": "true"}) == (1, 2)
    assert picked(runs, {"changelog-producer": "lookup"}) == (1, 2)
    assert picked(runs, {"merge-engine": "first-row"}) == (1, 2)
    # Level 1 is in the way.
    assert picked([(0, 1), (1, 100), (5, 1000)], {"force-lookup": "true"}) == (2, 4)
    assert picked([(3, 100), (5, 1000)], {"force-lookup": "true"}) is None


def test_a_gentle_lookup_waits_for_more_runs() -> None:
    options = {
        "changelog-producer": "lookup", "lookup-compact": "gentle",
        "num-sorted-run.compaction-trigger": "4", "lookup-compact.max-interval": "4",
    }  # fmt: skip
    sizes = [(5, 10**9)]
    assert picked([(0, 1), (0, 9), (0, 99), *sizes], options) is None
    assert picked([(0, 1), (0, 9), (0, 99), (0, 999)], options) == (4, 5)
    # Never fewer than the trigger.
    options["num-sorted-run.compaction-trigger"] = "5"
    assert picked([(0, 1), (0, 9), (0, 99), (0, 999)], options) is None


def test_an_optimization_is_due_after_its_interval() -> None:
    options = {"compaction.optimization-interval": "1 h"}
    runs = [(0, 1), (5, 1000)]
    hour = 3_600_000
    assert picked(runs, options) is None
    assert picked(runs, options, created=NOW - 2 * hour - 86_400_000) == (2, 5)
    # Without a run on the highest level there was none yet.
    assert picked([(0, 1), (4, 1000)], options) == (2, 5)
    assert picked([(0, 1)], options) is None


def test_thresholds_of_sizes_demand_a_full_compaction() -> None:
    runs = [(0, 100), (5, 1000)]
    assert picked(runs, {"compaction.total-size-threshold": "1101"}) == (2, 5)
    assert picked(runs, {"compaction.total-size-threshold": "1100"}) is None
    assert picked(runs, {"compaction.incremental-size-threshold": "99"}) == (2, 5)
    assert picked(runs, {"compaction.incremental-size-threshold": "100"}) is None


def test_a_level_above_the_options_is_the_highest() -> None:
    tree = levels((0, 1), (7, 1))
    assert full_compaction(tree).output_level == 7
