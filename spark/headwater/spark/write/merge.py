"""Merge a source's rows into a table: clauses are added one by one, then executed as one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Self

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns, filled_value
from headwater.spark.errors import users_words
from headwater.spark.explained_write import planned_from
from headwater.spark.names import column_of, parts_of, quoted
from headwater.spark.row_change import Repeats, RowCounts
from headwater.spark.schema_merging import SchemaMerging
from headwater.spark.source.needs import stand_in
from headwater.spark.source.table_frame import PLACE_FIELDS
from headwater.spark.source.worker_rows import Places
from headwater.spark.types import spark_schema
from headwater.spark.write.change_commit import change_rows
from headwater.spark.write.changes import Changes
from headwater.spark.write.clauses import (
    Action,
    Clause,
    Expression,
    Projection,
    assigned,
    expression,
    rewrites_rows,
)
from headwater.spark.write.condition_needs import JoinNeeds, columns_needed, join_needs
from headwater.spark.write.evolve import ADDS_COLUMNS, merge_columns
from headwater.spark.write.kept_rows import kept_rows, with_kept_rows
from headwater.spark.write.source_bounds import SourceBounds, bounds_of, comparable_pairs
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.spark.write.target import (
    Target,
    columns_to_read,
    places_of,
    read_target,
    without_places,
)
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import And
from headwater.storage.schema.system_fields import TRACKING_FIELDS
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["MergeBuilder"]

_KEY = "_headwater_key"
Values = Mapping[str, object]


@dataclass
class _Clauses:
    matched: list[Clause] = field(default_factory=list)
    not_matched: list[Clause] = field(default_factory=list)
    not_matched_by_source: list[Clause] = field(default_factory=list)

    @property
    def all(self) -> list[Clause]:
        return [*self.matched, *self.not_matched, *self.not_matched_by_source]


class MergeBuilder:
    """A merge of a source's rows into a table. Made by `SparkLake.merge`.

    Clauses of a kind are asked in the order they were added: the first whose condition holds
    decides what becomes of a row. Conditions and values are Spark columns or SQL text, in which
    the table's columns are ``target.…`` and the source's ``source.…`` unless other names were
    chosen.

    Args:
        session: The catalog's.
        table: The table.
        source: The source's rows. They are computed once, however often they are read, and once
            more when executors that kept them are lost before anything is committed.
        on: The columns in which a row of the table and one of the source that match are equal, or
            the condition that they match by.
        target_alias: The name of the table in expressions.
        source_alias: The name of the source.
        nulls_match: With columns in `on`: null equals null.
    """

    def __init__(
        self,
        session: CatalogSession,
        table: Table,
        source: DataFrame,
        on: Expression | Sequence[str],
        *,
        target_alias: str = "target",
        source_alias: str = "source",
        nulls_match: bool = False,
    ) -> None:
        if target_alias.casefold() == source_alias.casefold():
            raise Invalid(f"the table and the source of a merge are both called '{source_alias}'")
        self._session = session
        self._table = table
        self._source = source
        self._target_alias = target_alias
        self._source_alias = source_alias
        self._on = on
        self._nulls_match = nulls_match
        # Columns of the source in which null is to match.
        self._with_nulls: frozenset[str] = frozenset()
        self._clauses = _Clauses()
        self._evolution: SchemaMerging | None = None

    # Clauses ----------------------------------------------------------------------------------

    def when_matched_update(self, set: Values, condition: Expression | None = None) -> Self:
        """Give columns of the table's row new values."""
        return self._add(self._clauses.matched, Action.UPDATE, condition, set)

    def when_matched_update_all(self, condition: Expression | None = None) -> Self:
        """Give the table's row the values of the source's columns of the same names."""
        return self._add(self._clauses.matched, Action.UPDATE, condition)

    def when_matched_delete(self, condition: Expression | None = None) -> Self:
        """Delete the table's row."""
        return self._add(self._clauses.matched, Action.DELETE, condition)

    def when_not_matched_insert(self, values: Values, condition: Expression | None = None) -> Self:
        """Add a row; columns without a value take their default, or null."""
        return self._add(self._clauses.not_matched, Action.INSERT, condition, values)

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> Self:
        """Add a row of the source's columns of the table's names."""
        return self._add(self._clauses.not_matched, Action.INSERT, condition)

    def when_not_matched_by_source_update(
        self, set: Values, condition: Expression | None = None
    ) -> Self:
        """Give columns of the table's rows that no row of the source matches new values."""
        return self._add(self._clauses.not_matched_by_source, Action.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, condition: Expression | None = None) -> Self:
        """Delete the table's rows that no row of the source matches."""
        return self._add(self._clauses.not_matched_by_source, Action.DELETE, condition)

    def with_schema_evolution(
        self, *, widen_types: bool = False, explicit_casts: bool = False
    ) -> Self:
        """Add the source's columns, and fields of structs, that the table lacks.

        All of them are added if a clause takes all of the source's columns, else those columns that
        clauses name. Columns that the source lacks, and fields of its structs, keep their values
        where all columns are updated; in new rows columns take their defaults, and fields are null,
        as they are in arrays and maps.

        Args:
            widen_types: Columns take the types of the source's that hold all of their values, as
                INT becomes BIGINT; without it the source's values are cast.
            explicit_casts: Also types that do not.
        """
        self._evolution = SchemaMerging(widens=widen_types, casts=explicit_casts)
        return self

    def _add(
        self,
        clauses: list[Clause],
        action: Action,
        condition: Expression | None,
        values: Values | None = None,
    ) -> Self:
        if clauses and clauses[-1].condition is None:
            raise Invalid(
                f"table {self._table.name}: a clause without a condition takes all rows, so that "
                "the one after it takes none; give it a condition"
            )
        if values is not None and not values:
            raise Invalid(f"table {self._table.name}: a clause names no column")
        clauses.append(
            Clause(
                action,
                None if condition is None else expression(condition),
                None if values is None else assigned(values),
            )
        )
        return self

    # Execution --------------------------------------------------------------------------------

    @users_words()
    def execute(self) -> RowCounts:
        """Merge, as one commit.

        When another commit changes the same rows meanwhile, they are matched again, up to
        ``commit.max-retries`` times, with the same rows of the source.

        Returns:
            The number of rows that were inserted, updated and deleted.

        Raises:
            Invalid: A clause is missing; several rows of the source match one row of the table; a
                value does not fit its column; or rows cannot be updated there.
            NotFound: A column does not exist.
            Conflict: Other commits changed the same rows each time.
            Unavailable: Executors were lost again and again; nothing is committed.
            OutcomeUnknown: The commit may have happened.
        """
        clauses = self._clauses
        if not clauses.all:
            raise Invalid(f"table {self._table.name}: a merge needs a clause")
        if self._evolution:
            wanted = self._columns_wanted()
            if wanted:
                columns = st.StructType(wanted)
                with planned_from(self._session, self._source, self._table.name, ADDS_COLUMNS):
                    self._table = merge_columns(self._table, columns, self._evolution)
        storage = self._table.storage
        projection = Projection(
            storage,
            StoreAssignment(self._session.spark, storage.name, fills=self._evolution is not None),
            self._target_alias,
            self._source_alias,
            self._source.schema,
            evolves=self._evolution is not None,
            equal=self._equal_columns(),
        )
        projection.check(clauses.all)
        return with_kept_rows(storage.name, lambda: self._merge(projection))

    def _columns_wanted(self) -> list[st.StructField]:
        """The source's columns that the table is to have columns for."""
        fields = [
            field for field in self._source.schema.fields if field.name not in TRACKING_FIELDS
        ]
        own = list(self._table.schema.field_by_name)
        wanted: set[str] = set()
        for clause in self._clauses.all:
            if clause.values is None:
                if clause.action is not Action.DELETE:
                    return fields
                continue
            for name in clause.values:
                if column_of(name, own) is not None:
                    continue
                first, *rest = parts_of(name)
                if rest and first.casefold() == self._target_alias.casefold():
                    first, *rest = rest
                if not rest and column_of(first, own) is None:
                    wanted.add(first)
        named = {column_of(name, self._source.schema.names) for name in wanted}
        return [field for field in fields if field.name in named]

    def _merge(self, projection: Projection) -> RowCounts:
        clauses, storage = self._clauses, self._table.storage
        source = kept_rows(self._session, self._source)
        runs = self._session.explains is None
        if self._nulls_match and runs and not isinstance(self._on, str | Column):
            self._with_nulls = _columns_with_nulls(source, self._pairs(source, self._on).values())
        needs = self._needs(source)
        pairs = comparable_pairs(storage, source.schema, needs.pairs)
        bounds = bounds_of(storage, source, pairs) if pairs and runs else None
        predicate = needs.predicate
        if bounds is not None and bounds.predicate is not None:
            known = bounds.predicate
            predicate = known if predicate is None else And((known, predicate))
        if clauses.not_matched_by_source:
            bounds = predicate = None
        columns = self._columns()
        if storage.schema.tracking_fields:
            columns = self._columns_needed(projection, columns, pairs)

        def plan(table: Table, base: Snapshot | None, rewrites: bool) -> Changes:
            target = read_target(self._session, table, base, columns, predicate, rewrites=rewrites)
            rows = self._candidates(target, source, pairs, bounds)
            return Changes(
                self._changes(projection, rows, source),
                target.predicate,
                adds=bool(clauses.not_matched),
                is_serial=bool(clauses.not_matched),
                repeats=self._repeats,
                columns=projection.changed,
                read=target.read,
            )

        return change_rows(
            self._session,
            self._table,
            "MERGE",
            plan,
            predicate,
            rewrites=rewrites_rows(storage, clauses.all),
        )

    @property
    def _repeats(self) -> Repeats:
        """Deleting a row twice deletes it."""
        matched = self._clauses.matched
        deletes = len(matched) == 1 and matched[0].action is Action.DELETE
        return Repeats.DROPPED if deletes and matched[0].condition is None else Repeats.REFUSED

    def _needs(self, source: DataFrame) -> JoinNeeds:
        """The table's rows that a row of the source can match, by the condition."""
        if isinstance(self._on, str | Column):
            return join_needs(
                self._session.spark,
                self._table.storage,
                source.schema,
                self._on,
                self._target_alias,
                self._source_alias,
            )
        pairs = self._pairs(source, self._on)
        # A row with null is within no bounds.
        equal = {own: other for own, other in pairs.items() if other not in self._with_nulls}
        return JoinNeeds(equal)

    def _pairs(self, source: DataFrame, on: Sequence[str]) -> dict[str, str]:
        """The source's columns by the table's columns that they equal."""
        schema = self._table.schema
        pairs: dict[str, str] = {}
        for name in on:
            own_name = column_of(name, list(schema.field_by_name))
            other = column_of(name, source.schema.names)
            schema.column(name if own_name is None else own_name)
            if own_name is None or other is None:
                raise Invalid(f"table {self._table.name}: the source has no column '{name}'")
            pairs[own_name] = other
        return pairs

    def _equal_columns(self) -> list[str]:
        """The table's columns that the source's in pairs have the same values as, to the bit."""
        own = spark_schema(self._table.schema.fields)
        pairs = self._needs(self._source).pairs
        source = self._source.schema
        return [
            name
            for name, other in pairs.items()
            if name in own.names
            and own[name].dataType == source[other].dataType
            and not isinstance(own[name].dataType, st.FractionalType | st.StructType)
        ]

    def _columns_needed(
        self, projection: Projection, columns: Sequence[str], pairs: Mapping[str, str]
    ) -> list[str]:
        """The table's columns that changes are made of; those of `pairs` find candidates."""
        spark, storage = self._session.spark, self._table.storage

        def changes(frame: DataFrame) -> DataFrame:
            return self._changes(projection, frame, stand_in(spark, 1, self._source.schema))

        result = columns_needed(spark, storage, PLACE_FIELDS[Places.FILES], changes)
        return columns_to_read(storage, columns, {*result, *pairs})

    def _condition(self, source: DataFrame) -> Column:
        if isinstance(self._on, str | Column):
            return expression(self._on)
        pairs = self._pairs(source, self._on)
        if not pairs:
            raise Invalid(
                f"table {self._table.name}: name the columns that rows are to be matched by"
            )
        return reduce(
            Column.__and__,
            [self._equal(own, other) for own, other in pairs.items()],
        )

    def _equal(self, own: str, other: str) -> Column:
        left = sf.col(f"{self._target_alias}.{quoted(own)}")
        right = sf.col(f"{self._source_alias}.{quoted(other)}")
        field = self._table.schema.column(own)
        if CharColumns.from_session(self._session.spark, [field]).fills:
            right = filled_value(right, field.type)
        return left.eqNullSafe(right) if other in self._with_nulls else left == right

    def _columns(self) -> list[str]:
        """The table's columns that the merge needs to read."""
        schema = self._table.schema
        names = list(schema.field_by_name)
        clauses = self._clauses
        changing = [*clauses.matched, *clauses.not_matched_by_source]
        keeps_all = any(
            clause.values is not None
            or (clause.action is Action.DELETE and schema.primary_keys)
            or self._evolution is not None
            for clause in changing
        )
        if keeps_all or isinstance(self._on, Column):
            return names
        text = [self._on] if isinstance(self._on, str) else list(self._on)
        if any(clause.condition is not None for clause in changing):
            return names
        needed = " ".join(text).casefold()
        kept = {*schema.primary_keys, *schema.partition_keys, *schema.table_options.sequence_fields}
        return [name for name in names if name in kept or name.casefold() in needed]

    def _candidates(
        self,
        target: Target,
        source: DataFrame,
        pairs: Mapping[str, str],
        bounds: SourceBounds | None,
    ) -> DataFrame:
        """The table's rows that a row of the source may match; all that it may concern."""
        if bounds is None:
            return target.frame
        rows = target.frame
        if bounds.condition is not None:
            rows = rows.where(bounds.condition)
        if bounds.is_small:
            own, other = list(pairs), list(pairs.values())
            keys = source.select(
                *[sf.col(quoted(name)).alias(f"{_KEY}{at}") for at, name in enumerate(other)]
            ).distinct()
            same = [sf.col(quoted(name)) == sf.col(f"{_KEY}{at}") for at, name in enumerate(own)]
            rows = rows.join(sf.broadcast(keys), on=same, how="left_semi")
            if self._clauses.matched and self._clauses.not_matched:
                # Both look at these few rows; the table is read once.
                rows = kept_rows(self._session, rows)
        return rows

    def _changes(
        self, projection: Projection, candidates: DataFrame, source: DataFrame
    ) -> DataFrame:
        places = places_of(candidates)
        rows, own = candidates.alias(self._target_alias), source.alias(self._source_alias)
        condition = self._condition(source)
        clauses = self._clauses
        frames: list[DataFrame] = []
        if clauses.matched:
            pairs = rows.join(own, on=condition, how="inner")
            frames.append(projection.changes(pairs, clauses.matched, places, tells_matches=True))
        if clauses.not_matched:
            others = own.join(rows, on=condition, how="left_anti").alias(self._source_alias)
            new = projection.changes(others, clauses.not_matched)
            frames.append(without_places(new, candidates))
        if clauses.not_matched_by_source:
            left = rows.join(own, on=condition, how="left_anti").alias(self._target_alias)
            frames.append(projection.changes(left, clauses.not_matched_by_source, places))
        return reduce(DataFrame.unionByName, frames)


def _columns_with_nulls(rows: DataFrame, names: Iterable[str]) -> frozenset[str]:
    """The columns of a frame that hold nulls."""
    result = rows.agg(
        *[sf.bool_or(sf.col(quoted(name)).isNull()).alias(name) for name in dict.fromkeys(names)]
    )
    return frozenset(name for name, is_there in result.collect()[0].asDict().items() if is_there)
