"""Chain tables: of which branches a table's rows are made, by its options.

Source: ``FileStoreTableFactory.createChainTable``, ``SchemaValidation.validateChainTable``,
``ChainTableUtils.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.options import ChangelogProducer, MergeEngine
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["CHAIN_BRANCH_OPTIONS", "Chain", "chain_of", "chain_options", "check_chain"]

SNAPSHOT_BRANCH, DELTA_BRANCH = "scan.fallback-snapshot-branch", "scan.fallback-delta-branch"
CHAIN_BRANCH_OPTIONS = (SNAPSHOT_BRANCH, DELTA_BRANCH)
"""The options that name the branches of a chain table."""
_KEYS = "chain-table.chain-partition-keys"


@dataclass(frozen=True)
class Chain:
    """The two branches of a chain table, and the partition columns that order a chain.

    Attributes:
        snapshot_branch: The branch of whole partitions.
        delta_branch: The branch of what each partition changes of the one before.
        group_keys: The number of partition columns, the first ones, that tell chains apart; the
            others order the partitions of a chain.
    """

    snapshot_branch: str
    delta_branch: str
    group_keys: int

    @property
    def branches(self) -> tuple[str, str]:
        """That of whole partitions and that of changes."""
        return self.snapshot_branch, self.delta_branch

    def is_snapshot_branch(self, branch: str) -> bool:
        """True if a branch is that of whole partitions."""
        return branch.lower() == self.snapshot_branch.lower()

    def is_delta_branch(self, branch: str) -> bool:
        """True if a branch is that of changes."""
        return branch.lower() == self.delta_branch.lower()


def chain_options(schema: TableSchema) -> Chain | None:
    """The chain that the options of a table, or of one of its branches, name.

    Returns:
        None if the table is no chain table, or does not name both branches yet.

    Raises:
        Invalid: Both branches are the same.
    """
    if not schema.table_options.is_chain_table:
        return None
    snapshot, delta = (schema.options.get(key, "").strip() for key in CHAIN_BRANCH_OPTIONS)
    if not snapshot or not delta:
        return None
    if snapshot.lower() == delta.lower():
        raise Invalid(
            f"{SNAPSHOT_BRANCH} and {DELTA_BRANCH} are both '{delta}'; a chain table keeps whole "
            "partitions in one branch and their changes in another"
        )
    keys = _chain_keys(schema)
    return Chain(snapshot, delta, len(schema.partition_keys) - len(keys))


def chain_of(branch: str, schema: TableSchema) -> Chain | None:
    """The chain that a read of a branch follows; None for a branch that is read alone.

    The two branches of a chain have the same options, and are each read alone.

    Raises:
        Invalid: As `chain_options`.
    """
    chain = chain_options(schema)
    if chain is None or chain.is_snapshot_branch(branch) or chain.is_delta_branch(branch):
        return None
    return chain


def check_chain(schema: TableSchema) -> None:
    """The rules of ``SchemaValidation.validateChainTable``; raises Invalid."""
    options = schema.table_options
    if not options.is_chain_table:
        return
    if not schema.primary_keys or not schema.partition_keys:
        raise Invalid("a chain table ('chain-table.enabled') needs a primary key and partitions")
    if options.bucket < 1:
        raise Invalid("a chain table needs a fixed number of buckets; set 'bucket'")
    if not options.sequence_fields:
        raise Invalid(
            "a chain table needs 'sequence.field': rows of different branches have no other order"
        )
    producer = options.changelog_producer
    if producer not in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        raise Invalid(f"a chain table's changelog-producer is none or input, not {producer}")
    if options.deletion_vectors_enabled and options.merge_engine is not MergeEngine.DEDUPLICATE:
        raise Invalid(
            "a chain table with deletion vectors has the merge engine deduplicate, not "
            f"{options.merge_engine}"
        )
    for key in ("partition.timestamp-pattern", "partition.timestamp-formatter"):
        if not schema.options.get(key, "").strip():
            raise Invalid(f"a chain table needs '{key}', by which others tell its partitions' days")
    expires = schema.options.get("partition.expiration-time")
    strategy = schema.options.get("partition.expiration-strategy", "values-time").strip()
    if expires is not None and strategy.lower() != "values-time":
        raise Invalid(
            "partitions of a chain table expire by the 'partition.expiration-strategy' "
            f"values-time, not {strategy}"
        )
    _chain_keys(schema)
    chain_options(schema)


def _chain_keys(schema: TableSchema) -> tuple[str, ...]:
    """The partition columns that order a chain (``ChainTableUtils.chainPartitionKeys``)."""
    text = schema.options.get(_KEYS, "").strip()
    if not text:
        return schema.partition_keys
    keys = tuple(name.strip() for name in text.split(","))
    if schema.partition_keys[-len(keys) :] != keys:
        raise Invalid(
            f"'{_KEYS}' must be the last of the partition columns "
            f"{', '.join(schema.partition_keys)}, in their order; not {', '.join(keys)}"
        )
    return keys
