"""Frames that a user's function makes of tables, planned as queries are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.scan import Rows, Scan
from headwater.catalog.table.table import Table
from headwater.spark.char_columns import CharColumns
from headwater.spark.errors import own_errors
from headwater.spark.names import quoted
from headwater.spark.session import is_connect
from headwater.spark.source.metadata_rows import asks_for_metadata
from headwater.spark.source.needs import Need, needs_of, stand_in
from headwater.spark.source.table_frame import frame_of_table, frame_with_metadata
from headwater.spark.source.table_read import Relation, char_columns
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.frame import read_relations
from headwater.spark.sql.query.references import TableReference
from headwater.spark.sql.query.relations import Relations, with_metadata
from headwater.spark.types import spark_schema
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.predicate.filter import columns_of

__all__ = ["Build", "built_frame", "open_relations", "rows_of_files", "table_rows"]

Build: TypeAlias = Callable[..., DataFrame]
"""Makes a frame of a frame for each table."""


def built_frame(build: Build, relations: Sequence[Relation], context: SqlContext) -> DataFrame:
    """The frame that a function makes, over tables of which only what it needs is read.

    Args:
        build: The function. It is called three times, and must not run the frames that it is given.
        relations: The tables.
        context: The user's; it is told what is read.

    Raises:
        Invalid: The function runs a frame, or gives none.
        AnalysisException: Spark's own, for what it refuses.
    """
    spark = context.session.spark
    with own_errors():
        needs = _needs(build, relations, spark)
        return read_relations(relations, needs, lambda frames: _built(build, frames), context)


def table_rows(
    table: Table,
    scanned: Callable[[Sequence[str] | None, str | None], Scan],
    columns: Sequence[str] | None,
    where: Column | str | None,
    context: SqlContext,
) -> DataFrame:
    """A table's rows as the session reads them.

    Args:
        table: The table.
        scanned: Its rows as of some time, of some columns and for a condition.
        columns: The columns of the frame, metadata columns among them; None for the table's own.
        where: A condition: text, or one of Spark's.
        context: The user's; it is told what is read.
    """
    is_own = where is None or isinstance(where, str)
    is_whole = not is_own or asks_for_metadata(columns, table.schema)
    scan = scanned(None if is_whole else columns, where if isinstance(where, str) else None)
    return _rows_as_read(scan, columns, where, context)


def rows_of_files(
    table: Table,
    columns: Sequence[str] | None,
    where: Column | str | None,
    context: SqlContext,
    *,
    is_now: bool,
) -> DataFrame:
    """The rows of a table without snapshots: a format table's, or the files of an object table.

    Args:
        table: The table.
        columns: The columns of the frame; None for all.
        where: A condition: text, or one of Spark's.
        context: The user's; it is told what is read.
        is_now: True unless they are asked for as of some other time.

    Raises:
        Unsupported: They are; or as `format_frame`.
    """
    if not is_now:
        raise Unsupported(f"{table.name} has no snapshots: it is only read as it is now")

    def build(frame: DataFrame) -> DataFrame:
        chosen = frame if where is None else frame.where(where)
        return chosen if columns is None else chosen.select(*map(quoted, columns))

    return built_frame(build, open_relations([table.name], (), context), context)


def _rows_as_read(
    scan: Scan, columns: Sequence[str] | None, where: Column | str | None, context: SqlContext
) -> DataFrame:
    """The rows of a scan as the session reads them.

    Args:
        scan: The rows; with all columns of the table if `where` is a column, or metadata is told.
        columns: The columns of the frame, metadata columns among them; None for the table's own.
        where: The condition of the scan, as text, or one of Spark's.
        context: The user's; it is told what is read.

    Raises:
        NotFound: A column does not exist.
        AnalysisException: Spark's own, for what it refuses.
    """
    session = context.session
    chars = CharColumns.from_session(session.spark, scan.storage.schema.fields)
    if isinstance(where, str) and scan.predicate is not None:
        if columns_of(scan.predicate) & chars.compared:
            # Their values are stored with spaces or without.
            return _matching_rows(scan.narrowed(None, None), columns, sf.expr(where), context)
    elif where is not None and not isinstance(where, str):
        return _matching_rows(scan, columns, where, context)
    if columns is not None and asks_for_metadata(columns, scan.storage.schema):
        return chars.read(frame_with_metadata(session, scan, columns))
    return chars.read(frame_of_table(session, scan))


def _matching_rows(
    scan: Rows, columns: Sequence[str] | None, condition: Column, context: SqlContext
) -> DataFrame:
    """The rows of a scan for which a condition of Spark's is true.

    Args:
        scan: The rows, with all columns of the table.
        columns: The columns of the frame, metadata columns among them; None for the table's own.
        condition: The condition, over these and all columns of the table.
        context: The user's; it is told what is read.

    Raises:
        NotFound: A column does not exist.
        AnalysisException: Spark's own, for what it refuses.
    """
    schema = spark_schema(scan.storage.schema.fields)
    relation = Relation(scan.storage.name, schema, scan)
    own = schema.fieldNames()
    names = own if columns is None else columns
    relation = with_metadata(relation, scan, [name for name in names if name not in own])

    def build(frame: DataFrame) -> DataFrame:
        return frame.where(condition).select(*map(quoted, names))

    return built_frame(build, [relation], context)


def open_relations(
    names: Sequence[str], metadata_columns: Sequence[str], context: SqlContext
) -> list[Relation]:
    """Tables by their names, each as of one snapshot, with metadata columns beside their own.

    Args:
        names: The names; one without a database is in that in use.
        metadata_columns: Metadata columns of each table.
        context: The user's.

    Raises:
        Invalid, NotFound: The table does not exist, or it cannot tell of a metadata column.
        Unsupported: A name is a view's, or rows are of no one place.
    """
    context.begin()
    opened = Relations(context)
    result: list[Relation] = []
    for name in names:
        identifier = Identifier.parse(context.full_name(name.split(".")))
        parts = (identifier.database, identifier.name)
        reference = TableReference(parts, metadata=list(metadata_columns))
        relation = opened.open(reference, None)
        if relation is None:
            raise opened.missing.get(parts) or NotFound(f"table {name} does not exist")
        if isinstance(relation, ViewInfo):
            raise Unsupported(f"{name} is a view: read it with lake.sql('SELECT * FROM {name}')")
        result.append(relation)
    return result


def _needs(
    build: Build, relations: Sequence[Relation], spark: SparkSession
) -> Sequence[Need | None]:
    """The need for each table, by the plan of what the function makes of placeholder relations."""
    if is_connect(spark):
        return [None] * len(relations)
    stand_ins = [
        stand_in(spark, at, char_columns(spark, relation).schema(relation.schema), runs=False)
        for at, relation in enumerate(relations)
    ]
    planned = [_built(build, stand_ins) for _ in range(2)]
    first, second = (needs_of(each, len(relations)) for each in planned)
    if first is None or second is None:
        return [None] * len(relations)
    # A function that asks for a time or for a random number makes another frame each time: what
    # differs says nothing about the frame that is run.
    needs = [one if one == other else None for one, other in zip(first, second, strict=True)]
    if _tells_time(planned[0], spark):
        return [None if need is None else need.without_conditions() for need in needs]
    return needs


def _built(build: Build, frames: Sequence[DataFrame]) -> DataFrame:
    result: object = build(*frames)
    if not isinstance(result, DataFrame):
        raise Invalid(f"the function must give a DataFrame, and gave {type(result).__name__}")
    return result


def _tells_time(frame: DataFrame, spark: SparkSession) -> bool:
    """Whether Spark puts the time of planning into a plan, which is another when it is run."""
    java: Any = spark._jvm
    try:
        current = java.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
        return bool(frame._jdf.queryExecution().analyzed().containsPattern(current))
    except Py4JError:
        return True
