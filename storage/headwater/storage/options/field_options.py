"""The options of single columns, and of the record expiry and removal that a column decides."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options.choices import KeyPlacement, MapLayout, NullKeys
from headwater.storage.options.option_map import OptionMap
from headwater.storage.options.quantities import parse_duration

__all__ = ["RECORD_EXPIRE_TIME", "RECORD_TIME_FIELD", "FieldOptions"]

RECORD_EXPIRE_TIME = "record-level.expire-time"
RECORD_TIME_FIELD = "record-level.time-field"
"""The option that names the column by which rows expire."""


@dataclass(frozen=True)
class FieldOptions(OptionMap):
    """Options of columns."""

    def aggregate_function(self, column: str) -> str | None:
        """The function by which a column's values are merged; None where nothing says so."""
        default = self.raw.get("fields.default-aggregate-function")
        return self.raw.get(f"fields.{column}.aggregate-function", default)

    def ignores_retractions(self, column: str) -> bool:
        """True if rows that retract count for nothing in a column."""
        return self._boolean(f"fields.{column}.ignore-retract", False)

    def is_distinct(self, column: str) -> bool:
        """True if a column's function keeps one of equal elements."""
        return self._boolean(f"fields.{column}.distinct", False)

    def list_agg_delimiter(self, column: str) -> str:
        """The text between a column's texts, as ``listagg`` joins them."""
        return self.raw.get(f"fields.{column}.list-agg-delimiter", ",")

    def nested_key(self, column: str) -> tuple[str, ...]:
        """The fields by which the rows of a column's nested tables are told apart."""
        return self._names(f"fields.{column}.nested-key")

    def nested_key_null_strategy(self, column: str) -> NullKeys:
        """The fate of such rows with a null among these fields."""
        return self._choice(f"fields.{column}.nested-key-null-strategy", NullKeys.MERGE)

    def nested_sequence_fields(self, column: str) -> tuple[str, ...]:
        """The fields that tell which of two such rows is newer."""
        return self._names(f"fields.{column}.nested-sequence-field")

    def count_limit(self, column: str) -> int | None:
        """The number of such rows at which no more are added; None for no limit."""
        key = f"fields.{column}.count-limit"
        return self._integer(key, 0) if key in self.raw else None

    def map_time_field(self, column: str) -> str | None:
        """The field of a column's nested rows that holds their time; None is the last."""
        return self.raw.get(f"fields.{column}.ts-field")

    def map_layout(self, column: str) -> MapLayout:
        """The form of a MAP column in new files."""
        return self._choice(f"fields.{column}.map.storage-layout", MapLayout.DEFAULT)

    def map_column_limit(self, column: str) -> int:
        """The most columns that the keys of a MAP column get in a file."""
        key = f"fields.{column}.map.shared-shredding.max-columns"
        limit = self._integer(key, 256)
        if limit < 1:
            raise Invalid(f"option '{key}' must be at least 1, not {limit}")
        return limit

    def map_key_placement(self, column: str) -> KeyPlacement:
        """The way in which the keys of a MAP column find columns of a file."""
        key = f"fields.{column}.map.shared-shredding.column-placement-policy"
        return self._choice(key, KeyPlacement.LRU)

    @property
    def removes_record_on_delete(self) -> bool:
        """True if a ``-D`` row ends its key's row rather than retracts values."""
        return self._boolean("aggregation.remove-record-on-delete", False)

    @property
    def partial_update_removes_on_delete(self) -> bool:
        """True if a ``-D`` row ends its key's row with ``merge-engine=partial-update``."""
        return self._boolean("partial-update.remove-record-on-delete", False)

    @property
    def removing_sequence_fields(self) -> tuple[str, ...]:
        """The sequence fields with which a ``-D`` row of their group ends its key's row."""
        text = self.raw.get("partial-update.remove-record-on-sequence-group")
        return () if text is None else tuple(text.split(","))

    @property
    def record_expire_time(self) -> int | None:
        """Milliseconds after which a row is too old; None is never."""
        text = self.raw.get(RECORD_EXPIRE_TIME)
        return None if text is None else parse_duration(text, RECORD_EXPIRE_TIME)

    @property
    def record_time_field(self) -> str | None:
        """The column that holds the time of each row."""
        return self.raw.get(RECORD_TIME_FIELD)
