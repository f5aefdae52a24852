"""Options that this engine refuses, in all their values or in some."""

from __future__ import annotations

from headwater.storage.capabilities.model import (
    ALL,
    Operation,
    Option,
    Refusal,
    Values,
    numbers_from,
    one_of,
    unset,
)

__all__ = ["FILE_FORMATS", "REFUSED_OPTIONS"]

_READS = Operation.READ | Operation.STREAM
_WRITES = Operation.WRITE | Operation.COMPACT
_FALSE, _UNSET = one_of("false"), unset()
FILE_FORMATS = ("parquet", "avro", "orc")
"""The formats of data files that this engine writes and reads."""
_FORMATS = one_of(*FILE_FORMATS)
_VECTORS_IN = frozenset({"", "parquet", "avro"}).__contains__
_WHEN_READING = "give it to each read instead"


def _formats_of_levels(text: str) -> bool:
    formats = (level.partition(":")[2].strip() for level in text.split(","))
    # What names no format is malformed, which is another error.
    return all(map(_FORMATS.include, filter(None, formats)))


def _tells_here(text: str) -> bool:
    here = {"success-file", "done-partition", "mark-event"}
    return {name.strip() for name in text.split(",")} <= here


def _time(key: str, note: str, unless: Values = _UNSET, *aliases: str) -> Option:
    """An option that says which snapshots or files a read is of."""
    return Option(
        key, note, refusals=(Refusal(Operation.READ, unless, _WHEN_READING),), aliases=aliases
    )


def _no_writes(key: str, note: str, unless: Values, because: str = "") -> Option:
    """An option with which this engine reads and does not write."""
    return Option(key, note, refusals=(Refusal(_WRITES, unless, because),))


AGGREGATE_FUNCTIONS = one_of(
    "bool_and", "bool_or", "collect", "first_non_null_value", "first_not_null_value",
    "first_value", "hll_sketch", "last_non_null_value", "last_value", "listagg", "max",
    "merge_map", "merge_map_with_keytime", "min", "nested_partial_update", "nested_update",
    "product", "rbm32", "rbm64", "sum", "theta_sketch",
)  # fmt: skip
"""The aggregate functions that this engine computes."""

REFUSED_OPTIONS: tuple[Option, ...] = (
    # What a table's rows are.
    Option(
        "merge-engine",
        "how the rows of one key become one row",
        is_honoured=True,
        refusals=(
            Refusal(
                Operation.STREAM,
                one_of("deduplicate"),
                "set changelog-producer to lookup or full-compaction, or to input for the rows as "
                "they were written: without a changelog a stream would give these unasked",
                keyed=True,
                unless_option=(
                    "changelog-producer",
                    one_of("lookup", "full-compaction", "input"),
                ),
            ),
        ),
    ),
    Option(
        "fields.<column>.aggregate-function",
        "how `aggregation` and sequence groups of `partial-update` merge a column's values",
        is_honoured=True,
        refusals=(Refusal(ALL, AGGREGATE_FUNCTIONS, keyed=True),),
    ),
    Option(
        "fields.default-aggregate-function",
        "the same for columns that have no function of their own",
        is_honoured=True,
        refusals=(Refusal(ALL, AGGREGATE_FUNCTIONS, keyed=True),),
    ),
    Option(
        "bucket",
        "the number of buckets of a partition; -1 means none, or with a primary key as many as "
        "the keys need; -2 lets each partition have its own number",
        is_honoured=True,
        default="-1",
        refusals=(Refusal(_WRITES, numbers_from(-1), keyed=False),),
    ),
    Option(
        "bucket-function.type",
        "how a row's bucket is computed",
        is_honoured=True,
        refusals=(Refusal(ALL, one_of("default", "mod", "hive")),),
    ),
    Option(
        "data-evolution.compaction.rewrite-row-ids",
        "whether a compaction gives rows other ids, which Paimon no longer does either",
        refusals=(
            Refusal(
                Operation.COMPACT, _FALSE, "rows keep their ids, and deleted ones their places"
            ),
        ),
    ),
    Option(
        "sequence.snapshot-ordering",
        "whether of rows of one key the one in the later snapshot wins",
        is_honoured=True,
        refusals=(
            Refusal(
                ALL,
                _FALSE,
                "rows that wait for buckets get numbers when a compaction brings them there",
                keyed=True,
                unless_option=("bucket", numbers_from(-1)),
            ),
        ),
    ),
    Option(
        "vector.file.format",
        "the format of files that hold columns of type VECTOR alone; unset, vectors lie in the "
        "files of the other columns",
        is_honoured=True,
        refusals=(Refusal(_WRITES, Values("unset, `parquet` or `avro`", _VECTORS_IN)),),
    ),
    # Rows of other branches.
    *(
        Option(
            key,
            note,
            is_honoured=True,
            refusals=(
                Refusal(
                    Operation.CHANGE,
                    _UNSET,
                    "rows of that branch would stay as they are; Table.with_options with this "
                    "option empty changes the present branch alone",
                ),
            ),
        )
        for key, note in (
            ("scan.fallback-branch", "the branch that has the partitions which this one lacks"),
            ("scan.primary-branch", "the branch whose partitions stand before those of this one"),
        )
    ),
    Option(
        "branch",
        "the branch that is meant; this engine takes it from the table's name, `t$branch_b`",
        refusals=(Refusal(ALL, one_of("main"), "name it `t$branch_…` instead"),),
    ),
    # The moment or the part that a read is of.
    _time("scan.bucket", "the one bucket that is read"),
    _time("batch-scan-mode", "how Paimon's own tables begin a read", one_of("none")),
    Option(
        "stream-scan-mode",
        "how Paimon's own jobs begin a stream",
        refusals=(Refusal(Operation.STREAM, one_of("none"), _WHEN_READING),),
    ),
    Option(
        "consumer-id",
        "the consumer from whose position a stream goes on",
        refusals=(Refusal(Operation.STREAM, _UNSET, _WHEN_READING),),
    ),
    Option(
        "streaming-read-overwrite",
        "whether a stream gives what an overwrite of a primary-key table changed",
        is_honoured=True,
        refusals=(
            Refusal(
                Operation.STREAM,
                _FALSE,
                "rows that wait for buckets are not told from those that have one: set it to false "
                "to leave overwrites out of the stream",
                keyed=True,
                unless_option=("bucket", numbers_from(-1)),
            ),
        ),
    ),
    # How files are written.
    Option(
        "file.format",
        "the format of new data files",
        is_honoured=True,
        refusals=(Refusal(_WRITES, _FORMATS),),
    ),
    Option(
        "file.format.per.level",
        "the same for each level",
        is_honoured=True,
        refusals=(Refusal(_WRITES, Values(f"{_FORMATS.text} at every level", _formats_of_levels)),),
    ),
    Option(
        "changelog-file.format",
        "the format of changelog files",
        is_honoured=True,
        refusals=(Refusal(_WRITES, _FORMATS),),
    ),
    Option(
        "manifest.compression",
        "the codec of manifests",
        is_honoured=True,
        refusals=(
            Refusal(
                _WRITES | Operation.EXPIRE,
                one_of("zstd", "zstandard", "snappy", "deflate", "bzip2", "xz", "none", "null"),
            ),
        ),
    ),
    _no_writes("type", "what the table is made of", one_of("table")),
    _no_writes(
        "metadata.iceberg.storage",
        "where Iceberg's metadata of the table is written",
        one_of("disabled"),
        "readers of the table as Iceberg would not see what is written",
    ),
    *(
        _no_writes(
            f"pk-{kind}.index.columns",
            "columns with an index in the table that is searched for the nearest or best rows",
            _UNSET,
            "searches find only rows that the index covers: they would lack the new ones, and "
            "after a compaction all",
        )
        for kind in ("vector", "full-text")
    ),
    Option(
        "partition.mark-done-action",
        "how it is told that a partition is complete",
        is_honoured=True,
        refusals=(
            Refusal(
                Operation.MARK_DONE,
                Values("`success-file`, `done-partition`, `mark-event`", _tells_here),
                "tell it from where the partition is written",
            ),
        ),
    ),
)
