"""The demo's Spark: a local session that keeps its noise to itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.storage.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["require_java", "spark_session"]

LEAST_JAVA = 17

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
def spark_session(folder: Path) -> Generator[SparkSession]:
    """A session on two cores of this machine; its log is `spark.log` in `folder`."""
    from headwater.spark import local_session

    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS.format(log=folder / "spark.log"))
    session = local_session(
        "headwater-demo",
        cores=2,
        memory="1g",
        settings={
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_settings}",
            "spark.local.dir": str(folder / "spark"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        },
    )
    try:
        yield session
    finally:
        session.stop()
