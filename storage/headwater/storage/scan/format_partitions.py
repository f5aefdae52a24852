"""The partitions and the data files of format tables, which stand in no manifest.

The partitions are directories, ``dt=2026-01-01/hour=5`` or, by an option, ``2026-01-01/5``. What
begins with ``_`` or ``.`` is no data: it is being written, or a mark of an engine's. Source:
``PartitionPathUtils.java``, ``FormatTableScan.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.files.access import FileStatus
from headwater.storage.files.layout import escape_path_name, unescape_path_name
from headwater.storage.options.format_options import FormatOptions
from headwater.storage.table_storage import TableStorage

__all__ = [
    "DirectoryFiles",
    "FormatPartition",
    "data_files",
    "find_partitions",
    "measure_files",
    "partition_directory",
]

_HIDDEN = ("_", ".")


@dataclass(frozen=True)
class FormatPartition:
    """A partition that is a directory.

    Attributes:
        spec: The text of each partition column, as in the directory's name, unescaped.
        directory: The directory's URI.
    """

    spec: Mapping[str, str]
    directory: str


@dataclass(frozen=True)
class DirectoryFiles:
    """The data files below a directory.

    Attributes:
        count: Their number.
        size: Bytes.
        modified_millis: The last change of one, milliseconds since the epoch; None without files.
    """

    count: int
    size: int
    modified_millis: int | None


def find_partitions(storage: TableStorage) -> list[FormatPartition]:
    """The partitions that a format table's directory has, in the order of their directories.

    Directories of other names are none of the table's.

    Raises:
        Invalid: A directory is named otherwise than the table's options say.
        Unavailable, Forbidden: As `FileAccess.folders`.
    """
    options = FormatOptions(storage.schema.options)
    found = [FormatPartition({}, storage.layout.location)]
    for key in storage.schema.partition_keys:
        found = [
            FormatPartition({**above.spec, key: text}, f"{above.directory}/{name}")
            for above in found
            for name in storage.files.folders(above.directory)
            if (text := _value(storage, key, name, alone=options.values_alone_in_paths)) is not None
        ]
    return found


def _value(storage: TableStorage, key: str, name: str, *, alone: bool) -> str | None:
    """The text of a column in a directory's name; None if the directory is no partition."""
    if alone:
        if name.startswith(f"{escape_path_name(key)}="):
            raise Invalid(
                f"table {storage.name}: the directory '{name}' names its column, and "
                "'format-table.partition-path-only-value' says that none does; unset that option"
            )
        text = unescape_path_name(name)
        is_null = text == storage.schema.table_options.partition_default_name
        return None if name.startswith(_HIDDEN) and not is_null else text
    column, separator, text = name.partition("=")
    if name.startswith(_HIDDEN) or not separator or unescape_path_name(column) != key:
        return None
    return unescape_path_name(text)


def partition_directory(storage: TableStorage, spec: Mapping[str, str]) -> str:
    """The URI of a partition's directory.

    Args:
        storage: The table.
        spec: The text of each partition column, in their order.

    Raises:
        Invalid: A value cannot be a directory's name.
    """
    alone = FormatOptions(storage.schema.options).values_alone_in_paths
    parts = [storage.layout.location]
    for key, text in spec.items():
        is_null = text == storage.schema.table_options.partition_default_name
        if not text or (alone and text.startswith(_HIDDEN) and not is_null):
            raise Invalid(
                f"table {storage.name}: '{text}' cannot be the name of a partition's directory, in "
                "which no reader would look"
            )
        name = escape_path_name(text)
        parts.append(name if alone else f"{escape_path_name(key)}={name}")
    return "/".join(parts)


def data_files(storage: TableStorage, directory: str) -> Iterator[FileStatus]:
    """The data files below a partition's directory, or of a table without partitions.

    Raises:
        Unavailable, Forbidden: As `FileAccess.walk`.
    """
    start = len(directory.rstrip("/")) + 1
    for file in storage.files.walk(directory):
        if not _is_hidden(file.path[start:].split("/")):
            yield file


def measure_files(storage: TableStorage, directory: str) -> DirectoryFiles:
    """The number, the size and the age of what `data_files` gives; raises as that."""
    files = list(data_files(storage, directory))
    return DirectoryFiles(
        len(files),
        sum(file.size for file in files),
        max((file.modified_millis for file in files), default=None),
    )


def _is_hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(_HIDDEN) for part in parts)
