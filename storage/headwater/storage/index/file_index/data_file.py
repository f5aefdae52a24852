"""The indexes of a data file, where its metadata says they are.

Small ones stand in the manifest (``_EMBEDDED_FILE_INDEX``), others in a file ``<data file>.index``
beside the data file, which is one of its ``_EXTRA_FILES``. Source: ``FileIndexEvaluator.java``,
``DataFilePathFactory.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.protocol import readable
from headwater.storage.index.file_index.container import Bytes, IndexContainer
from headwater.storage.manifest.data_file import DataFile

__all__ = ["INDEX_SUFFIX", "embedded_indexes", "file_indexes_of", "index_files"]

INDEX_SUFFIX = ".index"


def index_files(file: DataFile) -> list[str]:
    """The names of a data file's index files; no writer makes more than one."""
    return [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]


def embedded_indexes(file: DataFile, path: str) -> IndexContainer | None:
    """The indexes that stand in the manifest.

    Args:
        file: The data file.
        path: Its URI, for error messages.

    Raises:
        CorruptData: They are malformed.
    """
    if file.embedded_file_index is None:
        return None
    where = f"the file index of {path} in its manifest"
    return IndexContainer.open(Bytes(file.embedded_file_index), where)


def file_indexes_of(files: FileAccess, file: DataFile, path: str) -> IndexContainer | None:
    """The indexes of a data file, wherever they are; None without any.

    Args:
        files: Access to the storage.
        file: The data file.
        path: Its URI.

    Raises:
        CorruptData: They are missing or malformed, or there are two index files.
    """
    embedded = embedded_indexes(file, path)
    names = index_files(file)
    if embedded is not None or not names:
        return embedded
    if len(names) > 1:
        raise CorruptData(f"file {path} has several index files: {', '.join(names)}")
    where = f"{path.rsplit('/', 1)[0]}/{names[0]}"
    with readable(where):
        return IndexContainer.open(_OpenFile(files.open_input(where), where), f"file {where}")


@dataclass(frozen=True)
class _OpenFile:
    file: pa.NativeFile
    path: str

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self.file.size())

    def read(self, start: int, length: int) -> bytes:
        """So many bytes from there; fewer at the end."""
        with readable(self.path):
            data: bytes = self.file.read_at(length, start)
            return data
