"""`headwater partition`: the partitions of a table, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from headwater.catalog.model.page import all_pages
from headwater.catalog.table.display import time_text
from headwater.cli.arguments import IfExists, IfNotExists, Pattern, TableName
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows
from headwater.storage.errors import Invalid

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(help="The partitions of a table.", no_args_is_help=True)

Specs = Annotated[
    list[str],
    typer.Argument(
        metavar="PARTITION...",
        help="Such as dt=2026-01-01/hour=5; a JSON object if a value has a slash.",
    ),
]


@app.command("list")
@on_lake
def list_partitions(
    lake: Lake, table: TableName, pattern: Pattern = None, as_json: AsJson = False
) -> None:
    """List a table's partitions and their sizes.

    A pattern is for tables that keep their partitions in the catalog
    (metastore.partitioned-table).
    """
    result = (
        lake.table(str(table)).partitions()
        if pattern is None
        else all_pages(
            lambda token: lake.catalog.partitions.list(table, pattern=pattern, page_token=token)
        )
    )
    print_rows(
        ["partition", "records", "files", "bytes", "newest file", "done"],
        [
            (
                partition.name,
                _measured(partition.record_count),
                _measured(partition.file_count),
                _measured(partition.file_size_in_bytes),
                time_text(_measured(partition.last_file_creation_time)),
                partition.is_done,
            )
            for partition in result
        ],
        as_json=as_json,
    )


@app.command()
@on_lake
def create(
    lake: Lake, table: TableName, partitions: Specs, if_not_exists: IfNotExists = False
) -> None:
    """Register partitions in the catalog, all or none (metastore.partitioned-table)."""
    specs = _specs(partitions)
    done = lake.catalog.partitions.create(table, specs, ignore_if_exists=if_not_exists)
    print(f"{len(done.created)} of {len(partitions)} partitions of {table} are new")


@app.command("mark-done")
@on_lake
def mark_done(lake: Lake, table: TableName, partitions: Specs) -> None:
    """Mark partitions as complete, registering them if need be (metastore.partitioned-table)."""
    specs = _specs(partitions)
    lake.catalog.partitions.mark_done(table, specs)
    print(f"{len(partitions)} partitions of {table} are done")


@app.command()
@on_lake
def forget(lake: Lake, table: TableName, partitions: Specs, if_exists: IfExists = False) -> None:
    """Remove partitions from the catalog, all or none; their rows stay."""
    specs = _specs(partitions)
    done = lake.catalog.partitions.drop(table, specs, ignore_if_not_exists=if_exists)
    print(f"{len(done.dropped)} of {len(partitions)} partitions of {table} are forgotten")


@app.command()
@on_lake
def drop(lake: Lake, table: TableName, partitions: Specs) -> None:
    """Delete the rows of partitions in one commit; some of the columns select several."""
    specs = _specs(partitions)
    snapshot = lake.table(str(table)).drop_partitions(*specs)
    print(f"snapshot {snapshot.id} of {table} is without them")


def _specs(texts: list[str]) -> list[dict[str, str]]:
    return [_spec(text) for text in texts]


def _spec(text: str) -> dict[str, str]:
    if text.startswith("{"):
        return _json_spec(text)
    result: dict[str, str] = {}
    for part in text.split("/"):
        column, equals, value = part.partition("=")
        if not column or not equals or column in result:
            raise Invalid(
                f"'{text}' is not a partition; write COLUMN=VALUE/COLUMN=VALUE, or a JSON object "
                "where a value has a slash"
            )
        result[column] = value
    return result


def _json_spec(text: str) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(text)
    except ValidationError as error:
        raise Invalid(
            f'\'{text}\' is not a partition; write each value as text, {{"COLUMN": "VALUE"}}'
        ) from error


def _measured(number: int) -> int | None:
    return None if number < 0 else number
