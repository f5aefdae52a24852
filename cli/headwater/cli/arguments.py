"""Arguments that several commands take, and the values that their texts stand for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.options import parse_duration
from headwater.storage.schema.change import RemoveOption, SetOption, UpdateComment

__all__ = [
    "Comment",
    "Database",
    "IfExists",
    "IfNotExists",
    "MaybeDatabase",
    "Options",
    "OrReplace",
    "Pattern",
    "TableName",
    "Unset",
    "changed_properties",
    "duration",
    "pairs",
    "require_changes",
    "text_of",
]

TableName = Annotated[
    Identifier,
    typer.Argument(
        parser=Identifier.parse,
        metavar="DATABASE.TABLE",
        help="The table, or 'DATABASE.TABLE$branch_NAME'.",
    ),
]
Database = Annotated[str, typer.Argument(metavar="DATABASE", help="The database.")]
MaybeDatabase = Annotated[
    str | None,
    typer.Argument(metavar="DATABASE", help="Only this database."),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="LIKE",
        help="Only names like this: % is any text, _ one character; \\ makes either literal.",
    ),
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing if it does not exist.")]
IfNotExists = Annotated[
    bool, typer.Option("--if-not-exists", help="Do nothing if it exists already.")
]
OrReplace = Annotated[
    bool, typer.Option("--or-replace", help="Replace the one that exists, in one step.")
]
Comment = Annotated[
    str | None, typer.Option("--comment", metavar="TEXT", help="The comment; '' removes it.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option to set; may be repeated."),
]
Unset = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="KEY", help="An option to remove; may be repeated."),
]


def pairs(
    given: Sequence[str] | None, option: str = "--option", form: str = "KEY=VALUE"
) -> dict[str, str]:
    """The pairs of an option of the form ``KEY=VALUE``; any other form is a wrong command line."""
    found: dict[str, str] = {}
    for item in given or ():
        key, equals, value = item.partition("=")
        if not key or not equals:
            # Not the value: it may be a secret.
            raise typer.BadParameter(f"write {option} as {form}")
        if key in found:
            raise typer.BadParameter(f"{option} {key} is there twice")
        found[key] = value
    return found


def text_of(given: str) -> str:
    """A text itself, or with ``@FILE`` a file's content, or with ``-`` standard input's.

    Raises:
        Unavailable: The file cannot be read as text.
    """
    if given == "-":
        return sys.stdin.read().strip()
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Unavailable(f"cannot read {given[1:]}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unavailable(f"cannot read {given[1:]}: it is not UTF-8 text") from error


def duration(given: str, option: str) -> timedelta:
    """A time such as ``90 d``; raises Invalid, also for a number without a unit."""
    number = given.strip()
    if number.isdigit():
        raise Invalid(f"{option}: '{number}' has no unit; write '{number} d' or '{number} h'")
    try:
        return timedelta(milliseconds=parse_duration(given, option))
    except OverflowError:
        raise Invalid(f"{option}: '{given}' is longer than time is counted here") from None


def changed_properties(
    option: Sequence[str] | None, unset: Sequence[str] | None, comment: str | None
) -> list[SetOption | RemoveOption | UpdateComment]:
    """The changes that tables, views and functions have in common."""
    changes: list[SetOption | RemoveOption | UpdateComment] = [
        *(RemoveOption(key) for key in unset or ()),
        *(SetOption(key, value) for key, value in pairs(option).items()),
    ]
    if comment is not None:
        changes.append(UpdateComment(comment or None))
    return changes


def require_changes(changes: Sequence[object]) -> None:
    """Refuse a command line that changes nothing."""
    if not changes:
        raise typer.BadParameter("say what to change: '--help' shows the options")
