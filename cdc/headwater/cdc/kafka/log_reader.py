"""Messages of topics in batches, each a range of offsets in every partition.

What messages tell of a table's columns comes before their rows: in a batch of its own, which ends
where the batch before it has ended. A pipeline that reads a planned batch again gets no changes, as
it has applied those before it planned the batch. One that has not planned it yet gets them again,
and may apply them twice: they only add columns, and widen types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headwater.cdc.ddl import Change, Truncate
from headwater.cdc.kafka.cluster import Cluster, kafka_error
from headwater.cdc.kafka.events import EventGroup, Events, Messages
from headwater.cdc.kafka.group import GroupMember
from headwater.cdc.kafka.message_buffer import MessageBuffer
from headwater.cdc.kafka.origins import Origin, united_origins
from headwater.cdc.kafka.positions import Partition, TopicOffsets, TopicPosition
from headwater.cdc.kafka.table_rows import KafkaTableRows, definition, united
from headwater.cdc.kafka.topics import Topics, TopicsFound
from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.source.log_batches import BatchLimits, LogBatch, TableRows
from headwater.cdc.source.positions import Position
from headwater.cdc.source.redefinitions import Described
from headwater.storage.errors import CorruptData, HeadwaterError, NotFound, Unavailable, Unsupported

__all__ = ["KafkaLogReader"]

_MAX_MESSAGES = 10_000
_WAIT_SECONDS = 0.2
_LOOK_SECONDS = 10.0
# More are slower to scan, as they do not stay in the processor's caches.
_CHUNK_BYTES = 2 << 20
_MIN_QUEUE_KB = 1024
_START_AGAIN = "begin again where the topics begin now: headwater cdc resnapshot --all --replace"


@dataclass
class _Decoded:
    """Messages whose events are known, and are not in a batch yet.

    Attributes:
        end: The position after them.
        parts: The groups of each table, those of one chunk of messages together.
        faults: Tables that cannot be followed, with the reason.
    """

    end: TopicPosition
    parts: dict[TableName, list[list[EventGroup]]] = field(default_factory=dict)
    faults: dict[TableName, str] = field(default_factory=dict)
    source_time: int = 0
    messages: int = 0
    size: int = 0


class KafkaLogReader:
    """Reads topics, batch by batch.

    Args:
        cluster: The cluster.
        topics: The topics that are read.
        start: The position that they are read from.
        decode: Finds the events in messages.
        member: The member of the group that is told how far batches are committed; the consumer
            has the group's name, and is not a member.
        is_selected: Whether a table may be followed.
        memory_bytes: How many bytes of messages there are at most.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        start: TopicPosition,
        *,
        decode: Callable[[Messages], Events],
        member: GroupMember,
        is_selected: Callable[[TableName], bool],
        memory_bytes: int,
    ) -> None:
        self._cluster, self._topics, self._position = cluster, topics, start
        self._decode, self._is_selected, self._member = decode, is_selected, member
        self._memory_bytes = memory_bytes
        self._tables: Mapping[TableName, SourceTable | None] = {}
        # Tables that were described and are not followed.
        self._described: set[TableName] = set()
        self._held: _Decoded | None = None
        self._buffer = MessageBuffer()
        self._truncated: tuple[str, int, int] | None = None
        self._failure: KafkaError | None = None
        self._next_look = monotonic()
        config: dict[str, Any] = {
            **cluster.config,
            "group.id": member.name,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": max(_MIN_QUEUE_KB, memory_bytes // 4096),
            "error_cb": self._note,
        }
        self._consumer = Consumer(config)
        self._assign(start)

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._failure = error

    def _assign(self, position: TopicPosition) -> None:
        """Read the selected topics from a position on."""
        self._buffer.clear()
        partitions = self._topics.partitions(position)
        self._buffer.read = set(partitions)
        self._consumer.assign([TopicPartition(*at, offset) for at, offset in partitions.items()])

    def follow(
        self,
        tables: Mapping[TableName, int | None],
        known: Callable[[TableName], SourceTable | None] = lambda _: None,
    ) -> None:
        """Choose the tables whose rows the next batch has, as they are known."""
        self._tables = {name: known(name) for name in tables}

    @property
    def position(self) -> TopicPosition:
        """The end of the last batch."""
        return self._position

    def confirm(self, position: Position) -> None:
        """Show others how far messages are committed."""
        assert isinstance(position, TopicPosition)
        self._member.commit(position)

    def released(self) -> None:
        """Nothing: a batch's messages go with it."""

    @property
    def log_file(self) -> str | None:
        """None: positions have the ids of topics."""
        return None

    def lag_bytes(self) -> int | None:
        """0 if all partitions were read to their ends; None if not: brokers count messages."""
        return 0 if self._buffer.is_at_end and self._held is None else None

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    # Batches ----------------------------------------------------------------------------------

    def read_batch(
        self, limits: BatchLimits, should_end: Callable[[], bool] = lambda: False
    ) -> LogBatch:
        """Read messages until a limit is reached, see `LogReader.read_batch`."""
        self._member.stay()
        held, self._held = self._held, None
        if held is not None:
            return self._ended(held)
        assert limits.end is None or isinstance(limits.end, TopicPosition)
        new_topics = self._new_topics() if limits.end is None else self._topics_before(limits.end)
        if new_topics is not None:
            return new_topics
        self._collect(limits, should_end)
        decoded, truncation = self._decoded_until_truncation()
        if truncation is not None and not decoded.messages:
            return LogBatch(
                self._position,
                self._position,
                changes=[Truncate(truncation)],
                statement=f"truncate {truncation}",
            )
        changes = self._changes(decoded)
        if changes:
            self._held = decoded
            names = ", ".join(str(name) for change in changes for name in change.tables)
            return LogBatch(
                self._position,
                self._position,
                changes=changes,
                statement=f"messages with other columns of {names}",
            )
        return self._ended(decoded)

    def _collect(self, limits: BatchLimits, should_end: Callable[[], bool]) -> None:
        """Take what comes until a limit is reached."""
        limit = min(limits.bytes, self._memory_bytes)
        deadline = monotonic() + limits.seconds
        if limits.end is None:
            while self._buffer.size < limit and (left := deadline - monotonic()) > 0:
                if not self._consume(min(left, _WAIT_SECONDS)) and should_end():
                    return
            return
        assert isinstance(limits.end, TopicPosition)
        goal = self._left(limits.end)
        # A client that begins again loses what it has passed over, such as aborted messages.
        if self._buffer.has_dropped or self._buffer.read != goal.keys():
            self._assign_until(goal)
        while self._buffer.size < limit and not self._buffer.has_reached(goal):
            if monotonic() > deadline or should_end():
                return
            self._consume_until(goal)

    def read_until(self, end: Position) -> LogBatch:
        """Read exactly the messages up to a position, see `LogReader.read_until`.

        The batch has no changes: those in it were applied before it was planned.
        """
        assert isinstance(end, TopicPosition)
        goal = self._left(end)
        self._check_there({topic for topic, _ in goal})
        self._assign_until(goal)
        while not self._buffer.has_reached(goal):
            self._consume_until(goal)
        decoded = _Decoded(end)
        for chunk in self._buffer.taken().chunks(_CHUNK_BYTES):
            events = self._decode(chunk)
            self._add(decoded, chunk, events)
            for row, (table, origin) in events.truncations.items():
                reason = self._truncation_fault(chunk, row, table, origin)
                if reason is not None:
                    decoded.faults[table] = reason
        self._assign(end)
        return self._ended(decoded)

    def batches_until(self, end: TopicPosition) -> Iterator[LogBatch]:
        """Read the messages up to a position in batches that fit into memory.

        They have truncations, and no changes of columns.

        Raises:
            CorruptData, NotFound, Unavailable: See `read_batch`.
        """
        goal = self._left(end)
        self._assign_until(goal)
        while left := self._left(end):
            while self._buffer.size < self._memory_bytes and not self._buffer.has_reached(left):
                self._consume_until(goal)
            decoded, truncation = self._decoded_until_truncation()
            if truncation is not None and not decoded.messages:
                changes = [Truncate(truncation)]
                yield LogBatch(self._position, self._position, changes=changes)
                continue
            yield self._ended(decoded)

    def _topics_before(self, end: TopicPosition) -> LogBatch | None:
        """A batch that ends with the topics that a position has besides; None without such.

        Raises:
            NotFound: A topic that is to be read is not there any more.
        """
        new = end.topics.keys() - self._position.topics.keys()
        gone = {name for name, _ in self._left(end)} | new
        for name in sorted(gone - {*self._topics.names}):
            raise self._gone(name)
        if not new:
            return None
        # They were read from their beginning.
        added = {name: TopicOffsets(end.topics[name].id, ()) for name in new}
        return self._with_topics(replace(self._position, topics={**self._position.topics, **added}))

    def _check_there(self, topics: Collection[str]) -> None:
        """Check that topics that were read are there, also those that are not selected any more.

        Raises:
            NotFound: One is gone.
        """
        others = {*topics} - {*self._topics.names}
        ids = self._cluster.topic_ids(others)
        for name in sorted(others):
            if ids.get(name) != self._position.topics[name].id:
                raise self._gone(name)

    def _gone(self, topic: str) -> NotFound:
        return NotFound(
            f"topic '{topic}' is not at the source at {self._cluster.address} any more; "
            f"{_START_AGAIN}"
        )

    def _left(self, end: TopicPosition) -> dict[Partition, int]:
        """The partitions that are not read up to a position yet."""
        return {
            at: offset
            for at, offset in end.partitions().items()
            # A topic that the start lacks begins where the batch has it.
            if at[0] in self._position.topics
            and offset > self._position.topics[at[0]].offset(at[1])
        }

    def _assign_until(self, goal: Mapping[Partition, int]) -> None:
        """Read partitions that are to be read up to some offsets."""
        starts = {at: self._position.topics[at[0]].offset(at[1]) for at in goal}
        self._buffer.clear()
        self._buffer.read = set(goal)
        self._consumer.assign([TopicPartition(*at, offset) for at, offset in starts.items()])

    def _consume_until(self, goal: Mapping[Partition, int]) -> None:
        """Take what has come and is before some offsets."""
        self._consume(_WAIT_SECONDS)
        self._buffer.drop_from(goal)
        for at, offset in self._buffer.ended_before(goal).items():
            raise CorruptData(
                f"{self._cluster.address}: partition {at[1]} of topic '{at[0]}' ends at offset "
                f"{offset}, before {goal[at]}, which was read: its broker has lost messages; "
                f"{_START_AGAIN}"
            )

    def read_on(
        self, batch: LogBatch, end: Position, seconds: float
    ) -> frozenset[TableName | None] | None:
        """Not for Kafka, whose tables cannot be read at a position.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported(f"tables of {self._cluster.address} cannot be read at a position")

    def _ended(self, decoded: _Decoded) -> LogBatch:
        """A batch with the rows of followed tables."""
        batch = LogBatch(self._position, decoded.end)
        for name, parts in decoded.parts.items():
            table = self._tables.get(name)
            if table is not None:
                rows: list[TableRows] = [
                    KafkaTableRows([column.name for column in table.columns], parts, decoded.size)
                ]
                batch.rows[name] = rows
        batch.faults = {
            name: reason for name, reason in decoded.faults.items() if name in self._tables
        }
        batch.source_time, batch.size = decoded.source_time, decoded.size
        batch.transactions = decoded.messages
        self._position = decoded.end
        return batch

    # Messages ---------------------------------------------------------------------------------

    def _consume(self, seconds: float) -> bool:
        """Take what has come; whether something has."""
        try:
            messages = self._consumer.consume(_MAX_MESSAGES, seconds)
        except KafkaException as error:
            raise kafka_error(self._cluster.address, "read topics", error.args[0]) from error
        if self._failure is not None:
            raise kafka_error(self._cluster.address, "read topics", self._failure)
        # The client has an object for each message: their bytes are taken out here, once.
        ends: dict[Partition, int] = {}
        if any(message.error() is not None for message in messages):
            ends = self._partition_ends(messages)
            messages = [message for message in messages if message.error() is None]
        return self._buffer.add(messages, ends)

    def _partition_ends(self, messages: list[Any]) -> dict[Partition, int]:
        """Where partitions end; other errors are raised."""
        ends: dict[Partition, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                continue
            at = message.topic(), message.partition()
            if error.code() == KafkaError._PARTITION_EOF:
                ends[at] = message.offset()
                continue
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self._topics.check_holds(self._position)
                raise NotFound(
                    f"partition {at[1]} of topic '{at[0]}' of the source at "
                    f"{self._cluster.address} does not have the offset to go on at (purged, or "
                    f"lost): {error.str()}; {_START_AGAIN}"
                )
            if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                self._topics.check_holds(self._position)
                raise Unavailable(
                    f"partition {at[1]} of topic '{at[0]}' of the source at "
                    f"{self._cluster.address} is not there; check the topic"
                )
            raise kafka_error(self._cluster.address, f"read topic '{at[0]}'", error)
        return ends

    def _new_topics(self) -> LogBatch | None:
        """A batch that ends with topics that are read from now on; None without such."""
        if monotonic() < self._next_look:
            return None
        self._next_look = monotonic() + _LOOK_SECONDS
        before, found = self._position, self._topics.look(self._position)
        if found.topics.keys() == before.topics.keys():
            if self._topics.partitions(before).keys() != self._buffer.read:
                # A partition that was added: what has come is read again.
                self._assign(before)
            return None
        self._assign(found)
        return self._with_topics(found)

    def _with_topics(self, found: TopicPosition) -> LogBatch:
        """A batch that ends with topics that are read from now on."""
        before, self._position = self._position, found
        names = sorted(found.topics.keys() - before.topics.keys())
        return LogBatch(
            before, found, changes=[TopicsFound(tuple(names))], statement=f"topics {names}"
        )

    def _decoded_until_truncation(self) -> tuple[_Decoded, TableName | None]:
        """The events of what has come, until a table is emptied; and that table."""
        messages = self._buffer.taken()
        decoded = _Decoded(self._position)
        if not len(messages):
            decoded.end = self._position.moved(self._buffer.ends_after(messages, len(messages)))
            return decoded, None
        self._topics.check_ids(self._position)
        done = 0
        for chunk in messages.chunks(_CHUNK_BYTES):
            events = self._decode(chunk)
            cut = self._first_truncation(chunk, events, decoded)
            if cut is None:
                self._add(decoded, chunk, events)
                done += len(chunk)
                continue
            table, row = cut
            if row:
                before = chunk.slice(0, row)
                self._add(decoded, before, self._decode(before))
            done += row
            if not done:
                self._truncated = chunk.key(row)
            self._buffer.put_back(messages, done)
            decoded.end = self._position.moved(self._buffer.ends_after(messages, done))
            return decoded, table
        decoded.end = self._position.moved(self._buffer.ends_after(messages, done))
        return decoded, None

    def _first_truncation(
        self, chunk: Messages, events: Events, decoded: _Decoded
    ) -> tuple[TableName, int] | None:
        """The first message that empties a table, unless it has been told."""
        for row, (table, origin) in sorted(events.truncations.items()):
            if not self._is_selected(table) or chunk.key(row) == self._truncated:
                continue
            reason = self._truncation_fault(chunk, row, table, origin)
            if reason is None:
                return table, row
            decoded.faults[table] = reason
        return None

    def _truncation_fault(
        self, chunk: Messages, row: int, table: TableName, origin: Origin
    ) -> str | None:
        """Why a message cannot empty a table; None if it can."""
        known = self._tables.get(table)
        try:
            united_origins(table, None if known is None else known.storage, origin.to_json())
        except Unsupported as error:
            return error.message
        count = self._topics.partition_count(chunk.topics[int(chunk.topic[row])])
        if count == 1:
            return None
        return (
            f"{chunk.place(row)}: the table was truncated, and the topic has {count} partitions, "
            "so that it is not known which rows were before; let the connector skip truncations, "
            f"or use one partition, and {_START_AGAIN}"
        )

    def _add(self, decoded: _Decoded, chunk: Messages, events: Events) -> None:
        by_table: dict[TableName, list[EventGroup]] = {}
        for group in events.groups:
            if self._is_selected(group.table):
                by_table.setdefault(group.table, []).append(group)
        for name, groups in by_table.items():
            decoded.parts.setdefault(name, []).append(groups)
        decoded.source_time = max(decoded.source_time, events.source_time)
        decoded.messages += len(chunk)
        decoded.size += chunk.size

    # Definitions ------------------------------------------------------------------------------

    def _changes(self, decoded: _Decoded) -> list[Change]:
        """What messages tell of tables that is not known yet."""
        changes: list[Change] = []
        for name, parts in decoded.parts.items():
            known = self._tables.get(name)
            # Tombstones have keys only, which may lack their schema.
            parts = [[group for group in part if not group.are_tombstones] for part in parts]
            if not any(parts) or (known is None and name in self._described):
                continue
            described = _described(name, parts)
            if isinstance(described, SourceTable) and known is not None:
                try:
                    table = united(known, described)
                    if table == known and table.storage == known.storage:
                        continue
                except HeadwaterError:
                    # The pipeline raises it again, and quarantines the table.
                    pass
            changes.append(Described(name, described))
            self._described.add(name)
        return changes


def _described(name: TableName, parts: list[list[EventGroup]]) -> SourceTable | Finding:
    """A table as messages have it."""
    table: SourceTable | None = None
    try:
        for group in _distinct(parts):
            seen = definition(group)
            table = seen if table is None else united(table, seen)
    except HeadwaterError as error:
        problem, _, remedy = error.message.rpartition("; ")
        return Finding(f"table {name}", problem, remedy, name)
    assert table is not None
    return table


def _distinct(parts: list[list[EventGroup]]) -> Iterator[EventGroup]:
    seen: set[object] = set()
    for group in (group for part in parts for group in part):
        key = None if group.key is None else tuple(group.key)
        described = tuple(group.columns), key, group.origin
        if described not in seen:
            seen.add(described)
            yield group
