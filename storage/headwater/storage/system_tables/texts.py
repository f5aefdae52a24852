"""Values as text, in the forms in which Paimon's system tables show them.

Source: ``RowToStringCastRule.java``, ``JsonSerdeUtil.toFlatJson``, and Java's own ``toString``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Unsupported
from headwater.storage.rows.partition import partition_values
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import MAX_LENGTH, DataField, DataType, Json, to_arrow
from headwater.storage.types.local_time import Zone, local_seconds
from headwater.storage.types.values import StorageValue, object_text

__all__ = [
    "duration_text",
    "flat_json",
    "list_text",
    "local_times",
    "map_text",
    "named_partitions",
    "objects_text",
    "row_texts",
    "shown_partitions",
]

_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)


def local_times(millis: Iterable[int | None], zone: Zone) -> list[int | None]:
    """Moments as the clocks of a zone show them.

    Args:
        millis: Milliseconds since the epoch; None stays.
        zone: The zone, that of the process as in Java.

    Returns:
        Milliseconds since 1970-01-01T00:00 local time.
    """
    given = list(millis)
    known = np.array([item for item in given if item is not None], np.int64)
    seconds = local_seconds(known // 1000, zone()) if len(known) else known
    local = iter((seconds * 1000 + known % 1000).tolist())
    return [None if item is None else next(local) for item in given]


def flat_json(document: Json) -> str:
    """JSON without spaces, as Jackson writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def list_text(values: Iterable[str]) -> str:
    """A Java list or array: ``[a, b]``."""
    return f"[{', '.join(values)}]"


def map_text(values: Mapping[str, str]) -> str:
    """A Java ``TreeMap``: ``{a=1, b=null}``, by key."""
    return f"{{{', '.join(f'{key}={values[key]}' for key in sorted(values))}}}"


def duration_text(millis: int) -> str:
    """A Java ``Duration``: ``PT24H``, ``PT1M0.5S``."""
    seconds, fraction = divmod(millis, 1000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    if fraction:
        parts.append(f"{seconds}.{f'{fraction:03}'.rstrip('0')}S")
    elif seconds:
        parts.append(f"{seconds}S")
    return f"PT{''.join(parts) or '0S'}"


def objects_text(values: Sequence[StorageValue], fields: Sequence[DataField]) -> list[str]:
    """Each value as Java's ``toString`` gives it; bytes, for which it gives no text, in hex."""
    return [object_text(value, field.type) for value, field in zip(values, fields, strict=True)]


# Rows of partition values -----------------------------------------------------------------------


def _column_texts(values: Sequence[StorageValue], data_type: DataType, zone: Zone) -> pa.Array:
    """Storage values cast to text."""
    array = pa.array(values, to_arrow(data_type))
    try:
        return cast(array, data_type, _STRING, zone)
    except Unsupported:
        return pa.array([object_text(value, data_type) for value in values], pa.string())


def row_texts(
    rows: Sequence[Sequence[StorageValue]], fields: Sequence[DataField], zone: Zone
) -> list[str]:
    """Rows cast to text: ``{2026-01-01, 7}``, with ``null`` for a null."""
    columns = [
        _column_texts([row[at] for row in rows], field.type, zone).to_pylist()
        for at, field in enumerate(fields)
    ]
    if not columns:
        return ["{}"] * len(rows)
    texts = zip(*columns, strict=True)
    return [f"{{{', '.join('null' if text is None else text for text in row)}}}" for row in texts]


def shown_partitions(storage: TableStorage, partitions: Iterable[bytes]) -> dict[bytes, str]:
    """The text of each serialised partition: ``{2026-01-01, 7}``."""
    distinct = list(dict.fromkeys(partitions))
    rows = [partition_values(storage, partition) for partition in distinct]
    texts = row_texts(rows, storage.schema.partition_fields, storage.runtime.time_zone)
    return dict(zip(distinct, texts, strict=True))


def named_partitions(storage: TableStorage, rows: Sequence[Sequence[StorageValue]]) -> list[str]:
    """The name of each partition, its values cast to text: ``dt=2026-01-01/hour=7``."""
    fields = storage.schema.partition_fields
    default = storage.schema.table_options.partition_default_name
    zone = storage.runtime.time_zone
    columns = [
        _column_texts([row[at] for row in rows], field.type, zone).to_pylist()
        for at, field in enumerate(fields)
    ]
    return [
        "/".join(
            f"{field.name}={default if columns[at][row] is None else columns[at][row]}"
            for at, field in enumerate(fields)
        )
        for row in range(len(rows))
    ]
