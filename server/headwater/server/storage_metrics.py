"""Counts of calls to storage, by warehouse, and of the errors that they end with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa
from prometheus_client import CollectorRegistry, Counter, Histogram

from headwater.server.operation_metrics import WarehouseLabels
from headwater.storage.errors import HeadwaterError, NotFound
from headwater.storage.files.access import FileAccess, FileStatus
from headwater.storage.steps import step

__all__ = ["CountedFiles", "StorageMetrics"]

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class StorageMetrics:
    """Counts calls to storage.

    Args:
        registry: The registry of the metrics.
        labels: The labels of warehouses.
    """

    def __init__(self, registry: CollectorRegistry, labels: WarehouseLabels) -> None:
        self._labels = labels
        self._seconds = Histogram(
            "headwater_storage_seconds",
            "How long calls to storage took, by warehouse and call.",
            ["warehouse", "call"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._errors = Counter(
            "headwater_storage_errors",
            "Calls to storage that ended in an error, other than that a file is not there.",
            ["warehouse", "call", "error"],
            registry=registry,
        )
        self._series: dict[tuple[str, str], Histogram] = {}

    def count(self, files: FileAccess, warehouse: str) -> FileAccess:
        """The file access to a warehouse, counting from now on."""
        return CountedFiles(files, warehouse, self)

    def called(self, warehouse: str, call: str, seconds: float, error: str | None) -> None:
        """Count a call.

        Args:
            warehouse: The warehouse.
            call: The method of `FileAccess`.
            seconds: Its duration.
            error: The class of the error that it ended with.
        """
        label = self._labels.of(warehouse)
        series = self._series.get((label, call))
        if series is None:
            series = self._series[label, call] = self._seconds.labels(label, call)
        series.observe(seconds)
        if error is not None:
            self._errors.labels(label, call, error).inc()


class CountedFiles:
    """A file access whose calls are counted.

    Args:
        files: The file access.
        warehouse: The warehouse that it reaches.
        metrics: The counts.
    """

    def __init__(self, files: FileAccess, warehouse: str, metrics: StorageMetrics) -> None:
        self._files = files
        self._warehouse = warehouse
        self._metrics = metrics

    def read(self, path: str) -> bytes:
        """See `FileAccess.read`."""
        with self._counted("read"):
            return self._files.read(path)

    def exists(self, path: str) -> bool:
        """See `FileAccess.exists`."""
        with self._counted("exists"):
            return self._files.exists(path)

    def size(self, path: str) -> int:
        """See `FileAccess.size`."""
        with self._counted("size"):
            return self._files.size(path)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """See `FileAccess.write`."""
        with self._counted("write"):
            self._files.write(path, data, durable=durable)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """See `FileAccess.write_if_absent`."""
        with self._counted("write_if_absent"):
            return self._files.write_if_absent(path, data)

    def delete(self, path: str) -> None:
        """See `FileAccess.delete`."""
        with self._counted("delete"):
            self._files.delete(path)

    def make_directory(self, directory: str) -> None:
        """See `FileAccess.make_directory`."""
        with self._counted("make_directory"):
            self._files.make_directory(directory)

    def check_directory(self, directory: str) -> None:
        """See `FileAccess.check_directory`."""
        with self._counted("check_directory"):
            self._files.check_directory(directory)

    def delete_tree(self, directory: str) -> None:
        """See `FileAccess.delete_tree`."""
        with self._counted("delete_tree"):
            self._files.delete_tree(directory)

    def list(self, directory: str) -> list[FileStatus]:
        """See `FileAccess.list`."""
        with self._counted("list"):
            return self._files.list(directory)

    def folders(self, directory: str) -> Sequence[str]:
        """See `FileAccess.folders`."""
        with self._counted("folders"):
            return self._files.folders(directory)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """See `FileAccess.walk`; it counts until the last file was asked for."""
        # What is done between two files is not a part of it: it is no step.
        with self._counted("walk", is_step=False):
            yield from self._files.walk(directory, unfinished=unfinished)

    def open_input(self, path: str) -> pa.NativeFile:
        """See `FileAccess.open_input`; what is read afterwards is not counted."""
        with self._counted("open_input"):
            return self._files.open_input(path)

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """See `FileAccess.open_output`; it counts until the file is closed."""
        return self._open_output(path)

    @contextmanager
    def _open_output(self, path: str) -> Iterator[pa.NativeFile]:
        with self._counted("open_output"), self._files.open_output(path) as file:
            yield file

    @contextmanager
    def _counted(self, call: str, *, is_step: bool = True) -> Iterator[None]:
        error: str | None = None
        started = time.perf_counter()
        try:
            if is_step:
                with step(f"storage {call}", warehouse=self._warehouse):
                    yield
            else:
                yield
        except HeadwaterError as found:
            error = None if isinstance(found, NotFound) else type(found).__name__
            raise
        finally:
            seconds = time.perf_counter() - started
            self._metrics.called(self._warehouse, call, seconds, error)
