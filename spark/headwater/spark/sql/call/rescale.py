"""Other numbers of buckets for partitions that have rows.

Source: ``RescaleProcedure.java``.
"""

from __future__ import annotations

from headwater.catalog.table.scan import Scan
from headwater.spark.source.table_frame import frame_of_table
from headwater.spark.sql.call.defaults import refuse_defaults
from headwater.spark.sql.call.partitions import chosen_partitions
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.spark.write.frame import write_frame
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.jobs.waiting_rows import admit_waiting_rows, refuse_waiting_rows
from headwater.storage.predicate.filter import columns_of, to_sql

__all__ = ["rescale"]


def rescale(arguments: Arguments) -> Rows:
    """Give partitions the number of buckets that the table's option ``bucket`` says."""
    table = arguments.table()
    storage, session = table.storage, arguments.context.session
    buckets, wanted = table.schema.table_options.bucket, arguments.integer("bucket_num")
    if buckets == POSTPONE_BUCKET:
        raise Unsupported(
            f"sys.rescale: rows of table {table.name} get their buckets when it is compacted "
            "('bucket' is -2): set its property 'postpone.default-bucket-num', INSERT OVERWRITE "
            "the partitions with their rows, and CALL sys.compact"
        )
    if buckets < 1:
        raise Invalid(
            f"table {table.name} has no fixed number of buckets ('bucket' is {buckets}), so that "
            "there is nothing to rescale"
        )
    if table.schema.table_options.is_chain_table:
        raise Unsupported(
            f"sys.rescale: table {table.name} is a chain table, and its rows are not all that its "
            "files say: those that retract would be lost; write its partitions anew instead"
        )
    if wanted is not None and wanted != buckets:
        raise Unsupported(
            f"sys.rescale: rows to come would go to {buckets} buckets, as the property 'bucket' of "
            f"table {table.name} says, and not to {wanted}: ALTER TABLE … SET TBLPROPERTIES "
            f"('bucket' = '{wanted}') first, then rescale without bucket_num"
        )
    refuse_defaults(table, "rescale")
    where = table.scan(where=chosen_partitions(arguments, table)).predicate
    if where is not None and not columns_of(where) <= set(table.schema.partition_keys):
        raise Invalid(
            "sys.rescale: where is about partition columns: whole partitions are written anew"
        )

    def attempt() -> None:
        admit_waiting_rows(storage, table.pointer, session.executor, where, rewrites=True)
        base = table.pointer.latest()
        if base is None:
            return
        refuse_waiting_rows(storage, base, where, rewrites=True)
        frame = frame_of_table(session, Scan(storage, base, None, where))
        if where is None:
            write_frame(session, frame, table, "overwrite", dynamic=False, unchanged_since=base)
        else:
            condition = to_sql(where, storage.schema)
            write_frame(
                session, frame, table, "overwrite", replace_where=condition, unchanged_since=base
            )

    until_no_conflict(table.schema.table_options.commit_max_retries, attempt)
    return [(True,)]
