"""The options of a pipeline: from Python, from a command line and from a YAML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from headwater.cdc.columns import BadDates
from headwater.cdc.kafka.options import KafkaOptions
from headwater.cdc.model.computed_columns import ComputedColumn
from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.target_names import TargetNames
from headwater.cdc.pipeline.settings import OnDrop, PipelineSettings, TablesWithoutKey
from headwater.cdc.postgres.server import Address as PostgresAddress
from headwater.cdc.service.paimon_options import check_paimon_options
from headwater.cdc.service.sources import (
    Address,
    SourceKind,
    default_name,
    parse_address,
    parse_type_mapping,
    read_text,
    source_address,
    source_kind,
    stored_url,
)
from headwater.cdc.sink.schema_changes import Narrowing
from headwater.storage.errors import Invalid

__all__ = ["PipelineOptions"]

_TUNING = (
    *("batch_seconds", "batch_bytes", "memory_bytes", "range_rows", "readers", "writers"),
    *("task_rows", "task_bytes", "lock_seconds", "tag_batches", "tag_num_retained_max"),
)


# What needs a table's definition before its first rows.
_NOT_OF_KAFKA = (
    *("merge_shards", "partition_keys", "multiple_table_partition_keys", "primary_keys"),
    *("computed_column", "metadata_column"),
)


def _list(value: object) -> object:
    """One text is a list of one."""
    return [value] if isinstance(value, str) else value


def _names(value: object) -> object:
    """Names with commas between them, as Paimon writes them, or a list of names."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


def _option_values(value: object) -> object:
    """Options as text: YAML has numbers and truth values, too."""
    if not isinstance(value, Mapping):
        return value
    return {
        str(key): str(item).lower() if isinstance(item, bool | int | float) else item
        for key, item in value.items()
    }


def _keys(value: object) -> object:
    """Columns by the lake's table, also as Paimon writes them: ``dt,hh`` or ``orders=dt,hh``."""
    if isinstance(value, Mapping):
        return {str(table): _names(columns) for table, columns in value.items()}
    texts = _list(value)
    if not isinstance(texts, list | tuple):
        return value
    keys: dict[str, object] = {}
    for text in texts:
        table, _, columns = str(text).rpartition("=")
        if table in keys:
            raise ValueError(f"{table or 'all tables'} are named twice; name each once")
        keys[table] = _names(columns)
    return keys


def _pairs(value: object) -> object:
    """Names with values, also as Paimon writes them: a list of texts such as ``orders=sales``."""
    if isinstance(value, Mapping):
        return value
    pairs: dict[str, str] = {}
    texts = _list(value)
    if not isinstance(texts, list | tuple):
        return value
    for text in texts:
        name, equals, item = str(text).partition("=")
        if not equals or name in pairs:
            problem = "is named twice" if equals else "lacks '='"
            raise ValueError(f"'{text}' {problem}; write name=value once for each name")
        pairs[name] = item
    return pairs


def _hyphenated(name: str) -> str:
    return name.replace("_", "-")


Pairs = Annotated[dict[str, str], BeforeValidator(_pairs)]
Keys = Annotated[dict[str, tuple[str, ...]], BeforeValidator(_keys)]


class PipelineOptions(BaseModel):
    """The options of a pipeline, by the names that they have everywhere.

    Attributes:
        source: ``mysql://user@host:port``, ``mariadb://…``,
            ``postgresql://user@host:port/database`` or ``kafka://host:port,host:port``.
        target: The lake's database.
        include, exclude: Patterns of tables, such as ``shop.*``.
        including_tables, excluding_tables, including_dbs, excluding_dbs: Regular expressions of
            tables and databases, as Paimon's; with one of them, `include` may be left out.
        table_prefix, table_suffix, table_prefix_db, table_suffix_db, table_mapping: How the lake's
            tables are named.
        merge_shards: True merges tables of one name; False puts the database before their names.
        partition_keys, multiple_table_partition_keys, primary_keys: Columns of the lake's tables,
            for all of them or by table.
        computed_column, metadata_column, metadata_column_prefix: Columns that the lake's tables
            have besides the source's.
        name: The pipeline's name; derived from the source's host and the target unless given.
        password, password_file: The source's password, or the file that it is in.
        type_mapping: Choices of types in the lake, by Paimon's names.
        bad_dates: ``fail`` or ``null``, for dates that the lake does not have.
        on_drop: ``keep`` or ``drop``, for the lake's table when the source's is dropped.
        narrowing: ``keep`` or ``fail``, for the wider type when a column is narrowed.
        tables_without_key: ``reject`` or ``append``, for tables without a primary key.
        slot, publication: What to use at PostgreSQL; a pipeline creates its own unless given.
        kafka_conf: What is read of Kafka, by the names of Paimon's ``--kafka_conf``.
        table_options: Options of tables that are created in the lake.
        once: Whether to end when all that the source has at the start is committed.
        metrics_port: The port of Prometheus metrics; none unless given.
        batch_seconds, batch_bytes, memory_bytes, range_rows, readers, writers, lock_seconds,
            tag_batches, tag_num_retained_max, task_rows, task_bytes: See `PipelineSettings`.
        spark: The master of a Spark session whose tasks help; none unless given.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=_hyphenated, validate_by_name=True
    )

    source: str
    target: str
    include: Annotated[tuple[str, ...], BeforeValidator(_list)]
    including_tables: str | None = Field(default=None, min_length=1)
    excluding_tables: str | None = Field(default=None, min_length=1)
    including_dbs: str | None = Field(default=None, min_length=1)
    excluding_dbs: str | None = Field(default=None, min_length=1)
    table_prefix: str = ""
    table_suffix: str = ""
    table_prefix_db: Pairs = Field(default_factory=dict)
    table_suffix_db: Pairs = Field(default_factory=dict)
    table_mapping: Pairs = Field(default_factory=dict)
    merge_shards: bool | None = None
    partition_keys: Keys = Field(default_factory=dict)
    multiple_table_partition_keys: Keys = Field(default_factory=dict)
    primary_keys: Keys = Field(default_factory=dict)
    computed_column: Annotated[tuple[str, ...], BeforeValidator(_list)] = ()
    metadata_column: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    metadata_column_prefix: str = ""
    exclude: Annotated[tuple[str, ...], BeforeValidator(_list)] = ()
    name: str | None = None
    password: str | None = Field(default=None, repr=False)
    password_file: Path | None = None
    type_mapping: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    bad_dates: BadDates = BadDates.FAIL
    on_drop: OnDrop = OnDrop.KEEP
    narrowing: Narrowing = Narrowing.KEEP
    tables_without_key: TablesWithoutKey = TablesWithoutKey.REJECT
    slot: str | None = Field(default=None, min_length=1)
    publication: str | None = Field(default=None, min_length=1)
    kafka_conf: Annotated[dict[str, str], BeforeValidator(_option_values)] = Field(
        default_factory=dict
    )
    table_options: Annotated[dict[str, str], BeforeValidator(_option_values)] = Field(
        default_factory=dict
    )
    batch_seconds: float | None = None
    batch_bytes: int | None = None
    memory_bytes: int | None = None
    range_rows: int | None = None
    readers: int | None = None
    writers: int | None = None
    task_rows: int | None = None
    task_bytes: int | None = None
    lock_seconds: float | None = None
    tag_batches: int | None = None
    tag_num_retained_max: int | None = None
    once: bool = False
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    spark: str | None = Field(default=None, min_length=1)

    @staticmethod
    def parse(
        values: Mapping[str, Any], where: str = "", *, kind: str | None = None
    ) -> PipelineOptions:
        """Check options.

        Args:
            values: The options; names may have hyphens or underscores. None is one not given.
            where: Where they come from, for messages.
            kind: ``mysql``, also for MariaDB, ``postgres`` or ``kafka``: what the source must be.

        Raises:
            Invalid: One is not known, is missing, or has a wrong value.
        """
        given = {
            _hyphenated(str(name)): value for name, value in values.items() if value is not None
        }
        check_paimon_options(given)
        if any(given.get(name) for name in ("including-tables", "including-dbs")):
            given.setdefault("include", "*.*")
        try:
            options = PipelineOptions.model_validate(given)
            if kind is not None:
                _check_command(options.source, kind)
            return options
        except ValidationError as error:
            prefix = f"{where}: " if where else ""
            raise Invalid(prefix + _explained(error, given)) from None

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> PipelineOptions:
        """Read a YAML file.

        Raises:
            Invalid: It is not a mapping of options.
            Unavailable: It cannot be read.
        """
        try:
            values = yaml.safe_load(read_text(path))
        except yaml.YAMLError as error:
            text = " ".join(str(error).split())
            raise Invalid(f"{path} is not YAML: {text}; write one 'option: value' a line") from None
        if not isinstance(values, Mapping):
            raise Invalid(
                f"{path} does not map options to values; write one 'option: value' a line"
            )
        return PipelineOptions.parse(values, str(path))

    def address(self) -> Address:
        """Where the source is; Invalid."""
        return source_address(self.source, self.password, self.password_file)

    def settings(self) -> PipelineSettings:
        """What the pipeline runs with; Invalid."""
        address = parse_address(self.source)
        self._check_kind()
        tuning = {name: getattr(self, name) for name in _TUNING if getattr(self, name) is not None}
        return PipelineSettings(
            name=self.name or default_name(address, self.target),
            source=stored_url(self.source, address),
            target=self.target,
            include=self.include,
            exclude=self.exclude,
            type_mapping=parse_type_mapping(self.source, ",".join(self.type_mapping)),
            bad_dates=self.bad_dates,
            on_drop=self.on_drop,
            narrowing=self.narrowing,
            tables_without_key=self.tables_without_key,
            table_options=self.table_options,
            including_tables=self.including_tables,
            excluding_tables=self.excluding_tables,
            including_dbs=self.including_dbs,
            excluding_dbs=self.excluding_dbs,
            layout=self._layout(address.database if isinstance(address, PostgresAddress) else ""),
            slot=self.slot,
            publication=self.publication,
            kafka_conf=self.kafka_conf,
            **tuning,
        )

    def _layout(self, database: str) -> LayoutRules:
        """What the lake's tables have besides the source's columns; Invalid."""
        names = TargetNames(
            self.table_prefix,
            self.table_suffix,
            self.table_prefix_db,
            self.table_suffix_db,
            self.table_mapping,
            with_database=self.merge_shards is False,
        )
        twice = sorted(self.partition_keys.keys() & self.multiple_table_partition_keys.keys())
        if twice:
            raise Invalid(
                f"the partition keys of table '{twice[0]}' are there twice: in partition-keys and "
                "in multiple-table-partition-keys; leave one out"
            )
        if self.metadata_column_prefix and not self.metadata_column:
            raise Invalid("option 'metadata-column-prefix' is there without metadata-column")
        return LayoutRules(
            names,
            {**self.partition_keys, **self.multiple_table_partition_keys},
            self.primary_keys,
            tuple(map(ComputedColumn.parse, self.computed_column)),
            self.metadata_column,
            self.metadata_column_prefix,
            database,
            bool(self.merge_shards),
        )

    def _check_kind(self) -> None:
        """Raise Invalid if an option is of another kind of source, or lacks another one."""
        kind = source_kind(self.source)
        if kind is SourceKind.KAFKA:
            KafkaOptions.parse(self.kafka_conf, str(parse_address(self.source)))
            for option in _NOT_OF_KAFKA:
                if getattr(self, option):
                    raise Invalid(
                        f"option '{_hyphenated(option)}' is not one of Kafka, whose tables have "
                        "the columns and keys of their messages; leave it out"
                    )
        elif self.kafka_conf:
            raise Invalid("option 'kafka-conf' is one of Kafka; leave it out")
        if kind is not SourceKind.POSTGRES:
            for option in ("slot", "publication"):
                if getattr(self, option) is not None:
                    raise Invalid(f"option '{option}' is one of PostgreSQL; leave it out")
        elif self.slot is not None and self.publication is None:
            raise Invalid(
                f"option 'slot' is '{self.slot}' and option 'publication' is missing: a slot's log "
                "begins before a publication that the pipeline creates; name a publication that "
                "is older than the slot, or leave the slot out"
            )


def _check_command(source: str, kind: str) -> None:
    """Raise Invalid if a source is not of a command's kind."""
    actual = source_kind(source)
    if actual != kind:
        raise Invalid(
            f"the source is {actual.product}, which '{kind}' does not follow; use headwater cdc "
            f"{actual} or lake.cdc.{actual}"
        )


def _explained(error: ValidationError, given: Mapping[str, Any]) -> str:
    """What is wrong with the first option that is wrong."""
    errors = error.errors(include_url=False)
    # A name that is not known may be meant for one that is missing.
    first = next((item for item in errors if item["type"] == "extra_forbidden"), errors[0])
    option = str(first["loc"][0])
    known = ", ".join(sorted(_hyphenated(name) for name in PipelineOptions.model_fields))
    if first["type"] == "extra_forbidden":
        return f"option '{option}' is not known; the options are {known}"
    if first["type"] == "missing":
        return f"option '{option}' is missing; give it"
    value = "" if option == "password" else f" is {given.get(option)!r}"
    reason = first["msg"][:1].lower() + first["msg"][1:]
    return f"option '{option}'{value}: {reason}"
