"""The options of how long snapshots, changelogs, tags and consumers live."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.options.option_map import OptionMap
from headwater.storage.options.quantities import parse_duration

__all__ = ["RetentionOptions"]


@dataclass(frozen=True)
class RetentionOptions(OptionMap):
    """Options of a history's length."""

    @property
    def snapshot_expire_limit(self) -> int:
        """Snapshots that one expiry removes at most."""
        return self._integer("snapshot.expire.limit", 50)

    @property
    def snapshot_retained_min(self) -> int:
        """Snapshots that expiry always keeps."""
        return self._integer("snapshot.num-retained.min", 10)

    @property
    def snapshot_retained_max(self) -> int:
        """Snapshots beyond which expiry removes even young ones."""
        return self._integer("snapshot.num-retained.max", 2**31 - 1)

    @property
    def snapshot_time_retained(self) -> int:
        """Milliseconds that expiry keeps a snapshot."""
        return parse_duration(
            self.raw.get("snapshot.time-retained", "1 h"), "snapshot.time-retained"
        )

    @property
    def changelog_retained_min(self) -> int:
        """Latest snapshots whose changelogs expiry always keeps."""
        return self._integer("changelog.num-retained.min", self.snapshot_retained_min)

    @property
    def changelog_retained_max(self) -> int:
        """Latest snapshots before which expiry removes even young changelogs."""
        return self._integer("changelog.num-retained.max", self.snapshot_retained_max)

    @property
    def changelog_time_retained(self) -> int:
        """Milliseconds that expiry keeps a changelog."""
        key = "changelog.time-retained"
        text = self.raw.get(key)
        return self.snapshot_time_retained if text is None else parse_duration(text, key)

    @property
    def changelogs_outlive_snapshots(self) -> bool:
        """True if any of these keeps a changelog longer than its snapshot."""
        return (
            self.changelog_retained_max > self.snapshot_retained_max
            or self.changelog_retained_min > self.snapshot_retained_min
            or self.changelog_time_retained > self.snapshot_time_retained
        )

    @property
    def consumer_expiration(self) -> int | None:
        """Milliseconds after which an idle consumer no longer holds back expiry; None is never."""
        text = self.raw.get("consumer.expiration-time")
        return None if text is None else parse_duration(text, "consumer.expiration-time")

    @property
    def tag_time_retained(self) -> int | None:
        """The default retention of a new tag, milliseconds; None means for ever."""
        text = self.raw.get("tag.default-time-retained")
        return None if text is None else parse_duration(text, "tag.default-time-retained")

    @property
    def consumer_changelog_only(self) -> bool:
        """True if consumers hold back changelogs alone, and not snapshots."""
        # Where changelogs go with their snapshots, there is nothing else to hold back.
        return self._boolean("consumer.changelog-only", False) and self.changelogs_outlive_snapshots
