"""The clauses of a change: conditions, and what becomes of the rows that fulfil them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.spark.char_columns import CharColumns, filled_value, is_text, stored_value
from headwater.spark.char_types import is_bounded
from headwater.spark.literal import literal
from headwater.spark.names import column_of, columns_by_name, parts_of, quoted
from headwater.spark.row_change import LOSES, MATCHED, MOVES
from headwater.spark.types import spark_type
from headwater.spark.write.nested_defaults import nested_default
from headwater.spark.write.store_assignment import StoreAssignment
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.maintenance.column_file_writer import check_column_changes
from headwater.storage.maintenance.key_rewrite import rewrites_files
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.schema.default_values import default_value
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataField

__all__ = [
    "DEFAULT",
    "Action",
    "Clause",
    "Default",
    "Expression",
    "Projection",
    "assigned",
    "expression",
    "rewrites_rows",
]

Expression: TypeAlias = Column | str
"""A Spark column, or SQL text."""

_CHANGE = "_headwater_change"
_AGE = "_headwater_age"


class Default(Enum):
    """The default of the column that a value is assigned to."""

    DEFAULT = "DEFAULT"


DEFAULT = Default.DEFAULT
"""In place of a value: the column's default, or null."""


class Action(Enum):
    """The outcomes for a row: its kind, and the verb in messages."""

    UPDATE = "+U"
    DELETE = "-D"
    INSERT = "+I"


@dataclass(frozen=True)
class Clause:
    """The outcome for the rows that fulfil a condition.

    Attributes:
        action: The change of them.
        condition: The condition; None for all.
        values: New values by column, or by a struct column's field (``address.city``, in backquotes
            what has dots in its name); None takes the source's columns of the same names.
    """

    action: Action
    condition: Column | None = None
    values: Mapping[str, Column | Default] | None = None


def expression(value: object) -> Column:
    """A Spark column; text is SQL, other values stand for themselves."""
    if isinstance(value, str):
        return sf.expr(value)
    return value if isinstance(value, Column) else sf.lit(value)


def assigned(values: Mapping[str, object]) -> dict[str, Column | Default]:
    """The values of a clause as a user gives them, see `expression`."""
    return {
        name: value if isinstance(value, Default) else expression(value)
        for name, value in values.items()
    }


def rewrites_rows(storage: TableStorage, clauses: Iterable[Clause]) -> bool:
    """Whether rows that clauses change are changed by rewriting their files."""
    actions = {clause.action for clause in clauses}
    return bool(actions & {Action.UPDATE, Action.DELETE}) and rewrites_files(
        storage, deletes=Action.DELETE in actions
    )


class Projection:
    """Makes changes of rows from the clauses that they fulfil.

    Args:
        storage: The table.
        assignment: Casts of new values.
        target: The name of the table's rows in frames.
        source: The name of the source's rows there; None where it has none.
        source_schema: Their columns.
        evolves: Whether columns that the source lacks keep their values, or take their defaults.
        equal: The table's columns that have the values of the source's in each pair of rows.

    Attributes:
        changed: After `check`, the columns that rows get new values of, in the table's order.
    """

    def __init__(
        self,
        storage: TableStorage,
        assignment: StoreAssignment,
        target: str,
        source: str | None = None,
        source_schema: st.StructType | None = None,
        *,
        evolves: bool = False,
        equal: Collection[str] = (),
    ) -> None:
        self._equal = frozenset(equal)
        self._writes_columns = storage.schema.table_options.evolves_columns
        self.changed: tuple[str, ...] = ()
        self._storage = storage
        self._fields = storage.schema.fields
        self._assignment = assignment
        self._target = target
        self._source = source
        self._source_schema = source_schema or st.StructType()
        self._stored = CharColumns.from_session(assignment.spark, self._fields).stored
        bounded = any(is_bounded(field.type) for field in self._fields)
        self._fills = bounded and not is_text(assignment.spark)
        self._evolves = evolves

    def check(self, clauses: Iterable[Clause]) -> None:
        """Refuse clauses that assign what they cannot.

        Raises:
            Invalid, NotFound: As said.
            Unsupported: As `check_column_changes`.
        """
        listed = list(clauses)
        updates = [clause for clause in listed if clause.action is Action.UPDATE]
        given = set[str]().union(*map(self._given, updates))
        self.changed = tuple(field.name for field in self._fields if field.name in given)
        for clause in listed:
            self._values(clause)
        if self._writes_columns:
            deletes = any(clause.action is Action.DELETE for clause in listed)
            check_column_changes(self._storage, self.changed, deletes=deletes)

    def changes(
        self,
        frame: DataFrame,
        clauses: Sequence[Clause],
        places: Sequence[str] = (),
        *,
        tells_matches: bool = False,
    ) -> DataFrame:
        """The changes of a frame's rows, each by the first clause that it fulfils.

        Args:
            frame: Rows of the table, of the source or pairs of both.
            clauses: The clauses.
            places: The columns that say where the table's rows stand.
            tells_matches: Whether to report pairs: those that no clause takes are told of, too.

        Returns:
            The table's columns, ``_ROW_KIND`` and `places`.
        """
        outcomes = self._outcomes(frame, clauses)
        if tells_matches:
            outcomes.append((sf.lit(True), self._kept()))
        change: Column | None = None
        for condition, row in outcomes:
            change = sf.when(condition, row) if change is None else change.when(condition, row)
        assert change is not None
        at = [sf.col(f"{self._target}.{name}").alias(name) for name in places]
        ages = self._assigned_ages(clauses)
        old = [self._own(name).alias(f"{_AGE}{number}") for number, name in enumerate(ages)]
        rows = frame.select(change.alias(_CHANGE), *old, *at).where(sf.col(_CHANGE).isNotNull())
        if ages:
            rows = self._with_losing(rows, ages)
        return rows.select(f"{_CHANGE}.*", *[quoted(name) for name in places])

    def _outcomes(self, frame: DataFrame, clauses: Sequence[Clause]) -> list[tuple[Column, Column]]:
        """Each clause's condition and the struct of the changed row."""
        values = [self._values(clause) for clause in clauses]
        flat = [value for own in values for value in own.values()]
        # Their types, which Spark knows without running anything.
        types = frame.select(*[one.alias(str(at)) for at, one in enumerate(flat)]).schema.fields
        at = iter(types)
        outcomes: list[tuple[Column, Column]] = []
        for clause, own in zip(clauses, values, strict=True):
            stored: dict[str, Column] = {}
            new = self._new_columns(clause)
            keeps_fields = clause.action is Action.UPDATE and clause.values is None
            for name, value in own.items():
                wanted = spark_type(self._storage.schema.column(name).type)
                old = self._own(name) if keeps_fields else None
                result = self._assignment.assigned(value, next(at).dataType, wanted, name, old)
                stored[name] = self._as_stored(name, result, clause) if name in new else result
            kind: Column = sf.lit(clause.action.value)
            if clause.action is Action.UPDATE:
                for name in self._storage.schema.primary_keys:
                    moved = ~stored[name].eqNullSafe(self._own(name))
                    kind = sf.when(moved, sf.lit(MOVES)).otherwise(kind)
            condition = sf.lit(True) if clause.condition is None else clause.condition
            outcomes.append((condition, self._row(stored, kind)))
        return outcomes

    def _new_columns(self, clause: Clause) -> Collection[str]:
        """The columns whose values a clause gives, and which are not those of the old row."""
        if clause.action is Action.UPDATE:
            return self._given(clause).keys()
        return self._storage.schema.field_by_name if clause.action is Action.INSERT else ()

    def _as_stored(self, name: str, value: Column, clause: Clause) -> Column:
        """A new value as the table keeps it."""
        schema = self._storage.schema
        result = stored_value(value, name, schema) if self._fills else None
        if result is None:
            return value
        if clause.action is Action.UPDATE and name in self._keys and name in self._stored:
            # A key that another engine has not filled up is the same key to Spark alone.
            old = sf.col(f"{self._target}.{quoted(name)}")
            same = filled_value(value, schema.column(name).type).eqNullSafe(old)
            return sf.when(same, self._own(name)).otherwise(result)
        return result

    def _row(self, values: Mapping[str, Column], kind: Column) -> Column:
        columns = [
            values.get(field.name, sf.lit(None)).cast(spark_type(field.type)).alias(field.name)
            for field in self._fields
        ]
        return sf.struct(*columns, kind.alias(ROW_KIND_COLUMN))

    def _kept(self) -> Column:
        """A row that stays: its key says which it is."""
        keys = {name: self._own(name) for name in self._keys}
        return self._row(keys, sf.lit(MATCHED))

    @property
    def _keys(self) -> Sequence[str]:
        schema = self._storage.schema
        return tuple(dict.fromkeys([*schema.primary_keys, *schema.partition_keys]))

    def _own(self, name: str) -> Column:
        """The value of the old row as it is stored."""
        return sf.col(f"{self._target}.{quoted(self._stored.get(name, name))}")

    # Values of clauses ------------------------------------------------------------------------

    def _values(self, clause: Clause) -> dict[str, Column]:
        """The values of the table's columns; for a deleted row of an append table, none."""
        if clause.action is Action.DELETE:
            if not self._storage.schema.primary_keys:
                return {}
            return {field.name: self._own(field.name) for field in self._fields}
        given = self._given(clause)
        if clause.action is Action.UPDATE:
            self._refuse_keys(given)
            names = self.changed if self._writes_columns else [one.name for one in self._fields]
            return {name: given.get(name, self._own(name)) for name in names}
        return {
            field.name: given[field.name] if field.name in given else self._default(field)
            for field in self._fields
        }

    def _given(self, clause: Clause) -> dict[str, Column]:
        """The values that a clause gives columns, but for those that files need not hold again."""
        if clause.values is not None:
            return self._assigned(clause)
        values = self._all_values()
        if self._writes_columns and clause.action is Action.UPDATE:
            return {name: value for name, value in values.items() if name not in self._equal}
        return values

    def _refuse_keys(self, given: Mapping[str, Column]) -> None:
        schema = self._storage.schema
        kinds = schema.table_options.row_kind_field if schema.primary_keys else None
        for name in given:
            if name in schema.primary_keys and self._source is None:
                raise Invalid(
                    f"table {self._storage.name}: column '{name}' is part of the primary key and "
                    "cannot be updated; delete the rows and write them again"
                )
            if name == kinds:
                raise Invalid(
                    f"table {self._storage.name}: 'rowkind.field' takes rows' kinds from column "
                    f"'{name}', which cannot be updated; write the rows instead"
                )

    def _all_values(self) -> dict[str, Column]:
        """The source's columns of the table's names."""
        own = columns_by_name([field.name for field in self._fields], self._source_schema.names)
        missing = [field.name for field in self._fields if field.name not in own]
        if missing and not self._evolves:
            raise Invalid(
                f"table {self._storage.name}: the source lacks the columns {', '.join(missing)}, "
                "which * stands for; name the columns, or merge with schema evolution"
            )
        return {name: sf.col(f"{self._source}.{quoted(each)}") for name, each in own.items()}

    def _assigned(self, clause: Clause) -> dict[str, Column]:
        assert clause.values is not None
        whole: dict[str, Column] = {}
        fields: dict[str, dict[tuple[str, ...], Column]] = {}
        for name, given in clause.values.items():
            column, path = self._place(name)
            if isinstance(given, Default):
                if path:
                    raise Invalid(f"table {self._storage.name}: field '{name}' has no default")
                value = self._default(self._storage.schema.column(column))
            else:
                value = given
            if (not path and column in whole) or path in fields.get(column, {}):
                raise Invalid(f"table {self._storage.name}: column '{name}' is assigned twice")
            if path:
                fields.setdefault(column, {})[path] = value
            else:
                whole[column] = value
        for column, parts in fields.items():
            if column in whole:
                raise Invalid(
                    f"table {self._storage.name}: column '{column}' and a field of it are assigned"
                )
            if clause.action is Action.INSERT:
                raise Invalid(
                    f"table {self._storage.name}: a row cannot be inserted with a part of column "
                    f"'{column}'; give all of it"
                )
            wanted = spark_type(self._storage.schema.column(column).type)
            whole[column] = self._with_fields(self._own(column), wanted, parts, column)
        return whole

    def _place(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The column, and the path of a field in it, that an assignment names."""
        names = list(self._storage.schema.field_by_name)
        if (result := column_of(name, names)) is not None:
            return result, ()
        first, *rest = parts_of(name)
        if rest and first.casefold() == self._target.casefold():
            first, *rest = rest
        result = column_of(first, names)
        if result is None:
            raise NotFound(
                f"table {self._storage.name} has no column '{name}'; its columns are "
                f"{', '.join(names)}",
                resource_type=ResourceType.COLUMN,
                resource_name=name,
            )
        return result, tuple(rest)

    def _with_fields(
        self,
        old: Column,
        kind: st.DataType,
        parts: Mapping[tuple[str, ...], Column],
        where: str,
    ) -> Column:
        """A struct with new values of some of its fields."""
        if not isinstance(kind, st.StructType):
            raise Invalid(
                f"table {self._storage.name}: column '{where}' of type {kind.simpleString()} has "
                "no fields to be assigned"
            )
        by_field: dict[str, dict[tuple[str, ...], Column]] = {}
        for (first, *rest), value in parts.items():
            result = column_of(first, kind.names)
            if result is None:
                raise Invalid(f"table {self._storage.name}: '{where}' has no field '{first}'")
            by_field.setdefault(result, {})[tuple(rest)] = value
        columns: list[Column] = []
        for field in kind.fields:
            own = by_field.get(field.name)
            value = old.getField(field.name)
            if own is not None:
                whole = own.get(())
                if whole is not None and len(own) > 1:
                    raise Invalid(
                        f"table {self._storage.name}: field '{where}.{field.name}' and a part of "
                        "it are assigned"
                    )
                value = (
                    self._with_fields(value, field.dataType, own, f"{where}.{field.name}")
                    if whole is None
                    else whole
                )
            columns.append(value.alias(field.name))
        return sf.struct(*columns)

    def _default(self, field: DataField) -> Column:
        text = field.default_value
        if text is None:
            return sf.lit(None)
        storage = self._storage
        where = f"table {storage.name}, column '{field.name}'"
        if not isinstance(field.type, AtomicType):
            return nested_default(field, storage.name)
        value = default_value(where, field.type, text, storage.runtime.time_zone)
        return literal(value, spark_type(field.type))

    def _assigned_ages(self, clauses: Iterable[Clause]) -> Sequence[str]:
        """The columns of ``sequence.field``, if clauses may give them new values."""
        schema = self._storage.schema
        ages = schema.table_options.sequence_fields if schema.primary_keys else ()
        updates = (clause for clause in clauses if clause.action is Action.UPDATE)
        return ages if any(self._given(clause).keys() & set(ages) for clause in updates) else ()

    def _with_losing(self, changes: DataFrame, ages: Sequence[str]) -> DataFrame:
        """Changes that tell new versions that would lose against the stored ones."""
        options = self._storage.schema.table_options
        older = sf.lit(False)
        for at, name in reversed(list(enumerate(ages))):
            field = self._storage.schema.column(name)
            new = _comparable(sf.col(f"{_CHANGE}.{quoted(name)}"), field)
            old = _comparable(sf.col(f"{_AGE}{at}"), field)
            older = _is_older(new, old, older, descending=options.sequence_descending)
        kind = sf.col(f"{_CHANGE}.{ROW_KIND_COLUMN}")
        loses = (kind == Action.UPDATE.value) & older
        told = sf.when(loses, sf.lit(LOSES)).otherwise(kind)
        return changes.withColumn(_CHANGE, sf.col(_CHANGE).withField(ROW_KIND_COLUMN, told))


def _is_older(new: Column, old: Column, if_equal: Column, *, descending: bool) -> Column:
    """Whether a value of ``sequence.field`` is older than another; null is, in either order."""
    return (
        sf.when(new.eqNullSafe(old), if_equal)
        .when(new.isNull(), True)
        .when(old.isNull(), False)
        .otherwise(new > old if descending else new < old)
    )


def _comparable(value: Column, field: DataField) -> Column:
    """A value with the order of Paimon's, in which -0.0 is below 0.0."""
    if not isinstance(spark_type(field.type), st.FloatType | st.DoubleType):
        return value
    ordered = sf.struct(value.alias("value"), value.cast("string") != "-0.0")
    return sf.when(value.isNotNull(), ordered)
