"""Statistics of a whole table, as an analysis leaves them in ``statistics/stats-<uuid>-0``.

Source: ``Statistics.java``, ``ColStats.java``, ``StatsFile.java``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.storage.errors import CorruptData, HeadwaterError, NotFound
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import Json

__all__ = [
    "ColumnStatistics",
    "TableStatistics",
    "delete_statistics",
    "read_statistics",
    "write_statistics",
]


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column; what is None was not computed.

    Attributes:
        column_id: The column's field id.
        distinct_count: Distinct values, perhaps estimated.
        minimum: The smallest value as text.
        maximum: The greatest value as text.
        null_count: Nulls.
        average_length: Length of a value on average, rounded up: characters of text, else bytes.
        maximum_length: Length of the longest value.
    """

    column_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    maximum_length: int | None = None

    def to_json(self) -> dict[str, Json]:
        """The object in a statistics file; what is None is left out."""
        values: dict[str, Json] = {
            "colId": self.column_id,
            "distinctCount": self.distinct_count,
            "min": self.minimum,
            "max": self.maximum,
            "nullCount": self.null_count,
            "avgLen": self.average_length,
            "maxLen": self.maximum_length,
        }
        return {key: value for key, value in values.items() if value is not None}

    @staticmethod
    def from_json(document: Json, where: str) -> ColumnStatistics:
        """Read `to_json`'s object; raises CorruptData, naming `where`."""
        if not isinstance(document, dict):
            raise CorruptData(f"{where}: a column's statistics are not a JSON object")
        column_id = _integer(document, "colId", where)
        if column_id is None:
            raise CorruptData(f"{where}: a column's statistics lack 'colId'")
        return ColumnStatistics(
            column_id,
            _integer(document, "distinctCount", where),
            _text(document, "min", where),
            _text(document, "max", where),
            _integer(document, "nullCount", where),
            _integer(document, "avgLen", where),
            _integer(document, "maxLen", where),
        )


@dataclass(frozen=True)
class TableStatistics:
    """Statistics of the rows of one snapshot.

    Attributes:
        snapshot_id: The snapshot that was analysed.
        schema_id: Its schema.
        record_count: Rows after merging; None when not computed.
        record_size: Bytes of them; None when not computed.
        columns: By column name.
    """

    snapshot_id: int
    schema_id: int
    record_count: int | None = None
    record_size: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of the statistics file."""
        document: dict[str, Json] = {"snapshotId": self.snapshot_id, "schemaId": self.schema_id}
        if self.record_count is not None:
            document["mergedRecordCount"] = self.record_count
        if self.record_size is not None:
            document["mergedRecordSize"] = self.record_size
        document["colStats"] = {name: item.to_json() for name, item in self.columns.items()}
        return json.dumps(document, indent=2, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes, where: str = "statistics") -> TableStatistics:
        """Read a statistics file; raises CorruptData, naming `where`, when it is none."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise CorruptData(f"{where} is not valid JSON: {error}") from error
        if not isinstance(document, dict):
            raise CorruptData(f"{where} is not a JSON object")
        snapshot_id = _integer(document, "snapshotId", where)
        schema_id = _integer(document, "schemaId", where)
        columns = document.get("colStats") or {}
        if snapshot_id is None or schema_id is None or not isinstance(columns, dict):
            raise CorruptData(f"{where} lacks 'snapshotId', 'schemaId' or an object 'colStats'")
        return TableStatistics(
            snapshot_id,
            schema_id,
            _integer(document, "mergedRecordCount", where),
            _integer(document, "mergedRecordSize", where),
            {
                name: ColumnStatistics.from_json(item, f"{where}, column '{name}'")
                for name, item in columns.items()
            },
        )


def read_statistics(storage: TableStorage, snapshot: Snapshot) -> TableStatistics | None:
    """The statistics that a snapshot carries; None when it carries none.

    Raises:
        CorruptData: The file is missing or malformed; the message names it.
    """
    if snapshot.statistics is None:
        return None
    path = storage.layout.statistics(snapshot.statistics)
    try:
        return TableStatistics.from_json(storage.files.read(path), path)
    except NotFound as error:
        raise CorruptData(
            f"table {storage.name}: {path}, the statistics of snapshot {snapshot.id}, does not "
            "exist"
        ) from error


def write_statistics(storage: TableStorage, statistics: TableStatistics) -> str:
    """Write a statistics file, which a snapshot is to carry; its name."""
    name = f"stats-{storage.runtime.new_uuid()}-0"
    storage.files.write(storage.layout.statistics(name), statistics.to_json().encode())
    return name


def delete_statistics(storage: TableStorage, name: str) -> None:
    """Delete a statistics file that no snapshot carries."""
    # What cannot be deleted is an orphan that nothing refers to.
    with suppress(HeadwaterError):
        storage.files.delete(storage.layout.statistics(name))


def _integer(document: Mapping[str, Json], key: str, where: str) -> int | None:
    value = document.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise CorruptData(f"{where}: '{key}' must be an integer, not {value!r}")


def _text(document: Mapping[str, Json], key: str, where: str) -> str | None:
    value = document.get(key)
    if value is None or isinstance(value, str):
        return value
    raise CorruptData(f"{where}: '{key}' must be a string, not {value!r}")
