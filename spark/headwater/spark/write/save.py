"""Hand a frame to the data source of a catalog, which writes it as one commit."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headwater.spark.catalog_session import CatalogSession
from headwater.spark.errors import own_errors
from headwater.spark.options import WriteOptions
from headwater.spark.session import make_active

__all__ = ["save_frame"]


def save_frame(session: CatalogSession, frame: DataFrame, options: WriteOptions) -> None:
    """Write a frame, whose rows are where the options say, from whatever thread.

    Raises:
        HeadwaterError: As the write's tasks and its commit.
    """
    make_active(session.spark)
    mode = "overwrite" if options.overwrite else "append"
    with own_errors():
        writer = frame.write.format(session.format).mode(mode)
        writer.options(**options.to_options()).save(options.table)
