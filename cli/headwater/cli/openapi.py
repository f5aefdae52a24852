"""`headwater openapi`: the HTTP interface's description."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.extras import require
from headwater.storage.errors import Unavailable

__all__ = ["openapi"]


def openapi(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to this file instead."),
    ] = None,
) -> None:
    """Print the OpenAPI description of the HTTP interface, from the application itself."""
    require("server", "headwater openapi")
    from headwater.server.export_openapi import export

    try:
        text = export(output)
    except OSError as error:
        raise Unavailable(f"cannot write {output}: {error.strerror}") from error
    if output is None:
        print(text, end="")
