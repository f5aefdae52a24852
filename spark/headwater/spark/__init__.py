"""The Spark face: `connect` a session to a catalog, `format("headwater")`, streams, compaction.

Spark's tasks import modules of this package only to read and write files. What the driver alone
needs, with its catalog clients, is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.spark.lake import SparkLake, connect
    from headwater.spark.schema_merging import SchemaMerging
    from headwater.spark.session import local_session

__all__ = ["SchemaMerging", "SparkLake", "connect", "local_session"]

_HOMES = {
    "SchemaMerging": "schema_merging",
    "SparkLake": "lake",
    "connect": "lake",
    "local_session": "session",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
