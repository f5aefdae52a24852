"""What ``lake.cdc`` is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from headwater.cdc.model.tables import Finding
from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.requests import request_catchup, request_resnapshot, request_stop
from headwater.cdc.service.running import RunningPipeline, check, start
from headwater.cdc.service.status import PipelineStatus, find_pipelines, the_pipeline
from headwater.client.cdc import FollowOptions
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid
from headwater.storage.jobs.executor import ParallelExecutor

__all__ = ["LakeCdc"]

# What only commands and files have, and what a program does.
_OF_COMMANDS = {
    "spark": "use the lake of a Spark session: headwater.spark.connect(session, …).cdc",
    "metrics_port": "leave it out: status() has the same figures",
}


class LakeCdc:
    """Databases that are followed into a lake.

    Args:
        lake: The lake.
        executor: Runs tasks of pipelines elsewhere, such as Spark's; None does all the work in this
            process.
    """

    def __init__(self, lake: Lake, executor: ParallelExecutor | None = None) -> None:
        self._lake, self._executor = lake, executor

    def mysql(self, *, once: bool = False, **options: Unpack[FollowOptions]) -> RunningPipeline:
        """Follow tables of MySQL or MariaDB, in a thread; see `ChangeDataCapture.mysql`."""
        given = _parsed({**options, "once": once}, "mysql")
        return start(self._lake, given, self._executor)

    def postgres(self, *, once: bool = False, **options: Unpack[FollowOptions]) -> RunningPipeline:
        """Follow tables of PostgreSQL, in a thread; see `ChangeDataCapture.postgres`."""
        given = _parsed({**options, "once": once}, "postgres")
        return start(self._lake, given, self._executor)

    def kafka(self, *, once: bool = False, **options: Unpack[FollowOptions]) -> RunningPipeline:
        """Follow tables in topics of Kafka, in a thread; see `ChangeDataCapture.kafka`."""
        given = _parsed({**options, "once": once}, "kafka")
        return start(self._lake, given, self._executor)

    def check(self, **options: Unpack[FollowOptions]) -> list[Finding]:
        """What keeps a pipeline from being started; see `ChangeDataCapture.check`."""
        return check(self._lake, _parsed(options), self._executor)

    def status(
        self,
        *,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> list[PipelineStatus]:
        """Where pipelines are; see `ChangeDataCapture.status`."""
        return [pipeline.status(password) for pipeline in find_pipelines(self._lake, target, name)]

    def stop(
        self,
        *,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> None:
        """Stop a pipeline that another process runs; see `ChangeDataCapture.stop`."""
        request_stop(the_pipeline(self._lake, target, name), password=password)

    def resnapshot(
        self,
        *tables: str,
        replace: bool = False,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> bool:
        """Read tables again; see `ChangeDataCapture.resnapshot`."""
        pipeline = the_pipeline(self._lake, target, name)
        return request_resnapshot(pipeline, tables, replace=replace, password=password)

    def catchup(
        self,
        *tables: str,
        target: str | None = None,
        name: str | None = None,
        password: str | None = None,
    ) -> bool:
        """Let quarantined tables catch up; see `ChangeDataCapture.catchup`."""
        return request_catchup(the_pipeline(self._lake, target, name), tables, password=password)


def _parsed(options: Mapping[str, Any], kind: str | None = None) -> PipelineOptions:
    """Check options of a program; Invalid."""
    for name, remedy in _OF_COMMANDS.items():
        if options.get(name) is not None:
            raise Invalid(
                f"option '{name.replace('_', '-')}' is one of commands and files; {remedy}"
            )
    return PipelineOptions.parse(options, kind=kind)
