"""Snapshots: what a table was after each commit.

Source: ``docs/concepts/spec/snapshot.md``, ``Snapshot.java``. Clients add fields from release to
release, so a snapshot keeps the whole JSON object it was read from: what is not known is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from headwater.storage.errors import CorruptData, Invalid
from headwater.storage.files.location import leads_elsewhere
from headwater.storage.types.data_type import Json

__all__ = ["CommitKind", "CommitOperation", "Snapshot", "SnapshotIdentity"]


class CommitKind(StrEnum):
    """The reason for a snapshot."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


class CommitOperation(StrEnum):
    """The statement that made a snapshot (``Snapshot.Operation``, from release 2.0 on)."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    CREATE_TABLE_AS_SELECT = "CREATE_TABLE_AS_SELECT"
    REPLACE_TABLE_AS_SELECT = "REPLACE_TABLE_AS_SELECT"
    CREATE_OR_REPLACE_TABLE_AS_SELECT = "CREATE_OR_REPLACE_TABLE_AS_SELECT"


_REQUIRED: Mapping[str, type] = {
    "id": int,
    "schemaId": int,
    "baseManifestList": str,
    "deltaManifestList": str,
    "commitUser": str,
    "commitIdentifier": int,
    "commitKind": str,
    "timeMillis": int,
}
_OPTIONAL: Mapping[str, type] = {
    "version": int,
    "uuid": str,
    "baseManifestListSize": int,
    "deltaManifestListSize": int,
    "changelogManifestList": str,
    "changelogManifestListSize": int,
    "indexManifest": str,
    "totalRecordCount": int,
    "deltaRecordCount": int,
    "changelogRecordCount": int,
    "watermark": int,
    "statistics": str,
    "nextRowId": int,
    "operation": str,
}
# Its values that name files of the table's own.
_FILES = (
    "baseManifestList",
    "deltaManifestList",
    "changelogManifestList",
    "indexManifest",
    "statistics",
)
# As Java has them.
_LONG_BITS, _INTEGER_BITS = 63, 31
_INTEGERS = ("version",)
_NOT_NEGATIVE = (
    "version",
    "id",
    "schemaId",
    "timeMillis",
    "nextRowId",
)
_SHOWN_DIGITS = 40
_LONGEST_UUID = 255


@dataclass(frozen=True)
class SnapshotIdentity:
    """Tells one commit from another that got the same id after a rollback. It pickles.

    Attributes:
        id: The snapshot's id; 0 stands for a table without snapshots.
        uuid: Its uuid; None when an old client made it.
        delta_manifest_list: The file name of its list of changes, which has a uuid of its own.
        commit_user: The id of the writing job.
        commit_identifier: The job's number of the commit.
    """

    id: int
    uuid: str | None = None
    delta_manifest_list: str | None = None
    commit_user: str | None = None
    commit_identifier: int | None = None

    @staticmethod
    def of(snapshot: Snapshot | None) -> SnapshotIdentity:
        """The identity of a snapshot; None stands for a table without one."""
        return SnapshotIdentity(0) if snapshot is None else snapshot.identity

    def to_json(self) -> dict[str, Json]:
        """The identity as a JSON object, in the words of a snapshot."""
        found: dict[str, Json] = {
            "id": self.id,
            "uuid": self.uuid,
            "deltaManifestList": self.delta_manifest_list,
            "commitUser": self.commit_user,
            "commitIdentifier": self.commit_identifier,
        }
        return {name: value for name, value in found.items() if value is not None}

    @staticmethod
    def from_json(document: object) -> SnapshotIdentity:
        """Read `to_json`'s object; raises Invalid when it is something else."""
        match document:
            case {
                "id": int(number),
                "deltaManifestList": str(changes),
                "commitUser": str(user),
                "commitIdentifier": int(identifier),
                **more,
            }:
                uuid = more.get("uuid")
                if uuid is None or isinstance(uuid, str):
                    return SnapshotIdentity(number, uuid, changes, user, identifier)
        raise Invalid(f"{document!r} is not the identity of a snapshot")

    def is_same_commit(self, other: SnapshotIdentity) -> bool:
        """True if two are one commit, be it that a catalog does not keep uuids."""
        if self.id != other.id:
            return False
        if self.uuid is not None and other.uuid is not None:
            return self.uuid == other.uuid
        return replace(self, uuid=None) == replace(other, uuid=None)


@dataclass(frozen=True)
class Snapshot:
    """One snapshot, read from or to be written as JSON.

    Attributes:
        document: The whole JSON object, unknown fields included. Treat it as immutable.
        text: The JSON it was read from, if it was: it has what a parser loses, such as the digits
            of a fraction.
    """

    document: Mapping[str, Json]
    text: str | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def from_json(text: str | bytes, where: str = "a snapshot") -> Snapshot:
        """Read a snapshot; raises CorruptData, naming `where`, when the text is not one."""
        try:
            if isinstance(text, bytes):
                text = text.decode()
            document = json.loads(text)
        except ValueError as error:
            raise CorruptData(f"{where} is not valid JSON: {error}") from error
        return Snapshot(Snapshot.from_document(document, where).document, text)

    @staticmethod
    def from_document(document: Json, where: str = "a snapshot") -> Snapshot:
        """Check a JSON object; raises CorruptData, naming `where`, when it is not a snapshot."""
        if not isinstance(document, dict):
            raise CorruptData(f"{where} is not a JSON object")
        for name, kind in _REQUIRED.items():
            if document.get(name) is None:
                raise CorruptData(f"{where} lacks '{name}'")
            _check(document[name], kind, name, where)
        for name, kind in _OPTIONAL.items():
            if document.get(name) is not None:
                _check(document[name], kind, name, where)
        for name in _FILES:
            if leads_elsewhere(str(document.get(name) or "")):
                raise CorruptData(f"{where} names a file outside the table's directory as '{name}'")
        if document["commitKind"] not in set(CommitKind):
            raise CorruptData(f"{where} has an unknown commitKind {document['commitKind']!r}")
        return Snapshot(document)

    def require_committable(self) -> None:
        """Refuse what no engine could read once it is a table's latest snapshot.

        Raises:
            Invalid: A number is beyond those of its type in ``Snapshot.java``, one that counts from
                0 is negative, a text is longer than databases keep or has a null character, or the
                properties are no texts.
        """
        for name, kind in (*_REQUIRED.items(), *_OPTIONAL.items()):
            number = self.document.get(name)
            if kind is not int or not isinstance(number, int):
                continue
            bits = _INTEGER_BITS if name in _INTEGERS else _LONG_BITS
            least = 0 if name in _NOT_NEGATIVE else -(1 << bits)
            if not least <= number < 1 << bits:
                raise Invalid(
                    f"a snapshot's '{name}' must be from {least} to {(1 << bits) - 1}, not "
                    f"{_shown(number)}"
                )
        for name, kind in (*_REQUIRED.items(), *_OPTIONAL.items()):
            if kind is str and "\0" in str(self.document.get(name) or ""):
                raise Invalid(f"a snapshot's '{name}' has a null character")
        if len(self.uuid or "") > _LONGEST_UUID:
            raise Invalid(f"a snapshot's 'uuid' has more than {_LONGEST_UUID} characters")
        properties = self.document.get("properties")
        if properties is not None and not (
            isinstance(properties, dict)
            and not any(isinstance(value, dict | list) for value in properties.values())
        ):
            raise Invalid("a snapshot's 'properties' must be texts by their names")

    def to_json(self) -> str:
        """The text of the snapshot file."""
        if self.text is not None:
            return self.text
        return json.dumps(dict(self.document), indent=2, ensure_ascii=False)

    def is_same_commit(self, other: Snapshot) -> bool:
        """True if two snapshots are one commit, be it that a catalog does not keep uuids."""
        return self.identity.is_same_commit(other.identity)

    @cached_property
    def identity(self) -> SnapshotIdentity:
        """The identity of this snapshot, which another that gets its id does not have."""
        return SnapshotIdentity(
            self.id,
            self.uuid,
            self.delta_manifest_list,
            self.commit_user,
            self.commit_identifier,
        )

    def _int(self, name: str) -> int:
        value = self.document[name]
        assert isinstance(value, int)
        return value

    def _optional_int(self, name: str) -> int | None:
        value = self.document.get(name)
        return value if isinstance(value, int) else None

    def _optional_str(self, name: str) -> str | None:
        value = self.document.get(name)
        return value if isinstance(value, str) else None

    @property
    def id(self) -> int:
        """The snapshot's number in its table and branch, from 1."""
        return self._int("id")

    @property
    def uuid(self) -> str | None:
        """Identifies this snapshot among all; None when an old client made it."""
        return self._optional_str("uuid")

    @property
    def schema_id(self) -> int:
        """The schema in force when it was committed."""
        return self._int("schemaId")

    @property
    def base_manifest_list(self) -> str:
        """File name of the list of what was there before."""
        return str(self.document["baseManifestList"])

    @property
    def delta_manifest_list(self) -> str:
        """File name of the list of what this commit added and deleted."""
        return str(self.document["deltaManifestList"])

    @property
    def changelog_manifest_list(self) -> str | None:
        """File name of the list of changelog files, if this commit made any."""
        return self._optional_str("changelogManifestList")

    @property
    def index_manifest(self) -> str | None:
        """File name of the index manifest (deletion vectors and the like), if any."""
        return self._optional_str("indexManifest")

    @property
    def statistics(self) -> str | None:
        """File name of the table statistics, if any."""
        return self._optional_str("statistics")

    @property
    def commit_user(self) -> str:
        """The id of the writing job that committed."""
        return str(self.document["commitUser"])

    @property
    def commit_identifier(self) -> int:
        """The user's own number of this commit, growing."""
        return self._int("commitIdentifier")

    @property
    def commit_kind(self) -> CommitKind:
        """The reason for the snapshot."""
        return CommitKind(str(self.document["commitKind"]))

    @property
    def time_millis(self) -> int:
        """The time of the commit, milliseconds since the epoch."""
        return self._int("timeMillis")

    @property
    def total_record_count(self) -> int:
        """Rows in all live files, before merging."""
        return self._optional_int("totalRecordCount") or 0

    @property
    def delta_record_count(self) -> int:
        """Rows this commit added less rows in files it deleted, before merging."""
        return self._optional_int("deltaRecordCount") or 0

    @property
    def changelog_record_count(self) -> int | None:
        """Rows in the changelog files of this commit."""
        return self._optional_int("changelogRecordCount")

    @property
    def watermark(self) -> int | None:
        """The event-time watermark, milliseconds since the epoch."""
        return self._optional_int("watermark")

    @property
    def next_row_id(self) -> int | None:
        """The next row id of a row-tracking table."""
        return self._optional_int("nextRowId")

    @property
    def properties(self) -> Mapping[str, str]:
        """Free properties of the commit; those that are null are left out."""
        found = self.document.get("properties")
        if not isinstance(found, dict):
            return {}
        return {name: str(value) for name, value in found.items() if value is not None}


def _check(value: Json, kind: type, name: str, where: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise CorruptData(f"{where}: '{name}' must be of type {kind.__name__}, not {value!r}")


def _shown(number: int) -> str:
    text = str(number)
    return text if len(text) <= _SHOWN_DIGITS else f"{text[:_SHOWN_DIGITS]}…"
