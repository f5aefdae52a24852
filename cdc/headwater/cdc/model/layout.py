"""What the lake's tables have besides the columns of the source's: names, keys and columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from headwater.cdc.model.computed_columns import ComputedColumn
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.model.target_names import TargetNames
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import parse_type

__all__ = ["LayoutRules", "TableLayout"]

_METADATA_TYPE = parse_type("STRING NOT NULL")
_ALL = ""


@dataclass(frozen=True)
class TableLayout:
    """What the lake's table of one of the source's has besides that table's columns.

    Attributes:
        target: Its name, without the database.
        partition_keys: Its partition columns.
        primary_keys: Its primary key; empty for that of the source.
        computed: Columns that are computed from the source's.
        metadata: Columns with names of the source, and their values.
        is_merged: Whether it may have the rows of several tables of the source.
    """

    target: str
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    computed: tuple[ComputedColumn, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    is_merged: bool = False

    @property
    def part(self) -> Mapping[str, str]:
        """Columns of the key, and the values that the rows of the source's table have in them.

        Empty unless the lake's table is merged.
        """
        if not self.is_merged:
            return {}
        in_key = self.primary_keys or tuple(name for name, _ in self.metadata)
        return {name: value for name, value in self.metadata if name in in_key}

    @property
    def own_columns(self) -> frozenset[str]:
        """The columns that are not the source's."""
        return frozenset(
            [*(column.name for column in self.computed), *(name for name, _ in self.metadata)]
        )

    def expanded(self, source: SourceTable) -> SourceTable:
        """The lake's table of a source's, with its key and all of its columns.

        Raises:
            Invalid: The layout does not fit the source's table.
        """
        types = {column.name: column.type for column in source.columns}
        extra = [SourceColumn(each.name, each.text, each.type(types)) for each in self.computed]
        extra += [SourceColumn(name, "metadata", _METADATA_TYPE) for name, _ in self.metadata]
        columns = {column.name: column for column in source.columns}
        lower = {name.lower() for name in columns}
        for column in extra:
            if column.name.lower() in lower:
                raise Invalid(
                    f"table {source.name} cannot have the column '{column.name}' of the options "
                    "computed-column and metadata-column: there is another one; name it otherwise"
                )
            lower.add(column.name.lower())
            columns[column.name] = column
        key = self.primary_keys or (*self.part, *source.primary_key)
        if self.is_merged:
            self._check_merged(source)
        self._check_key(source, columns, key)
        return replace(source, columns=(*source.columns, *extra), primary_key=key)

    def identity(self, source: SourceTable) -> tuple[str, ...]:
        """The columns of the source that decide on a row's key in the lake, its own key first."""
        names = list(source.primary_key)
        computed = {column.name: column.column for column in self.computed}
        for name in self.primary_keys:
            column = computed.get(name, name)
            if column is not None and column not in dict(self.metadata):
                names.append(column)
        return tuple(dict.fromkeys(names))

    def _check_merged(self, source: SourceTable) -> None:
        if not source.primary_key:
            raise Invalid(
                f"table {source.name} has no primary key, and cannot be merged with others; leave "
                "it out, or leave merge-shards out"
            )
        if not self.part:
            raise Invalid(
                f"option 'primary-keys' is ({', '.join(self.primary_keys)}) for table "
                f"{source.name}, whose rows could replace those of another table; name a column "
                "of metadata-column in it, such as database_name"
            )

    def _check_key(
        self, source: SourceTable, columns: Mapping[str, SourceColumn], key: Sequence[str]
    ) -> None:
        for option, names in (("partition-keys", self.partition_keys), ("primary-keys", key)):
            missing = [name for name in names if name not in columns]
            if missing:
                raise Invalid(
                    f"option '{option}' names the column '{missing[0]}', which table "
                    f"{source.name} does not have; write TABLE=COLUMN,… for the tables that have it"
                )
        if not self.primary_keys:
            return
        absent = [name for name in source.primary_key if name not in key]
        if absent or not source.primary_key:
            has = ", ".join(source.primary_key) or "no primary key"
            raise Invalid(
                f"option 'primary-keys' is ({', '.join(key)}) for table {source.name}, whose key "
                f"at the source is ({has}): the source does not keep these columns unique; name "
                "all columns of its key, besides others"
            )
        for name in key:
            if columns[name].type.nullable and name not in source.primary_key:
                raise Invalid(
                    f"option 'primary-keys' names the column '{name}' of table {source.name}, "
                    "which may be null; make it NOT NULL at the source, or leave it out"
                )


@dataclass(frozen=True)
class LayoutRules:
    """From which options the layouts of tables are made.

    Attributes:
        names: How tables are named.
        partition_keys, primary_keys: Columns, by the lake's table; those of '' are of all others.
        computed: Computed columns.
        metadata: Metadata columns: ``database_name``, ``table_name``, ``schema_name``.
        metadata_prefix: What stands before their names.
        database: The database of PostgreSQL; empty for other sources.
        merges: Whether tables of the source that have one name in the lake are one table there.
    """

    names: TargetNames = field(default_factory=TargetNames)
    partition_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    primary_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed: tuple[ComputedColumn, ...] = ()
    metadata: tuple[str, ...] = ()
    metadata_prefix: str = ""
    database: str = ""
    merges: bool = False

    def __post_init__(self) -> None:
        if self.merges and not self.metadata:
            raise Invalid(
                "option 'merge-shards' is true, and no column tells the rows of one table from "
                "those of another; name some with metadata-column, such as database_name"
            )
        known = ("database_name", "table_name", *(("schema_name",) if self.database else ()))
        for name in self.metadata:
            if name == "op_ts":
                raise Invalid(
                    "option 'metadata-column' has 'op_ts', which is not known of rows that are "
                    "read from a table; use the snapshots' property 'cdc.source-time'"
                )
            if name not in known:
                raise Invalid(
                    f"option 'metadata-column' has '{name}', which this source does not have; the "
                    f"columns are {', '.join(known)}"
                )

    def layout(self, source: TableName) -> TableLayout:
        """The layout of the lake's table of a source's."""
        target = self.names.table(source)
        values = {
            "database_name": self.database or source.database,
            "schema_name": source.database,
            "table_name": source.table,
        }
        return TableLayout(
            target,
            self.partition_keys.get(target, self.partition_keys.get(_ALL, ())),
            self.primary_keys.get(target, self.primary_keys.get(_ALL, ())),
            tuple(column for column in self.computed if column.table in (None, target)),
            tuple((f"{self.metadata_prefix}{name}", values[name]) for name in self.metadata),
            self.merges,
        )

    def clash(self, one: TableName, other: TableName) -> bool:
        """Whether the lake cannot have the rows of two tables of the source."""
        layout, another = self.layout(one), self.layout(other)
        # Most engines take names in another case for the same table.
        if layout.target.lower() != another.target.lower():
            return False
        is_same = layout.target == another.target
        return not self.merges or not is_same or layout.part == another.part

    def unused(self, sources: Iterable[TableName]) -> list[tuple[str, str]]:
        """Options and those of their names that no table has."""
        tables = list(sources)
        targets = {self.names.table(name) for name in tables} | {_ALL}
        named = [
            *(("partition-keys", name) for name in self.partition_keys),
            *(("primary-keys", name) for name in self.primary_keys),
            *(("computed-column", column.table or _ALL) for column in self.computed),
        ]
        unknown = [(option, name) for option, name in named if name not in targets]
        return [*self.names.unused(tables), *unknown]

    def stored(self) -> str:
        """The rules as text."""
        values = {**asdict(self), "computed": [column.text for column in self.computed]}
        return json.dumps(values)

    @staticmethod
    def from_stored(text: str) -> LayoutRules:
        """Read what `stored` wrote."""
        values = json.loads(text)
        return LayoutRules(
            TargetNames(**values["names"]),
            _tuples(values["partition_keys"]),
            _tuples(values["primary_keys"]),
            tuple(map(ComputedColumn.parse, values["computed"])),
            tuple(values["metadata"]),
            values["metadata_prefix"],
            values["database"],
            values.get("merges", False),
        )


def _tuples(values: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(columns) for name, columns in values.items()}
