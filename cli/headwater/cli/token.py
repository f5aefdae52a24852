"""`headwater token`: the bearer tokens and access keys that open a server."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import TokenKind
from headwater.catalog.table.display import time_text
from headwater.cli.arguments import duration
from headwater.cli.connection import DEFAULT_DATABASE, DatabaseOption, on_lake
from headwater.cli.output import AsJson, print_rows
from headwater.storage.errors import Unavailable

if TYPE_CHECKING:
    from headwater.catalog.sql.admin.tokens import Tokens
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(
    help="The bearer tokens and access keys that open a server.", no_args_is_help=True
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The holder of the token: a person or a program.")
]


@app.command()
def create(
    name: Name,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires-in",
            metavar="DURATION",
            help="The time until it expires, such as '90 d' or '12 h'; by default never.",
        ),
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            case_sensitive=False,
            help="The kind of request that it is good for; may be repeated. 'read' changes "
            "nothing, 'write' may change everything in a catalog, both as far as permissions go; "
            "'administer' asks no permission; 'manage' is for warehouses, tokens and groups over "
            "HTTP.  [default: write]",
        ),
    ] = None,
    warehouse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="The only warehouse that it is good for; may be repeated."
        ),
    ] = None,
    kind: Annotated[
        TokenKind,
        typer.Option(
            case_sensitive=False,
            help="'bearer' is sent with each request. 'dlf' is an access key, for Paimon's clients "
            "with token.provider=dlf: its secret signs each request and is never sent. The server "
            "keeps it encrypted with HEADWATER_SECRET_KEYS, which it needs.",
        ),
    ] = TokenKind.BEARER,
    database_url: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Create a token and print it; it cannot be shown again.

    Of an access key, the options for a client are printed.
    """
    lifetime = None if expires is None else duration(expires, "--expires-in")
    with _tokens(database_url) as tokens:
        made = tokens.create(
            name,
            lifetime=lifetime,
            scopes=scope or [Scope.WRITE],
            warehouses=warehouse or None,
            kind=kind,
        )
    if made.info.access_key_id is None:
        print(made.secret)
    else:
        print(f"dlf.access-key-id={made.info.access_key_id}")
        print(f"dlf.access-key-secret={made.secret}")


@app.command("list")
def list_tokens(database_url: DatabaseOption = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """List the tokens' names, their limits and when they expire, never the tokens themselves."""
    with _tokens(database_url) as tokens:
        found, now = tokens.list(), tokens.runtime.latest_millis()
    print_rows(
        ["name", "created", "expires", "valid", "scopes", "warehouses", "access key"],
        [
            [
                token.name,
                time_text(token.created_at),
                time_text(token.expires_at),
                token.is_valid(now),
                ", ".join(sorted(token.scopes)),
                None if token.warehouses is None else ", ".join(sorted(token.warehouses)),
                token.access_key_id,
            ]
            for token in found
        ],
        as_json=as_json,
    )


@app.command()
def revoke(name: Name, database_url: DatabaseOption = DEFAULT_DATABASE) -> None:
    """Delete a token: running servers refuse it within ten seconds."""
    with _tokens(database_url) as tokens:
        tokens.revoke(name)
    print(f"token '{name}' is revoked")


@app.command()
@on_lake
def temporary(
    lake: Lake,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Put it into this file, in the place of an earlier one, for its owner to read.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires-in",
            metavar="DURATION",
            help="The time until it expires, such as '4 h'; by default the longest that the server "
            "gives. It expires with its token in any case.",
        ),
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            case_sensitive=False,
            help="The kind of request that it is good for; may be repeated.  [default: those of "
            "the token, without manage]",
        ),
    ] = None,
    only_warehouse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="The only warehouse that it is good for; may be repeated.  [default: those of the "
            "token]",
        ),
    ] = None,
) -> None:
    """Ask a server for a temporary access key of one's token, and print it.

    It is the JSON that Paimon's clients read from the file of dlf.token-path.
    """
    lifetime = None if expires is None else duration(expires, "--expires-in")
    made = lake.temporary_key(
        lifetime=lifetime,
        scopes=scope or None,
        warehouses=only_warehouse or None,
    )
    text = json.dumps(made.document(), indent=2)
    if file is None:
        print(text)
        return
    _replace(file, text + "\n")
    print(f"{file} has a key that is good until {time_text(made.expires_at)}")


def _replace(file: Path, text: str) -> None:
    """Put a secret into a file of its owner's; whoever reads it meanwhile has the one before."""
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
            new.replace(file)
        except OSError:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Unavailable(f"cannot write {file}: {error.strerror}") from error


@contextmanager
def _tokens(database_url: str) -> Iterator[Tokens]:
    from headwater.catalog.sql.admin.sealed_options import option_keys
    from headwater.catalog.sql.admin.tokens import Tokens
    from headwater.catalog.sql.database.open_database import opened_database

    keys = option_keys(os.environ)
    with opened_database(database_url) as database:
        yield Tokens(database, database.runtime, keys)
