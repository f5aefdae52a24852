"""The names that tables of a source have in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.cdc.model.tables import TableName
from headwater.storage.errors import Invalid

__all__ = ["TargetNames"]


@dataclass(frozen=True)
class TargetNames:
    """How names are made, see ``TableNameConverter.java``.

    Attributes:
        prefix, suffix: What stands before and after the name of each table.
        database_prefixes, database_suffixes: The same for the tables of a database of the source,
            or of a schema of PostgreSQL.
        mapping: The names of some tables, by the source's: ``orders`` or ``shop.orders``. They have
            no prefix and suffix.
        with_database: Whether the database stands before the name: ``shop_orders``.
    """

    prefix: str = ""
    suffix: str = ""
    database_prefixes: Mapping[str, str] = field(default_factory=dict)
    database_suffixes: Mapping[str, str] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    with_database: bool = False

    def __post_init__(self) -> None:
        for source, target in self.mapping.items():
            if not source or not target:
                raise Invalid(
                    f"option 'table-mapping' has '{source}={target}', which lacks a name; write "
                    "one such as 'orders=sales'"
                )

    def table(self, source: TableName) -> str:
        """The name of the lake's table of a source's, without the database."""
        for name in (source.escaped, str(source), source.table):
            if name in self.mapping:
                return self.mapping[name]
        prefix = self.database_prefixes.get(source.database, self.prefix)
        suffix = self.database_suffixes.get(source.database, self.suffix)
        name = f"{source.database}_{source.table}" if self.with_database else source.table
        return f"{prefix}{name}{suffix}"

    def unused(self, sources: Iterable[TableName]) -> list[tuple[str, str]]:
        """Options and those of their names that no table of the source has."""
        tables = list(sources)
        databases = {name.database for name in tables}
        names = {text for name in tables for text in (name.escaped, str(name), name.table)}
        return [
            (option, name)
            for option, mapping, known in (
                ("table-prefix-db", self.database_prefixes, databases),
                ("table-suffix-db", self.database_suffixes, databases),
                ("table-mapping", self.mapping, names),
            )
            for name in mapping
            if name not in known
        ]
