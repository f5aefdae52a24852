"""`headwater cdc mysql`, `postgres`, `kafka`, `run`, `check`: pipelines of this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headwater.cli.arguments import pairs
from headwater.cli.cdc.options import (
    BadDates,
    BatchBytes,
    BatchSeconds,
    ComputedColumn,
    Exclude,
    ExcludingDbs,
    ExcludingTables,
    Include,
    IncludingDbs,
    IncludingTables,
    Interval,
    KafkaConf,
    LockSeconds,
    MemoryBytes,
    MergeShards,
    MetadataColumn,
    MetadataColumnPrefix,
    MetricsPort,
    MultipleTablePartitionKeys,
    Name,
    Narrowing,
    Once,
    OnDrop,
    OptionalSource,
    OptionalTarget,
    PartitionKeys,
    PasswordFile,
    PrimaryKeys,
    Publication,
    RangeRows,
    Readers,
    Slot,
    Source,
    Spark,
    TableMapping,
    TableOption,
    TablePrefix,
    TablePrefixDb,
    TableSuffix,
    TableSuffixDb,
    TablesWithoutKey,
    TagBatches,
    TagNumRetainedMax,
    Target,
    TaskBytes,
    TaskRows,
    TypeMapping,
    Writers,
)
from headwater.cli.connection import on_lake
from headwater.cli.extras import require
from headwater.cli.output import AsJson, print_rows
from headwater.cli.spark_session import spark_executor

if TYPE_CHECKING:
    from headwater.cdc.service import PipelineOptions, RunningPipeline
    from headwater.client import Lake

__all__ = ["KAFKA_HELP", "MYSQL_HELP", "POSTGRES_HELP", "check", "follow", "run"]

_INTERVAL = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

MaybeFile = Annotated[
    str | None, typer.Argument(metavar="FILE.yaml", help="Take the options from a file.")
]


_HELP = """Follow tables of {} into the lake.

The rows that are there are read first, while changes are followed; started again, it goes on
where it ended. Ctrl-C and SIGTERM end it after the batch that is being written. With --once,
the exit code is 1 if a table is quarantined.
"""
MYSQL_HELP, POSTGRES_HELP = _HELP.format("MySQL or MariaDB"), _HELP.format("PostgreSQL")
KAFKA_HELP = """Follow tables whose changes Debezium writes to topics of Kafka into the lake.

Started again, it goes on where it ended. Ctrl-C and SIGTERM end it after the batch that is being
written. With --once, the exit code is 1 if a table is quarantined.
"""


@on_lake
def follow(
    lake: Lake,
    context: typer.Context,
    source: Source,
    target: Target,
    include: Include = None,
    exclude: Exclude = None,
    including_tables: IncludingTables = None,
    excluding_tables: ExcludingTables = None,
    including_dbs: IncludingDbs = None,
    excluding_dbs: ExcludingDbs = None,
    table_prefix: TablePrefix = None,
    table_suffix: TableSuffix = None,
    table_prefix_db: TablePrefixDb = None,
    table_suffix_db: TableSuffixDb = None,
    table_mapping: TableMapping = None,
    merge_shards: MergeShards = None,
    partition_keys: PartitionKeys = None,
    multiple_table_partition_keys: MultipleTablePartitionKeys = None,
    primary_keys: PrimaryKeys = None,
    computed_column: ComputedColumn = None,
    metadata_column: MetadataColumn = None,
    metadata_column_prefix: MetadataColumnPrefix = None,
    name: Name = None,
    password_file: PasswordFile = None,
    type_mapping: TypeMapping = None,
    bad_dates: BadDates = None,
    on_drop: OnDrop = None,
    narrowing: Narrowing = None,
    tables_without_key: TablesWithoutKey = None,
    table_option: TableOption = None,
    slot: Slot = None,
    publication: Publication = None,
    kafka_conf: KafkaConf = None,
    batch_seconds: BatchSeconds = None,
    batch_bytes: BatchBytes = None,
    memory_bytes: MemoryBytes = None,
    range_rows: RangeRows = None,
    readers: Readers = None,
    writers: Writers = None,
    lock_seconds: LockSeconds = None,
    tag_batches: TagBatches = None,
    tag_num_retained_max: TagNumRetainedMax = None,
    spark: Spark = None,
    task_rows: TaskRows = None,
    task_bytes: TaskBytes = None,
    once: Once = False,
    metrics_port: MetricsPort = None,
    interval: Interval = _INTERVAL,
) -> None:
    """Follow tables of a source; the command's name is the kind of source."""
    kind = str(context.info_name)
    values = {
        "source": source,
        "include": include or None,
        "target": target,
        "exclude": exclude,
        "including-tables": including_tables,
        "excluding-tables": excluding_tables,
        "including-dbs": including_dbs,
        "excluding-dbs": excluding_dbs,
        "table-prefix": table_prefix,
        "table-suffix": table_suffix,
        "table-prefix-db": table_prefix_db,
        "table-suffix-db": table_suffix_db,
        "table-mapping": table_mapping,
        "merge-shards": merge_shards,
        "partition-keys": partition_keys or None,
        "multiple-table-partition-keys": multiple_table_partition_keys or None,
        "primary-keys": primary_keys or None,
        "computed-column": computed_column or None,
        "metadata-column": metadata_column or None,
        "metadata-column-prefix": metadata_column_prefix or None,
        "name": name,
        "password-file": password_file,
        "type-mapping": type_mapping,
        "bad-dates": bad_dates,
        "on-drop": on_drop,
        "narrowing": narrowing,
        "tables-without-key": tables_without_key,
        "table-options": pairs(table_option, "--table-option"),
        "slot": slot,
        "publication": publication,
        "kafka-conf": pairs(kafka_conf, "--kafka-conf"),
        "batch-seconds": batch_seconds,
        "batch-bytes": batch_bytes,
        "memory-bytes": memory_bytes,
        "range-rows": range_rows,
        "readers": readers,
        "writers": writers,
        "lock-seconds": lock_seconds,
        "tag-batches": tag_batches,
        "tag-num-retained-max": tag_num_retained_max,
        "spark": spark,
        "task-rows": task_rows,
        "task-bytes": task_bytes,
        "once": once,
        "metrics-port": metrics_port,
    }
    command = f"headwater cdc {kind}"
    _follow(lake, command, _options(command, values, kind), interval)


@on_lake
def run(
    lake: Lake,
    file: Annotated[str, typer.Argument(metavar="FILE.yaml", help="The file with the options.")],
    once: Once = False,
    password_file: PasswordFile = None,
    spark: Spark = None,
    metrics_port: MetricsPort = None,
    interval: Interval = _INTERVAL,
) -> None:
    """Run the pipeline that a YAML file describes.

    The file has the options of 'headwater cdc mysql', 'postgres' or 'kafka' by their names, such
    as 'target: lake_db'. What is given here goes before it.
    """
    given = {
        "password_file": password_file,
        "spark": spark,
        "metrics_port": metrics_port,
        "once": once or None,
    }
    options = _from_file("headwater cdc run", file, given)
    _follow(lake, "headwater cdc run", options, interval)


@on_lake
def check(
    lake: Lake,
    file: MaybeFile = None,
    source: OptionalSource = None,
    include: Include = None,
    target: OptionalTarget = None,
    exclude: Exclude = None,
    including_tables: IncludingTables = None,
    excluding_tables: ExcludingTables = None,
    including_dbs: IncludingDbs = None,
    excluding_dbs: ExcludingDbs = None,
    table_prefix: TablePrefix = None,
    table_suffix: TableSuffix = None,
    table_prefix_db: TablePrefixDb = None,
    table_suffix_db: TableSuffixDb = None,
    table_mapping: TableMapping = None,
    merge_shards: MergeShards = None,
    partition_keys: PartitionKeys = None,
    multiple_table_partition_keys: MultipleTablePartitionKeys = None,
    primary_keys: PrimaryKeys = None,
    computed_column: ComputedColumn = None,
    metadata_column: MetadataColumn = None,
    metadata_column_prefix: MetadataColumnPrefix = None,
    password_file: PasswordFile = None,
    type_mapping: TypeMapping = None,
    table_option: TableOption = None,
    tables_without_key: TablesWithoutKey = None,
    slot: Slot = None,
    publication: Publication = None,
    spark: Spark = None,
    kafka_conf: KafkaConf = None,
    as_json: AsJson = False,
) -> None:
    """List what keeps a new pipeline from following its tables, each with a remedy.

    Settings of the server, privileges, tables, types, patterns and tables of the lake are looked
    at, and nothing is created. With --spark, a task tries to reach the source. The exit code is 1
    if there is something. Notes, which say what the lake will not have, do not count.
    """
    values = {
        "source": source,
        "include": include or None,
        "target": target,
        "exclude": exclude or None,
        "including-tables": including_tables,
        "excluding-tables": excluding_tables,
        "including-dbs": including_dbs,
        "excluding-dbs": excluding_dbs,
        "table-prefix": table_prefix,
        "table-suffix": table_suffix,
        "table-prefix-db": table_prefix_db,
        "table-suffix-db": table_suffix_db,
        "table-mapping": table_mapping,
        "merge-shards": merge_shards,
        "partition-keys": partition_keys or None,
        "multiple-table-partition-keys": multiple_table_partition_keys or None,
        "primary-keys": primary_keys or None,
        "computed-column": computed_column or None,
        "metadata-column": metadata_column or None,
        "metadata-column-prefix": metadata_column_prefix or None,
        "type-mapping": type_mapping or None,
        "table-options": pairs(table_option, "--table-option") or None,
        "tables-without-key": tables_without_key,
        "slot": slot,
        "publication": publication,
        "kafka-conf": pairs(kafka_conf, "--kafka-conf") or None,
    }
    given = {"password_file": password_file, "spark": spark}
    if file is None:
        options = _options("headwater cdc check", {**values, **given})
    elif any(value is not None for value in values.values()):
        raise typer.BadParameter("give either a file or options")
    else:
        options = _from_file("headwater cdc check", file, given)
    from headwater.cdc.service.running import check as find

    with spark_executor(options.spark, "headwater cdc check") as executor:
        findings = find(lake, options, executor)
    rows = [
        (f"{'note: ' if finding.is_note else ''}{finding.subject}", finding.problem, finding.remedy)
        for finding in findings
    ]
    print_rows(["subject", "problem", "remedy"], rows, as_json=as_json)
    if not all(finding.is_note for finding in findings):
        raise typer.Exit(1)


def _options(
    command: str, values: Mapping[str, object], kind: str | None = None
) -> PipelineOptions:
    require("cdc", command)
    from headwater.cdc.service import PipelineOptions

    return PipelineOptions.parse(values, kind=kind)


def _from_file(command: str, file: str, given: Mapping[str, object]) -> PipelineOptions:
    require("cdc", command)
    from headwater.cdc.service import PipelineOptions

    options = PipelineOptions.from_file(file)
    present = {key: value for key, value in given.items() if value is not None}
    return PipelineOptions.parse({**options.model_dump(exclude_unset=True), **present})


def _follow(lake: Lake, command: str, options: PipelineOptions, interval: float) -> None:
    from headwater.cdc.service.display import show
    from headwater.cdc.service.metrics import serving_metrics
    from headwater.cdc.service.running import start
    from headwater.storage.process_memory import keep_objects

    keep_objects()
    with (
        spark_executor(options.spark, command) as executor,
        start(lake, options, executor) as pipeline,
        _stopped_by_signals(pipeline),
        serving_metrics(pipeline, options.metrics_port),
    ):
        all_followed = show(pipeline, Console(), interval)
    if options.once and not all_followed:
        raise typer.Exit(1)


@contextmanager
def _stopped_by_signals(pipeline: RunningPipeline) -> Iterator[None]:
    """Let the first signal stop the pipeline, and the second one end it where it is."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        for one, handler in before.items():
            signal.signal(one, handler)
        pipeline.stop()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
