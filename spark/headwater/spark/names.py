"""Names of columns in the texts that Spark reads."""

import re
from collections.abc import Sequence

__all__ = ["dotted", "parts_of", "quoted"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def quoted(name: str) -> str:
    """A column's name in backquotes: dots and spaces in it are its own."""
    return "`" + name.replace("`", "``") + "`"


def dotted(parts: Sequence[str]) -> str:
    """The name of a field in a struct, as `parts_of` reads it."""
    return ".".join(quoted(part) if "." in part or "`" in part else part for part in parts)


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name between its dots, but for those in backquotes.

    Returns:
        The name alone where it has no such form.
    """
    parts: list[str] = []
    at = 0
    while (found := _PART.match(name, at)) is not None:
        parts.append(found[2] or found[1].replace("``", "`"))
        at = found.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            break
        at += 1
    return (name,)
