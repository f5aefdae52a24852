"""The live rows of files that queries of a session have read, kept for those that come after.

Files never change, so what a merge picks of them is the same as long as they are merged with the
same others, by the same rules.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeAlias
from weakref import ref

from pyspark.sql import SparkSession

from headwater.spark.connection import SETTINGS, bitmap_cache_size
from headwater.spark.session import is_connect, session_settings
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.read.live_rows import merged_rows, picks_rows, unmarked_rows
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage

__all__ = ["LiveRowsCache"]

_Found: TypeAlias = Mapping[str, LiveRows]

# The splits of which it is known that they were read, though not which of their rows are live.
_MOST_SEEN = 4096


class LiveRowsCache:
    """The live rows of splits, by the exact files and rules; threads may share it.

    Rows that are merged are looked for when their files are read a second time: a single query is
    sooner done by merging while it reads.

    Args:
        most_bytes: The memory for bitmaps, and the most that one table of a query may take; 0 for
            no bitmaps at all.
        threads: The number of splits that are looked at at once.
    """

    def __init__(self, most_bytes: int, threads: int) -> None:
        self._most_bytes = most_bytes
        self._threads = threads
        self._kept: OrderedDict[Hashable, _Found] = OrderedDict()
        self._seen: OrderedDict[Hashable, ref[TableStorage]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @staticmethod
    def of(spark: SparkSession, threads: int) -> LiveRowsCache:
        """One of the size that the session's settings say.

        Raises:
            Invalid: They say what is no size.
        """
        size = bitmap_cache_size(session_settings(spark, SETTINGS))
        # Spark Connect's JVM cannot be handed an array.
        return LiveRowsCache(0 if is_connect(spark) else size, threads)

    def find(
        self,
        storage: TableStorage,
        splits: Sequence[Split],
        is_usable: Callable[[Split], bool] = lambda split: True,
    ) -> list[_Found | None]:
        """The live rows of splits, by the names of those of their files that have others, too.

        Args:
            storage: The table.
            splits: Splits whose rows are merged, or have deletion vectors.
            is_usable: Asked of each split before its live rows are given or looked for; those of a
                split that it refuses are not.

        Returns:
            For each split; None where they are not known, or would take too much memory.

        Raises:
            CorruptData: A file is missing or damaged; the message names it.
        """
        size = sum(_bytes_of(split) for split in splits)
        if size > self._most_bytes:
            return [None] * len(splits)
        merges = picks_rows(storage) if storage.schema.primary_keys else False
        found: list[_Found | None] = []
        missing: list[int] = []
        rules = _rules(storage)
        keys = [(rules, _files(split)) for split in splits]
        with self._lock:
            for at, (split, key) in enumerate(zip(splits, keys, strict=True)):
                known = self._kept.get(key)
                found.append(known)
                if known is not None:
                    self._kept.move_to_end(key)
                elif split.is_raw or (merges and self._is_seen(key, storage)):
                    missing.append(at)
        for at, known in enumerate(found):
            if known is not None and not is_usable(splits[at]):
                found[at] = None
        missing = [at for at in missing if is_usable(splits[at])]
        if not missing:
            return found
        with ThreadPoolExecutor(min(self._threads, len(missing))) as pool:
            made = pool.map(lambda at: _live_rows(storage, splits[at]), missing)
            for at, live in zip(missing, made, strict=True):
                found[at] = live
                self._keep(keys[at], live)
        return found

    def _is_seen(self, key: Hashable, storage: TableStorage) -> bool:
        """True if an earlier query read a split; from now on, one did.

        Each query opens its tables anew, and each once, however often it names them.
        """
        opened = self._seen.get(key)
        if opened is None:
            self._seen[key] = ref(storage)
        self._seen.move_to_end(key)
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        return opened is not None and opened() is not storage

    def _keep(self, key: Hashable, live: _Found) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = live
            self._bytes += _bytes(live)
            while self._bytes > self._most_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= _bytes(dropped)


def _live_rows(storage: TableStorage, split: Split) -> _Found:
    return unmarked_rows(storage, split) if split.is_raw else merged_rows(storage, split)


def _bytes(live: _Found) -> int:
    return sum(rows.words.nbytes for rows in live.values())


def _bytes_of(split: Split) -> int:
    """The bytes of the bitmaps of all files of a split."""
    return sum(file.row_count // 8 + 8 for file in split.files)


def _rules(storage: TableStorage) -> Hashable:
    """The rules by which rows of files are live: the table's columns and all options."""
    schema = storage.schema
    columns = tuple((field.id, field.name, str(field.type)) for field in schema.fields)
    return storage.layout.location, columns, schema.primary_keys, frozenset(schema.options.items())


def _files(split: Split) -> Hashable:
    """The files of a split, as far as a merge and deletion vectors can tell them from others."""
    files = tuple(
        (
            file.file_name,
            file.level,
            file.schema_id,
            file.row_count,
            file.min_sequence_number,
            file.max_sequence_number,
        )
        for file in split.files
    )
    vectors = tuple(
        sorted(
            (name, place.path, place.offset, place.length)
            for name, place in split.deletion_files.items()
        )
    )
    return split.directory, split.is_raw, files, vectors
