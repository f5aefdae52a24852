"""Queries as sqlglot reads them."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

__all__ = ["parsed_query"]

# The second reads `column:field` of a VARIANT, too.
_DIALECTS = ("spark", "databricks")


def parsed_query(text: str) -> exp.Query | None:
    """The one query of a text; None if it cannot be read."""
    for dialect in _DIALECTS:
        try:
            trees = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
        except SqlglotError:
            continue
        if len(trees) == 1 and isinstance(trees[0], exp.Query):
            return trees[0]
    return None
