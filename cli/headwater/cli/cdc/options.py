"""The options of `headwater cdc`."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "BadDates",
    "BatchBytes",
    "BatchSeconds",
    "ComputedColumn",
    "Exclude",
    "ExcludingDbs",
    "ExcludingTables",
    "Include",
    "IncludingDbs",
    "IncludingTables",
    "Interval",
    "KafkaConf",
    "LockSeconds",
    "MemoryBytes",
    "MergeShards",
    "MetadataColumn",
    "MetadataColumnPrefix",
    "MetricsPort",
    "MultipleTablePartitionKeys",
    "Name",
    "Narrowing",
    "OnDrop",
    "Once",
    "OptionalSource",
    "OptionalTarget",
    "PartitionKeys",
    "PasswordFile",
    "PrimaryKeys",
    "Publication",
    "RangeRows",
    "Readers",
    "Slot",
    "Source",
    "Spark",
    "TableMapping",
    "TableOption",
    "TablePrefix",
    "TablePrefixDb",
    "TableSuffix",
    "TableSuffixDb",
    "TablesWithoutKey",
    "TagBatches",
    "TagNumRetainedMax",
    "Target",
    "TaskBytes",
    "TaskRows",
    "TypeMapping",
    "Writers",
]

_TABLES, _NAMES = "Tables", "Names of the lake's tables"
_ROWS, _SPEED = "What becomes of rows and columns", "Speed and memory"
_SOURCE_HELP = (
    "The source, mysql://user@host:port, mariadb://…, postgresql://user@host:port/database or "
    "kafka://host:port,host:port; its password is best elsewhere."
)
_INCLUDE_HELP = "Tables to follow, such as 'shop.*'; may be repeated."
_TARGET_HELP = "The database of the lake."

Source = Annotated[str, typer.Option(metavar="URL", rich_help_panel=_TABLES, help=_SOURCE_HELP)]
Target = Annotated[
    str, typer.Option(metavar="DATABASE", rich_help_panel=_TABLES, help=_TARGET_HELP)
]
OptionalSource = Annotated[
    str | None, typer.Option(metavar="URL", rich_help_panel=_TABLES, help=_SOURCE_HELP)
]
Include = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", rich_help_panel=_TABLES, help=_INCLUDE_HELP)
]
OptionalTarget = Annotated[
    str | None, typer.Option(metavar="DATABASE", rich_help_panel=_TABLES, help=_TARGET_HELP)
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        rich_help_panel=_TABLES,
        help="Tables to leave out of these; may be repeated.",
    ),
]
IncludingTables = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX", rich_help_panel=_TABLES, help="Tables to follow, as Paimon: 'a|b_.*'."
    ),
]
ExcludingTables = Annotated[
    str | None,
    typer.Option(metavar="REGEX", rich_help_panel=_TABLES, help="Tables to leave out, as Paimon."),
]
IncludingDbs = Annotated[
    str | None,
    typer.Option(metavar="REGEX", rich_help_panel=_TABLES, help="Their databases, as Paimon."),
]
ExcludingDbs = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX", rich_help_panel=_TABLES, help="Databases to leave out, as Paimon."
    ),
]
TablePrefix = Annotated[
    str | None,
    typer.Option(rich_help_panel=_NAMES, help="What stands before the names of the lake's tables."),
]
TableSuffix = Annotated[
    str | None, typer.Option(rich_help_panel=_NAMES, help="What stands behind these names.")
]
TablePrefixDb = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DATABASE=PREFIX",
        rich_help_panel=_NAMES,
        help="The prefix of the tables of a database; may be repeated.",
    ),
]
TableSuffixDb = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DATABASE=SUFFIX",
        rich_help_panel=_NAMES,
        help="The suffix of the tables of a database; may be repeated.",
    ),
]
TableMapping = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE=NAME",
        rich_help_panel=_NAMES,
        help="The name of a table in the lake, without prefix and suffix; may be repeated.",
    ),
]
MergeShards = Annotated[
    bool | None,
    typer.Option(rich_help_panel=_NAMES, help="With --no-merge-shards, names are DATABASE_TABLE."),
]
PartitionKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE=]COLUMNS",
        rich_help_panel=_ROWS,
        help="Partition columns of the lake's tables, such as dt,hh or orders=dt; may be repeated.",
    ),
]
MultipleTablePartitionKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE=COLUMNS", rich_help_panel=_ROWS, help="The same, by Paimon's other name."
    ),
]
PrimaryKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE=]COLUMNS",
        rich_help_panel=_ROWS,
        help="The primary key in the lake: the source's with further columns; may be repeated.",
    ),
]
ComputedColumn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FUNCTION(COLUMN)",
        rich_help_panel=_ROWS,
        help="A computed column, such as 'dt=date_format(at, yyyy-MM-dd)'; may be repeated.",
    ),
]
MetadataColumn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_ROWS,
        help="A column with a name of the source: database_name, table_name or schema_name.",
    ),
]
MetadataColumnPrefix = Annotated[
    str | None,
    typer.Option(rich_help_panel=_ROWS, help="What stands before the names of these columns."),
]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="PIPELINE",
        rich_help_panel=_TABLES,
        help=(
            "The pipeline's name. By default it is made of the source's host, the database of "
            "PostgreSQL, and the target."
        ),
    ),
]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_TABLES,
        help="The file that has the source's password; else HEADWATER_CDC_SOURCE_PASSWORD has it.",
    ),
]
TypeMapping = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_ROWS,
        help="A choice of types in the lake, such as to-nullable; may be repeated.",
    ),
]
BadDates = Annotated[
    str | None,
    typer.Option(
        metavar="fail|null",
        rich_help_panel=_ROWS,
        help="What becomes of dates that the lake does not have, such as 0000-00-00 and infinity.",
        show_default="fail",
    ),
]
OnDrop = Annotated[
    str | None,
    typer.Option(
        metavar="keep|drop",
        rich_help_panel=_ROWS,
        help="What becomes of the lake's table when the source's is dropped.",
        show_default="keep",
    ),
]
Narrowing = Annotated[
    str | None,
    typer.Option(
        metavar="keep|fail",
        rich_help_panel=_ROWS,
        help="Whether a narrowed column keeps its wider type, or the table fails.",
        show_default="keep",
    ),
]
TablesWithoutKey = Annotated[
    str | None,
    typer.Option(
        metavar="reject|append",
        rich_help_panel=_ROWS,
        help="Whether tables without a primary key are followed, with a row for each change.",
        show_default="reject",
    ),
]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        rich_help_panel=_ROWS,
        help="An option of tables that are created; may be repeated.",
    ),
]
Slot = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_TABLES,
        help="A replication slot of PostgreSQL to use. By default the pipeline creates its own.",
    ),
]
Publication = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_TABLES,
        help="A publication of PostgreSQL to use. By default the pipeline creates its own.",
    ),
]
KafkaConf = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-conf",
        metavar="KEY=VALUE",
        rich_help_panel=_TABLES,
        help="What to read of Kafka, by Paimon's names, such as topic=shop; may be repeated.",
    ),
]
BatchSeconds = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="How long changes are collected before a commit.",
        show_default="5",
    ),
]
BatchBytes = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="Bytes of rows in the log after which they are committed earlier.",
        show_default="128 MiB",
    ),
]
MemoryBytes = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="Bytes of a batch's log that are kept in memory; more goes to disk.",
        show_default="256 MiB",
    ),
]
RangeRows = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="Rows of a table that are read at once.",
        show_default="100,000",
    ),
]
Readers = Annotated[
    int | None,
    typer.Option(rich_help_panel=_SPEED, help="Connections that read rows.", show_default="2"),
]
Writers = Annotated[
    int | None,
    typer.Option(rich_help_panel=_SPEED, help="Tables that are written at once.", show_default="2"),
]
LockSeconds = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="How long to wait for another process that runs the pipeline, in seconds.",
        show_default="10",
    ),
]
TagBatches = Annotated[
    int | None,
    typer.Option(help="Tag all tables at every so many batches; without it there are no tags."),
]
TagNumRetainedMax = Annotated[
    int | None, typer.Option(help="Keep so many of these tags; without it, all are kept.")
]
Once = Annotated[
    bool,
    typer.Option("--once", help="End when all that the source has at the start is committed."),
]
MetricsPort = Annotated[
    int | None, typer.Option(metavar="PORT", help="Serve Prometheus metrics at this port.")
]
Spark = Annotated[
    str | None,
    typer.Option(
        metavar="MASTER",
        rich_help_panel=_SPEED,
        help=(
            "Read rows and write large batches by tasks of Spark's, at local[4], spark://host:7077 "
            "or sc://host:15002 (Spark Connect)."
        ),
    ),
]
TaskRows = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="With --spark: rows of a table that a task reads.",
        show_default="500,000",
    ),
]
TaskBytes = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_SPEED,
        help="With --spark: bytes of a table's rows in a batch from which on tasks write them.",
        show_default="64 MiB",
    ),
]
Interval = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        help="Where the output is not a terminal: how often to print a line of JSON.",
    ),
]
