"""`headwater table`: the tables of a catalog, on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.table.display import time_text
from headwater.cli.arguments import (
    Comment,
    IfExists,
    IfNotExists,
    MaybeDatabase,
    Options,
    Pattern,
    TableName,
    duration,
    pairs,
)
from headwater.cli.column_text import field_text, fields
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, Cell, audit, print_objects, print_properties, print_rows
from headwater.cli.table_changes import alter
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.write.creation import refuse_unwritable

if TYPE_CHECKING:
    from headwater.catalog.model.tables import TableInfo
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="The tables of a catalog.", no_args_is_help=True)

FromSnapshot = Annotated[
    int | None,
    typer.Option("--from-snapshot", min=1, help="Refuse unless this is the latest snapshot."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="'NAME TYPE'",
        help="A column, such as \"price DECIMAL(10, 2) NOT NULL COMMENT 'net'\"; may be repeated.",
    ),
]
PrimaryKeys = Annotated[
    list[str] | None,
    typer.Option("--primary-key", metavar="COLUMN", help="A key column; may be repeated."),
]
PartitionsWhere = Annotated[
    str | None,
    typer.Option("--where", metavar="CONDITION", help="Only partitions, such as \"dt > '2026'\"."),
]
PartitionKeys = Annotated[
    list[str] | None,
    typer.Option("--partition-by", metavar="COLUMN", help="A partition column; may be repeated."),
]


@app.command("list")
@on_lake
def list_tables(
    lake: Lake,
    database: MaybeDatabase = None,
    pattern: Pattern = None,
    only_type: Annotated[
        TableType | None,
        typer.Option("--type", case_sensitive=False, help="Only tables of this type."),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show the type, schema, keys and comment of each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the tables of a catalog."""
    if only_type is None and not details:
        print_objects("table", lake.catalog.tables, database, pattern, as_json=as_json)
        return
    databases = lake.list_databases() if database is None else [database]
    if not details:
        rows = [
            (each, name) for each in databases for name in _names(lake, each, pattern, only_type)
        ]
        print_rows(["database", "table"], rows, as_json=as_json)
        return
    infos = [info for each in databases for info in _details(lake, each, pattern, only_type)]
    print_rows(
        ["database", "table", "type", "schema", "primary key", "partitioned by", "comment"],
        [
            (
                info.identifier.database,
                info.identifier.name,
                str(table_type(info.schema.options)),
                info.schema.id,
                ", ".join(info.schema.primary_keys) or None,
                ", ".join(info.schema.partition_keys) or None,
                info.schema.comment,
            )
            for info in infos
        ],
        as_json=as_json,
    )


def _names(
    lake: Lake, database: str, pattern: str | None, only_type: TableType | None
) -> list[str]:
    return all_pages(
        lambda token: lake.catalog.tables.list(
            database, pattern=pattern, table_type=only_type, page_token=token
        )
    )


def _details(
    lake: Lake, database: str, pattern: str | None, only_type: TableType | None
) -> list[TableInfo]:
    return all_pages(
        lambda token: lake.catalog.tables.list_details(
            database, pattern=pattern, table_type=only_type, page_token=token
        )
    )


@app.command()
@on_lake
def show(
    lake: Lake,
    table: Annotated[
        Identifier | None,
        typer.Argument(parser=Identifier.parse, metavar="DATABASE.TABLE", help="The table."),
    ] = None,
    table_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Show the table with this id.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a table's columns, keys and options, and what its latest snapshot holds.

    Of an external table the catalog knows no snapshots; 'headwater table snapshots' reads them.
    """
    if table is not None and table_id is None:
        info = lake.catalog.tables.get(table)
    elif table_id is not None and table is None:
        info = lake.catalog.tables.get_by_id(table_id)
    else:
        raise typer.BadParameter("name the table, or give its --id")
    catalog, schema, identifier = lake.catalog, info.schema, info.identifier
    made_of = table_type(schema.options)
    main = Identifier(identifier.database, identifier.table)
    rows: list[Sequence[Cell]] = [
        ("table", str(identifier)),
        ("id", info.id),
        ("type", str(made_of)),
        ("path", info.path),
        ("external", info.is_external),
        ("protected", catalog.protection.is_table_protected(main)),
        ("comment", schema.comment),
        ("schema", schema.id),
        ("primary key", ", ".join(schema.primary_keys) or None),
        ("partitioned by", ", ".join(schema.partition_keys) or None),
        *(() if info.is_external else _sizes(lake, info)),
        *((f"column {field.name}", field_text(field)) for field in schema.fields),
        *((f"option {key}", value) for key, value in sorted(schema.options.items())),
        *audit(info),
    ]
    print_properties(rows, as_json=as_json)


def _sizes(lake: Lake, info: TableInfo) -> list[Sequence[Cell]]:
    has_snapshots = table_type(info.schema.options).has_snapshots
    latest = lake.catalog.snapshots.latest(info.identifier) if has_snapshots else None
    if latest is None:
        return [("snapshot", None)]
    return [
        ("snapshot", latest.snapshot.id),
        ("committed at", time_text(latest.snapshot.time_millis)),
        ("records", latest.record_count),
        ("files", latest.file_count),
        ("bytes", latest.file_size_in_bytes),
    ]


ForAnotherEngine = Annotated[
    bool,
    typer.Option(
        "--for-another-engine", help="Go on even if Headwater's own engine could not write it."
    ),
]


@app.command()
@on_lake
def create(
    lake: Lake,
    table: TableName,
    column: Columns = None,
    primary_key: PrimaryKeys = None,
    partition_by: PartitionKeys = None,
    option: Options = None,
    comment: Comment = None,
    if_not_exists: IfNotExists = False,
    for_another_engine: ForAnotherEngine = False,
) -> None:
    """Create a table; with the option path=LOCATION, one whose files are not the catalog's."""
    schema = _schema(column, primary_key, partition_by, option, comment)
    if not for_another_engine:
        refuse_unwritable(str(table), schema, "say --for-another-engine")
    lake.catalog.tables.create(table, schema, ignore_if_exists=if_not_exists)
    print(f"table {table} is there")


@app.command()
@on_lake
def replace(
    lake: Lake,
    table: TableName,
    column: Columns = None,
    primary_key: PrimaryKeys = None,
    partition_by: PartitionKeys = None,
    option: Options = None,
    comment: Comment = None,
    for_another_engine: ForAnotherEngine = False,
) -> None:
    """Replace a table's schema and remove its rows; its id and history stay."""
    schema = _schema(column, primary_key, partition_by, option, comment)
    if not for_another_engine:
        refuse_unwritable(str(table), schema, "say --for-another-engine")
    lake.catalog.tables.replace(table, schema)
    print(f"table {table} is replaced")


def _schema(
    column: list[str] | None,
    primary_key: list[str] | None,
    partition_by: list[str] | None,
    option: list[str] | None,
    comment: str | None,
) -> Schema:
    return Schema(
        fields(column or []),
        partition_keys=tuple(partition_by or ()),
        primary_keys=tuple(primary_key or ()),
        options=pairs(option),
        comment=comment or None,
    )


app.command()(alter)


@app.command()
@on_lake
def register(
    lake: Lake,
    table: TableName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The folder or URI of its files.")],
) -> None:
    """Register the table whose files are at a path."""
    lake.catalog.tables.register(table, path)
    print(f"table {table} is registered")


@app.command()
@on_lake
def rename(
    lake: Lake,
    table: TableName,
    new_name: Annotated[
        Identifier,
        typer.Argument(parser=Identifier.parse, metavar="NEW_NAME", help="As DATABASE.TABLE."),
    ],
) -> None:
    """Rename a table, also into another database; its files stay where they are."""
    lake.catalog.tables.rename(table, new_name)
    print(f"table {table} is now {new_name}")


@app.command()
@on_lake
def drop(lake: Lake, table: TableName, if_exists: IfExists = False) -> None:
    """Drop a table; for a while, 'headwater dropped restore' brings it back."""
    lake.catalog.tables.drop(table, ignore_if_not_exists=if_exists)
    print(f"table {table} is dropped")


@app.command()
@on_lake
def rollback(
    lake: Lake,
    table: TableName,
    snapshot: Annotated[int | None, typer.Option(min=1, help="Roll back to this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Roll back to this tag.")] = None,
    from_snapshot: FromSnapshot = None,
) -> None:
    """Roll a table back; later snapshots and their tags are deleted."""
    if snapshot is not None and tag is None:
        lake.catalog.snapshots.rollback_to_snapshot(table, snapshot, from_snapshot)
        print(f"table {table} is at snapshot {snapshot}")
    elif tag is not None and snapshot is None:
        lake.catalog.snapshots.rollback_to_tag(table, tag, from_snapshot)
        print(f"table {table} is at tag '{tag}'")
    else:
        raise typer.BadParameter("give --snapshot or --tag")


@app.command("rollback-schema")
@on_lake
def rollback_schema(
    lake: Lake,
    table: TableName,
    schema: Annotated[int, typer.Argument(metavar="SCHEMA", min=0, help="The schema's number.")],
) -> None:
    """Roll a table's schema back, unless a snapshot, tag or changelog needs a later one."""
    lake.catalog.snapshots.rollback_schema(table, schema)
    print(f"table {table} is at schema {schema}")


@app.command()
@on_lake
def snapshots(
    lake: Lake,
    table: TableName,
    limit: Annotated[
        int, typer.Option(min=1, help="The most snapshots to list, the newest first.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List a table's snapshots, the newest first."""
    handle = lake.table(str(table))
    snapshots_found = (
        handle.snapshots()
        if handle.info.is_external
        else lake.catalog.snapshots.list(table, max_results=limit).items
    )
    print_rows(
        ["snapshot", "kind", "committed at", "schema", "records", "change", "commit user"],
        [
            (
                snapshot.id,
                str(snapshot.commit_kind),
                time_text(snapshot.time_millis),
                snapshot.schema_id,
                snapshot.total_record_count,
                snapshot.delta_record_count,
                snapshot.commit_user,
            )
            for snapshot in list(snapshots_found)[:limit]
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def snapshot(
    lake: Lake,
    table: TableName,
    version: Annotated[
        str,
        typer.Argument(metavar="VERSION", help="A snapshot's number, earliest, latest, or a tag."),
    ] = "LATEST",
    as_json: AsJson = False,
) -> None:
    """Show every field of a snapshot."""
    known = version.upper() if version.upper() in ("EARLIEST", "LATEST") else version
    document = lake.catalog.snapshots.get(table, known).document
    print_properties(
        [
            (key, value if isinstance(value, str | int) else json.dumps(value))
            for key, value in document.items()
            if value is not None
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def files(
    lake: Lake,
    table: TableName,
    as_json: AsJson = False,
) -> None:
    """List the data files of a table's latest snapshot."""
    rows = [
        (
            file.partition,
            file.bucket,
            file.level,
            file.row_count,
            file.file_size,
            file.schema_id,
            file.name,
        )
        for file in lake.table(str(table)).files()
    ]
    print_rows(
        ["partition", "bucket", "level", "rows", "bytes", "schema", "file"], rows, as_json=as_json
    )


@app.command("remove-orphan-files")
@on_lake
def remove_orphan_files(
    lake: Lake,
    table: TableName,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Leave files alone that were changed within this time, such as '2 d': longer than "
            "any write takes.",
        ),
    ] = "1 d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files without deleting them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the files that no snapshot, tag or changelog of any branch needs, and list them."""
    spared = duration(older_than, "--older-than")
    done = lake.table(str(table)).remove_orphan_files(
        older_than=spared,
        dry_run=dry_run,
    )
    print_rows(
        ["file", "bytes", "changed at"],
        [(file.path, file.size, time_text(file.modified_millis)) for file in done.files],
        as_json=as_json,
    )


@app.command("rewrite-file-indexes")
@on_lake
def rewrite_file_indexes(
    lake: Lake,
    table: TableName,
    where: PartitionsWhere = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build every index from the rows, damaged or not.")
    ] = False,
) -> None:
    """Make the indexes of data files those that the table's options ask for.

    Missing and damaged ones are built from the rows. The data files stay as they are.
    """
    made = lake.table(str(table)).rewrite_file_indexes(where=where, rebuild=rebuild)
    print(f"every file index of {table} is right" if made is None else f"snapshot {made.id}")


@app.command("rebuild-bucket-indexes")
@on_lake
def rebuild_bucket_indexes(lake: Lake, table: TableName, where: PartitionsWhere = None) -> None:
    """Rebuild the hash indexes of dynamic buckets that do not fit the keys in their data files.

    It fails, and changes nothing, where a key has rows in several buckets: delete these rows, run
    it again, and write the right ones.
    """
    made = lake.table(str(table)).rebuild_bucket_indexes(where=where)
    print(f"every hash index of {table} is right" if made is None else f"snapshot {made.id}")
