"""Topics with Debezium's events as the source of a pipeline. Tables have no rows but the log's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager

from headwater.cdc.kafka.address import Address
from headwater.cdc.kafka.avro_events import avro_events, avro_tombstones
from headwater.cdc.kafka.cluster import Cluster
from headwater.cdc.kafka.events import Events, Messages
from headwater.cdc.kafka.group import GroupMember
from headwater.cdc.kafka.json_events import json_events, json_tombstones
from headwater.cdc.kafka.log_reader import KafkaLogReader
from headwater.cdc.kafka.options import KafkaOptions
from headwater.cdc.kafka.positions import TopicPosition
from headwater.cdc.kafka.registry import SchemaRegistry
from headwater.cdc.kafka.table_rows import united
from headwater.cdc.kafka.tombstones import check_keys_tell_tables, tombstone_rows
from headwater.cdc.kafka.topics import Topics
from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.source.foreign_keys import ForeignKeyAction
from headwater.cdc.source.log_batches import LogBatch, LogReader, XaEnd
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import ConsistentRead, RemoteReads, RowReader, Tables
from headwater.cdc.source.redefinitions import Described
from headwater.cdc.source.table_changes import TableChanges
from headwater.storage.errors import Conflict, HeadwaterError, Invalid, Unsupported

__all__ = ["KafkaSource"]

_GROUP_PREFIX = "headwater-cdc-"


class KafkaSource:
    """Topics that a pipeline follows.

    Args:
        address: The cluster.
        pipeline: The pipeline's name, by which its consumer group is named.
        options: Which topics, and what their messages are.

    Attributes:
        has_rows: That rows cannot be read besides the log.
        keeps_log: That the log can be read again, until brokers delete it.
        logs_cascades: That the log has the rows that foreign keys change.
        logs_statements: That nothing but the log tells of changes of tables.

    Raises:
        Forbidden, Invalid, Unavailable: The cluster cannot be reached.
    """

    has_rows = False
    keeps_log = True
    logs_cascades = True
    logs_statements = True

    def __init__(self, address: Address, pipeline: str, options: KafkaOptions) -> None:
        self.address = address
        self._options = options
        self._cluster = Cluster(address, options.properties)
        self._topics = Topics(self._cluster, options)
        self._compacted: dict[str, bool | None] = {}
        self._registry = None if options.registry is None else SchemaRegistry(options.registry)
        self._member = GroupMember(self._cluster, options.group or _GROUP_PREFIX + pipeline)

    def close(self) -> None:
        """End the connections, and leave the group."""
        self._member.close()

    # What does not work -----------------------------------------------------------------------

    def findings(self, databases: Collection[str]) -> Sequence[Finding]:
        """What keeps topics from being read."""
        del databases
        findings = [
            Finding(
                f"topic '{name}'",
                f"it is not at the source at {self.address}, or the user may not describe it",
                "create it, or correct 'topic' of kafka-conf",
            )
            for name in self._topics.missing
        ]
        if self._options.pattern is not None and not self._topics.names:
            findings.append(
                Finding(
                    f"topic-pattern '{self._options.pattern.pattern}'",
                    f"it matches no topic of the source at {self.address}",
                    "correct it, or let the user describe the topics",
                )
            )
        if findings:
            return findings
        try:
            self._topics.start()
            self._cluster.members(self._member.name)
        except HeadwaterError as error:
            problem, _, remedy = error.message.rpartition("; ")
            return [Finding(f"source {self.address}", problem, remedy)]
        compacted = self._cluster.are_compacted(self._topics.names)
        return [
            Finding(
                f"topic '{name}'",
                "its settings cannot be read, so that it counts as compacted",
                "grant the user DescribeConfigs on it",
                is_note=True,
            )
            for name, is_compacted in sorted(compacted.items())
            if is_compacted is None
        ]

    def unreadable(self, tables: Sequence[SourceTable]) -> Sequence[Finding]:
        """None: the topics are readable or not."""
        del tables
        return ()

    def check_holds(self, position: Position) -> None:
        """Check that all messages after a position are there; see `Topics.check_holds`."""
        assert isinstance(position, TopicPosition)
        self._topics.check_holds(position)

    def check_log_file(self, file: str, position: Position, *, is_read: bool) -> None:
        """Nothing: positions have the ids of topics."""

    def check_logs(self, databases: Collection[str]) -> None:
        """Nothing: what a connector sends is not known here."""

    # Pipelines --------------------------------------------------------------------------------

    def lock(self, pipeline: str, seconds: float) -> None:
        """Become the only member of the pipeline's consumer group; see `GroupMember.join`."""
        del pipeline
        self._topics.require()
        self._member.join(self._topics.names, seconds)

    def is_locked(self, pipeline: str) -> bool:
        """Whether the pipeline's consumer group has a member."""
        del pipeline
        return bool(self._cluster.members(self._member.name))

    # The log ----------------------------------------------------------------------------------

    def position(self) -> TopicPosition:
        """The position that the topics have reached, without messages of open transactions."""
        return self._topics.end()

    def start(self) -> TopicPosition:
        """The position to begin at, which an option chooses."""
        return self._topics.start()

    def parse(self, text: str) -> TopicPosition:
        """Read a position of this source.

        Raises:
            Conflict: It is not a position of Kafka.
        """
        try:
            return TopicPosition.from_text(text)
        except Invalid as error:
            raise Conflict(
                f"the source at {self.address} is Kafka, which has no position '{text[:100]}', "
                "where the pipeline is; connect to the server that was read before, or choose "
                "another pipeline name and database of the lake"
            ) from error

    def open_log(
        self, after: Position, memory_bytes: int, is_selected: Callable[[TableName], bool]
    ) -> KafkaLogReader:
        """Read the topics from a position on."""
        assert isinstance(after, TopicPosition)
        return KafkaLogReader(
            self._cluster,
            self._topics,
            after,
            decode=self._decode,
            member=self._member,
            is_selected=is_selected,
            memory_bytes=memory_bytes,
        )

    def beginning(self, end: TopicPosition, what: str, remedy: str) -> TopicPosition:
        """The position from which on all messages are there; see `Topics.beginning`."""
        return self._topics.beginning(end, what, remedy)

    def has_compacted(self, position: TopicPosition) -> bool:
        """Whether a topic may lack messages whose key comes again."""
        compacted = self._cluster.are_compacted(position.topics).values()
        return any(is_compacted is not False for is_compacted in compacted)

    def _decode(self, messages: Messages) -> Events:
        """The events of messages, in the format that was chosen."""
        unknown = set(messages.topics) - self._compacted.keys()
        self._compacted |= self._cluster.are_compacted(unknown)
        rows = tombstone_rows(messages, self._compacted)
        if self._registry is not None:
            events = avro_events(messages, self._registry)
            deletes = avro_tombstones(messages, rows, self._registry)
        else:
            events = json_events(messages, has_schema=self._options.has_schema)
            deletes = json_tombstones(messages, rows)
        for group in events.groups:
            check_keys_tell_tables(messages, group, self._compacted)
        events.groups += deletes
        return events

    def prepared_transactions(self) -> tuple[str, ...]:
        """None: messages of open transactions are not sent."""
        return ()

    def await_ends(self, phases: Sequence[XaEnd]) -> None:
        """Nothing: the log has no phases of transactions."""

    # Tables and rows --------------------------------------------------------------------------

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """None: messages tell which tables there are."""
        del wanted, mapping, without_key
        return Tables((), ())

    def altered(
        self, table: SourceTable, batch: LogBatch, mapping: Collection[str]
    ) -> TableChanges:
        """A table with the columns that messages have, in types that hold all of their values.

        Raises:
            Unsupported: A type is not known, or does not fit; or the key has other columns.
        """
        del mapping
        for change in batch.changes:
            if isinstance(change, Described) and change.table == table.name:
                if isinstance(change.definition, Finding):
                    raise Unsupported(f"{change.definition.problem}; {change.definition.remedy}")
                table = united(table, change.definition)
        return TableChanges(table)

    def silent_foreign_keys(self) -> Sequence[ForeignKeyAction]:
        """None: the log has the rows that foreign keys change, if the connector's has."""
        return ()

    def consistent_read(self, after: Position) -> AbstractContextManager[ConsistentRead]:
        """Not for Kafka; Unsupported."""
        raise self._no_rows()

    def row_reader(self) -> AbstractContextManager[RowReader]:
        """Not for Kafka; Unsupported."""
        raise self._no_rows()

    def exact_read(
        self, reader: LogReader, batch: LogBatch, table: SourceTable
    ) -> AbstractContextManager[ConsistentRead]:
        """Not for Kafka; Unsupported."""
        raise self._no_rows()

    def remote_reads(self) -> RemoteReads:
        """Not for Kafka; Unsupported."""
        raise self._no_rows()

    def _no_rows(self) -> Unsupported:
        return Unsupported(
            f"the source at {self.address} is Kafka, which cannot be asked for a table's rows; "
            "begin again where its topics begin: headwater cdc resnapshot --all --replace"
        )

    def partly_logged(self, tables: Collection[TableName]) -> Sequence[Finding]:
        """None: what a connector sends is not known here."""
        del tables
        return ()

    def publish(self, tables: Tables) -> Tables:
        """The tables: the connector decides which it sends."""
        return tables

    def unlogged(self, tables: Collection[TableName]) -> Mapping[TableName, Finding]:
        """None: what a connector sends is not known here."""
        del tables
        return {}
