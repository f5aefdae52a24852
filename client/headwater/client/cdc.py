"""Change data capture as a lake offers it: a part of its own, which is found by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Required, Self, TypedDict, Unpack

from headwater.storage.errors import Unsupported
from headwater.storage.jobs.executor import ParallelExecutor

__all__ = ["ChangeDataCapture", "FollowOptions", "FollowedSource", "change_data_capture"]


class FollowOptions(TypedDict, total=False):
    """The options of a pipeline; ``docs/cdc.md`` explains each."""

    source: Required[str]
    target: Required[str]
    include: Sequence[str] | str
    exclude: Sequence[str] | str
    including_tables: str
    excluding_tables: str
    including_dbs: str
    excluding_dbs: str
    table_prefix: str
    table_suffix: str
    table_prefix_db: Mapping[str, str] | Sequence[str]
    table_suffix_db: Mapping[str, str] | Sequence[str]
    table_mapping: Mapping[str, str] | Sequence[str]
    merge_shards: bool
    partition_keys: Mapping[str, Sequence[str] | str] | Sequence[str] | str
    multiple_table_partition_keys: Mapping[str, Sequence[str] | str] | Sequence[str] | str
    primary_keys: Mapping[str, Sequence[str] | str] | Sequence[str] | str
    computed_column: Sequence[str] | str
    metadata_column: Sequence[str] | str
    metadata_column_prefix: str
    name: str
    password: str
    password_file: str | os.PathLike[str]
    type_mapping: Sequence[str] | str
    bad_dates: str
    on_drop: str
    narrowing: str
    tables_without_key: str
    table_options: Mapping[str, str]
    slot: str
    publication: str
    kafka_conf: Mapping[str, str]
    batch_seconds: float
    batch_bytes: int
    memory_bytes: int
    range_rows: int
    readers: int
    writers: int
    task_rows: int
    task_bytes: int
    lock_seconds: float
    tag_batches: int
    tag_num_retained_max: int


class FollowedSource(Protocol):
    """A pipeline that runs in this process. As a context manager it is stopped at the end."""

    @property
    def name(self) -> str:
        """The pipeline's name."""

    @property
    def is_running(self) -> bool:
        """Whether it still runs."""

    def status(self) -> Any:
        """What it does: a ``PipelineProgress`` of `headwater.cdc`."""

    def stop(self) -> None:
        """Ask it to end after the batch that is being written."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; raise what ended it.

        Args:
            timeout: How long to wait at most, in seconds.

        Returns:
            Whether all tables are followed; False if some are quarantined.

        Raises:
            TimeoutError: It still runs.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class ChangeDataCapture(Protocol):
    """Databases that are followed into a lake."""

    def mysql(self, *, once: bool = False, **options: Unpack[FollowOptions]) -> FollowedSource:
        """Follow tables of MySQL or MariaDB, in a thread.

        Args:
            once: Whether to end when all that the source has at the start is committed.
            options: See `FollowOptions`.

        Raises:
            Invalid: An option is wrong; or a new pipeline cannot follow its tables, with all
                reasons. Nothing was created.
            Forbidden: The source rejects the user or the password.
            Unavailable: A new pipeline cannot reach its source.
        """

    def postgres(self, *, once: bool = False, **options: Unpack[FollowOptions]) -> FollowedSource:
        """Follow tables of a PostgreSQL database, in a thread.

        Args, Raises: As `mysql`.
        """

    def kafka(self, *, once: bool = False, **options: Unpack[FollowOptions]) -> FollowedSource:
        """Follow tables whose changes Debezium writes to topics of Kafka, in a thread.

        Args, Raises: As `mysql`.
        """

    def check(self, **options: Unpack[FollowOptions]) -> list[Any]:
        """Everything that keeps a pipeline from being started, each with a remedy.

        Notes are at the end: ``is_note`` says that a pipeline can be started all the same.
        """

    def status(
        self,
        *,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> list[Any]:
        """Where pipelines are, whichever process runs them: a ``PipelineStatus`` of each.

        Args:
            target: Only those into this database.
            name: Only those of this name.
            password: The sources' password, to ask which of them run.

        Raises:
            NotFound: No pipeline fits.
        """

    def stop(
        self,
        *,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> None:
        """Stop a pipeline that another process runs, and wait until it has ended.

        Args:
            target, name, password: As for `status`; they must leave one pipeline.

        Raises:
            Invalid: Several pipelines are meant.
            NotFound: No pipeline fits, or no process runs it.
            Unavailable: It does not end.
        """

    def resnapshot(
        self,
        *tables: str,
        replace: bool = False,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> bool:
        """Read tables again, while the others go on.

        Args:
            tables: The source's tables, such as ``shop.orders``; none is all.
            replace: Whether the lake's tables are created again, too.
            target, name, password: As for `stop`.

        Returns:
            Whether a running pipeline has begun; False if none runs: the next start begins with it.

        Raises:
            Invalid: The pipeline does not follow one of them, or several pipelines are meant.
            NotFound: There is no pipeline.
            Unavailable: The process that runs it does not begin.
            Unsupported: The source is Kafka, and its topics lack messages of the tables.
        """

    def catchup(
        self,
        *tables: str,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> bool:
        """Let quarantined tables catch up by the log from where they are, while the others go on.

        Args:
            tables: The source's tables, such as ``shop.orders``.
            target, name, password: As for `stop`.

        Returns:
            Whether a running pipeline has begun; False if none runs: the next start begins with it.

        Raises:
            Conflict: A table cannot catch up, and must be read again.
            Invalid: One is not quarantined, or several pipelines are meant.
            NotFound: There is no pipeline.
            Unavailable: The process that runs it does not begin.
        """


def change_data_capture(
    lake: object, executor: ParallelExecutor | None = None
) -> ChangeDataCapture:
    """The change data capture of a `Lake`.

    Args:
        lake: The lake.
        executor: Runs tasks of pipelines elsewhere; None does all the work in this process.

    Raises:
        Unsupported: A package that it needs is not installed.
    """
    try:
        service = import_module("headwater.cdc.service")
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"change data capture needs {error.name}, which this installation lacks; run: pip "
            "install 'headwater[cdc]'"
        ) from error
    capture: ChangeDataCapture = service.LakeCdc(lake, executor)
    return capture
