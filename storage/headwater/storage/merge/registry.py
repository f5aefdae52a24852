"""The merge engines by the name that the option ``merge-engine`` gives them.

A new engine is a file, a line here, and its name among the capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.storage.errors import Unsupported
from headwater.storage.merge.aggregation import Aggregation
from headwater.storage.merge.deduplicate import Deduplicate
from headwater.storage.merge.engine import MergeEngine
from headwater.storage.merge.first_row import FirstRow
from headwater.storage.merge.partial_update import PartialUpdate
from headwater.storage.options import MergeEngine as EngineName
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["MERGE_ENGINES", "merge_engine"]

MERGE_ENGINES: Mapping[EngineName, Callable[[TableSchema], MergeEngine]] = {
    EngineName.AGGREGATION: Aggregation,
    EngineName.DEDUPLICATE: lambda schema: Deduplicate(),
    EngineName.FIRST_ROW: lambda schema: FirstRow(),
    EngineName.PARTIAL_UPDATE: PartialUpdate,
}


def merge_engine(schema: TableSchema) -> MergeEngine:
    """The merge engine of a primary-key table.

    Raises:
        Unsupported: Headwater does not have it.
    """
    name = schema.table_options.merge_engine
    make = MERGE_ENGINES.get(name)
    if make is None:
        raise Unsupported(
            f"merge-engine={name} is not supported; use another Paimon engine for this table"
        )
    return make(schema)
