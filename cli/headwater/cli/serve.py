"""`headwater serve`: the catalog over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.extras import require

__all__ = ["serve"]


def serve(
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on.  [default: 127.0.0.1; env: HEADWATER_HOST]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="The port to listen on.  [default: 8080; env: HEADWATER_PORT]"),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The SQL database that holds the catalog, such as sqlite:///file.db or "
            "postgresql://user@host/name.  "
            "[default: sqlite:///headwater.db; env: HEADWATER_DATABASE_URL]",
        ),
    ] = None,
    warehouse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOCATION",
            help="A warehouse: its name and the folder or URI of its tables; may be repeated.  "
            "[default: main=./warehouse; env: HEADWATER_WAREHOUSES]",
        ),
    ] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN",
            help="A bearer token that opens the server; may be repeated. Without one, only this "
            "machine is served.  [env: HEADWATER_TOKENS]",
        ),
    ] = None,
    management_token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN",
            help="A bearer token that also lets a caller manage warehouses, tokens and groups over "
            "HTTP; may be repeated.  [env: HEADWATER_MANAGEMENT_TOKENS]",
        ),
    ] = None,
    require_token: Annotated[
        bool | None,
        typer.Option(
            "--require-token",
            help="Require a token: one of 'headwater token create' or of --token.  "
            "[env: HEADWATER_REQUIRE_TOKEN]",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="The number of processes that answer requests.  "
            "[default: 1; env: HEADWATER_WORKERS]"
        ),
    ] = None,
    undrop_retention: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long dropped tables can be restored; '0 s' deletes them at once.  "
            "[default: 7 d; env: HEADWATER_UNDROP_RETENTION]",
        ),
    ] = None,
    sweep_interval: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How often to repair after crashes and purge expired tables; '0 s' for never.  "
            "[default: 1 min; env: HEADWATER_SWEEP_INTERVAL]",
        ),
    ] = None,
    shutdown_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long running requests may take once the server is told to stop.  "
            "[default: 30 s; env: HEADWATER_SHUTDOWN_TIMEOUT]",
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            metavar="json|text",
            help="The log's format.  [default: json; env: HEADWATER_LOG_FORMAT]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="The lowest level that is logged: DEBUG, INFO, WARNING or ERROR.  "
            "[default: INFO; env: HEADWATER_LOG_LEVEL]",
        ),
    ] = None,
) -> None:
    """Serve the catalog over HTTP until the process is told to stop."""
    require("server", "headwater serve")
    from headwater.server.run import run
    from headwater.server.settings import load_settings

    given: dict[str, object | None] = {
        "host": host,
        "port": port,
        "database_url": database_url,
        "warehouses": _named(warehouse) if warehouse else None,
        "tokens": token or None,
        "management_tokens": management_token or None,
        "require_token": require_token,
        "workers": workers,
        "undrop_retention": undrop_retention,
        "sweep_interval": sweep_interval,
        "shutdown_timeout": shutdown_timeout,
        "log_format": log_format,
        "log_level": log_level,
    }
    run(load_settings({name: value for name, value in given.items() if value is not None}))


def _named(options: list[str]) -> dict[str, str]:
    warehouses: dict[str, str] = {}
    for option in options:
        name, equals, location = option.partition("=")
        if not (name and equals and location):
            raise typer.BadParameter(
                f"write --warehouse {option} as NAME=LOCATION, as in main=./warehouse"
            )
        if name in warehouses:
            raise typer.BadParameter(f"--warehouse {option}: the name '{name}' is there twice")
        warehouses[name] = location
    return warehouses
