"""Rows of a table in messages, and the table's definition as far as messages tell it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates
from headwater.cdc.kafka.connect_types import ConnectType, lake_type
from headwater.cdc.kafka.events import CREATE, DELETE, READ, UPDATE, EventGroup, Image
from headwater.cdc.kafka.origins import united_origins
from headwater.cdc.kafka.tombstones import tombstone_types
from headwater.cdc.kafka.values import column_values
from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.model.type_changes import wider_type
from headwater.cdc.source.log_batches import LoggedRows
from headwater.storage.errors import CorruptData, HeadwaterError, Invalid, Unsupported
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import to_arrow

__all__ = ["KafkaTableRows", "definition", "united"]


def definition(group: EventGroup) -> SourceTable:
    """The table that some messages describe.

    Raises:
        Unsupported: A type is not known, or the key is not one of the row's columns.
    """
    key = tuple(group.key or ())
    columns = []
    for name, type_ in group.columns:
        try:
            type_in_lake = lake_type(type_)
        except Unsupported as error:
            raise Unsupported(
                f"column '{name}' of {group.table}: {error.message}; let the connector leave the "
                "column out (column.exclude.list), or convert it"
            ) from error
        nullable = replace(type_in_lake, nullable=name not in key)
        columns.append(SourceColumn(name, str(type_), nullable))
    outside = [name for name in key if name not in dict(group.columns)]
    if outside:
        raise Unsupported(
            f"the messages' key of {group.table} has '{outside[0]}', which is not a column; let "
            "the connector send the columns of the primary key alone as the key"
        )
    origin = None if group.origin is None else group.origin.to_json()
    return SourceTable(group.table, columns, key, storage=origin)


def united(known: SourceTable, new: SourceTable) -> SourceTable:
    """A table with the columns of both definitions, in the types that hold the values of both.

    Kafka has no statements: a column that messages lack stays, and is null in their rows.

    Raises:
        Unsupported: A column has another type, the key has other columns, or the events come from
            another connector or database.
    """
    origin = united_origins(known.name, known.storage, new.storage)
    if tuple(known.primary_key) != tuple(new.primary_key):
        old, key = ", ".join(known.primary_key) or "none", ", ".join(new.primary_key) or "none"
        raise Unsupported(
            f"the messages' key of {new.name} was ({old}) and is ({key}); create the lake's tables "
            "again: headwater cdc resnapshot --all --replace"
        )
    columns = {column.name: column for column in known.columns}
    for column in new.columns:
        before = columns.setdefault(column.name, column)
        if before is column:
            continue
        wider = wider_type(before.type, column.type)
        if wider is None:
            raise Unsupported(
                f"column '{column.name}' of {new.name} was {before.type} and is {column.type} "
                f"('{column.source_type}'), which do not fit into one type; give it another name "
                "at the source, or create the lake's tables again: headwater cdc resnapshot --all "
                "--replace"
            )
        if wider != before.type:
            columns[column.name] = replace(before, type=wider, source_type=column.source_type)
    return replace(known, columns=tuple(columns.values()), storage=origin)


class KafkaTableRows:
    """Rows of a table in messages, in their order.

    Args:
        columns: The names of the table's columns.
        parts: The groups of messages that belong together: rows of each part go before those of
            the next one.
        size: The bytes of the batch that they are in.
    """

    def __init__(
        self, columns: Sequence[str], parts: Sequence[Sequence[EventGroup]], size: int = 0
    ) -> None:
        self.columns, self.size = columns, size
        self._parts = parts

    def parts(self, size: int) -> Iterator[KafkaTableRows]:
        """The rows in parts of at least some bytes, see `TableRows.parts`."""
        del size
        for part in self._parts:
            yield KafkaTableRows(self.columns, [part], self.size // len(self._parts))

    @property
    def has_rows_before(self) -> bool:
        """Whether messages have rows as they were before updates, and all of deleted ones."""
        return all(
            group.before.is_present[np.isin(group.ops, (UPDATE, DELETE))].all()
            for part in self._parts
            for group in part
        )

    def decoded(
        self, table: SourceTable, bad_dates: BadDates, changed: Sequence[str] = ()
    ) -> Iterator[LoggedRows]:
        """Decode the rows, see `TableRows.decoded`."""
        for part in self._parts:
            groups = [_Group(group, table, bad_dates).rows(changed) for group in part]
            rows = pa.concat_tables([rows for rows, *_ in groups])
            kinds = np.concatenate([kinds for _, kinds, *_ in groups])
            order = np.concatenate([order for _, _, order, _ in groups])
            left_out = sum(left_out for *_, left_out in groups)
            if len(groups) > 1:
                sorted_ = np.argsort(order, kind="stable")
                rows, kinds = rows.take(pa.array(sorted_)), kinds[sorted_]
            yield LoggedRows(rows, pa.array(kinds), left_out=left_out)


class _Group:
    """Rows of messages that have one schema."""

    def __init__(self, group: EventGroup, table: SourceTable, bad_dates: BadDates) -> None:
        self._group, self._table, self._bad_dates = group, table, bad_dates
        self._types = dict(group.columns)
        if group.are_tombstones:
            self._types = tombstone_types(group.columns, table)
        known = {column.name for column in table.columns}
        missing = [name for name in self._types if name not in known]
        if missing:
            raise Unsupported(
                f"table {table.name}: messages have the column '{missing[0]}', which is not known; "
                "create the lake's tables again: headwater cdc resnapshot --all --replace"
            )

    def rows(
        self, changed: Sequence[str]
    ) -> tuple[pa.Table, npt.NDArray[np.int8], npt.NDArray[np.int64], int]:
        """The rows, their kinds, their places, and how many before updates were left out.

        Args:
            changed: Rows before updates that change none of these columns are left out.
        """
        group = self._group
        has_after = group.after.is_present
        is_new = np.isin(group.ops, (CREATE, READ, UPDATE))
        if (is_new & ~has_after).any():
            raise CorruptData(f"table {self._table.name}: an event lacks the row 'after' it")
        is_update, is_delete = group.ops == UPDATE, group.ops == DELETE
        has_before = group.before.is_present
        keeps = is_update & has_before
        count = int(keeps.sum())
        if changed and count:
            keeps &= self._changes(changed)
        if not self._table.primary_key and ((is_update | is_delete) & ~has_before).any():
            raise Invalid(
                f"table {self._table.name} has no key, and an event lacks the row 'before' it; let "
                "the source log whole rows (REPLICA IDENTITY FULL)"
            )
        (before,), (after,) = np.nonzero(keeps | (is_delete & has_before)), np.nonzero(is_new)
        (keys,) = np.nonzero(is_delete & ~has_before)
        kinds = [
            np.where(is_delete[before], RowKind.DELETE, RowKind.UPDATE_BEFORE),
            np.where(is_update[after], RowKind.UPDATE_AFTER, RowKind.INSERT),
            np.full(len(keys), RowKind.DELETE),
        ]
        images = ((group.before, before), (group.after, after), (group.keys, keys))
        tables = [self._image(image, places) for image, places in images]
        # Two places for each message: the row before and the row after.
        order = np.concatenate(
            [2 * group.rows[before], 2 * group.rows[after] + 1, 2 * group.rows[keys]]
        )
        sorted_ = np.argsort(order, kind="stable")
        rows = pa.concat_tables(tables).take(pa.array(sorted_))
        made = np.concatenate(kinds).astype(np.int8)[sorted_]
        return rows, made, order[sorted_], count - int(keeps.sum())

    def _changes(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which messages have another value after them in some columns."""
        group = self._group
        differs = np.zeros(len(group.ops), np.bool_)
        every = pa.array(np.arange(len(differs)))
        for column in self._table.columns:
            type_ = self._types.get(column.name)
            if column.name not in names or type_ is None:
                continue
            before, after = (
                self._column(image, column, type_, every) for image in (group.before, group.after)
            )
            try:
                differs |= np.asarray(pc.fill_null(pc.not_equal(before, after), True))
            except pa.ArrowNotImplementedError:
                # Arrow does not compare arrays.
                differs[:] = True
        return differs

    def _image(self, image: Image, places: npt.NDArray[np.int64]) -> pa.Table:
        arrays, fields = [], []
        present = set(image.names)
        index = pa.array(places)
        for column in self._table.columns:
            arrow = to_arrow(column.type)
            fields.append(pa.field(column.name, arrow))
            if column.name not in present or not len(places):
                arrays.append(pa.nulls(len(places), arrow))
                continue
            type_ = self._types.get(column.name)
            if type_ is None:
                raise Unsupported(
                    f"table {self._table.name}: rows have the column '{column.name}', which their "
                    "schema does not have"
                )
            arrays.append(self._column(image, column, type_, index))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _column(
        self, image: Image, column: SourceColumn, type_: ConnectType, places: pa.Array
    ) -> pa.Array:
        try:
            values = image.column(column.name, type_)
            if len(places) != len(values):
                values = values.take(places)
            target = to_arrow(column.type)
            own = lake_type(type_)
            return column_values(values, type_, own, self._bad_dates).cast(target)
        except HeadwaterError as error:
            problem = f"column '{column.name}' of {self._table.name}: {error.message}"
            is_corrupt = isinstance(error, CorruptData)
            raise (CorruptData(problem) if is_corrupt else Invalid(problem)) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Invalid(
                f"column '{column.name}' of {self._table.name}: a value of type '{type_}' cannot "
                f"be {column.type}: {error}"
            ) from error
