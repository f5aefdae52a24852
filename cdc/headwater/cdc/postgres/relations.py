"""Tables as the log describes them before it has their rows."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from headwater.cdc.ddl.changes import Change
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import CorruptData

__all__ = [
    "Misidentified",
    "PartitionSeen",
    "Redefined",
    "Relation",
    "RelationColumn",
    "ReplicaIdentity",
    "parse_relation",
]

# A column's type and its modifier, after its name.
_TYPE = struct.Struct(">Ii")
_KEY = 0x01
# The name of a schema with the types of the system, which the log leaves out.
_SYSTEM_SCHEMA = "pg_catalog"


class ReplicaIdentity(StrEnum):
    """Which columns the log has of rows before updates and of deleted rows."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a table in the log.

    Attributes:
        name: Its name.
        type_oid: The OID of its type, as in ``pg_attribute.atttypid``.
        modifier: The type's modifier, as in ``pg_attribute.atttypmod``; -1 without one.
        is_key: Whether it is a part of the replica identity.
    """

    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the log describes it: its columns have no numbers there.

    Attributes:
        oid: The table's OID: another one for another table of the same name.
        name: The table's schema and name.
        identity: Its replica identity.
        columns: The columns that rows have in the log, in the table's order.
    """

    oid: int
    name: TableName
    identity: ReplicaIdentity
    columns: tuple[RelationColumn, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def identifies(self, key: Collection[str]) -> bool:
        """Whether old rows have a key, also where no other column than its own changes."""
        if self.identity is ReplicaIdentity.FULL:
            return True
        return {column.name for column in self.columns if column.is_key}.issuperset(key)

    def as_logged(self, partitions: Collection[Relation]) -> Relation:
        """A partitioned table with the replica identity that its rows have in the log.

        The log calls them rows of the whole table, with its identity, but it has those columns of
        old rows that the identity of their partition names.

        Args:
            partitions: The partitions that may have the rows, as they were described last; without
                any the table is as it is.
        """
        if not partitions:
            return self
        is_full = all(partition.identity is ReplicaIdentity.FULL for partition in partitions)
        # By the columns that are left out: the names of another partition's may be older.
        left_out = {
            column.name
            for partition in partitions
            for column in partition.columns
            if not column.is_key
        }
        columns = tuple(
            replace(column, is_key=column.name not in left_out) for column in self.columns
        )
        identity = ReplicaIdentity.FULL if is_full else ReplicaIdentity.DEFAULT
        return replace(self, identity=identity, columns=columns)


@dataclass(frozen=True, slots=True)
class Redefined(Change):
    """A table that the log describes otherwise than before.

    Several statements may have led to it, and none of them is in the log.

    Attributes:
        table: The table's name now.
        relation: The table now.
        before: The table until then: under the same OID, or else under the same name. None if
            it is not known.
    """

    table: TableName
    relation: Relation
    before: Relation | None

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The table, and the name that it had until then."""
        if self.before is None or self.before.name == self.table:
            return (self.table,)
        return (self.table, self.before.name)

    @property
    def is_other_table(self) -> bool:
        """Whether another table has the name now."""
        return self.before is not None and self.before.oid != self.relation.oid


@dataclass(frozen=True, slots=True)
class Misidentified(Change):
    """Rows of a table, or of a partition of it, whose replica identity lacks the primary key.

    Attributes:
        table: The whole table.
    """

    table: TableName

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The whole table."""
        return (self.table,)


@dataclass(frozen=True, slots=True)
class PartitionSeen(Change):
    """A partition whose rows the log begins to have, as rows of the whole table.

    Attributes:
        table: The whole table.
        partition: The partition's OID.
    """

    table: TableName
    partition: int

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The whole table."""
        return (self.table,)


def parse_relation(message: memoryview) -> Relation:
    """Read a Relation message, without the bytes of the stream before it; CorruptData."""
    data = bytes(message)
    try:
        schema_end = data.index(0, 5)
        name_end = data.index(0, schema_end + 1)
        schema = data[5:schema_end].decode() or _SYSTEM_SCHEMA
        name = TableName(schema, data[schema_end + 1 : name_end].decode())
        identity = ReplicaIdentity(chr(data[name_end + 1]))
        count = int.from_bytes(data[name_end + 2 : name_end + 4], "big")
        columns, at = [], name_end + 4
        for _ in range(count):
            end = data.index(0, at + 1)
            type_oid, modifier = _TYPE.unpack_from(data, end + 1)
            is_key = bool(data[at] & _KEY)
            columns.append(RelationColumn(data[at + 1 : end].decode(), type_oid, modifier, is_key))
            at = end + 1 + _TYPE.size
    except (ValueError, IndexError, struct.error) as error:
        raise _malformed(data, str(error)) from error
    if at != len(data):
        raise _malformed(data, f"it has {len(data) - at} more bytes")
    return Relation(int.from_bytes(data[1:5], "big"), name, identity, tuple(columns))


def _malformed(data: bytes, why: str) -> CorruptData:
    return CorruptData(
        f"cannot read the description of a table in the log: {why} (message {data[:40].hex(' ')}); "
        "read the log again"
    )
