"""Jobs on tables as Spark's tasks."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from headwater.spark.jobs.executor import SparkExecutor
from headwater.storage.errors import Invalid, Unavailable, Unsupported

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["small", "large"])
def test_every_task_is_done_once_and_the_first_error_comes_last(
    spark: SparkSession, size: int
) -> None:
    def work(task: bytes) -> tuple[int, int]:
        if task[0] == 2:
            raise Invalid("mine")
        return task[0], len(task)

    tasks = [bytes([number]) * size for number in range(4)]
    executor = SparkExecutor(spark)
    assert list(executor.run(work, [])) == []
    assert sorted(executor.run(work, tasks[:2])) == [(0, size), (1, size)]
    done: list[tuple[int, int]] = []
    with pytest.raises(Invalid, match="mine"):
        done.extend(executor.run(work, tasks))
    assert sorted(done) == [(0, size), (1, size), (3, size)]


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["small", "large"])
def test_only_so_many_tasks_run_at_once(spark: SparkSession, size: int) -> None:
    def work(task: bytes) -> tuple[int, int | None]:
        context = TaskContext.get()
        return task[0], None if context is None else context.partitionId()

    done = list(SparkExecutor(spark, at_once=2).run(work, [bytes([at]) * size for at in range(5)]))
    assert sorted(number for number, _ in done) == [0, 1, 2, 3, 4]
    assert {partition for _, partition in done} == {0, 1}


def test_tasks_whose_process_ends_are_lost(spark: SparkSession) -> None:
    def work(task: int) -> int:
        if task == 1:
            os._exit(1)
        return task

    executor = SparkExecutor(spark)
    with pytest.raises(Unavailable, match="Spark lost tasks and gave up"):
        list(executor.run(work, range(3)))
    # The session goes on.
    assert sorted(executor.run(work, [0, 2])) == [0, 2]
    assert executor.at_once >= 1


def test_other_errors_of_tasks_are_what_they_are(spark: SparkSession) -> None:
    def work(task: int) -> int:
        raise ZeroDivisionError(f"task {task}")

    with pytest.raises(Exception, match="ZeroDivisionError: task 0") as raised:
        list(SparkExecutor(spark).run(work, [0]))
    assert not isinstance(raised.value, Unavailable)


def test_executors_that_lack_a_module_are_named(spark: SparkSession) -> None:
    def work(task: int) -> int:
        import_module("no_module_of_ours")
        return task

    with pytest.raises(Unsupported, match=r"executors lacks the module 'no_module_of_ours'; inst"):
        list(SparkExecutor(spark).run(work, [1]))
