"""Universal compaction: which of a bucket's sorted runs are merged, and to which level.

Always the newest runs, however many: what is merged is newer than all that is left. Source:
``UniversalCompaction.java``, ``EarlyFullCompaction.java``, ``ForceUpLevel0Compaction.java``,
``MergeTreeCompactManager.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

from headwater.storage.compaction.levels import LevelRun, Levels
from headwater.storage.manifest.data_file import DataFile, epoch_millis
from headwater.storage.options.compaction_options import CompactionOptions

__all__ = ["CompactionUnit", "full_compaction", "pick_compaction", "pick_runs"]


@dataclass(frozen=True)
class CompactionUnit:
    """Runs to be merged into one.

    Attributes:
        output_level: The level of the new run.
        files: The files of the runs.
        older: The files of the older runs, on higher levels, which stay.
        highest_level: The highest level that a file may have.
        drops_vectors: True if files with deleted rows are rewritten, whatever their size.
    """

    output_level: int
    files: tuple[DataFile, ...]
    older: tuple[DataFile, ...] = ()
    highest_level: int = 0
    drops_vectors: bool = False

    @property
    def drops_deletes(self) -> bool:
        """True if nothing older is left that a retracting row would still have to retract."""
        return not self.older


def full_compaction(levels: Levels) -> CompactionUnit:
    """All runs into one on the highest level."""
    return _unit(levels, len(levels.runs), levels.highest)


def pick_compaction(
    levels: Levels, options: CompactionOptions, now_millis: int, zone: tzinfo
) -> CompactionUnit | None:
    """The compaction that is due; None when none is.

    Args:
        levels: The bucket's runs.
        options: The table's options.
        now_millis: The time, milliseconds since the epoch.
        zone: The time zone of off-peak hours.
    """
    hour = datetime.fromtimestamp(now_millis / 1000, zone).hour
    size_ratio = options.merge_size_ratio + options.off_peak_ratio(hour)
    if _is_full_due(levels, options, now_millis):
        unit: CompactionUnit | None = full_compaction(levels)
    else:
        unit = pick_runs(levels, options, size_ratio)
    if unit is None and options.forces_up_level_zero:
        fresh = sum(run.level == 0 for run in levels.runs)
        if fresh >= (options.lookup_interval or 1):
            unit = _level_zero(levels, fresh, size_ratio)
    if unit is None or all(file.level == unit.output_level for file in unit.files):
        return None
    return unit


def pick_runs(levels: Levels, options: CompactionOptions, size_ratio: int) -> CompactionUnit | None:
    """The runs that are too many, or too large beside the oldest; None when none are.

    Args:
        levels: The bucket's runs.
        options: The table's options.
        size_ratio: Percent by which the next run may be greater than those before it.
    """
    runs, trigger = levels.runs, options.sorted_run_trigger
    if len(runs) < trigger:
        return None
    newer = sum(run.size for run in runs[:-1])
    if newer * 100 > options.max_size_amplification * runs[-1].size:
        return full_compaction(levels)
    count = _grown(runs, 1, size_ratio)
    if count > 1:
        return _with_output(levels, count)
    if len(runs) > trigger:
        return _with_output(levels, _grown(runs, len(runs) - trigger + 1, size_ratio))
    return None


def _is_full_due(levels: Levels, options: CompactionOptions, now_millis: int) -> bool:
    """True if options other than those about the number of runs demand a full compaction."""
    if len(levels.runs) < 2:
        return False
    interval = options.optimization_interval
    if interval is not None:
        last = max(
            (
                epoch_millis(file.creation_time)
                for run in levels.runs
                for file in run.files
                if run.level == levels.highest and file.creation_time is not None
            ),
            default=None,
        )
        if last is None or now_millis - last > interval:
            return True
    total = options.total_size_threshold
    if total is not None and sum(run.size for run in levels.runs) < total:
        return True
    growth = options.incremental_size_threshold
    below = sum(run.size for run in levels.runs if run.level != levels.highest)
    return growth is not None and below > growth


def _level_zero(levels: Levels, fresh: int, size_ratio: int) -> CompactionUnit:
    """All runs of level 0, with that of level 1, which else would be in their way."""
    count = fresh
    if count < len(levels.runs) and levels.runs[count].level == 1:
        count += 1
    return _with_output(levels, _grown(levels.runs, count, size_ratio))


def _grown(runs: tuple[LevelRun, ...], count: int, size_ratio: int) -> int:
    """A number of runs, and those that follow and are not much greater than all before."""
    size = sum(run.size for run in runs[:count])
    for run in runs[count:]:
        if size * (100 + size_ratio) < run.size * 100:
            break
        size += run.size
        count += 1
    return count


def _with_output(levels: Levels, count: int) -> CompactionUnit:
    """The newest runs, as many as it takes for their output to be on a level above 0."""
    runs = levels.runs
    level = 0 if count == len(runs) else max(0, runs[count].level - 1)
    while level == 0 and count < len(runs):
        level = runs[count].level
        count += 1
    return _unit(levels, count, levels.highest if count == len(runs) else level)


def _unit(levels: Levels, count: int, output_level: int) -> CompactionUnit:
    newer, older = levels.runs[:count], levels.runs[count:]
    return CompactionUnit(
        output_level,
        tuple(file for run in newer for file in run.files),
        tuple(file for run in older for file in run.files),
        levels.highest,
    )
