"""The formats of data files that Headwater reads and writes, by name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.errors import Unsupported
from headwater.storage.formats.avro import AVRO
from headwater.storage.formats.orc import ORC
from headwater.storage.formats.parquet import PARQUET
from headwater.storage.formats.protocol import DataFileFormat

__all__ = ["FORMATS", "format_named", "format_of_file"]

FORMATS: Mapping[str, DataFileFormat] = {each.name: each for each in (PARQUET, AVRO, ORC)}
"""Every format, by the name that options and file names give it."""


def format_named(name: str, option: str) -> DataFileFormat:
    """The format that an option names.

    Raises:
        Unsupported: Headwater has no such format.
    """
    found = FORMATS.get(name.strip().lower())
    if found is None:
        raise Unsupported(
            f"Headwater does not write files of a table with {option}={name}; it writes "
            f"{', '.join(FORMATS)} files"
        )
    return found


def format_of_file(path: str) -> DataFileFormat:
    """The format of a file: the extension of its name (``DataFilePathFactory.java``).

    A table may hold files of several formats: ``file.format`` speaks of new ones.

    Raises:
        Unsupported: Headwater does not read the format.
    """
    _, _, extension = path.rpartition("/")[2].rpartition(".")
    found = FORMATS.get(extension)
    if found is None:
        raise Unsupported(
            f"file {path} is of a format that Headwater does not read; it reads "
            f"{', '.join(FORMATS)} files"
        )
    return found
