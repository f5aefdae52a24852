"""Names of databases and tables, and patterns over them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from sqlalchemy import ColumnElement, and_, true
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.printable import has_unprintable

__all__ = [
    "check_database_name",
    "check_function_name",
    "check_page",
    "check_table_name",
    "check_view_name",
    "first_after",
    "partition_name",
    "pattern_clause",
]

# Room for ".db", or "-" and a UUID, within the 255 bytes of a file name.
_MAX_NAME_BYTES = 200
# Halves of characters beyond 16 bits: no text has them.
_SURROGATES = range(0xD800, 0xE000)


def check_database_name(name: str) -> None:
    """Refuse a name that a new database must not have; raises Invalid."""
    _check(name, "database")
    if "." in name:
        raise Invalid(f"'{name}' is not a database name: it must not contain a dot")
    if name == SYSTEM_DATABASE:
        raise Invalid(f"'{name}' is the name of the system database; choose another")


def check_table_name(identifier: Identifier) -> None:
    """Refuse a name that a new table must not have; raises Invalid."""
    if identifier.branch != MAIN_BRANCH:
        raise Invalid(f"{identifier} names a branch; name the table itself")
    _check(identifier.name, "table")


def check_view_name(identifier: Identifier) -> None:
    """Refuse a name that a new view must not have; raises Invalid."""
    _check(identifier.name, "view")


def check_function_name(identifier: Identifier) -> None:
    """Refuse a name that a new function must not have (``RESTFunctionValidator.java``).

    Raises:
        Invalid: It has anything but letters, digits, ``_``, ``-`` and ``.``, or no letter.
    """
    name = identifier.name
    if not re.fullmatch(r"[A-Za-z0-9._-]*[A-Za-z][A-Za-z0-9._-]*", name):
        raise Invalid(
            f"{name!r} is not a function name: it must consist of the letters A to Z, digits, "
            "'_', '-' and '.', and have at least one letter"
        )
    _check(name, "function")


def _check(name: str, what: str) -> None:
    # First of all: what follows looks at each character.
    if len(name.encode(errors="surrogatepass")) > _MAX_NAME_BYTES:
        raise Invalid(f"the {what} name '{name[:40]}…' is longer than {_MAX_NAME_BYTES} bytes")
    if not name or name != name.strip():
        raise Invalid(f"{name!r} is not a {what} name: it is empty or has spaces at an end")
    if name in (".", ".."):
        raise Invalid(f"'{name}' is not a {what} name: it would leave the warehouse")
    if any(character in "/\\$" for character in name) or has_unprintable(name):
        raise Invalid(
            f"{name!r} is not a {what} name: it must not contain a slash, a backslash, "
            "a dollar sign, or a control, format or separator character"
        )


def partition_name(spec: Mapping[str, str]) -> str:
    """A partition's name: ``dt=2026-01-01/hour=5``."""
    return "/".join(f"{column}={value}" for column, value in spec.items())


def check_page(max_results: int | None) -> None:
    """Refuse a page that can hold nothing; raises Invalid."""
    if max_results is not None and max_results < 1:
        raise Invalid(f"a page must hold at least 1 result, not {max_results}")


def pattern_clause(
    column: InstrumentedAttribute[str], pattern: str, *, is_sqlite: bool
) -> ColumnElement[bool]:
    """The names that a LIKE pattern matches: ``%``, ``_``, and backslash to take them literally.

    What stands before the first wildcard becomes a range, so that an index finds the names
    whatever a database makes of LIKE.
    """
    prefix, rest = _literal_prefix(pattern)
    if not rest:
        return column == prefix
    clauses: list[ColumnElement[bool]] = []
    if prefix:
        clauses.append(column >= prefix)
        end = first_after(prefix)
        if end is not None:
            clauses.append(column < end)
    if rest.strip("%"):
        clauses.append(_matches(column, pattern, is_sqlite))
    return and_(true(), *clauses)


def _literal_prefix(pattern: str) -> tuple[str, str]:
    """The prefix of every matching name, and the rest of the pattern."""
    prefix: list[str] = []
    at = 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == "\\" and at + 1 < len(pattern):
            at += 1
        prefix.append(pattern[at])
        at += 1
    return "".join(prefix), pattern[at:]


def first_after(prefix: str) -> str | None:
    """The least text, by code points, after all those with a prefix; None when no text is."""
    for index in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[index]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= sys.maxunicode:
            return prefix[:index] + chr(following)
    return None


def _matches(
    column: InstrumentedAttribute[str], pattern: str, is_sqlite: bool
) -> ColumnElement[bool]:
    if not is_sqlite:
        # A trailing single backslash is an error in PostgreSQL; it stands for itself here.
        trailing = len(pattern) - len(pattern.rstrip("\\"))
        return column.like(pattern + "\\" * (trailing % 2), escape="\\")
    # SQLite's LIKE ignores the case of ASCII letters; GLOB does not.
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\" and at + 1 < len(pattern):
            at += 1
            parts.append(_glob_literal(pattern[at]))
        else:
            parts.append({"%": "*", "_": "?"}.get(character) or _glob_literal(character))
        at += 1
    return column.op("GLOB", is_comparison=True)("".join(parts))


def _glob_literal(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character
