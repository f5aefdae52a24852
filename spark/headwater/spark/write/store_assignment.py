"""Values brought to the types of the columns they are stored in, as ANSI SQL and Spark have it.

A value of another type is cast when it is safe to in principle (a number to another kind of
number, anything atomic to a string); a number that does not fit fails the statement when it is met.
Source: ``Cast.canANSIStoreAssign`` of Spark.
"""

from __future__ import annotations

import math

import pyspark.sql.types as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.names import columns_by_name
from headwater.spark.session import is_set
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["StoreAssignment"]

_MOMENTS = (st.TimestampType, st.TimestampNTZType, st.DateType)


class StoreAssignment:
    """Casts of values to columns' types.

    Args:
        spark: The session, whose ``spark.sql.storeAssignmentPolicy`` must be ANSI.
        table: The table's name in error messages.
        fills: True if fields that a struct lacks are null.
        by_position: True if a struct's fields stand for the column's by their places, and not by
            their names, as in Spark's ``INSERT`` without ``BY NAME``.

    Attributes:
        spark: The session.

    Raises:
        Unsupported: The policy is another.
    """

    def __init__(
        self, spark: SparkSession, table: str, *, fills: bool = False, by_position: bool = False
    ) -> None:
        policy = spark.conf.get("spark.sql.storeAssignmentPolicy") or "ANSI"
        if policy.upper() != "ANSI":
            raise Unsupported(
                f"spark.sql.storeAssignmentPolicy is {policy}; Headwater stores values by the "
                "policy ANSI: set it to that"
            )
        self.spark = spark
        self._is_ansi = is_set(spark, "spark.sql.ansi.enabled")
        self._table = table
        self._fills = fills
        self._by_position = by_position

    def assigned(
        self,
        value: Column,
        source: st.DataType,
        target: st.DataType,
        where: str,
        old: Column | None = None,
    ) -> Column:
        """A value in the type of the column that it is assigned to.

        Args:
            value: The value.
            source: Its type.
            target: The column's type.
            where: The column's name.
            old: The column's old value, of which fields of structs stay that the value lacks; None
                where there is none.

        Raises:
            Invalid: The cast is not a safe one.
        """
        if source == target:
            return value
        if isinstance(source, st.StructType) and isinstance(target, st.StructType):
            return self._struct(value, source, target, where, old)
        if self._goes_within(source, target):
            match source, target:
                case st.ArrayType(elementType=given), st.ArrayType(elementType=wanted):
                    return sf.transform(
                        value, lambda each: self.assigned(each, given, wanted, f"{where}.element")
                    )
                case st.MapType(valueType=given), st.MapType(valueType=wanted):
                    if source.keyType == target.keyType:
                        return sf.transform_values(
                            value,
                            lambda _, each: self.assigned(each, given, wanted, f"{where}.value"),
                        )
                    if _is_assignable(source.keyType, target.keyType):
                        return self._map(value, source, target, where)
        if not _is_assignable(source, target):
            raise Invalid(
                f"table {self._table}, column '{where}': a value of type {source.simpleString()} "
                f"cannot be stored as {target.simpleString()} safely; cast it in the statement"
            )
        if isinstance(source, st.TimeType):
            return self._time(value, source, target, where)
        if self._is_ansi or not (
            isinstance(source, st.NumericType) and isinstance(target, st.NumericType)
        ):
            return value.cast(target)
        # The session's casts wrap around; a value that is stored must not.
        fitting = value.try_cast(target)
        overflows = value.isNotNull() & fitting.isNull()
        if isinstance(source, st.FloatType | st.DoubleType) and isinstance(target, st.DecimalType):
            # NaN and the infinities are no decimals: Spark stores null in any session.
            overflows &= sf.abs(value) < sf.lit(math.inf)
        failed = self._failed(value, target, where, "overflows")
        return sf.when(overflows, failed).otherwise(fitting)

    def _time(self, value: Column, source: st.DataType, target: st.DataType, where: str) -> Column:
        """A time of day that loses none of its digits."""
        fitting = value.cast(target)
        if not isinstance(target, st.TimeType):
            return fitting
        failed = self._failed(value, target, where, "has more digits than")
        return sf.when(fitting.cast(source) != value, failed).otherwise(fitting)

    def _failed(self, value: Column, target: st.DataType, where: str, verb: str) -> Column:
        """A column that fails the statement where it is computed: the value does not fit."""
        message = sf.concat(
            sf.lit(f"table {self._table}, column '{where}': "),
            value.cast("string"),
            sf.lit(f" {verb} {target.simpleString()}"),
        )
        return sf.raise_error(message).cast(target)

    def _goes_within(self, source: st.DataType, target: st.DataType) -> bool:
        """True if a collection is assigned item by item, as no cast of the whole will do."""
        if not _is_assignable(source, target):
            return True
        return not self._is_ansi and _changes_numbers(source, target)

    def _map(self, value: Column, source: st.MapType, target: st.MapType, where: str) -> Column:
        """A map whose keys get another type, too."""
        keys, values = (
            self.assigned(items, st.ArrayType(given), st.ArrayType(wanted), f"{where}.{name}")
            for items, given, wanted, name in (
                (sf.map_keys(value), source.keyType, target.keyType, "key"),
                (sf.map_values(value), source.valueType, target.valueType, "value"),
            )
        )
        return sf.map_from_arrays(keys, values)

    def _struct(
        self,
        value: Column,
        source: st.StructType,
        target: st.StructType,
        where: str,
        old: Column | None,
    ) -> Column:
        """A struct field by field."""
        if self._by_position and len(source) == len(target):
            parts = [
                self.assigned(
                    value.getField(own.name), own.dataType, field.dataType, f"{where}.{field.name}"
                ).alias(field.name)
                for own, field in zip(source.fields, target.fields, strict=True)
            ]
            return sf.when(value.isNotNull(), sf.struct(*parts))
        given = _fields_by_name(source, target)
        used = {own.name for own in given.values()}
        odd_names = {own.name for own in source.fields} - used
        if not self._fills:
            odd_names |= {field.name for field in target.fields} - given.keys()
        if odd_names:
            odd = ", ".join(sorted(odd_names))
            raise Invalid(
                f"table {self._table}, column '{where}': a value of type {source.simpleString()} "
                f"cannot be stored as {target.simpleString()}: the fields {odd} are not in both"
            )
        fields: list[Column] = []
        for field in target.fields:
            own = given.get(field.name)
            before = None if old is None else old.getField(field.name)
            if own is None:
                part = sf.lit(None).cast(field.dataType) if before is None else before
            else:
                part = self.assigned(
                    value.getField(own.name),
                    own.dataType,
                    field.dataType,
                    f"{where}.{field.name}",
                    before,
                )
            fields.append(part.alias(field.name))
        exists = value.isNotNull()
        if old is not None and _keeps_fields(source, target):
            # Null leaves what it says nothing of as it is.
            exists |= old.isNotNull()
        return sf.when(exists, sf.struct(*fields))


def _keeps_fields(source: st.StructType, target: st.StructType) -> bool:
    """True if a struct has fields, or structs in it have, that a value assigned to it lacks."""
    given = _fields_by_name(source, target)
    return any(
        (own := given.get(field.name)) is None
        or (
            isinstance(own.dataType, st.StructType)
            and isinstance(field.dataType, st.StructType)
            and _keeps_fields(own.dataType, field.dataType)
        )
        for field in target.fields
    )


def _fields_by_name(source: st.StructType, target: st.StructType) -> dict[str, st.StructField]:
    """The fields of a value by those that they stand for."""
    return {name: source[own] for name, own in columns_by_name(target.names, source.names).items()}


def _changes_numbers(source: st.DataType, target: st.DataType) -> bool:
    """True if numbers get another type, which may not hold them."""
    match source, target:
        case st.ArrayType(), st.ArrayType():
            return _changes_numbers(source.elementType, target.elementType)
        case st.MapType(), st.MapType():
            return _changes_numbers(source.keyType, target.keyType) or _changes_numbers(
                source.valueType, target.valueType
            )
        case st.StructType(), st.StructType():
            return any(
                _changes_numbers(one.dataType, other.dataType)
                for one, other in zip(source.fields, target.fields, strict=True)
            )
    return isinstance(target, st.NumericType) and source != target


def _is_assignable(source: st.DataType, target: st.DataType) -> bool:
    if source == target or isinstance(source, st.NullType):
        return True
    match source, target:
        case st.ArrayType(), st.ArrayType():
            return _is_assignable(source.elementType, target.elementType)
        case st.MapType(), st.MapType():
            return _is_assignable(source.keyType, target.keyType) and _is_assignable(
                source.valueType, target.valueType
            )
        case st.StructType(), st.StructType():
            return [field.name for field in source] == [field.name for field in target] and all(
                _is_assignable(one.dataType, other.dataType)
                for one, other in zip(source.fields, target.fields, strict=True)
            )
        case (st.NumericType(), st.NumericType()) | (st.TimeType(), st.TimeType()):
            return True
        case st.AtomicType(), st.StringType():
            return not isinstance(source, st.VariantType)
    return isinstance(source, _MOMENTS) and isinstance(target, _MOMENTS)
