"""The type of a table, option ``type`` (``TableType.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from headwater.storage.errors import Invalid

__all__ = ["TYPE_OPTION", "TableType", "parse_table_type", "table_type"]

TYPE_OPTION = "type"


class TableType(StrEnum):
    """The types of tables, as option ``type`` names them."""

    TABLE = "table"
    FORMAT = "format-table"
    MATERIALIZED = "materialized-table"
    OBJECT = "object-table"
    LANCE = "lance-table"
    ICEBERG = "iceberg-table"

    @property
    def has_snapshots(self) -> bool:
        """True if it is made of Paimon's files: schemas, snapshots, manifests.

        The directory of any other type holds its data and nothing of Paimon's; what the table is
        stands in the catalog alone.
        """
        return self in (TableType.TABLE, TableType.MATERIALIZED)


def parse_table_type(text: str) -> TableType:
    """Read a type's name, in any case; raises Invalid naming those there are."""
    try:
        return TableType(text.strip().lower())
    except ValueError:
        raise Invalid(
            f"'{text}' is not a table type; the types are {', '.join(TableType)}"
        ) from None


def table_type(options: Mapping[str, str]) -> TableType:
    """The type that a table's options give it; raises Invalid for one that does not exist."""
    return parse_table_type(options.get(TYPE_OPTION) or TableType.TABLE)
