"""The periods by which tags are made of themselves: their times and the names of their tags.

Times are local, without a zone. Source: ``TagPeriodHandler.java``, ``TagTimeExtractor.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from headwater.storage.options.lifecycle_options import (
    LifecycleOptions,
    TagCreation,
    TagPeriod,
    TagPeriodFormatter,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.local_time import named_zone

__all__ = ["TagPeriods", "tag_time"]

_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)
# What Java's watermark is before there is one.
_NO_WATERMARK = -(2**63)

_HOURS = {
    TagPeriodFormatter.WITH_DASHES: "%Y-%m-%d %H",
    TagPeriodFormatter.WITHOUT_DASHES: "%Y%m%d %H",
    TagPeriodFormatter.WITHOUT_DASHES_AND_SPACES: "%Y%m%d%H",
}
_DAYS = {
    TagPeriodFormatter.WITH_DASHES: "%Y-%m-%d",
    TagPeriodFormatter.WITHOUT_DASHES: "%Y%m%d",
    TagPeriodFormatter.WITHOUT_DASHES_AND_SPACES: "%Y%m%d",
}
_LENGTHS = {"%Y-%m-%d %H": 13, "%Y%m%d %H": 11, "%Y%m%d%H": 10, "%Y-%m-%d": 10, "%Y%m%d": 8,
            "%Y%m%d%H%M": 12}  # fmt: skip


@dataclass(frozen=True)
class TagPeriods:
    """The periods of a table's tags.

    Attributes:
        length: The length of one.
        form: The form of a tag's name, as `datetime.strftime` takes it.
        is_daily: True if a name may go on after a space.
    """

    length: timedelta
    form: str
    is_daily: bool = False

    @staticmethod
    def of(options: LifecycleOptions) -> TagPeriods:
        """The periods by a table's options.

        Raises:
            Invalid: The delay of the tags is not shorter than a period, or a period is empty.
        """
        options.check()
        length = options.tag_period_length * _MILLISECOND
        if options.tag_period_millis is not None:
            return TagPeriods(length, "%Y%m%d%H%M")
        match options.tag_period:
            case TagPeriod.DAILY:
                return TagPeriods(length, _DAYS[options.tag_formatter], is_daily=True)
            case TagPeriod.HOURLY:
                return TagPeriods(length, _HOURS[options.tag_formatter])
            case TagPeriod.TWO_HOURS:
                return TagPeriods(length, _HOURS[TagPeriodFormatter.WITH_DASHES])

    def before(self, time: datetime) -> datetime:
        """The beginning of the last period that has ended by a time."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length

    def name(self, time: datetime) -> str:
        """The name of the tag of the period that begins at a time."""
        return time.strftime(self.form)

    def time(self, name: str) -> datetime | None:
        """The beginning of a tag's period; None for a tag that was not made of itself."""
        text = name.partition(" ")[0] if self.is_daily else name
        if len(text) != _LENGTHS[self.form] or not text.isascii():
            return None
        try:
            return datetime.strptime(text, self.form)
        except ValueError:
            return None


def tag_time(
    storage: TableStorage, options: LifecycleOptions, snapshot: Snapshot
) -> datetime | None:
    """A snapshot's time by the clock of ``tag.automatic-creation``; None when it has none.

    Raises:
        Invalid: An option names no time zone.
    """
    match options.tag_creation:
        case TagCreation.WATERMARK:
            mark = snapshot.watermark
            if mark is None or mark == _NO_WATERMARK:
                return None
            return _local(mark, named_zone("sink.watermark-time-zone", options.watermark_time_zone))
        case TagCreation.PROCESS_TIME | TagCreation.BATCH:
            name = options.process_time_zone
            own = storage.runtime.time_zone()
            zone = own if name is None else named_zone("sink.process-time-zone", name)
            return _local(snapshot.time_millis, zone)
        case TagCreation.NONE:
            return None


def _local(millis: int, zone: tzinfo) -> datetime:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + millis * _MILLISECOND
    return moment.astimezone(zone).replace(tzinfo=None)
