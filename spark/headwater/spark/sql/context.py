"""The state of a SQL session: the catalog, and the database of names that say none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.client import Lake
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.source.table_read import TableRead
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid

__all__ = ["Answer", "Handler", "SqlContext"]

Answer: TypeAlias = pa.Table | DataFrame | None
"""The answer of a statement: rows known already, a frame that Spark computes, or nothing."""


@dataclass
class SqlContext:
    """The state of a user's SQL session.

    Attributes:
        session: The Spark session and the catalog.
        database: The database of names that say none; None until ``USE`` chooses one.
        last_query: The reads of the last query, in the order of its text.
    """

    session: CatalogSession
    database: str | None = None
    last_query: tuple[TableRead, ...] = ()

    @property
    def catalog(self) -> Lake:
        """The catalog without Spark."""
        return self.session.catalog

    def full_name(self, parts: Sequence[str]) -> str:
        """The name ``database.table`` for the parts of a name in a statement.

        Args:
            parts: ``table``, ``database, table`` or ``warehouse, database, table``.

        Raises:
            Invalid: There are more parts, another warehouse is meant, or no database is in use.
        """
        warehouse = self.catalog.warehouse
        if len(parts) == 3 and parts[0] == warehouse:
            parts = parts[1:]
        if len(parts) == 2:
            return ".".join(parts)
        written = ".".join(parts)
        if len(parts) > 2:
            raise Invalid(
                f"'{written}' is not a name in warehouse {warehouse}: "
                "write table, database.table or warehouse.database.table"
            )
        if self.database is None:
            raise Invalid(
                f"'{written}' says no database, and none is in use: "
                f"write database.{written}, or USE a database first"
            )
        return f"{self.database}.{written}"


Handler: TypeAlias = Callable[[Statement, SqlContext], Answer]
"""Runs a statement that begins with certain words, of which none has been read yet."""
