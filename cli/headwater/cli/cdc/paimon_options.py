"""Paimon's names of options on the command line."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from headwater.storage.errors import Invalid

__all__ = ["FollowCommand"]


class FollowCommand(TyperCommand):
    """A command that takes options as Paimon writes them, with underscores.

    Options of Paimon's actions that pipelines do not have are rejected with what to use instead.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; a wrong command line is a usage error."""
        own = {name for parameter in self.params for name in parameter.opts}
        own |= {name for parameter in self.params for name in parameter.secondary_opts}
        known = [_hyphenated(argument) for argument in args]
        foreign = [name for name in map(_option, known) if f"--{name}" not in own]
        try:
            _check(foreign)
        except Invalid as error:
            raise typer.BadParameter(error.message, ctx) from None
        return super().parse_args(ctx, known)


def _check(names: list[str]) -> None:
    if names:
        # Arrow takes a second to load.
        from headwater.cdc.service.paimon_options import check_paimon_options

        check_paimon_options(names)


def _option(argument: str) -> str:
    """The name of the option that an argument is; empty for a value."""
    name = argument.partition("=")[0]
    return name[2:] if name.startswith("--") else ""


def _hyphenated(argument: str) -> str:
    """An argument with the hyphens that options have here."""
    name, equals, value = argument.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if name.startswith("--") else argument
