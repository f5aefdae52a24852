"""What every suite shares: which suites must not be skipped, one Spark session, database servers.

Fixtures of one suite live in that suite's own conftest.py.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine, create_engine
from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.catalog.model.catalog import Catalog
    from headwater.server.settings import ServerSettings

# Tests never assert on time, and the first example of a suite pays for imports. New examples are
# looked for on purpose (`--hypothesis-profile=search`): what judges a change takes the same ones,
# and not so many of them.
_SEARCH = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
settings.register_profile("search", _SEARCH)
settings.register_profile("headwater", _SEARCH, derandomize=True, database=None, max_examples=40)
settings.load_profile("headwater")

LEAST_JAVA = 17
# Java's best compiler pays off after minutes; before, it takes the processors from the tests.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--must-run",
        action="append",
        default=[],
        metavar="MARKER",
        help="a test with this marker that is skipped counts as failed (repeat for more)",
    )
    parser.addoption(
        "--part",
        type=_part,
        metavar="K/N",
        help="run one of N parts of the tests, which are chosen by their names: 1/3 is the first",
    )


def _part(text: str) -> tuple[int, int]:
    number, parts = map(int, text.split("/"))
    if not 1 <= number <= parts:
        raise ValueError(text)
    return number - 1, parts


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


def pytest_configure() -> None:
    from tests.compiled_statements import share_compiled_statements

    share_compiled_statements()


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where tests are shared out among processes, one of them starts what takes long to start."""
    if config.option.part is not None:
        number, parts = config.option.part
        others = [item for item in items if crc32(item.nodeid.encode()) % parts != number]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if crc32(item.nodeid.encode()) % parts == number]
    for item in items:
        needed = _needed(item)
        if needed is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(needed))


def _needed(item: pytest.Item) -> str | None:
    """What a test needs that takes seconds to start and serves many tests."""
    fixtures = getattr(item, "fixturenames", ())
    if "logical_server" in fixtures:
        # These tests mostly wait for their server: two processes have one each.
        return f"logical server {crc32(item.nodeid.encode()) % 2}"
    for name in ("spark", "postgresql"):
        if item.get_closest_marker(name) is not None:
            return name
    return "object store" if "s3_endpoint" in fixtures else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is imported and collected: nearly all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look rarely for garbage, and never among modules and tests, which stay to the end.

    To go through them again and again took a quarter of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)


def java_version() -> int:
    """The major version of the Java that Spark would start; 0 without one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return 0
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', text)
    return int(match[1]) if match else 0


@cache
def _server_settings(arguments: str, environment: tuple[tuple[str, str], ...]) -> ServerSettings:
    """The settings that a server takes from its arguments, a JSON object, and the environment.

    They cannot change. To read them takes longer than to make a server.
    """
    from headwater.server.settings import load_settings

    return load_settings(json.loads(arguments))


def _server_environment() -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in os.environ.items() if pair[0].upper().startswith("HEADWATER_"))


class Serve(Protocol):
    """Serves catalogs over HTTP, by the real server on a loopback port, and gives the address."""

    def __call__(
        self,
        catalogs: Catalog | Mapping[str, Catalog],
        *,
        parts: Mapping[str, Any] | None = None,
        **settings: object,
    ) -> str: ...


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts HTTP servers in threads of their own; they end with the test."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs pip install 'headwater[server]'")
    from tests.prompt_server import PromptServer

    from headwater.server.app import create_app
    from headwater.server.connections import Connections
    from headwater.server.http_protocol import HttpProtocol

    with ExitStack() as servers:

        def start(
            catalogs: Catalog | Mapping[str, Catalog],
            *,
            parts: Mapping[str, Any] | None = None,
            **settings: object,
        ) -> str:
            loaded = _server_settings(json.dumps(settings), _server_environment())
            app = create_app(catalogs, loaded, **(parts or {}))
            protocol = partial(HttpProtocol, connections=Connections(loaded.connection_limits))
            listener = servers.enter_context(closing(socket.socket()))
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)  # a client that is early waits
            server = PromptServer(
                uvicorn.Config(app, http=protocol, log_config=None, access_log=False)
            )
            thread = threading.Thread(target=server.run, args=([listener],))
            thread.start()
            servers.callback(thread.join)
            servers.callback(server.stop)
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield start


@pytest.fixture(scope="session")
def _object_store() -> Iterator[str]:
    pytest.importorskip("boto3")
    from tests.object_store import object_store

    with object_store() as endpoint:
        yield endpoint


@pytest.fixture
def s3_endpoint(_object_store: str) -> str:
    """An S3-compatible store with the empty bucket ``lake``, and nothing else."""
    from tests.object_store import with_one_bucket

    with_one_bucket(_object_store, "lake")
    return _object_store


class NewSqlite(Protocol):
    """Makes an SQLite database with the catalog's tables at a path, and gives its URL."""

    def __call__(self, path: Path) -> str: ...


@pytest.fixture(scope="session")
def _migrated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sqlite")


@pytest.fixture(scope="session", autouse=True)
def _lakes_begin_migrated(_migrated_folder: Path) -> Iterator[None]:
    """To migrate each database takes longer than most tests.

    To make the tables is tested in `tests/migrations`, and by processes of their own.
    """
    from tests.migrated_databases import lakes_begin_migrated

    with lakes_begin_migrated(_migrated_folder):
        yield


@pytest.fixture
def new_sqlite(_migrated_folder: Path) -> NewSqlite:
    """Copies a database that was migrated once."""
    from tests.migrated_databases import migrated_sqlite

    def make(path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(migrated_sqlite(_migrated_folder), path)
        return f"sqlite:///{path}"

    return make


def spark_home(place: Path) -> Path:
    """Spark's programs without its archive of PySpark's modules, which are installed beside them.

    With the archive each of the Python processes that Spark starts compiles them again, a second of
    its processor's time; from where they are installed it takes them compiled.
    """
    from pyspark.find_spark_home import _find_spark_home

    place.mkdir()
    for path in Path(_find_spark_home()).iterdir():
        if path.name != "python":
            (place / path.name).symlink_to(path)
    return place


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for the whole run: starting it costs seconds."""
    if java_version() < LEAST_JAVA:
        pytest.skip(f"needs Java {LEAST_JAVA} or newer")
    pytest.importorskip("headwater.spark")
    from tests.spark_sessions import kind_of_session, session_of_kind

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    with ExitStack() as running:
        # Spark's own process starts here, so that what it is told to write to a relative path is
        # here.
        with chdir(folder), pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPARK_HOME", str(spark_home(folder / "home")))
            session = running.enter_context(session_of_kind(kind_of_session(), folder, settings))
        if kind_of_session() != "connect":
            session.sparkContext.setLogLevel("ERROR")
        yield session


def postgresql_programs() -> Path | None:
    """The directory of PostgreSQL's server programs; None without them.

    HEADWATER_POSTGRES_BIN names that of another version.
    """
    named = os.environ.get("HEADWATER_POSTGRES_BIN")
    installed = shutil.which("initdb", path=named)
    if installed is not None:
        return Path(installed).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


def _prepare(command: Sequence[str], folder: Path, owner: str | None) -> None:
    """Run a program that makes, starts or stops a server; what it printed is told if it fails."""
    # Its output goes to a file: a server that it starts keeps its end of a pipe open.
    with tempfile.TemporaryFile() as printed:
        ended = subprocess.run(
            command, check=False, stdout=printed, stderr=printed, user=owner, cwd=folder
        )
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    assert ended.returncode == 0, f"{command[0]} ended with {ended.returncode}:\n{text}"


@contextmanager
def postgresql_server(*settings: str) -> Iterator[str]:
    """A private PostgreSQL server on a loopback port; its URL without a database's name.

    Args:
        settings: The server's settings beside those of every test, as ``name=value``.
    """
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs (initdb, pg_ctl, postgres)")
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'headwater[postgresql]'")
    owner: str | None = None
    if os.geteuid() == 0:  # the server refuses to run as root
        owner = "postgres"
        if subprocess.run(["id", owner], capture_output=True, check=False).returncode != 0:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres to run it")
    # Not pytest's own directory, which no other user may enter.
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgresql-"))
    if owner is not None:
        shutil.chown(folder, owner)
    port = free_port()
    data = str(folder / "data")

    def run(program: str, *arguments: str) -> None:
        _prepare([str(programs / program), *arguments], folder, owner)

    every = (
        *("listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"),
        *("synchronous_commit=off", "full_page_writes=off", "max_connections=200"),
    )
    options = " ".join([f"-p {port}", *(f"-c {setting}" for setting in (*every, *settings))])
    try:
        run("initdb", "-D", data, "-U", "headwater", "-A", "trust", "-E", "UTF8", "--no-sync")
        run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://headwater@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """The URL of a private PostgreSQL server on a loopback port, without a database's name."""
    with postgresql_server() as url:
        yield url


@contextmanager
def _new_postgresql_databases(server_url: str) -> Iterator[Callable[[], str]]:
    import psycopg

    names: list[str] = []
    with psycopg.connect(f"{server_url}/postgres", autocommit=True) as connection:

        def create() -> str:
            names.append(f"test_{uuid.uuid4().hex}")
            connection.execute(f'CREATE DATABASE "{names[-1]}"'.encode())
            return f"{server_url}/{names[-1]}"

        yield create
        for name in names:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def new_postgresql_database(postgresql_url: str) -> Iterator[Callable[[], str]]:
    """Makes an empty PostgreSQL database and gives its URL."""
    with _new_postgresql_databases(postgresql_url) as create:
        yield create


# Everything that a server can be set up with and that must not matter is set up wrong here.
_MYSQL_SETTINGS = (
    "--bind-address=127.0.0.1 --skip-name-resolve --max-connections=300 --skip-log-bin "
    "--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-use-native-aio=0 "
    "--innodb-flush-method=nosync --character-set-server=latin1 "
    "--collation-server=latin1_swedish_ci --sql-mode= --transaction-isolation=REPEATABLE-READ "
    "--skip-innodb-rollback-on-timeout"
)


@contextmanager
def _mysql_server(
    server: str, folder: Path, owner: str | None, user: str, *settings: str
) -> Iterator[int]:
    """Serves the directory ``data`` of a folder, with a user who may do everything; the port."""
    port = free_port()
    (folder / "grants.sql").write_text(
        f"CREATE USER headwater@'127.0.0.1'{user};\nGRANT ALL ON *.* TO headwater@'127.0.0.1';\n"
    )
    places = [f"--datadir={folder}/data", f"--socket={folder}/socket", f"--pid-file={folder}/pid",
              f"--log-error={folder}/log", f"--init-file={folder}/grants.sql",
              f"--tmpdir={folder}"]  # fmt: skip
    process = subprocess.Popen(
        [server, "--no-defaults", f"--port={port}", *places, *_MYSQL_SETTINGS.split(), *settings],
        user=owner, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(port, process, folder / "pid")
        yield port
    finally:
        process.kill()
        process.wait()


def mariadb_programs() -> tuple[Path, Path] | None:
    """MariaDB's programs that prepare a server's directory, and that serve it; None without."""
    programs = [
        shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        for name in ("mariadb-install-db", "mariadbd")
    ]
    return None if None in programs else (Path(str(programs[0])), Path(str(programs[1])))


class DatabaseServer(NamedTuple):
    """The URL of a private server on a loopback port, without a database's name, and its files."""

    url: str
    data: Path


@contextmanager
def mariadb_server(*settings: str) -> Iterator[DatabaseServer]:
    """Run a MariaDB server with more settings; skip the test without its programs."""
    programs = mariadb_programs()
    if programs is None:
        pytest.skip("needs MariaDB's server programs (mariadb-install-db, mariadbd)")
    pytest.importorskip("pymysql", reason="needs PyMySQL: pip install 'headwater[mysql]'")
    owner: str | None = None
    if os.geteuid() == 0:  # the server refuses to run as root
        owner = "mysql"
        if subprocess.run(["id", owner], capture_output=True, check=False).returncode != 0:
            pytest.skip("MariaDB does not run as root, and there is no user mysql to run it")
    # Not pytest's own directory, which no other user may enter.
    folder = Path(tempfile.mkdtemp(prefix="headwater-mariadb-"))
    if owner is not None:
        shutil.chown(folder, owner)
    install, server = map(str, programs)
    try:
        _prepare(
            # A server that begins removes what looks like temporary tables: where several share
            # a directory of these, those of the others.
            [install, "--no-defaults", f"--datadir={folder}/data", f"--tmpdir={folder}",
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            folder, owner,
        )  # fmt: skip
        with _mysql_server(server, folder, owner, "", *settings) as port:
            yield DatabaseServer(f"mariadb://headwater@127.0.0.1:{port}", folder / "data")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    """The URL of a private MariaDB server on a loopback port, without a database's name."""
    with mariadb_server() as server:
        yield server.url


def mysql_program() -> str | None:
    """MySQL's server: the one that is named, that `tests/mysql-server` made, or that is installed.

    None without. MariaDB has a program of the same name.
    """
    named = os.environ.get("HEADWATER_MYSQLD")
    made = Path(__file__).parents[1] / ".mysql" / "mysqld"
    program = named or (str(made) if made.exists() else shutil.which("mysqld"))
    if program is None:
        return None
    command = [program, "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return None if "MariaDB" in version else program


@contextmanager
def mysql_server(*more_settings: str) -> Iterator[DatabaseServer]:
    """Run a MySQL server with more settings; skip the test without its program.

    Its user has a password, which MySQL asks for in its own way.
    """
    program = mysql_program()
    if program is None:
        pytest.skip("needs MySQL's server: run tests/mysql-server, or name it: HEADWATER_MYSQLD")
    pytest.importorskip("pymysql", reason="needs PyMySQL: pip install 'headwater[mysql]'")
    folder = Path(tempfile.mkdtemp(prefix="headwater-mysql-"))
    # It may be in a directory that no other user may enter, and runs as root when it is told to.
    user = ["--user=root"] if os.geteuid() == 0 else []
    settings = [*user, "--mysqlx=OFF", "--performance-schema=OFF", "--secure-file-priv=NULL"]
    settings += more_settings
    try:
        _prepare(
            [program, "--no-defaults", "--initialize-insecure", f"--datadir={folder}/data",
             f"--tmpdir={folder}", *user],
            folder, None,
        )  # fmt: skip
        with _mysql_server(program, folder, None, " IDENTIFIED BY 'a secret'", *settings) as port:
            url = f"mysql://headwater:a%20secret@127.0.0.1:{port}"
            yield DatabaseServer(url, folder / "data")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mysql_url() -> Iterator[str]:
    """The URL of a private MySQL server on a loopback port, without a database's name."""
    with mysql_server() as server:
        yield server.url


def _wait_for(port: int, server: subprocess.Popen[bytes], pid_file: Path) -> None:
    """Until a server takes connections, and has written its process number."""
    until = time.monotonic() + 240
    while True:
        assert server.poll() is None, "the server ended as it began; run it by hand to see why"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            if pid_file.exists() and pid_file.read_text().strip():
                return
        except ConnectionRefusedError:
            pass
        assert time.monotonic() < until, "the server does not answer"
        time.sleep(0.05)


@contextmanager
def _new_mysql_databases(server_url: str) -> Iterator[Callable[[], str]]:
    engine = create_engine(_with_driver(server_url), isolation_level="AUTOCOMMIT")
    names: list[str] = []
    with engine.connect() as connection:

        def create() -> str:
            names.append(f"test_{uuid.uuid4().hex}")
            connection.exec_driver_sql(f"CREATE DATABASE {names[-1]}")
            return f"{server_url}/{names[-1]}"

        yield create
        for name in names:
            connection.exec_driver_sql(f"DROP DATABASE {name}")
    engine.dispose()


def _with_driver(url: str) -> str:
    kind, _, rest = url.partition(":")
    return f"{kind}+pymysql:{rest}"


@pytest.fixture
def new_mariadb_database(mariadb_url: str) -> Iterator[Callable[[], str]]:
    """Makes an empty MariaDB database and gives its URL."""
    with _new_mysql_databases(mariadb_url) as create:
        yield create


@pytest.fixture
def new_mysql_database(mysql_url: str) -> Iterator[Callable[[], str]]:
    """Makes an empty MySQL database and gives its URL."""
    with _new_mysql_databases(mysql_url) as create:
        yield create


@contextmanager
def _catalog_tables(database_url: str) -> Iterator[tuple[str, Engine]]:
    from headwater.catalog.sql.database.drivers import database_url as with_driver
    from headwater.migrations import upgrade

    upgrade(database_url)
    # A test may end the connections of others.
    engine = create_engine(with_driver(database_url), pool_pre_ping=True)
    yield database_url, engine
    engine.dispose()


@contextmanager
def _mysql_catalog_tables(server_url: str) -> Iterator[tuple[str, Engine]]:
    with _new_mysql_databases(server_url) as create, _catalog_tables(create()) as made:
        yield made


def _empty(engine: Engine) -> None:
    from headwater.catalog.sql.database.models import Base

    statements = [f"DELETE FROM {table.name}" for table in reversed(Base.metadata.sorted_tables)]
    with engine.begin() as connection:
        # PostgreSQL takes them all at once.
        at_once = engine.dialect.name == "postgresql"
        for statement in ["; ".join(statements)] if at_once else statements:
            connection.exec_driver_sql(statement)


@pytest.fixture(scope="session")
def _postgresql_tables(postgresql_url: str) -> Iterator[tuple[str, Engine]]:
    with _new_postgresql_databases(postgresql_url) as create, _catalog_tables(create()) as made:
        yield made


@pytest.fixture
def postgresql_catalog(_postgresql_tables: tuple[str, Engine]) -> Iterator[str]:
    """The URL of a PostgreSQL database with the catalog's tables, and nothing in them.

    It is the same one for every test: to make them again takes longer than most tests.
    """
    url, engine = _postgresql_tables
    yield url
    _empty(engine)


@pytest.fixture(scope="session")
def _mariadb_tables(mariadb_url: str) -> Iterator[tuple[str, Engine]]:
    with _mysql_catalog_tables(mariadb_url) as made:
        yield made


@pytest.fixture
def mariadb_catalog(_mariadb_tables: tuple[str, Engine]) -> Iterator[str]:
    """As ``postgresql_catalog``, on MariaDB."""
    url, engine = _mariadb_tables
    yield url
    _empty(engine)


@pytest.fixture(scope="session")
def _mysql_tables(mysql_url: str) -> Iterator[tuple[str, Engine]]:
    with _mysql_catalog_tables(mysql_url) as made:
        yield made


@pytest.fixture
def mysql_catalog(_mysql_tables: tuple[str, Engine]) -> Iterator[str]:
    """As ``postgresql_catalog``, on MySQL."""
    url, engine = _mysql_tables
    yield url
    _empty(engine)
