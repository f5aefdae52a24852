"""Rows of single keys, read from the source again, and keys that the source lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.mysql.source import MySQLSource
from headwater.storage.errors import Unsupported


def read_again(source: MySQLSource, table: SourceTable, keys: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of keys as the source has them now; keys that it lacks are deleted."""
    raise Unsupported("not yet")
    yield


def missing_in_source(
    source: MySQLSource, table: Table, lake_table: SourceTable
) -> Iterator[pa.RecordBatch]:
    """Deletes of the keys of the lake's table that the source lacks."""
    raise Unsupported("not yet")
    yield
