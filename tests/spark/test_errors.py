"""What becomes of Spark's errors, without a session."""

from __future__ import annotations

import subprocess
import sys

FIRST_OF_ITS_PROCESS = """
from headwater.spark.errors import unlogged_errors

with unlogged_errors():
    pass

from pyspark.logger import PySparkLogger

PySparkLogger.getLogger("SQLQueryContextLogger").error("refused", errorClass="NO_SUCH_TABLE")
"""


def test_pyspark_logs_errors_of_queries_after_some_were_left_unlogged() -> None:
    # Whoever asks for a logger first makes it, for the whole process.
    command = [sys.executable, "-c", FIRST_OF_ITS_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "NO_SUCH_TABLE" in done.stderr
