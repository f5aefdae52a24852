"""A served catalog, and the clients of other makers, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import httpx
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from py4j.java_gateway import JavaGateway
from tests.ports import free_port

from headwater.client import connect
from headwater.client.lake import Lake

from .java_client import VERSIONS, JavaClient, bundle, label, start_gateway

ROOT = Path(__file__).parents[2]
TOKEN = "interop-token"


@dataclass(frozen=True)
class Service:
    """A running server."""

    uri: str
    log: Path


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("interop-server")) as running:
        yield running


@contextmanager
def serving(room: Path, **environment: str) -> Iterator[Service]:
    """A server as users start it, with an empty warehouse ``main``."""
    port = free_port()
    log = room / "server.log"
    with open(log, "wb") as sink:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "headwater.cli.main", "serve"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--database-url", f"sqlite:///{room}/headwater.db"),
                *("--warehouse", f"main={room}/warehouse", "--token", TOKEN),
            ],
            env={**os.environ, **environment},
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            uri = f"http://127.0.0.1:{port}"
            _wait_until_healthy(uri, process, log)
            yield Service(uri, log)
        finally:
            process.terminate()
            process.wait()


def _wait_until_healthy(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    transport = httpx.HTTPTransport(retries=200)
    with httpx.Client(transport=transport, timeout=60, trust_env=False) as client:
        while process.poll() is None:
            try:
                if client.get(f"{uri}/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                continue
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def lake(service: Service) -> Iterator[Lake]:
    with connect(service.uri, warehouse="main", token=TOKEN) as opened:
        opened.create_database("interop", ignore_if_exists=True)
        yield opened


class ClientProcess:
    """A client's script, which answers requests until the tests are over.

    Args:
        python: The interpreter of the client's environment.
        script: The script.
        patience: Seconds after which an answer is not waited for any more.
    """

    def __init__(self, python: Path, script: Path, patience: int) -> None:
        self._patience = patience
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Mapping[str, object]) -> Mapping[str, object]:
        """The answer to a request; the process is killed when it takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        patience = Timer(self._patience, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(f"{json.dumps(request)}\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith("answer "):
                    answer = json.loads(line.removeprefix("answer "))
                    assert isinstance(answer, dict)
                    return answer
        finally:
            patience.cancel()
        return {"error": f"the process ended ({self._process.wait()}) without an answer"}


_PROCESSES: dict[str, ClientProcess] = {}


def _process(name: str, python: Path, script: Path, patience: int) -> ClientProcess:
    """The process of a client, by its name; it ends with this one, whose pipe it reads."""
    found = _PROCESSES.get(name)
    if found is None or not found.is_alive:
        found = _PROCESSES[name] = ClientProcess(python, script, patience)
    return found


class Client:
    """Runs one client's script in its own environment; rows travel as Arrow files."""

    patience = 120
    """Seconds that an answer may take."""

    def __init__(
        self,
        name: str,
        service: Service,
        room: Path,
        *,
        folder: Path | None = None,
        token: str = TOKEN,
    ) -> None:
        self.name = name
        self._token = token
        # A warehouse of which this client is the catalog, by its files alone, without a server.
        self._folder = folder
        self.label = label(name)
        self._service = service
        self._room = room
        self._files = 0
        self._python = ROOT / ".interop" / name / "bin" / "python"
        if not self._python.exists():
            pytest.skip(f"no environment for {name}: run tests/interop/environments")

    def _path(self) -> str:
        self._files += 1
        return str(self._room / f"{self.name}-{self._files}.arrow")

    def _run(self, command: str, **request: object) -> Mapping[str, object]:
        script = Path(__file__).parent / "clients" / f"{self.label}_client.py"
        body = {
            "command": command,
            "uri": self._service.uri,
            "warehouse": "main",
            "token": self._token,
            "folder": None if self._folder is None else str(self._folder),
            **request,
        }
        answer = _process(self.name, self._python, script, self.patience).ask(body)
        if "error" in answer:
            raise RuntimeError(f"{self.name} {command} failed:\n{answer['error']}")
        return answer

    def create(
        self,
        table: str,
        schema: pa.Schema,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        path = self._path()
        feather.write_feather(schema.empty_table(), path, compression="uncompressed")
        self._run(
            "create",
            table=table,
            schema=path,
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            options=dict(options or {}),
        )

    def write(self, table: str, data: pa.Table) -> None:
        path = self._path()
        feather.write_feather(data, path, compression="uncompressed")
        self._run("write", table=table, data=path)

    def update_columns(self, table: str, data: pa.Table) -> None:
        """Give columns new values by ``_ROW_ID``."""
        path = self._path()
        feather.write_feather(data, path, compression="uncompressed")
        self._run("update_columns", table=table, data=path)

    def delete_by_row_id(self, table: str, ids: Sequence[int]) -> None:
        self._run("delete_by_row_id", table=table, ids=list(ids))

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        path = self._path()
        given = dict(options or {})
        self._run("read", table=table, out=path, columns=list(columns or []), options=given)
        return feather.read_table(path)

    def changes(self, table: str) -> list[pa.Table]:
        """A stream's changes from the first snapshot on, with a column ``_ROW_KIND``."""
        path = self._path()
        self._run("changes", table=table, out=path, patience=20)
        found: pa.Table = feather.read_table(path)
        return [found.rename_columns({"_row_kind": "_ROW_KIND"})]

    def read_each(self, table: str, columns: Sequence[str]) -> dict[str, pa.Table | str]:
        """Each column with the column ``k``, read by itself, or the client's error."""
        path = self._path()
        problems = self._run("read_each", table=table, out=path, columns=list(columns))["problems"]
        assert isinstance(problems, dict)
        return {
            name: problems[name] if name in problems else feather.read_table(f"{path}-{at}")
            for at, name in enumerate(columns)
        }

    def add_column(self, table: str, column: str, kind: str) -> None:
        self._run("add_column", table=table, column=column, type=kind)

    def partitions(self, table: str) -> dict[str, int]:
        """Records of each partition, by its name."""
        found = self._run("partitions", table=table)["partitions"]
        assert isinstance(found, list)
        return {"/".join(f"{k}={v}" for k, v in spec.items()): count for spec, count in found}

    def create_branch(self, table: str, branch: str, tag: str | None = None) -> None:
        self._branch("create_branch", table, branch, tag)

    def fast_forward(self, table: str, branch: str) -> None:
        self._branch("fast_forward", table, branch)

    def drop_branch(self, table: str, branch: str) -> None:
        self._branch("drop_branch", table, branch)

    def branches(self, table: str) -> list[str]:
        found = self._branch("list_branches", table)
        assert isinstance(found, list)
        return found

    def _branch(self, action: str, table: str, *names: str | None) -> object:
        return self._run("branch", table=table, action=action, names=names)["found"]

    def consumers(self, table: str) -> dict[str, int]:
        """Next snapshots, by consumer id."""
        found = self._run("consumers", table=table)["consumers"]
        assert isinstance(found, dict)
        return found

    def reset_consumer(self, table: str, consumer_id: str, next_snapshot: int) -> None:
        self._run(
            "reset_consumer", table=table, consumer_id=consumer_id, next_snapshot=next_snapshot
        )

    def sql(self, *statements: str) -> None:
        self._run("sql", statements=list(statements))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests of Paimon's Java library that must also run where there is no Maven."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        java = "interop_java" in marks or "java_version" in getattr(item, "fixturenames", ())
        if java and "interop" in marks:
            raise pytest.UsageError(f"{item.nodeid} needs Java: mark it interop_java alone")


@pytest.fixture(scope="session")
def java_gateways() -> Iterator[Callable[[str], JavaGateway]]:
    """One Java process for each release of Paimon's library, started when it is first asked for."""
    started: dict[str, JavaGateway] = {}

    def gateway(version: str) -> JavaGateway:
        if not bundle(version).exists():
            pytest.skip(
                f"no Paimon JAR {version}: run tests/interop/environments where Maven is installed"
            )
        if version not in started:
            started[version] = start_gateway(version)
        return started[version]

    yield gateway
    for each in started.values():
        each.shutdown()


@pytest.fixture(params=VERSIONS)
def java_version(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


@pytest.fixture
def java_gateway(java_gateways: Callable[[str], JavaGateway], java_version: str) -> JavaGateway:
    return java_gateways(java_version)


PYPAIMON = pytest.param("pypaimon", marks=pytest.mark.interop)
RUST = pytest.param("pypaimon-rust", marks=pytest.mark.interop)
JAVA = [
    pytest.param(f"{JavaClient.maker}-{version}", marks=pytest.mark.interop_java)
    for version in VERSIONS
]


@pytest.fixture(params=[PYPAIMON, RUST, *JAVA])
def client(
    request: pytest.FixtureRequest,
    service: Service,
    tmp_path: Path,
    java_gateways: Callable[[str], JavaGateway],
) -> Client | JavaClient:
    maker, _, version = request.param.rpartition("-")
    if maker == JavaClient.maker:
        return JavaClient(java_gateways(version), version, service.uri, TOKEN, tmp_path)
    return Client(request.param, service, tmp_path)


@pytest.fixture
def pypaimon(service: Service, tmp_path: Path) -> Client:
    return Client("pypaimon", service, tmp_path)


@pytest.fixture
def rust(service: Service, tmp_path: Path) -> Client:
    return Client("pypaimon-rust", service, tmp_path)


@pytest.fixture
def java(
    service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> JavaClient:
    """Paimon's own Java library."""
    return JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)


@pytest.fixture
def uncached_java(
    service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> JavaClient:
    """The same, which would else keep tables as they were before a test changed them."""
    more = {"cache-enabled": "false"}
    return JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path, more)
