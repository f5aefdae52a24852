"""A source with a database of its own, a lake, and pipelines between them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.cdc.source_logs import SourceServer
from tests.cdc.task_executors import chosen_executor, with_small_tasks

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.progress import PipelineProgress
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import PipelineState, TablePhase, TableState
from headwater.cdc.service.verify import TableVerdict, verify
from headwater.client import Lake, connect
from headwater.storage.jobs.executor import Executor


class Origin:
    """A source's database.

    Attributes:
        database: Its name.
        address: The server's address.
    """

    def __init__(self, server: SourceServer) -> None:
        self.address = server.address
        self.database = server.database
        self.server = MySQLServer(self.address)
        self.run(f"CREATE DATABASE IF NOT EXISTS `{self.database}`", f"USE `{self.database}`")

    def run(self, *statements: str) -> None:
        """Run statements, in the database."""
        for statement in statements:
            self.server.rows(statement)

    def session(self, *statements: str) -> None:
        """Run statements in a session of their own."""
        with MySQLServer(self.address) as server:
            for statement in (f"USE `{self.database}`", *statements):
                server.rows(statement)

    def table(self, name: str) -> TableName:
        """The qualified name of a table."""
        return TableName(self.database, name)


class Follower:
    """A pipeline from an origin into a lake, run in this process.

    Attributes:
        settings: The pipeline's settings, which a test may replace between runs.
        executor: Runs the pipeline's tasks; None does all the work in this process.
    """

    def __init__(self, origin: Origin, lake: Lake) -> None:
        self.origin, self.lake = origin, lake
        settings = PipelineSettings(
            "shop", "mysql://test", "lake", (f"{origin.database}.*",), batch_seconds=0.5
        )
        self.settings = with_small_tasks(settings)
        self.executor = chosen_executor()

    def change(self, **settings: object) -> None:
        """Change the settings of the next run."""
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]

    def pipeline(self) -> Pipeline:
        """A pipeline that was not run yet."""
        source = partial(MySQLSource, self.origin.address)
        return Pipeline(self.lake, source, self.settings, self.executor)

    def once(self) -> PipelineProgress:
        """Commit all that the source has."""
        pipeline = self.pipeline()
        pipeline.run(once=True)
        return pipeline.progress.read()

    def resnapshot(self, *tables: str) -> None:
        """Ask for tables to be read again."""
        state = PipelineState.open(self.lake, "lake", self.settings.name)
        for table in tables:
            state.request(f"resnapshot:{self.origin.table(table).escaped}", "")

    def batch(self) -> int:
        """The number of the last batch that was planned; -1 before the first."""
        plan = PipelineState.open(self.lake, "lake", self.settings.name).plan()
        return -1 if plan is None else plan.number

    def states(self) -> dict[str, TableState]:
        """The tables' states, as they are at the beginning of the last batch that was planned."""
        plan = PipelineState.open(self.lake, "lake", self.settings.name).plan()
        assert plan is not None
        return {TableName.from_escaped(name).table: state for name, state in plan.tables.items()}

    def rows(self, table: str) -> list[dict[str, object]]:
        """The rows of the lake's table, in the order of its first column."""
        rows = self.lake.table(f"lake.{table}").scan().to_arrow()
        sorted_rows: list[dict[str, object]] = rows.sort_by(rows.column_names[0]).to_pylist()
        return sorted_rows

    def count(self, table: str) -> int:
        """How many rows of the source the lake's table has."""
        lake_table = self.lake.table(f"lake.{table}")
        if lake_table.schema.primary_keys:
            return lake_table.scan().count()
        kinds = lake_table.scan(columns=["row_kind"]).to_arrow()["row_kind"].to_pylist()
        return sum(1 if kind.startswith("+") else -1 for kind in kinds)

    def verify(self, executor: Executor | None = None) -> dict[str, TableVerdict]:
        """Compare all followed tables with the source, perhaps by an executor's tasks."""
        verdicts = verify(self.lake, self.origin.address, self.settings, executor)
        return {verdict.table.table: verdict for verdict in verdicts}

    def check(self, *tables: str) -> None:
        """Check that tables are followed, and that the lake's are the source's."""
        verdicts = self.verify()
        for table in tables:
            verdict = verdicts[table]
            assert verdict.is_equal, (table, verdict.problem, verdict.differences.to_pylist()[:20])
            count = self.count(table)
            ((expected,),) = self.origin.server.rows(
                f"SELECT COUNT(*) FROM `{self.origin.database}`.`{table}`"
            )
            assert (verdict.source_rows, verdict.lake_rows, count) == (expected,) * 3, table

    def phases(self) -> dict[str, TablePhase]:
        """The tables' phases in the last plan."""
        return {name: state.phase for name, state in self.states().items()}


@pytest.fixture
def origin(source: SourceServer) -> Iterator[Origin]:
    """A database of its own on a server of either kind."""
    origin = Origin(source)
    yield origin
    origin.run(f"DROP DATABASE `{origin.database}`")
    origin.server.close()


@pytest.fixture
def lake_path(tmp_path: Path) -> Path:
    """The folder of the lake."""
    return tmp_path / "lake"


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    """A lake in this process, with an empty database ``lake``."""
    with connect(lake_path) as lake:
        lake.create_database("lake")
        yield lake


@pytest.fixture
def follower(origin: Origin, lake: Lake) -> Follower:
    """A pipeline that follows all tables of the origin."""
    return Follower(origin, lake)


@pytest.fixture
def kills() -> int:
    """How often a test kills a pipeline."""
    return int(os.environ.get("CDC_KILLS", "5"))


@pytest.fixture
def seed() -> int:
    """Of the random numbers of a test; it is shown where the test fails."""
    return int(os.environ.get("CDC_SEED", "1"))
