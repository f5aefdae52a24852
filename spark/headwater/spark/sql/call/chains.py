"""Whole partitions of a chain table, made of earlier ones and of the changes since.

Source: ``CompactChainTableProcedure.java``.
"""

from __future__ import annotations

from headwater.catalog.table.chain_scan import ChainScan
from headwater.spark.source.table_frame import frame_of_table
from headwater.spark.sql.call.defaults import refuse_defaults
from headwater.spark.sql.call.partitions import partition_condition, partitions_of_text
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.spark.write.frame import write_frame
from headwater.storage.errors import Invalid
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.predicate.filter import to_sql
from headwater.storage.predicate.tree import Or
from headwater.storage.rows.partition import partition_spec
from headwater.storage.scan.partitions import partitions_with_rows
from headwater.storage.schema.chain import chain_of

__all__ = ["compact_chain_table"]


def compact_chain_table(arguments: Arguments) -> Rows:
    """Write a partition of the delta branch, as the table shows it, into the snapshot branch."""
    table, session = arguments.table(), arguments.context.session
    chain = chain_of(table.storage.layout.branch, table.schema)
    if chain is None:
        raise Invalid(
            f"sys.compact_chain_table: {table.name} is not a chain table, or one of its branches"
        )
    specs = partitions_of_text(table, arguments.required("partition"))
    if len(specs) > 1:
        raise Invalid(f"sys.compact_chain_table takes one partition at a time, not {len(specs)}")
    refuse_defaults(table, "compact")
    where = partition_condition(table, specs[0])

    def attempt() -> bool:
        whole, delta = (table.branch(branch) for branch in chain.branches)
        scans = whole.scan(where=where), delta.scan(where=where)
        there = partitions_with_rows(whole.storage, scans[0].snapshot, where)
        if there and not arguments.flag("overwrite"):
            return False
        rows = ChainScan(*scans, chain, whole_again=there)
        made = {split.partition for split in rows.splits}
        if not made:
            return False
        if not there:
            # Readers of the branch's changes pass over what replaces rows.
            write_frame(
                session,
                frame_of_table(session, rows),
                whole,
                "append",
                unchanged_since=scans[0].snapshot,
            )
            return True
        replaced = Or(
            tuple(
                partition_condition(table, dict(partition_spec(delta.storage, partition)))
                for partition in sorted(made)
            )
        )
        write_frame(
            session,
            frame_of_table(session, rows),
            whole,
            "overwrite",
            replace_where=to_sql(replaced, whole.schema),
            unchanged_since=scans[0].snapshot,
        )
        return True

    retries = table.schema.table_options.commit_max_retries
    return [(until_no_conflict(retries, attempt),)]
