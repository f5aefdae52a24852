"""A query as a frame: the user's text, over frames of the catalog's tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from headwater.catalog.model.functions import FunctionSpec
from headwater.catalog.model.identifier import Identifier
from headwater.spark.errors import in_users_words
from headwater.spark.session import is_connect
from headwater.spark.source.needs import Need, needs_of, stand_in
from headwater.spark.source.read_counter import read_counter
from headwater.spark.source.scan_metrics import Runs
from headwater.spark.source.table_read import Relation, TableRead, char_columns, read_frame
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.clock import CLOCK, without_clock
from headwater.spark.sql.query.named_frames import query_over
from headwater.spark.sql.query.read import plan_read
from headwater.spark.sql.query.splice import Spliced, missing_table, splice
from headwater.spark.sql.statement import read_words
from headwater.storage.errors import Unsupported

__all__ = ["query_frame", "read_relations"]

_FILE_FUNCTION = re.compile(r"\binput_file_(name|block_start|block_length)\s*\(", re.IGNORECASE)
# No table of the user's has such a name, which Spark knows while it reads the text.
_CLOCK_NAME = "time of the query"


def query_frame(
    text: str,
    context: SqlContext,
    defined: str | None = None,
    new: tuple[Identifier, FunctionSpec] | None = None,
) -> DataFrame:
    """The rows of a query, over tables of the catalog and whatever else the session knows.

    Tables are read as they are now; the frame keeps showing them so. Columns that the query does
    not need, and files without rows that it needs, are not read.

    Args:
        text: One query in Spark's dialect: ``SELECT``, ``WITH``, ``VALUES``, ``FROM``, ``TABLE``.
        context: The user's; it is told what the query reads.
        defined, new: The view or function that is defined, as for `splice`.

    Raises:
        Invalid, NotFound: As `splice`.
        Unsupported: As `splice`; or it asks for the files of rows, which Spark would not know.
        AnalysisException, ParseException: Spark's own, for what it refuses.
    """
    spliced = splice(text, context, defined, new)
    relations = spliced.relations
    needs: list[Need] | None = None
    places = list(range(len(relations)))
    if relations and not is_connect(context.session.spark):
        try:
            needs = _needs(spliced, places, context)
        except AnalysisException:
            # Expressions may have to be equal which read the same table.
            places = _shared(relations)
            if places == list(range(len(relations))):
                raise
            needs = _needs(spliced, places, context)
    wanted = [None if needs is None else needs[place] for place in places]
    places = _shared(relations, wanted)
    firsts = [places.index(number) for number in range(len(set(places)))]
    frame = read_relations(
        [relations[first] for first in firsts],
        [wanted[first] for first in firsts],
        lambda frames: _run(spliced, [frames[place] for place in places], context),
        context,
    )
    context.last_query = tuple(context.last_query[place] for place in places)
    _refuse_file_functions(spliced.text, context.last_query)
    return frame


def _shared(relations: Sequence[Relation], needs: Sequence[Need | None] | None = None) -> list[int]:
    """The frame of each place of a query: that of the first place with the same rows.

    Spark then knows equal subqueries as equal, and can use what it exchanges for both.
    """
    frames: dict[object, int] = {}
    keys = zip(map(id, relations), needs or [None] * len(relations), strict=True)
    return [frames.setdefault(key, len(frames)) for key in keys]


def _refuse_file_functions(text: str, reads: Sequence[TableRead]) -> None:
    """Refuse ``input_file_name()`` and its like of rows for which Spark gives an empty text."""
    if _FILE_FUNCTION.search(text) is None:
        return
    words = read_words(text)
    called = next(
        (
            word.text
            for word, after in pairwise(words)
            if word.is_name and after.text == "(" and _FILE_FUNCTION.match(f"{word.text}(")
        ),
        None,
    )
    without = next(
        (
            read.table
            for read in reads
            if read.native_files < read.files or read.relation.cached is not None
        ),
        None,
    )
    if called is not None and without is not None:
        raise Unsupported(
            f"table {without}: {called}() does not know the files of rows that Spark's own scan "
            "does not read; name the column __paimon_file_path instead"
        )


def read_relations(
    relations: Sequence[Relation],
    needs: Sequence[Need | None],
    run: Callable[[Sequence[DataFrame]], DataFrame],
    context: SqlContext,
) -> DataFrame:
    """The rows of a query over tables of which only what it needs is read.

    Args:
        relations: The tables.
        needs: The need for each; None for all of it.
        run: Makes the query's frame of a frame for each table, which has all its columns.
        context: The user's; it is told what the query reads.
    """
    spark = context.session.spark
    zone = str(spark.conf.get("spark.sql.session.timeZone")) if relations else ""
    reads: list[TableRead] = []
    for relation, need in zip(relations, needs, strict=True):
        counter = None if is_connect(spark) else read_counter(spark.sparkContext)
        read = plan_read(context.session, relation, need, zone)
        reads.append(replace(read, counter=counter))
    scans: list[list[DataFrame]] = [[] for _ in reads]
    frames = [
        read_frame(context.session, read, own) for read, own in zip(reads, scans, strict=True)
    ]
    answer = run(frames)
    if not is_connect(spark):
        parts = zip(reads, frames, scans, strict=True)
        reads = [replace(read, runs=Runs(answer, frame, tuple(own))) for read, frame, own in parts]
    context.last_query = tuple(reads)
    return answer


def _needs(spliced: Spliced, places: Sequence[int], context: SqlContext) -> list[Need] | None:
    """The need for each frame of a query, by the plan of the query over placeholder relations.

    Args:
        spliced: The query.
        places: The frame of each of its places, as `_shared` numbers them.
        context: The user's.
    """
    spark, count = context.session.spark, len(set(places))
    schemas = dict(zip(places, spliced.relations, strict=True))
    placeholders = [
        stand_in(spark, number, char_columns(spark, relation).schema(relation.schema))
        for number, relation in sorted(schemas.items())
    ]
    frames = [placeholders[place] for place in places]
    timeless = without_clock(spliced.text, f"{{t{len(places)}}}")
    planned = _run(spliced, frames, context)
    if timeless == spliced.text:
        return needs_of(planned, count)
    try:
        if timeless is not None:
            clock = stand_in(spark, count, CLOCK)
            again = _run(replace(spliced, text=timeless), [*frames, clock], context)
            needs = needs_of(again, count + 1)
            return None if needs is None else needs[:count]
    except AnalysisException:
        pass  # A place where a query cannot stand.
    needs = needs_of(planned, count)
    return None if needs is None else [need.without_conditions() for need in needs]


def _run(spliced: Spliced, frames: Sequence[DataFrame], context: SqlContext) -> DataFrame:
    """A query over frames in the places of its tables."""
    spark = context.session.spark
    names = [each.name for each in spliced.relations]
    names += [_CLOCK_NAME] * (len(frames) - len(names))
    try:
        return query_over(spark, spliced.text, names, frames, functions=spliced.functions)
    except AnalysisException as error:
        missing = missing_table(spliced, str(error))
        if missing is not None:
            raise missing from error
        raise in_users_words(error, names) from None
