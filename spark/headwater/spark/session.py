"""Spark sessions whose Python workers run this process's interpreter."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.errors import first_line
from headwater.spark.option_values import is_true
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME

__all__ = [
    "active_session",
    "enable_times",
    "ended_by_interrupt",
    "ensure_interpreter",
    "is_connect",
    "is_set",
    "local_session",
    "release_frame",
    "session_at",
    "session_settings",
]

_VARIABLE = "PYSPARK_PYTHON"
_CONNECT = "sc://"
# The schemes of addresses, with the ports that they have unless another one is named.
_PORTS = {"spark": 7077, "sc": 15002}
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_REACH_SECONDS = 10.0
_MASTER = re.compile(r"(local(\[[^\]]*\])?|local-cluster\[[^\]]*\]|yarn)$|(spark|k8s|sc)://")


def local_session(
    name: str = "headwater",
    *,
    cores: int | None = None,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session on this machine.

    Args:
        name: The application's name.
        cores: The number of tasks that run at once; None is one for each core.
        memory: The memory of Spark's own process, as Spark writes it (``2g``). The Python workers'
            memory comes on top.
        settings: Further Spark settings; they win.

    Raises:
        Invalid: There is no Java.
    """
    return session_at(f"local[{cores or '*'}]", name, memory=memory, settings=settings)


def session_at(
    master: str,
    name: str = "headwater",
    *,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session wherever its tasks run.

    Args:
        master: Spark's own name for that place: ``local[4]``, ``spark://host:7077``, or
            ``sc://host:15002`` for a server of Spark Connect.
        name: The application's name.
        memory: The memory of Spark's own process on this machine.
        settings: Further Spark settings; they win. A server of Spark Connect has its own.

    Raises:
        Invalid: There is no Java; or the master is not one that Spark knows.
        Unavailable: Spark does not start there.
    """
    if not _MASTER.match(master):
        raise Invalid(
            f"Spark has no master '{master}': give local[*], local[4], spark://host:7077, yarn, "
            "k8s://…, or sc://host:15002 for a server of Spark Connect"
        )
    _check_reachable(master)
    if master.startswith(_CONNECT):
        with _starting(master):
            return SparkSession.builder.remote(master).getOrCreate()
    if not _java():
        raise Invalid(
            "Spark needs Java 17 or newer, and none was found: install one (on Debian or Ubuntu "
            "`apt install openjdk-17-jre-headless`) or point JAVA_HOME at it"
        )
    if master.startswith("local"):
        os.environ.setdefault(_VARIABLE, sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    chosen = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **(settings or {}),
    }
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _starting(master):
        return builder.getOrCreate()


def _check_reachable(master: str) -> None:
    """Raise Unavailable if nobody listens at an address: Spark tries for minutes."""
    scheme, separator, rest = master.partition("://")
    is_proxied = scheme == "sc" and any(map(os.environ.get, _PROXIES))
    if not separator or scheme not in _PORTS or is_proxied:
        return
    problem = ""
    # A standalone cluster has several masters; options follow the address of Spark Connect.
    for address in rest.partition("/")[0].partition(";")[0].split(","):
        try:
            url = urlsplit(f"//{address}")
            host, port = url.hostname, url.port or _PORTS[scheme]
            with socket.create_connection((host, port), _REACH_SECONDS):
                return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise Unavailable(f"cannot reach Spark at {master}: {problem}; check that it runs there")


@contextmanager
def _starting(master: str) -> Iterator[None]:
    """Raise what keeps a session from starting as Unavailable."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise Unavailable(
            f"cannot start Spark at {master}: {first_line(error)}; check the address, and that "
            "Spark runs there"
        ) from error


def enable_times(spark: SparkSession) -> None:
    """Let a session have values of type TIME, which Spark otherwise refuses wherever they occur."""
    key = "spark.sql.timeType.enabled"
    if spark.conf.isModifiable(key):
        spark.conf.set(key, "true")


def is_set(spark: SparkSession, key: str) -> bool:
    """Whether a setting of Spark's that is true or false is true.

    Args:
        spark: The session.
        key: The setting, which Spark knows.
    """
    return is_true(spark.conf.get(key))


def ensure_interpreter(spark: SparkSession) -> None:
    """Make a local session's Python workers run this process's interpreter.

    Spark starts its workers with the ``python3`` of the search path unless told otherwise, which
    in a virtual environment is the wrong one. A cluster's workers are left alone: their
    interpreter is another machine's matter.

    Raises:
        Invalid: The session was told to use another interpreter.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    present = shutil.which(context.pythonExec)
    if present is not None and Path(present).parent == Path(sys.executable).parent:
        return
    if os.environ.get(_VARIABLE) is not None:
        raise Invalid(
            f"Spark's workers run {context.pythonExec}, not this program's {sys.executable}: "
            f"unset {_VARIABLE}, or set it to that, before the session starts"
        )
    context.pythonExec = sys.executable


def release_frame(frame: DataFrame) -> None:
    """Let Spark forget a frame that nobody uses any more.

    As long as Python holds it, until its garbage is next collected, executors keep the rows that
    its job exchanged, and a cluster with dynamic allocation keeps the executors.
    """
    context = getattr(frame.sparkSession, "_sc", None)
    if context is not None:
        context._gateway.detach(frame._jdf)


@contextmanager
def ended_by_interrupt(spark: SparkSession) -> Iterator[None]:
    """End the jobs of a block when the user interrupts the program in it.

    PySpark asks Spark to, on the connection that waits for the job's end, where nobody listens.

    Args:
        spark: The session. Over Spark Connect the interruption itself is all that is done.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        yield
        return
    tag = f"headwater-{SYSTEM_RUNTIME.new_uuid()}"
    context.addJobTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        context.cancelJobsWithTag(tag)
        raise
    finally:
        context.removeJobTag(tag)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Let Spark's objects follow a session's settings where they are called in this thread.

    Outside of its own planning Spark takes those of the session that the thread had last: another's
    time zone would be that of the timestamps in a plan's text.

    Args:
        spark: A session that is not Spark Connect's.
    """
    java: Any = spark._jvm
    sessions = java.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is of Spark Connect: it has no JVM, and its server reads texts again."""
    return getattr(spark, "_jsparkSession", None) is None


def session_settings(spark: SparkSession, prefix: str) -> dict[str, str]:
    """The session's settings whose names begin so, without that."""
    if is_connect(spark):
        settings = spark.conf.getAll
        return {
            key.removeprefix(prefix): str(value)
            for key, value in settings.items()
            if key.startswith(prefix)
        }
    # In one call: each entry would be another.
    listed = str(spark._jsparkSession.conf().getAll().mkString("\0", "\0", "")).split("\0")
    pairs = [text.split(" -> ", 1) for text in listed if text.startswith(prefix)]
    return {key.removeprefix(prefix): value for key, value in pairs}


def _java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") is not None or (
        home is not None and Path(home, "bin/java").exists()
    )
