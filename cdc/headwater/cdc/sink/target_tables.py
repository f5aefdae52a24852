"""The lake's tables that follow a source's: their names, and schemas to begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.sink.appended_rows import APPENDED_KIND, check_kind_column, kind_field
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import DataField

__all__ = ["check_existing", "target_names", "target_schema"]


def target_names(sources: Iterable[TableName], database: str) -> Mapping[TableName, str]:
    """The lake's table for each of a source's, ``database.table``.

    Args:
        sources: The tables of the source.
        database: The lake's database.

    Raises:
        Invalid: Two tables of the source would have one table of the lake.
    """
    targets: dict[TableName, str] = {}
    taken: dict[str, TableName] = {}
    for source in sources:
        target = f"{database}.{source.table}"
        # Most engines take names in another case for the same table.
        other = taken.setdefault(target.lower(), source)
        if other != source:
            raise Invalid(
                f"tables {other} and {source} of the source are both table {target} of the lake; "
                "exclude one of them, or follow them with two pipelines into two databases"
            )
        targets[source] = target
    return targets


def target_schema(source: SourceTable, options: Mapping[str, str] | None = None) -> Schema:
    """The schema of a new table of the lake.

    Args:
        source: The table that it follows.
        options: Table options.

    Raises:
        Unsupported: The source's table has no key, and a column named as that of row kinds.
    """
    check_kind_column(source)
    options = dict(options or {})
    if not source.primary_key and "bucket-key" not in options:
        # The number of buckets is meant for tables whose key tells the bucket.
        options.pop("bucket", None)
    # The first one: columns that the source gets later are behind the others.
    kinds = () if source.primary_key else (kind_field(),)
    fields = [
        DataField(number, column.name, column.type, column.comment or None)
        for number, column in enumerate(source.columns, len(kinds))
    ]
    return Schema(
        (*kinds, *fields),
        primary_keys=tuple(source.primary_key),
        options=options,
        comment=source.comment or None,
    )


def check_existing(lake: Lake, target: str, source: SourceTable) -> None:
    """Check that an existing table of the lake can follow a source's table.

    Args:
        lake: The lake.
        target: The lake's table.
        source: The table of the source.

    Raises:
        Invalid: Its columns or its key differ; all differences are named.
        NotFound: There is no such table.
    """
    differences = _differences(lake.table(target).schema, source)
    if differences:
        raise Invalid(
            f"table {target} of the lake differs from {source.name} of the source: "
            f"{', '.join(differences)}; drop it, or choose another database of the lake"
        )


def _differences(schema: TableSchema, source: SourceTable) -> Sequence[str]:
    existing = {field.name: str(field.type) for field in schema.fields}
    wanted = {column.name: str(column.type) for column in source.columns}
    if not source.primary_key:
        wanted[APPENDED_KIND] = str(kind_field().type)
    differences = [f"column '{name}' is missing" for name in wanted if name not in existing]
    differences += [f"column '{name}' is not the source's" for name in existing.keys() - wanted]
    for name, type_ in wanted.items():
        if name in existing and existing[name] != type_:
            differences.append(f"column '{name}' is {existing[name]}, and {type_} is needed")
    if tuple(schema.primary_keys) != tuple(source.primary_key):
        key = ", ".join(source.primary_key)
        differences.append(
            f"its primary key is ({', '.join(schema.primary_keys)}), and ({key}) is needed"
        )
    return differences
