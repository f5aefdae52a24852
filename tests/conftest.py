"""What every suite shares: which suites must not be skipped, and one Spark session.

Fixtures of one room live in that room's own conftest.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA = 17


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--must-run",
        action="append",
        default=[],
        metavar="MARKER",
        help="a test with this marker that is skipped counts as failed (repeat for more)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = set(item.config.getoption("--must-run")) & {m.name for m in item.iter_markers()}
    if report.skipped and required and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"--must-run {', '.join(sorted(required))}, but it was skipped: {reason}"
    return report


def java_version() -> int:
    """The major version of the Java that Spark would start; 0 without one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return 0
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', text)
    return int(match[1]) if match else 0


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for the whole run: starting it costs seconds."""
    if java_version() < LEAST_JAVA:
        pytest.skip(f"needs Java {LEAST_JAVA} or newer")
    pytest.importorskip("headwater.spark")
    from pyspark.sql import SparkSession

    room = tmp_path_factory.mktemp("spark")
    builder: SparkSession.Builder = SparkSession.builder
    session = (
        builder.master("local[2]")
        .appName("headwater-tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(room / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
