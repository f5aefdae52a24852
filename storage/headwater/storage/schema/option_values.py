"""The values of a table's options, all of which are read when they are set.

A malformed one is told then, and not by the first write, compaction or read that needs it. A table
that another client made is not asked: it is read as long as nothing needs the value.
"""

from __future__ import annotations

from headwater.storage.errors import Invalid
from headwater.storage.options import TableOptions
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.options.external_path_options import ExternalPathOptions
from headwater.storage.options.lifecycle_options import LifecycleOptions
from headwater.storage.options.option_map import OptionMap
from headwater.storage.options.statistics_mode import StatisticsMode
from headwater.storage.schema.option_changes import columns_with_options
from headwater.storage.schema.read_start import IncrementalMode, ReadStart, incremental_mode
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.local_time import named_zone

__all__ = ["check_option_values"]


def check_option_values(schema: TableSchema) -> None:
    """Read every option that Headwater follows; raises Invalid naming one that is malformed."""
    options = schema.table_options
    compaction, upkeep = CompactionOptions(options.raw), LifecycleOptions(options.raw)
    assignment, places = AssignmentOptions(options.raw), ExternalPathOptions(options.raw)
    for view in (compaction, upkeep, assignment, places):
        _read(view)
    compaction.check()
    upkeep.check()
    options.target_file_size(bool(schema.primary_keys))
    ReadStart.of(options.raw).check()
    _check_changes_mode(options)
    _check_retention(options)
    _check_zones(upkeep)
    _check_statistics(options)
    for column in columns_with_options(options.raw):
        _check_column(options, column)


def _read(view: OptionMap) -> None:
    """Read each option that a view has a property for."""
    for name in dir(type(view)):
        if isinstance(getattr(type(view), name), property):
            getattr(view, name)


def _check_changes_mode(options: TableOptions) -> None:
    key = "incremental-between-scan-mode"
    try:
        incremental_mode(options.raw.get(key, IncrementalMode.AUTO))
    except Invalid as error:
        raise Invalid(f"option '{key}': {error.message}") from None


def _check_retention(options: TableOptions) -> None:
    for what, least, most in (
        ("snapshot", options.snapshot_retained_min, options.snapshot_retained_max),
        ("changelog", options.changelog_retained_min, options.changelog_retained_max),
    ):
        if least < 1:
            raise Invalid(f"'{what}.num-retained.min' must be at least 1")
        if least > most:
            raise Invalid(
                f"'{what}.num-retained.min' must not be greater than '{what}.num-retained.max'"
            )
    limit = options.snapshot_expire_limit
    if limit < 1:
        raise Invalid(
            f"option 'snapshot.expire.limit' must be at least 1, not {limit}, by which nothing "
            "would ever expire; set 'snapshot.num-retained.min' to keep snapshots"
        )


def _check_zones(options: LifecycleOptions) -> None:
    named_zone("sink.watermark-time-zone", options.watermark_time_zone)
    if options.process_time_zone is not None:
        named_zone("sink.process-time-zone", options.process_time_zone)


def _check_statistics(options: TableOptions) -> None:
    StatisticsMode.parse(options.statistics_mode)
    per_level = "metadata.stats-mode.per.level"
    for mode in options.statistics_mode_per_level.values():
        StatisticsMode.parse(mode, per_level)
    if options.changelog_statistics_mode is not None:
        StatisticsMode.parse(options.changelog_statistics_mode, "changelog-file.stats-mode")


def _check_column(options: TableOptions, column: str) -> None:
    options.ignores_retractions(column)
    options.is_distinct(column)
    options.nested_key_null_strategy(column)
    options.count_limit(column)
    options.map_layout(column)
    options.map_column_limit(column)
    options.map_key_placement(column)
    key = f"fields.{column}.stats-mode"
    if key in options.raw:
        StatisticsMode.parse(options.raw[key], key)
