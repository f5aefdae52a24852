"""`SqlCatalog`: the catalog that keeps every pointer in a SQL database."""

from headwater.catalog.sql.catalog import SqlCatalog

__all__ = ["SqlCatalog"]
