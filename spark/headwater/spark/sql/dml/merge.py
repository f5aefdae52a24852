"""``MERGE INTO``."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.spark.names import quoted
from headwater.spark.option_values import boolean_value
from headwater.spark.schema_merging import CASTS, MERGES, WIDENS
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.dml.change import assigned_value
from headwater.spark.sql.dml.parts import (
    Expressions,
    Target,
    assigned_name,
    assignments,
    counted,
    target_table,
)
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.references import OuterTable
from headwater.spark.sql.session_options import paimon_settings
from headwater.spark.sql.statement import Statement, split_statements
from headwater.spark.write.merge import MergeBuilder
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema.system_fields import TRACKING_FIELDS

__all__ = ["HANDLERS"]


def _merge(statement: Statement, context: SqlContext) -> pa.Table:
    """``MERGE [WITH SCHEMA EVOLUTION] INTO name USING source ON condition WHEN …``.

    The session's setting of Paimon's Spark means the same as ``WITH SCHEMA EVOLUTION``.
    """
    statement.expect("MERGE")
    evolves = statement.accept("WITH")
    if evolves:
        statement.expect("SCHEMA", "EVOLUTION")
    settings = paimon_settings(context)
    evolves |= bool(boolean_value(settings, MERGES))
    statement.expect("INTO")
    target = target_table(statement, context, "USING")
    statement.expect("USING")
    written = statement.until("ON")
    statement.expect("ON")
    mark = statement.mark()
    rest = statement.rest()
    statement.reset(mark)
    rows, source = _source(written, rest, target, context)
    with Expressions(context, target, source) as expressions:
        merge = MergeBuilder(
            context.session,
            target.table,
            rows,
            expressions.text(statement.until("WHEN")),
            target_alias=target.alias,
            source_alias=source.alias or "",
        )
        if evolves:
            merge.with_schema_evolution(
                widen_types=bool(boolean_value(settings, WIDENS)),
                explicit_casts=bool(boolean_value(settings, CASTS)),
            )
        if statement.at_end:
            raise statement.unexpected("WHEN")
        while not statement.at_end:
            _Clause(statement, merge, target, expressions).read()
        counts = merge.execute()
    return counted(counts, "updated", "deleted", "inserted")


def _source(
    written: str, rest: str, target: Target, context: SqlContext
) -> tuple[DataFrame, OuterTable]:
    """The rows of ``name [alias]`` or ``(query) [alias]``, and what expressions call them.

    Args:
        written: The source.
        rest: The statement after it. Columns of row tracking that it names are read.
        target: The table that is changed.
        context: The user's.
    """
    parsed = split_statements(written)
    if not parsed:
        raise Invalid("MERGE INTO needs a source after USING: a table or a query in brackets")
    (words,) = parsed
    alias = "source"
    names: tuple[str, ...] | None = None
    if words.peek("("):
        words.bracketed()
    else:
        names = _qualified(words.name_parts(), context)
        alias = names[-1]
    if not words.at_end:
        words.accept("AS")
        alias, names = words.name(), None
    if words.peek("("):
        words.bracketed()
    if not words.at_end:
        raise Unsupported(
            f"the source '{written}' of a merge is neither a table nor a query; write "
            "USING (SELECT …) AS alias"
        )
    frame = query_frame(f"SELECT * FROM {written}", context)
    present = {name.casefold() for name in frame.columns}
    tracked = [
        f"{quoted(alias)}.{name}"
        for name in TRACKING_FIELDS
        if name.casefold() not in present and _names(rest, alias, name)
    ]
    if tracked:
        frame = query_frame(f"SELECT *, {', '.join(tracked)} FROM {written}", context)
    if names is not None and alias.casefold() == target.alias.casefold():
        # Their databases tell them apart, where columns say them.
        alias = "_".join(names)
    return frame, OuterTable(names or (alias,), names is None, alias)


def _qualified(parts: tuple[str, ...], context: SqlContext) -> tuple[str, ...]:
    """The parts of a name with the warehouse and the database in use before them."""
    whole = parts if len(parts) > 1 or context.database is None else (context.database, *parts)
    return (context.catalog.warehouse, *whole) if len(whole) == 2 else whole


def _names(text: str, alias: str, name: str) -> bool:
    """Whether a text names a column of a source by the source's name."""
    return bool(re.search(rf"\b{re.escape(alias)}`?\s*\.\s*`?{name}\b", text, re.IGNORECASE))


class _Clause:
    """Reads a ``WHEN`` clause into a merge."""

    def __init__(
        self,
        statement: Statement,
        merge: MergeBuilder,
        target: Target,
        expressions: Expressions,
    ) -> None:
        self._statement = statement
        self._merge = merge
        self._target = target
        self._expressions = expressions

    def read(self) -> None:
        statement, merge = self._statement, self._merge
        statement.expect("WHEN")
        if statement.accept("MATCHED"):
            condition = self._condition()
            if statement.accept("DELETE"):
                merge.when_matched_delete(condition)
            elif (values := self._update()) is None:
                merge.when_matched_update_all(condition)
            else:
                merge.when_matched_update(values, condition)
            return
        statement.expect("NOT", "MATCHED")
        if statement.accept("BY", "SOURCE"):
            condition = self._condition()
            if statement.accept("DELETE"):
                merge.when_not_matched_by_source_delete(condition)
                return
            values = self._update()
            if values is None:
                raise Invalid("rows that no row of the source matches have no values for SET *")
            merge.when_not_matched_by_source_update(values, condition)
            return
        if statement.accept("BY"):
            statement.expect("TARGET")
        condition = self._condition()
        values = self._insert()
        if values is None:
            merge.when_not_matched_insert_all(condition)
        else:
            merge.when_not_matched_insert(values, condition)

    def _condition(self) -> str | None:
        statement = self._statement
        condition = None
        if statement.accept("AND"):
            condition = self._expressions.text(statement.until("THEN"))
        statement.expect("THEN")
        return condition

    def _update(self) -> dict[str, object] | None:
        statement = self._statement
        statement.expect("UPDATE")
        if statement.accept("*") or statement.accept("SET", "*"):
            return None
        statement.expect("SET")
        values = assignments(statement, self._target, "WHEN")
        return {name: self._value(text) for name, text in values.items()}

    def _insert(self) -> dict[str, object] | None:
        statement = self._statement
        statement.expect("INSERT")
        if statement.accept("*"):
            return None
        names = list(self._target.table.schema.field_by_name)
        if statement.accept("("):
            names = []
            while not statement.accept(")"):
                if names:
                    statement.expect(",")
                parts = statement.name_parts()
                names.append(assigned_name(parts, self._target))
        statement.expect("VALUES", "(")
        texts: list[str] = []
        while not statement.accept(")"):
            if texts:
                statement.expect(",")
            texts.append(statement.until(","))
        if len(texts) != len(names):
            raise Invalid(
                f"table {self._target.table.name}: INSERT names {len(names)} columns and has "
                f"{len(texts)} values"
            )
        if len(set(names)) < len(names):
            raise Invalid(f"table {self._target.table.name}: INSERT names a column twice")
        return {name: self._value(text) for name, text in zip(names, texts, strict=True)}

    def _value(self, text: str) -> object:
        return assigned_value(self._expressions, text)


HANDLERS: Mapping[tuple[str, ...], Handler] = {("MERGE",): _merge}
