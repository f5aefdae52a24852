"""Partitions that are complete: which are, and the file that says so.

Source: ``PartitionMarkDoneTrigger.java``, ``SuccessFileMarkDoneAction.java``, ``SuccessFile.java``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.maintenance.partition_expiry import local_time, partition_updates
from headwater.storage.options.lifecycle_options import LifecycleOptions
from headwater.storage.rows.partition import partition_spec
from headwater.storage.rows.partition_times import PartitionTimes
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["delete_success_file", "idle_partitions", "partition_success_file", "write_success_file"]


def partition_success_file(storage: TableStorage, spec: Mapping[str, str]) -> str:
    """The URI of the file that says that a partition is complete."""
    directory = storage.layout.bucket_directory(list(spec.items()), 0).rsplit("/", 1)[0]
    return f"{directory}/_SUCCESS"


def write_success_file(files: FileAccess, path: str, now_millis: int) -> None:
    """Say that something is complete; when it was said before, the time it was first is kept.

    Raises:
        CorruptData: The file is there, and is not one.
    """
    created = _created(files, path)
    text = (
        f'{{\n  "creationTime" : {now_millis if created is None else created},\n'
        f'  "modificationTime" : {now_millis}\n}}'
    )
    files.write(path, text.encode())


def delete_success_file(files: FileAccess, path: str) -> None:
    """Take it back; nothing happens when there is none."""
    files.delete(path)


def _times(files: FileAccess, path: str) -> Mapping[str, object] | None:
    try:
        document = json.loads(files.read(path))
    except NotFound:
        return None
    except ValueError as error:
        raise CorruptData(f"{path} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptData(f"{path} is not a JSON object")
    return document


def _time(files: FileAccess, path: str, name: str) -> int | None:
    document = _times(files, path)
    if document is None:
        return None
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptData(f"{path} lacks an integer '{name}'")
    return value


def _created(files: FileAccess, path: str) -> int | None:
    return _time(files, path, "creationTime")


def idle_partitions(
    storage: TableStorage, snapshot: Snapshot, *, idle_millis: int | None = None
) -> list[dict[str, str]]:
    """The partitions that are complete and not said to be, by name.

    A partition is complete when nothing was written to it for ``partition.idle-time-to-done``,
    counted from the end of its time where ``partition.time-interval`` says how long that is. It is
    said to be when its success file is newer than its newest data file.

    Args:
        storage: The table.
        snapshot: Its latest snapshot.
        idle_millis: The time in the place of that option.

    Raises:
        Invalid: The time is not set, or the formatter is not one that Headwater reads.
        CorruptData: A manifest or a success file is missing or malformed.
    """
    options = LifecycleOptions(storage.schema.options)
    idle = options.partition_idle if idle_millis is None else idle_millis
    if idle is None:
        raise Invalid(
            f"table {storage.name}: name the partitions that are complete, or set "
            "'partition.idle-time-to-done' to the time after which one is"
        )
    interval, times = options.partition_interval, PartitionTimes.of(options)
    now = storage.runtime.earliest_millis()
    local = local_time(storage, now)
    found: list[dict[str, str]] = []
    for partition, updated in partition_updates(storage, snapshot).items():
        if updated is None or now - updated <= idle:
            continue
        spec = dict(partition_spec(storage, partition))
        if interval is not None:
            start = times.time(spec)
            # Nothing says when a partition without a time ends.
            if start is None or (local - start).total_seconds() * 1000 - interval <= idle:
                continue
        said = _time(storage.files, partition_success_file(storage, spec), "modificationTime")
        if said is None or said < updated:
            found.append(spec)
    return sorted(found, key=lambda spec: ",".join(spec.values()))
