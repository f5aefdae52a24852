"""The changes of a table's columns that a write may make: Paimon's ``write.merge-schema``.

Source: ``SchemaMergingUtils.java``, ``SparkConnectorOptions.java``. One thing is not as there: a
column whose type is wider than that of the new values stays, where Paimon refuses the write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.spark.names import columns_by_name
from headwater.spark.option_values import boolean_value
from headwater.storage.casts.type_changes import equal_types, is_widening, refuse_type_change
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import AddColumn, SchemaChange, UpdateColumnType
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

__all__ = ["CASTS", "MERGES", "MERGE_OPTIONS", "WIDENS", "SchemaMerging"]

MERGES = "write.merge-schema"
WIDENS = "write.merge-schema.type-widening"
CASTS = "write.merge-schema.explicit-cast"
MERGE_OPTIONS = (MERGES, WIDENS, CASTS)
"""The options' names."""


@dataclass(frozen=True)
class SchemaMerging:
    """The changes that a write may make; without the flags it only adds columns.

    Attributes:
        widens: ``write.merge-schema.type-widening``: a column takes the type of new values if that
            holds its own, as INT becomes BIGINT.
        casts: ``write.merge-schema.explicit-cast``: a column takes the type of new values even if
            its own are cast to it with loss.
    """

    widens: bool = False
    casts: bool = False

    @staticmethod
    def parse(options: Mapping[str, str]) -> SchemaMerging | None:
        """Read Spark's option map; None when columns stay; raises Invalid."""
        merges = boolean_value(options, MERGES)
        widens, casts = boolean_value(options, WIDENS), boolean_value(options, CASTS)
        for name, value, needed, present in (
            (WIDENS, widens, MERGES, merges),
            (CASTS, casts, WIDENS, widens),
        ):
            if value and not present:
                raise Invalid(f"option '{name}' counts only with '{needed}'; set that to true, too")
        return SchemaMerging(bool(widens), bool(casts)) if merges else None

    def changes(
        self, present: Sequence[DataField], given: Sequence[DataField]
    ) -> list[SchemaChange]:
        """The changes that make room for the columns of new rows.

        Args:
            present: The table's columns.
            given: The rows' columns.

        Raises:
            Invalid: A column cannot take the type of its new values.
        """
        return list(self._fields((), present, given))

    def _fields(
        self, path: tuple[str, ...], present: Sequence[DataField], given: Sequence[DataField]
    ) -> Iterator[SchemaChange]:
        own = {field.name: field for field in present}
        named = columns_by_name(list(own), [field.name for field in given])
        found = {other: own[name] for name, other in named.items()}
        alike = {name.casefold(): name for name in own}
        for field in given:
            if field.name in found:
                at = (*path, found[field.name].name)
                yield from self._type(at, found[field.name].type, field.type)
                continue
            at = (*path, field.name)
            folded = field.name.casefold()
            if folded in alike:
                raise Invalid(
                    f"column '{'.'.join(at)}' and column '{alike[folded]}' differ only in case; "
                    "give it another name"
                )
            alike[folded] = field.name
            yield AddColumn(at, replace(field.type, nullable=True))

    def _type(
        self, path: tuple[str, ...], present: DataType, given: DataType
    ) -> Iterator[SchemaChange]:
        match present, given:
            case RowType(), RowType():
                yield from self._fields(path, present.fields, given.fields)
            case ArrayType(), ArrayType():
                yield from self._type((*path, "element"), present.element, given.element)
            case MultisetType(), MultisetType():
                yield from self._type((*path, "element"), present.element, given.element)
            case MapType(), MapType():
                yield from self._type((*path, "value"), present.value, given.value)
            case _ if self.widens and not equal_types(present, given):
                if self.casts or not is_widening(given, present):
                    name = ".".join(path)
                    forbidden = f"'{CASTS}' is not true; set it, or cast the values"
                    refuse_type_change(
                        name, present, given, explicit=self.casts, forbidden=forbidden
                    )
                    yield UpdateColumnType(path, given, keep_nullability=True)
