"""The metadata columns (``__paimon_…``, row ids) that a query names, and the stars without them.

A table has them only where a query names them, and ``*`` means the table's own columns as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.spark.source.metadata_rows import METADATA_COLUMNS
from headwater.storage.errors import Invalid
from headwater.storage.schema.system_fields import TRACKING_FIELDS

__all__ = ["MetadataNames", "Place", "Star", "exclusion", "find_metadata", "outer_metadata"]

_HIDDEN = {name.lower(): name for name in (*METADATA_COLUMNS, *TRACKING_FIELDS)}
"""The columns that a table has only where they are named, by what they are called."""

Place = int
"""The place in a text where a table's name begins."""


@dataclass(frozen=True)
class Star:
    """A ``*`` of a SELECT in which metadata columns are named.

    Attributes:
        end: The place after it; None where sqlglot put it in for a ``|>``.
        tables: The tables whose columns it is.
        is_plain: True if nothing follows that says which columns are left out.
    """

    end: int | None
    tables: tuple[Place, ...]
    is_plain: bool


@dataclass
class MetadataNames:
    """The metadata columns that a query names.

    Attributes:
        columns: The columns by their table.
        stars: The stars beside them.
        outer: The names of columns that are of none of the query's tables.
    """

    columns: dict[Place, list[str]] = field(default_factory=dict)
    stars: list[Star] = field(default_factory=list)
    outer: list[tuple[str, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class _Source:
    """An entry of a FROM: its name, folded, and the place of a table's name."""

    names: tuple[str, ...]
    place: Place | None
    has_alias: bool

    def is_called(self, qualifier: Sequence[str]) -> bool:
        """True if columns may have the qualifier; a name may be without its database."""
        if self.has_alias:
            return self.names == tuple(qualifier)
        pairs = list(zip(reversed(self.names), reversed(qualifier), strict=False))
        return bool(pairs) and all(own == asked for own, asked in pairs)


def find_metadata(tree: exp.Expr, text: str) -> MetadataNames:
    """The metadata columns that a query names, by the tables that they are of, and the stars.

    Args:
        tree: A query.
        text: The text that it was read from.

    Raises:
        Invalid: A column may be of any of several tables, or the tables are joined or turned by
            all of their columns, so that a metadata column would count.
    """
    found = MetadataNames()
    with_metadata: dict[int, exp.Select] = {}
    for column in tree.find_all(exp.Column):
        parts = [part.name for part in column.parts]
        at = next((at for at, part in enumerate(parts) if part.lower() in _HIDDEN), None)
        if at is None or column.parent_select is None:
            continue
        owner = _owner(column.parent_select, parts[:at], parts[at])
        if owner is None:
            found.outer.append(tuple(parts[: at + 1]))
            continue
        select, source = owner
        if source.place is None:
            continue
        names = found.columns.setdefault(source.place, [])
        name = _HIDDEN[parts[at].lower()]
        if name not in names:
            names.append(name)
        with_metadata[id(select)] = select
    for select in with_metadata.values():
        _refuse_all_columns(select)
        found.stars += _stars(select, text)
    return found


def outer_metadata(expression: str) -> list[tuple[str, ...]]:
    """The metadata columns in an expression that are of none of its subqueries' tables.

    Args:
        expression: SQL text; one that sqlglot cannot read names none.
    """
    if not any(name in expression.lower() for name in _HIDDEN):
        return []
    try:
        query = f"SELECT {expression}"
        return find_metadata(sqlglot.parse_one(query, dialect="spark"), query).outer
    except SqlglotError:
        return []


def exclusion(star: Star, added: Mapping[Place, tuple[str, ...]]) -> str | None:
    """The text after a star that leaves metadata columns out; None if there is nothing to leave.

    Args:
        star: The star.
        added: The metadata columns that tables have in the query.

    Raises:
        Invalid: The star leaves other columns out, or two of its tables have a column.
    """
    names = [name for place in star.tables for name in added.get(place, ())]
    if not names:
        return None
    if star.end is None or not star.is_plain or len(set(names)) < len(names):
        raise Invalid(
            f"'*' beside {names[0]} is not supported where it has an EXCEPT or REPLACE, is of two "
            "tables with such a column, or is implied by '|>': name the columns"
        )
    return f" EXCEPT ({', '.join(names)})"


def _owner(
    select: exp.Select, qualifier: Sequence[str], name: str
) -> tuple[exp.Select, _Source] | None:
    """The innermost source that a column may be of, and the SELECT that reads it."""
    scope: exp.Select | None = select
    folded = [part.casefold() for part in qualifier]
    while scope is not None:
        sources = list(_sources(scope))
        if folded:
            sources = [each for each in sources if each.is_called(folded)]
        if len(sources) > 1:
            tables = ", ".join(".".join(each.names) or "a query" for each in sources)
            raise Invalid(
                f"column {name} may be of any of {tables}: write the name of one table before it"
            )
        if sources:
            return scope, sources[0]
        scope = scope.parent_select
    return None


def _sources(select: exp.Select) -> Iterator[_Source]:
    """The entries of a SELECT's own FROM and JOINs."""
    joined = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in joined:
        read = None if source is None else source.this
        if read is None:
            continue
        names: tuple[str, ...] = (read.alias,) if read.alias else ()
        place = None
        if isinstance(read, exp.Table) and read.parts:
            parts = read.parts
            if all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
                names = names or tuple(part.name for part in parts)
                place = parts[0].meta["start"]
        yield _Source(tuple(name.casefold() for name in names), place, bool(read.alias))


def _refuse_all_columns(select: exp.Select) -> None:
    joins = select.args.get("joins") or ()
    natural = any((join.args.get("method") or "").upper() == "NATURAL" for join in joins)
    tables = (each for each in select.find_all(exp.Table) if each.parent_select is select)
    if natural or any(table.args.get("pivots") for table in tables):
        raise Invalid(
            "a NATURAL JOIN, PIVOT or UNPIVOT is by all columns of a table, and metadata columns "
            "are none of them: read the table in a subquery that names its columns"
        )


def _stars(select: exp.Select, text: str) -> Iterator[Star]:
    sources = list(_sources(select))
    for star in select.find_all(exp.Star):
        if star.parent_select is not select or isinstance(star.parent, exp.Count):
            continue
        of = sources
        if isinstance(star.parent, exp.Column):
            qualifier = [part.name.casefold() for part in star.parent.parts[:-1]]
            of = [each for each in sources if each.is_called(qualifier)]
        places = tuple(each.place for each in of if each.place is not None)
        at = star.meta.get("end", -1)
        is_written = at >= 0 and text[at] == "*"
        yield Star(at + 1 if is_written else None, places, not any(star.args.values()))
