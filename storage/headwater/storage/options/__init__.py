"""A typed view of a table's options (``CoreOptions.java``): the names are Paimon's own.

Imports errors alone.
"""

from headwater.storage.options.choices import (
    BucketFunction,
    ChangelogProducer,
    KeyPlacement,
    MapLayout,
    MergeEngine,
    NullKeys,
)
from headwater.storage.options.field_options import RECORD_EXPIRE_TIME, RECORD_TIME_FIELD
from headwater.storage.options.option_map import is_true, parse_boolean
from headwater.storage.options.quantities import parse_bytes, parse_duration
from headwater.storage.options.table_options import CLUSTERING_COLUMNS, TableOptions

__all__ = [
    "CLUSTERING_COLUMNS",
    "RECORD_EXPIRE_TIME",
    "RECORD_TIME_FIELD",
    "BucketFunction",
    "ChangelogProducer",
    "KeyPlacement",
    "MapLayout",
    "MergeEngine",
    "NullKeys",
    "TableOptions",
    "is_true",
    "parse_boolean",
    "parse_bytes",
    "parse_duration",
]
