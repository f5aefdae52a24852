"""What a pipeline follows, where it writes, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

from headwater.cdc.columns import BadDates
from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.model.selection import NameFilter, Selection
from headwater.cdc.model.tables import TableName
from headwater.cdc.sink.schema_changes import Narrowing
from headwater.storage.errors import Invalid

__all__ = ["OnDrop", "PipelineSettings", "TablesWithoutKey", "commit_user"]

# With what stands before and behind it, a user has at most 255 characters.
_MAX_USER_NAME = 150
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")
_MB = 1 << 20
_NO_RULES = LayoutRules()


class OnDrop(StrEnum):
    """What becomes of the lake's table when the source's is dropped."""

    KEEP = "keep"
    DROP = "drop"


class TablesWithoutKey(StrEnum):
    """What is done with tables that have no primary key."""

    REJECT = "reject"
    APPEND = "append"


@dataclass(frozen=True)
class PipelineSettings:
    """The settings of a pipeline.

    Attributes:
        name: Its name, which its commits, its state and its lock at the source have.
        source: The source's URL, without a password.
        target: The lake's database.
        include, exclude: Patterns of tables.
        including_tables, excluding_tables, including_dbs, excluding_dbs: Paimon's regular
            expressions of tables and databases, beside these patterns; None for all.
        layout: What the lake's tables have besides the source's columns.
        type_mapping: Choices of types in the lake.
        bad_dates: What to do with dates that the lake does not have.
        on_drop: What becomes of tables that the source drops.
        narrowing: What happens when a column of the source can hold less than before.
        tables_without_key: Whether tables without a primary key are appended to in the lake.
        table_options: Options of tables that are created in the lake.
        kafka_conf: What is read of Kafka, by Paimon's names.
        slot, publication: What is used of PostgreSQL's; None lets the pipeline create its own.
        batch_seconds: How often changes are committed at most, in seconds.
        batch_bytes: The bytes of rows in the log after which they are committed earlier.
        memory_bytes: How much of the log of a batch is kept in memory.
        range_rows: How many rows of a table are read at once.
        readers: How many connections read rows, besides the log's.
        task_rows: How many rows of a table a task of an executor reads.
        task_bytes: The bytes of a table's rows in the log of a batch from which on tasks of an
            executor decode and write them.
        writers: How many tables are written at once.
        lock_seconds: How long to wait for another process that runs the pipeline, in seconds.
        quiet_seconds: How long the position is not recorded while no followed table changes.
        tag_batches: How many batches are between two tags of all tables; None makes no tags.
        tag_num_retained_max: How many of these tags are kept; None keeps all.
        look_seconds: How often tables' definitions are asked for, where the log has no statements.
    """

    name: str
    source: str
    target: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    type_mapping: frozenset[str] = frozenset()
    bad_dates: BadDates = BadDates.FAIL
    on_drop: OnDrop = OnDrop.KEEP
    narrowing: Narrowing = Narrowing.KEEP
    tables_without_key: TablesWithoutKey = TablesWithoutKey.REJECT
    table_options: Mapping[str, str] = field(default_factory=dict)
    including_tables: str | None = None
    excluding_tables: str | None = None
    including_dbs: str | None = None
    excluding_dbs: str | None = None
    layout: LayoutRules = _NO_RULES
    slot: str | None = None
    publication: str | None = None
    kafka_conf: Mapping[str, str] = field(default_factory=dict)
    batch_seconds: float = 5.0
    batch_bytes: int = 128 * _MB
    memory_bytes: int = 256 * _MB
    range_rows: int = 100_000
    readers: int = 2
    task_rows: int = 500_000
    task_bytes: int = 64 * _MB
    writers: int = 2
    lock_seconds: float = 10.0
    # Lest the log is purged behind a pipeline whose tables do not change.
    quiet_seconds: float = 60.0
    look_seconds: float = 10.0
    tag_batches: int | None = None
    tag_num_retained_max: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Invalid(
                f"pipeline name '{self.name[:60]}' is not usable; use up to 48 letters, digits, "
                "'-', '_' and '.', beginning with a letter or a digit"
            )
        if not self.target or "." in self.target:
            raise Invalid(f"target '{self.target}' is not a database of the lake; write one name")
        for name, least in (
            *(("batch_seconds", 0.05), ("batch_bytes", 1), ("memory_bytes", 1)),
            *(("range_rows", 1), ("readers", 1), ("writers", 1)),
            *(("task_rows", 1), ("task_bytes", 1)),
            ("lock_seconds", 0),
            *(("quiet_seconds", 0), ("look_seconds", 0)),
        ):
            value = getattr(self, name)
            if not value >= least:
                raise Invalid(f"{name.replace('_', '-')} is {value}; use {least} or more")
        for name in ("tag_batches", "tag_num_retained_max"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise Invalid(f"{name.replace('_', '-')} is {count}; use 1 or more")
        if self.tag_num_retained_max is not None and self.tag_batches is None:
            raise Invalid(
                f"tag-num-retained-max is {self.tag_num_retained_max} and tag-batches is missing: "
                "no tags are made; give tag-batches, too"
            )
        if self.layout.merges and self.on_drop is OnDrop.DROP:
            raise Invalid(
                "option 'on-drop' is 'drop' with merge-shards: a table of the lake has the rows of "
                "several tables; leave it out"
            )
        self.selection()

    def selection(self) -> Selection:
        """The tables that are followed; Invalid."""
        return replace(
            Selection.parse(self.include, self.exclude),
            tables=NameFilter.parse("tables", self.including_tables, self.excluding_tables),
            databases=NameFilter.parse("dbs", self.including_dbs, self.excluding_dbs),
        )

    def user(self, source: TableName) -> str:
        """The user of the commits of a table's rows.

        Where tables are merged, each has one of its own: a user commits a number once.
        """
        user = commit_user(self.name)
        if not self.layout.merges:
            return user
        name = source.escaped
        if len(name) > _MAX_USER_NAME or not name.isprintable():
            name = sha256(name.encode()).hexdigest()
        return f"{user}/{name}"

    @property
    def appends(self) -> bool:
        """Whether tables without a primary key are followed."""
        return self.tables_without_key is TablesWithoutKey.APPEND

    def stored(self) -> Mapping[str, str]:
        """The settings as text, for the state table."""
        return {
            "source": self.source,
            "include": json.dumps(self.include),
            "exclude": json.dumps(self.exclude),
            "type-mapping": ",".join(sorted(self.type_mapping)),
            "bad-dates": str(self.bad_dates),
            "on-drop": str(self.on_drop),
            "narrowing": str(self.narrowing),
            "tables-without-key": str(self.tables_without_key),
            "table-options": json.dumps(dict(self.table_options)),
            "including-tables": self.including_tables or "",
            "excluding-tables": self.excluding_tables or "",
            "including-dbs": self.including_dbs or "",
            "excluding-dbs": self.excluding_dbs or "",
            "layout": self.layout.stored(),
            "slot": self.slot or "",
            "publication": self.publication or "",
            "kafka-conf": json.dumps(dict(self.kafka_conf)),
        }

    @staticmethod
    def from_stored(name: str, target: str, stored: Mapping[str, str]) -> PipelineSettings:
        """The settings that a pipeline ran with last."""
        return PipelineSettings(
            name,
            stored["source"],
            target,
            tuple(json.loads(stored["include"])),
            tuple(json.loads(stored["exclude"])),
            frozenset(filter(None, stored["type-mapping"].split(","))),
            BadDates(stored["bad-dates"]),
            OnDrop(stored["on-drop"]),
            Narrowing(stored["narrowing"]),
            # Earlier versions did not have the option.
            TablesWithoutKey(stored.get("tables-without-key", TablesWithoutKey.REJECT)),
            json.loads(stored["table-options"]),
            including_tables=stored.get("including-tables") or None,
            excluding_tables=stored.get("excluding-tables") or None,
            including_dbs=stored.get("including-dbs") or None,
            excluding_dbs=stored.get("excluding-dbs") or None,
            layout=LayoutRules.from_stored(stored["layout"]) if "layout" in stored else _NO_RULES,
            slot=stored.get("slot") or None,
            publication=stored.get("publication") or None,
            kafka_conf=json.loads(stored.get("kafka-conf", "{}")),
        )


def commit_user(pipeline: str) -> str:
    """The user of a pipeline's commits."""
    return f"cdc-{pipeline}"
