"""Spark sessions for the suite: local, on a standalone cluster, through Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession
from tests.ports import free_port

__all__ = [
    "KINDS",
    "KIND_VARIABLE",
    "calls_functions_here",
    "connect_server",
    "kind_of_session",
    "session_of_kind",
    "spark_cluster",
    "started",
    "starts_local_sessions",
]

KIND_VARIABLE = "HEADWATER_TEST_SPARK"
"""The environment variable that names the kind of session; local unless it is set."""

KINDS = ("local", "cluster", "connect")


def kind_of_session() -> str:
    """The kind of session that this run of the tests has."""
    return os.environ.get(KIND_VARIABLE, "local")


calls_functions_here = pytest.mark.skipif(
    kind_of_session() == "connect",
    reason="Spark Connect calls functions of foreachBatch in a process of its own",
)
"""Marks a test whose function for batches needs objects of the test's process."""

starts_local_sessions = pytest.mark.skipif(
    kind_of_session() == "connect",
    reason="a process with a session of Spark Connect cannot start a local one",
)
"""Marks a test that starts a local session in the test's process."""

_CLUSTER = "org.apache.spark.deploy"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_WORKERS = 2


@contextmanager
def session_of_kind(
    kind: str,
    directory: Path,
    settings: Mapping[str, str],
    executors: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session; what it needs is started before, and stopped after it.

    Args:
        kind: One of `KINDS`.
        directory: An empty directory; the session's processes begin there.
        settings: The session's settings.
        executors: Environment variables of a cluster's executors.
    """
    from headwater.spark import local_session
    from headwater.spark.session import session_at

    with ExitStack() as running:
        # On a cluster the workers' interpreter is for the user to name.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        match kind:
            case "local":
                session = local_session("headwater-tests", cores=2, memory="1g", settings=settings)
            case "cluster":
                master = running.enter_context(spark_cluster(directory, executors))
                session = session_at(
                    master,
                    "headwater-tests",
                    memory="1g",
                    settings={"spark.executor.memory": "1g", **settings},
                )
            case "connect":
                address = running.enter_context(connect_server(directory, settings))
                session = SparkSession.builder.remote(address).getOrCreate()
            case _:
                raise ValueError(f"{KIND_VARIABLE} is one of {', '.join(KINDS)}, not {kind}")
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def started(
    command: list[str], awaited: str, directory: Path, variables: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A program of Spark's that runs until the block ends.

    Args:
        command: The program and its arguments.
        awaited: Text in the line that it prints when it is ready.
        directory: The directory it runs in.
        variables: Environment variables of its own.

    Yields:
        The line that has the text.
    """
    environment = {**os.environ, **(variables or {})}
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout
    printed: list[str] = []
    try:
        for line in output:
            printed.append(line)
            if awaited in line:
                break
        else:
            raise RuntimeError(f"{command} ended:\n{''.join(printed)}")
        # A full pipe would stop the program.
        Thread(target=lambda: [None for _ in output], daemon=True).start()
        yield printed[-1]
    finally:
        process.terminate()
        process.wait()


def _spark_program(name: str) -> str:
    return str(Path(os.environ["SPARK_HOME"], "bin", name))


@contextmanager
def _master(directory: Path) -> Iterator[str]:
    command = [_spark_program("spark-class"), f"{_CLUSTER}.master.Master"]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with started(command, "Starting Spark master at", directory, _DAEMON) as line:
        yield line.split()[-1]


@contextmanager
def _worker(
    directory: Path, master: str, number: int, executors: Mapping[str, str] | None
) -> Iterator[None]:
    command = [_spark_program("spark-class"), f"{_CLUSTER}.worker.Worker"]
    # Spark starts no second attempt of a task on the host of the first.
    command += ["--host", f"127.0.0.{number + 1}", "--webui-port", "0"]
    command += ["--cores", "1", "--memory", "1g"]
    command += ["--work-dir", str(directory / f"worker-{number}"), master]
    with started(
        command, "Successfully registered with master", directory, {**_DAEMON, **(executors or {})}
    ):
        yield


@contextmanager
def spark_cluster(directory: Path, executors: Mapping[str, str] | None = None) -> Iterator[str]:
    """A standalone cluster of two workers with a core each; its master's address.

    Args:
        directory: An empty directory; its processes begin there.
        executors: Environment variables of its executors.
    """
    with ExitStack() as running:
        master = running.enter_context(_master(directory))
        for number in range(_WORKERS):
            running.enter_context(_worker(directory, master, number, executors))
        yield master


@contextmanager
def connect_server(directory: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """A server of Spark Connect; its address.

    Args:
        directory: An empty directory; it begins there.
        settings: The settings of its sessions.
    """
    port = free_port()
    command = [_spark_program("spark-submit"), "--class", _CONNECT, "--master", "local[2]"]
    all_settings = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", **settings}
    for key, value in (all_settings | {"spark.connect.grpc.binding.port": str(port)}).items():
        command += ["--conf", f"{key}={value}"]
    with started([*command, "spark-internal"], "Spark Connect server started at", directory):
        yield f"sc://127.0.0.1:{port}"


_DAEMON: Mapping[str, str] = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
