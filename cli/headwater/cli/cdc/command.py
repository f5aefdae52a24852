"""`headwater cdc`: its subcommands together, and those about pipelines that others run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.table.display import time_text
from headwater.cli.cdc import follow
from headwater.cli.cdc.demo import demo
from headwater.cli.cdc.paimon_options import FollowCommand
from headwater.cli.connection import on_lake
from headwater.cli.extras import require
from headwater.cli.output import AsJson, Cell, print_rows
from headwater.cli.spark_session import spark_executor
from headwater.storage.printable import printable, printable_json

if TYPE_CHECKING:
    from headwater.cdc.service import PipelineStatus, TableStatus
    from headwater.cdc.service.verify import TableVerdict
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(
    help="Databases that are followed into the lake: change data capture.", no_args_is_help=True
)
app.command("mysql", cls=FollowCommand, help=follow.MYSQL_HELP)(follow.follow)
app.command("postgres", cls=FollowCommand, help=follow.POSTGRES_HELP)(follow.follow)
app.command("kafka", cls=FollowCommand, help=follow.KAFKA_HELP)(follow.follow)
app.command("run")(follow.run)
app.command("check", cls=FollowCommand)(follow.check)
app.command("demo")(demo)

_STATUS = (
    *("pipeline", "running", "batch", "lag seconds", "table", "target"),
    *("phase", "table batch", "source time", "reason"),
)

Target = Annotated[
    str | None,
    typer.Option(metavar="DATABASE", help="The pipeline's database of the lake."),
]
Name = Annotated[
    str | None,
    typer.Option(metavar="PIPELINE", help="The pipeline; needed only if the lake has several."),
]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The file that has the source's password; else HEADWATER_CDC_SOURCE_PASSWORD has it.",
    ),
]


@app.command()
@on_lake
def status(
    lake: Lake,
    target: Target = None,
    name: Name = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Show where pipelines and their tables are, whichever process runs them.

    The batch is the last one that all tables have. Whether a process runs the pipeline is not known
    if its source cannot be asked.
    """
    require("cdc", "headwater cdc status")
    from headwater.cdc.service.sources import read_password
    from headwater.cdc.service.status import find_pipelines

    password = read_password(password_file)
    rows: list[list[Cell]] = []
    for pipeline in find_pipelines(lake, target, name):
        state = pipeline.status(password)
        if state.problem is not None:
            print(f"headwater: {printable(state.problem)}", file=sys.stderr)
        tables: Sequence[TableStatus | None] = state.tables or [None]
        rows += [_status_row(state, table) for table in tables]
    print_rows(_STATUS, rows, as_json=as_json)


def _status_row(state: PipelineStatus, table: TableStatus | None) -> list[Cell]:
    lag = None if state.lag_seconds is None else round(state.lag_seconds)
    row: list[Cell] = [state.name, state.is_running, state.batch, lag]
    if table is None:
        return [*row, *[None] * (len(_STATUS) - len(row))]
    time = table.source_time
    return [
        *row,
        str(table.source),
        table.target,
        str(table.phase),
        table.batch,
        None if time is None else time_text(int(time.timestamp() * 1000)),
        table.reason,
    ]


@app.command()
@on_lake
def stop(
    lake: Lake, target: Target = None, name: Name = None, password_file: PasswordFile = None
) -> None:
    """Stop the process that runs a pipeline, after its batch, and wait until it has ended."""
    require("cdc", "headwater cdc stop")
    from headwater.cdc.service.requests import request_stop
    from headwater.cdc.service.sources import read_password
    from headwater.cdc.service.status import the_pipeline

    pipeline = the_pipeline(lake, target, name)
    request_stop(pipeline, password=read_password(password_file))
    print(f"pipeline '{pipeline.name}' has stopped")


@app.command()
@on_lake
def resnapshot(
    lake: Lake,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="The source's table, such as shop.orders."),
    ] = None,
    all_tables: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All tables, from where the source is now: also when it has purged its log.",
        ),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Create the lake's tables again, too.")
    ] = False,
    target: Target = None,
    name: Name = None,
    password_file: PasswordFile = None,
) -> None:
    """Read tables again while the others go on; quarantined ones are followed again."""
    if bool(tables) == all_tables:
        raise typer.BadParameter("name tables, or give --all")
    require("cdc", "headwater cdc resnapshot")
    from headwater.cdc.service.requests import request_resnapshot
    from headwater.cdc.service.sources import read_password
    from headwater.cdc.service.status import the_pipeline

    pipeline = the_pipeline(lake, target, name)
    password = read_password(password_file)
    has_begun = request_resnapshot(pipeline, tables or (), replace=replace, password=password)
    what = "all tables are" if all_tables else f"{', '.join(tables or ())}:"
    if has_begun:
        print(f"{what} being read again; 'headwater cdc status' shows how far")
    else:
        print(f"{what} read again when pipeline '{pipeline.name}' is started: none runs it now")


@app.command()
@on_lake
def catchup(
    lake: Lake,
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE", help="The source's table, such as shop.orders."),
    ],
    target: Target = None,
    name: Name = None,
    password_file: PasswordFile = None,
) -> None:
    """Let quarantined tables catch up by the log from where they are, while the others go on."""
    require("cdc", "headwater cdc catchup")
    from headwater.cdc.service.requests import request_catchup
    from headwater.cdc.service.sources import read_password
    from headwater.cdc.service.status import the_pipeline

    pipeline = the_pipeline(lake, target, name)
    if request_catchup(pipeline, tables, password=read_password(password_file)):
        print(f"{', '.join(tables)}: catching up; 'headwater cdc status' shows how far")
    else:
        print(
            f"{', '.join(tables)}: caught up when pipeline '{pipeline.name}' is started: none runs "
            "it now"
        )


@app.command()
@on_lake
def verify(
    lake: Lake,
    target: Target = None,
    name: Name = None,
    password_file: PasswordFile = None,
    limit: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="Keys of a table to print at most.")
    ] = 100,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER",
            help=(
                "Compare rows by tasks of Spark's, at local[4], spark://host:7077 or "
                "sc://host:15002 (Spark Connect)."
            ),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare each table with its source at one position, and print the keys that differ.

    The exit code is 1 if any does, or if a table cannot be compared.
    """
    require("cdc", "headwater cdc verify")
    from headwater.cdc.service.sources import read_password, source_address
    from headwater.cdc.service.status import the_pipeline
    from headwater.cdc.service.verify import verify as compare

    pipeline = the_pipeline(lake, target, name)
    settings = pipeline.started_with()
    address = source_address(settings.source, read_password(password_file))
    differs = False
    with spark_executor(spark, "headwater cdc verify") as executor:
        for verdict in compare(lake, address, settings, executor):
            differs |= not verdict.is_equal
            _print_verdict(verdict, limit, as_json=as_json)
    if differs:
        raise typer.Exit(1)


def _print_verdict(verdict: TableVerdict, limit: int, *, as_json: bool) -> None:
    differences = verdict.differences.slice(0, limit).to_pylist()
    count = verdict.differences.num_rows
    if as_json:
        document = {
            "table": str(verdict.table),
            "source rows": verdict.source_rows,
            "lake rows": verdict.lake_rows,
            "equal": verdict.is_equal,
            "problem": verdict.problem,
            "differences": count,
            "keys": differences,
        }
        print(printable_json(json.dumps(document, ensure_ascii=False, default=str)))
        return
    equal = verdict.problem or ("equal" if count == 0 else f"{count} keys differ")
    rows = f"{verdict.source_rows} rows at the source, {verdict.lake_rows} in the lake"
    print(printable(f"{verdict.table}: {equal}; {rows}"))
    for row in differences:
        difference = row.pop("difference")
        key = ", ".join(f"{column}={value}" for column, value in row.items())
        print(printable(f"  {key}: {difference}"))
    if count > len(differences):
        print(f"  … and {count - len(differences)} more")
