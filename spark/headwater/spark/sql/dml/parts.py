"""Parts that statements which change rows have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.spark.names import dotted
from headwater.spark.row_change import RowCounts
from headwater.spark.source.table_read import read_frame
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.read import plan_read
from headwater.spark.sql.query.references import OuterTable
from headwater.spark.sql.query.splice import splice_expression
from headwater.spark.sql.session_options import table_to_change
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_views import drop_temporary_view
from headwater.storage.errors import Unsupported

__all__ = ["Expressions", "Target", "assigned_name", "assignments", "counted", "target_table"]


@dataclass
class Expressions:
    """The expressions of a statement, whose subqueries read tables of the catalog.

    As a context manager it forgets the temporary views that stand for these tables.

    Attributes:
        context: The user's.
        target: The table that the statement changes.
        source: The source of a merge.
    """

    context: SqlContext
    target: Target
    source: OuterTable | None = None
    _views: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in self._views:
            drop_temporary_view(self.context.session.spark, name)

    def text(self, written: str) -> str:
        """The user's text, with views in the places of the catalog's tables.

        Raises:
            Unsupported: It names the places of rows of the table that is changed.
        """
        target = self.target.outer()
        outer = [target] if self.source is None else [target, self.source]
        spliced = splice_expression(written, self.context, outer)
        self._reject_metadata(target.metadata)
        session = self.context.session
        places: dict[str, str] = {}
        views: dict[int, str] = {}
        for number, relation in enumerate(spliced.relations):
            if id(relation) in views:
                # Equal subqueries are then equal to Spark, too.
                places[f"t{number}"] = views[id(relation)]
                continue
            runtime = self.target.table.storage.runtime
            name = f"headwater_{runtime.new_uuid().replace('-', '')}"
            zone = str(session.spark.conf.get("spark.sql.session.timeZone"))
            read = plan_read(session, relation, None, zone)
            read_frame(session, read).createOrReplaceTempView(name)
            if session.explains is not None:
                self.context.last_query = (*self.context.last_query, read)
            self._views.append(name)
            places[f"t{number}"] = views[id(relation)] = name
        for function in spliced.functions:
            session.spark.sql(function.statement.format(**places))
        return spliced.text.format(**places)

    def _reject_metadata(self, columns: Sequence[str]) -> None:
        table = self.target.table
        own = {name.casefold() for name in table.schema.moved_columns}
        for name in columns:
            if name.casefold() not in own:
                raise Unsupported(
                    f"table {table.name}: {name} is not known of rows that are changed: choose "
                    "them by the table's own columns, which a SELECT tells for the rows of a place"
                )


@dataclass(frozen=True)
class Target:
    """The table that a statement changes.

    Attributes:
        table: The table.
        alias: What its columns are qualified with in expressions.
        has_alias: Whether the statement gives it that alias.
        warehouse: The warehouse's name.
        drops_qualifiers: Whether its columns must have no qualifier when an expression runs.
    """

    table: Table
    alias: str
    has_alias: bool
    warehouse: str
    drops_qualifiers: bool = False

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The names that may stand before a column's."""
        if self.has_alias:
            return [(self.alias,)]
        name = self.qualified_name
        return [name, name[1:], name[2:]]

    @property
    def qualified_name(self) -> tuple[str, str, str]:
        """The names of its warehouse, its database and itself."""
        return self.warehouse, self.table.identifier.database, self.table.identifier.name

    def outer(self) -> OuterTable:
        """The table around an expression."""
        names = (self.alias,) if self.has_alias else self.qualified_name
        return OuterTable(names, self.has_alias, None if self.drops_qualifiers else self.alias)


def target_table(statement: Statement, context: SqlContext, *ends: str) -> Target:
    """Read the table that a statement changes, with its alias.

    Args:
        statement: Read up to the table's name.
        context: The user's.
        ends: The keywords that may follow.
    """
    parts = statement.name_parts()
    table = table_to_change(context, parts, statement.hint())
    if statement.accept("AS") or not (statement.at_end or any(map(statement.peek, ends))):
        return Target(table, statement.name(), True, context.catalog.warehouse)
    return Target(table, parts[-1], False, context.catalog.warehouse)


def assignments(statement: Statement, target: Target, *ends: str) -> dict[str, str]:
    """Read ``a = expression, s.f = expression``.

    Args:
        statement: Read up to the first.
        target: The table.
        ends: The keywords that may follow.
    """
    values: dict[str, str] = {}
    while True:
        name = assigned_name(statement.name_parts(), target)
        statement.expect("=")
        text = statement.until(",", *ends)
        if not text:
            raise statement.unexpected("an expression")
        if name in values:
            raise statement.unexpected(f"no other value of '{name}'")
        values[name] = text
        if not statement.accept(","):
            return values


def assigned_name(parts: Sequence[str], target: Target) -> str:
    """The name of an assigned column or field, without the table's."""
    columns = {name.casefold() for name in target.table.schema.field_by_name}
    for prefix in target.names:
        head = [part.casefold() for part in parts[: len(prefix)]]
        if len(parts) > len(prefix) and head == [part.casefold() for part in prefix]:
            rest = parts[len(prefix) :]
            if rest[0].casefold() in columns:
                return _name(rest)
    return _name(parts)


def _name(parts: Sequence[str]) -> str:
    # A column of one part is looked up as it is.
    return parts[0] if len(parts) == 1 else dotted(parts)


def counted(counts: RowCounts | None, *kinds: str) -> pa.Table:
    """The answer of a statement: the rows it affected, null where that is not known."""
    if counts is None:
        nothing = pa.array([None], pa.int64())
        return pa.table({f"num_{kind}_rows": nothing for kind in ("affected", *kinds)})
    rows = {
        "affected": counts.affected,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "inserted": counts.inserted,
    }
    return pa.table({f"num_{kind}_rows": pa.array([rows[kind]]) for kind in ("affected", *kinds)})
