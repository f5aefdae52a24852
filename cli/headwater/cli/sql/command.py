"""`headwater sql`: run SQL over a catalog's tables, statement by statement or in a shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.connection import Address, on_address
from headwater.cli.extras import require
from headwater.cli.sql.results import Format
from headwater.storage.errors import Invalid

if TYPE_CHECKING:
    from headwater.spark import SparkLake

__all__ = ["sql"]


@on_address
def sql(
    address: Address,
    statements: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL",
            help="Statements with semicolons between them; '-' reads them from standard input. "
            "Without any, a shell starts, or what comes on standard input is run.",
            show_default=False,
        ),
    ] = None,
    execute: Annotated[
        str | None,
        typer.Option("--execute", "-e", metavar="SQL", help="The same as the argument."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the statements from a file.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", "-d", metavar="NAME", help="The database of short names."),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="The form of results on standard output.")
    ] = Format.TABLE,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Tasks that run at once; all cores by default.")
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory of Spark's own process.")
    ] = "2g",
) -> None:
    """Run SQL with a Spark of this machine: queries, DDL, DML, CALL and the like."""
    require("spark", "headwater sql")
    text = _text(statements, execute, file)
    if text is None and not sys.stdin.isatty():
        text = sys.stdin.read()
    from headwater.cli.sql.shell import Shell, run_statements

    with _lake(address, cores, memory) as lake:
        if database is not None:
            lake.sql(f"USE `{database.replace('`', '``')}`")
        if text is None:
            Shell(lake, output).run()
        else:
            run_statements(lake, text, output)


def _text(statements: str | None, execute: str | None, file: Path | None) -> str | None:
    given = [each for each in (statements, execute, file) if each is not None]
    if len(given) > 1:
        raise Invalid("give the statements once: as the argument, with --execute or with --file")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"the file {file} cannot be read: {error}") from error
    return sys.stdin.read() if statements == "-" else statements or execute


@contextmanager
def _lake(address: Address, cores: int | None, memory: str) -> Iterator[SparkLake]:
    """The lake in a Spark session, which ends with it if it began here."""
    # Here, as Spark takes seconds to load.
    from pyspark.sql import SparkSession

    from headwater.spark import connect, local_session

    # What is wrong with the address is said before Spark starts.
    address.open().close()
    started = SparkSession.getActiveSession() is None
    spark = local_session(cores=cores, memory=memory, settings={"spark.log.level": "FATAL"})
    try:
        yield connect(
            spark,
            address.catalog,
            warehouse=address.warehouse,
            token=address.token,
            location=address.location,
        )
    finally:
        if started:
            spark.stop()
