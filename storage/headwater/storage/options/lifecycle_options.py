"""A typed view of the options that say how long what is in a table stays (``CoreOptions.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from headwater.storage.errors import Invalid
from headwater.storage.options.quantities import parse_duration
from headwater.storage.options.table_options import TableOptions

__all__ = [
    "DoneAction",
    "ExpirationStrategy",
    "LifecycleOptions",
    "TagCreation",
    "TagPeriod",
    "TagPeriodFormatter",
]


class ExpirationStrategy(StrEnum):
    """The time that a partition's age is counted from."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class DoneAction(StrEnum):
    """A way to tell that a partition is complete."""

    SUCCESS_FILE = "success-file"
    DONE_PARTITION = "done-partition"
    MARK_EVENT = "mark-event"
    HTTP_REPORT = "http-report"
    CUSTOM = "custom"


class TagCreation(StrEnum):
    """The clock by which tags are made of themselves."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class TagPeriod(StrEnum):
    """The time between two such tags."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagPeriodFormatter(StrEnum):
    """The form of such tags' names."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


_HOUR = 3_600_000
_PERIODS: Mapping[TagPeriod, int] = {
    TagPeriod.DAILY: 24 * _HOUR,
    TagPeriod.HOURLY: _HOUR,
    TagPeriod.TWO_HOURS: 2 * _HOUR,
}


class LifecycleOptions(TableOptions):
    """A table's option map, for its upkeep."""

    def check(self) -> None:
        """Raise Invalid if a value is malformed, or values contradict each other."""
        for name, item in vars(LifecycleOptions).items():
            if isinstance(item, property):
                getattr(self, name)
        if self.tag_period_length <= self.tag_delay:
            raise Invalid(
                "option 'tag.creation-delay' must be shorter than the period of the tags, "
                f"{self.tag_period_length} ms"
            )

    def _duration(self, key: str) -> int | None:
        text = self.raw.get(key)
        return None if text is None else parse_duration(text, key)

    # Partitions.

    @property
    def partition_expiration(self) -> int | None:
        """The age at which a partition expires, milliseconds; None is never."""
        return self._duration("partition.expiration-time")

    @property
    def partition_expiration_strategy(self) -> ExpirationStrategy:
        """The time that a partition's age is counted from."""
        return self._choice("partition.expiration-strategy", ExpirationStrategy.VALUES_TIME)

    @property
    def partition_expiration_limit(self) -> int:
        """Partitions that one run expires at most; raises Invalid for fewer than none."""
        limit = self._integer("partition.expiration-max-num", 100)
        if limit < 0:
            raise Invalid(f"'partition.expiration-max-num' must be at least 0, not {limit}")
        return limit

    @property
    def partition_expiration_batch(self) -> int:
        """Partitions that one commit drops; all of a run unless set."""
        limit = self.partition_expiration_limit
        batch = self._integer("partition.expiration-batch-size", limit)
        return batch if batch > 0 else max(limit, 1)

    @property
    def partition_check_interval(self) -> int:
        """Milliseconds from one expiry of partitions by writers to the next."""
        millis = self._duration("partition.expiration-check-interval")
        return 3_600_000 if millis is None else millis

    @property
    def expires_partitions_at_end(self) -> bool:
        """True if a batch write is followed by an expiry of partitions."""
        return self._boolean("end-input.check-partition-expire", False)

    @property
    def marks_partitions_at_end(self) -> bool:
        """True if a batch write marks the partitions that it wrote to as complete."""
        return self._boolean("partition.end-input-to-done", False)

    @property
    def partition_idle(self) -> int | None:
        """Milliseconds without new data after which a partition is complete."""
        return self._duration("partition.idle-time-to-done")

    @property
    def partition_interval(self) -> int | None:
        """The time that a partition stands for, milliseconds."""
        return self._duration("partition.time-interval")

    @property
    def is_partition_form_strict(self) -> bool:
        """True if rows are refused whose partition's values are no time in the table's form."""
        return self._boolean("partition.timestamp-format.strict", False)

    @property
    def done_actions(self) -> tuple[DoneAction, ...]:
        """The ways to tell that a partition is complete."""
        key = "partition.mark-done-action"
        found: list[DoneAction] = []
        for name in self.raw.get(key, "success-file").split(","):
            try:
                found.append(DoneAction(name.strip().lower()))
            except ValueError:
                raise Invalid(
                    f"option '{key}' must name some of {', '.join(DoneAction)}; not '{name}'"
                ) from None
        return tuple(found)

    # Tags.

    @property
    def tag_creation(self) -> TagCreation:
        """The clock by which tags are made of themselves."""
        return self._choice("tag.automatic-creation", TagCreation.NONE)

    @property
    def tag_period(self) -> TagPeriod:
        """The time between two such tags."""
        return self._choice("tag.creation-period", TagPeriod.DAILY)

    @property
    def tag_period_millis(self) -> int | None:
        """The same in milliseconds, where that is set."""
        return self._duration("tag.creation-period-duration")

    @property
    def tag_period_length(self) -> int:
        """The time between two such tags, milliseconds."""
        millis = self.tag_period_millis
        return _PERIODS[self.tag_period] if millis is None else millis

    @property
    def tag_delay(self) -> int:
        """Milliseconds after the end of a period at which its tag is made."""
        return self._duration("tag.creation-delay") or 0

    @property
    def tag_formatter(self) -> TagPeriodFormatter:
        """The form of such tags' names."""
        return self._choice("tag.period-formatter", TagPeriodFormatter.WITH_DASHES)

    @property
    def tags_retained_max(self) -> int | None:
        """The number of such tags that stay; None is all."""
        key = "tag.num-retained-max"
        return None if key not in self.raw else self._integer(key, 0)

    @property
    def completes_tags(self) -> bool:
        """True if periods in which nothing was committed get tags, too."""
        return self._boolean("tag.automatic-completion", False)

    @property
    def expires_tags(self) -> bool:
        """True if a commit is followed by an expiry of tags."""
        return self._boolean("tag.time-expire-enabled", True)

    @property
    def writes_tag_success_file(self) -> bool:
        """True if each tag that is made has a success file beside it."""
        return self._boolean("tag.create-success-file", False)

    @property
    def batch_tag_name(self) -> str | None:
        """The name of the tag of a batch write; None names it by its day."""
        return self.raw.get("tag.batch.customized-name")

    @property
    def process_time_zone(self) -> str | None:
        """The zone of tags' times by the clock; None is the process's own."""
        return self.raw.get("sink.process-time-zone")

    @property
    def watermark_time_zone(self) -> str:
        """The zone of tags' times by watermarks."""
        return self.raw.get("sink.watermark-time-zone", "UTC")
