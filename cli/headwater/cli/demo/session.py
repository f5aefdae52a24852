"""The demo's Spark: a local session that keeps its noise to itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.storage.errors import Unavailable, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["require_java", "spark_session"]

LEAST_JAVA = 17

_STOP_SECONDS = 30.0

_LOG_SETTINGS = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def require_java() -> None:
    """Make sure that the Java which Spark will start is new enough.

    Raises:
        Unsupported: There is none, or it is too old; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = 0
    if java is not None and Path(java).exists():
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r'version "(\d+)', answer.stderr)
        version = int(match[1]) if match else 0
    if version < LEAST_JAVA:
        raise Unsupported(
            f"Spark needs Java {LEAST_JAVA} or newer"
            + (f", and this is Java {version}" if version else "")
            + ": install it (Debian: apt-get install default-jre-headless) and try again"
        )


@contextmanager
def _errors_into(file: Path) -> Generator[None]:
    """Let a process that is started meanwhile write its errors into a file, for all its life."""
    from pyspark.errors import PySparkRuntimeError

    ours = os.dup(2)
    try:
        with file.open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    except PySparkRuntimeError as error:
        said = " ".join(file.read_text(errors="replace").split())[-500:]
        raise Unavailable(f"Spark did not start; Java's last words: {said or '-'}") from error
    finally:
        os.dup2(ours, 2)
        os.close(ours)


@contextmanager
def spark_session(folder: Path) -> Generator[SparkSession]:
    """A session on two cores of this machine; its log is `spark.log` in `folder`.

    Raises:
        Unavailable: Java did not start Spark.
    """
    from headwater.spark import local_session

    # What Spark and its libraries advise is for their own developers.
    warnings.filterwarnings("ignore", module=r"pyspark\.")
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS.format(log=folder / "spark.log"))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_settings}",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
    }
    with _errors_into(folder / "spark.err"):
        session = local_session("headwater-demo", cores=2, memory="1g", settings=settings)
    try:
        yield session
    finally:
        _stop(session)


def _stop(session: SparkSession) -> None:
    """Stop Spark and wait for its Java to be gone: it clears up in the folder to the last."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
