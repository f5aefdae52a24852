"""Values that a text names in braces, ``{name}``: frames, columns and what Python formats."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark.errors import PySparkValueError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter

from headwater.spark.names import parts_of, quoted
from headwater.spark.session import is_connect
from headwater.spark.sql.constants import Constants
from headwater.spark.sql.query.named_frames import make_view
from headwater.spark.sql.temporary_views import drop_temporary_view
from headwater.storage.errors import Invalid

__all__ = ["with_named_values"]


@contextmanager
def with_named_values(
    spark: SparkSession,
    text: str,
    values: Mapping[str, object],
    constants: Constants,
) -> Iterator[str]:
    """A text with values in the places that name them, as `SparkSession.sql` fills them in.

    A frame becomes a temporary view while the block lasts; on Spark Connect, which reads a text
    again each time, as long as the session. A column becomes its name, a string a constant, and
    anything else what Python makes of it.

    Args:
        spark: The session.
        text: The text, as `str.format` takes it.
        values: Values by name.
        constants: Writes strings.

    Raises:
        Invalid: The text names a value that there is not, or not each that there is, or a column
            is computed.
    """
    with ExitStack() as views:
        formatter = _Formatter(spark, constants, views)
        try:
            formatted = formatter.vformat(text, (), values)
        except KeyError as error:
            raise Invalid(f"the statement names {{{error.args[0]}}}, which has no value") from None
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            raise Invalid(f"the values in braces of the statement: {error}") from None
        yield formatted
        if is_connect(spark):
            views.pop_all()


class _Formatter(string.Formatter):
    def __init__(self, spark: SparkSession, constants: Constants, views: ExitStack) -> None:
        self._spark = spark
        self._constants = constants
        self._views = views
        self._frames: list[tuple[DataFrame, str]] = []

    def get_value(
        self, key: int | str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        if isinstance(key, int):
            raise Invalid(
                "the statement has {} without a name: values are given by name, {name}, and a "
                "brace of its own is written twice, {{ or }}"
            )
        return super().get_value(key, args, kwargs)

    def get_field(
        self, field_name: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[object, int | str]:
        value, name = super().get_field(field_name, args, kwargs)
        if isinstance(value, DataFrame):
            return self._view(value, str(name)), name
        if isinstance(value, Column):
            return self._column(value, field_name), name
        if isinstance(value, str):
            return self._constants.constant(value, f"the value of {{{field_name}}}"), name
        return value, name

    def check_unused_args(
        self, used_args: set[int | str], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        for name in kwargs:
            if name not in used_args:
                raise Invalid(f"{name} has a value, and the statement does not name it: {{{name}}}")

    def _view(self, frame: DataFrame, name: str) -> str:
        for known, view in self._frames:
            if known is frame:
                return quoted(view)
        # A name that no WITH of the text has.
        taken = [view for _, view in self._frames]
        view = make_view(self._spark, frame, f"{name} (DataFrame)", taken)
        self._views.callback(drop_temporary_view, self._spark, view)
        self._frames.append((frame, view))
        return quoted(view)

    def _column(self, column: Column, field_name: str) -> str:
        try:
            name = _pyspark_formatter(self._spark).format("{column}", column=column)
        except PySparkValueError:
            raise Invalid(
                f"{{{field_name}}} is a computed column: the name of one can stand in a statement"
            ) from None
        # That of Spark Connect leaves out quotes.
        return ".".join(map(quoted, parts_of(name)))


def _pyspark_formatter(spark: SparkSession) -> string.Formatter:
    """PySpark's own, which knows how a column is named."""
    session: Any = spark
    if is_connect(spark):
        # It can be imported only where there is what Spark Connect needs.
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter as ConnectFormatter

        return ConnectFormatter(session)
    return SQLStringFormatter(session)
