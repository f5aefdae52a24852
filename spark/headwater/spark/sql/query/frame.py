"""A query as a frame: the user's text, over frames of the catalog's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.read import relation_frame
from headwater.spark.sql.query.splice import Spliced, missing_table, splice

__all__ = ["query_frame"]


def query_frame(text: str, context: SqlContext) -> DataFrame:
    """The rows of a query, over tables of the catalog and whatever else the session knows.

    Tables are read as they are now; the frame keeps showing them so.

    Args:
        text: One query in Spark's dialect: ``SELECT``, ``WITH``, ``VALUES``, ``FROM``, ``TABLE``.
        context: The user's.

    Raises:
        Invalid, NotFound, Unsupported: As `splice`.
        AnalysisException, ParseException: Spark's own, for what it refuses.
    """
    spliced = splice(text, context)
    frames = [relation_frame(context.session, relation) for relation in spliced.relations]
    return run(spliced, frames, context)


def run(spliced: Spliced, frames: Sequence[DataFrame], context: SqlContext) -> DataFrame:
    """A query over frames in the places of its tables."""
    spark = context.session.spark
    places: Mapping[str, Any] = {f"t{at}": frame for at, frame in enumerate(frames)}
    # Spark fills places in only if there are any.
    text = spliced.text if places else spliced.text.replace("{{", "{").replace("}}", "}")
    try:
        return spark.sql(text, **places)
    except AnalysisException as error:
        missing = missing_table(spliced, str(error))
        if missing is None:
            raise
        raise missing from error
