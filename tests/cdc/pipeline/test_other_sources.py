"""Sources that are away, are replaced by another server, or lack what was read of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import MARIADB, MYSQL, MYSQL_FILES, SourceServer, with_files
from tests.cdc.waiting import until
from tests.conftest import DatabaseServer, _wait_for, mariadb_server, mysql_server

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.client import Lake
from headwater.storage.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable

LOG = ("--log-bin=log", "--binlog-row-metadata=FULL", "--log-slave-updates=ON")
GTIDS = {
    "mysql": ("--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
    "mysql_files": ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"),
}
RESET = r"(lacks transactions of|does not have its log|has purged).* resnapshot --all"
ROWS = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"


class Servers:
    """Servers of one kind that a test has to itself."""

    def __init__(self, kind: str, stack: ExitStack) -> None:
        self.kind, self.is_mysql = kind, kind != "mariadb"
        self._stack = stack
        self._folders: dict[int, Path] = {}

    def start(self, number: int, *more: str) -> Origin:
        """A new server with an id, whose log is empty, and a database ``shop``.

        Args:
            number: The id.
            more: More settings.
        """
        settings = (*LOG, f"--server-id={number}", *more)
        if self.is_mysql:
            server = self._stack.enter_context(mysql_server(*settings, *GTIDS[self.kind]))
        else:
            server = self._stack.enter_context(mariadb_server(*settings, "--binlog-format=ROW"))
        origin = Origin(_source(server))
        self._folders[origin.address.port] = server.data.parent
        self.forget_log(origin)
        return origin

    def forget_log(self, origin: Origin) -> None:
        """Let the server begin to count its transactions again."""
        origin.run("RESET BINARY LOGS AND GTIDS" if self.is_mysql else "RESET MASTER")

    def replicate(self, replica: Origin, source: Origin, start: str = "") -> None:
        """Let a server follow another one, from its beginning or a place in its log."""
        address = source.address
        if self.is_mysql:
            replica.run(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{address.host}', "
                f"SOURCE_PORT = {address.port}, SOURCE_USER = '{address.user}', "
                f"SOURCE_PASSWORD = '{address.password}', {start or 'SOURCE_AUTO_POSITION = 1'}, "
                "GET_SOURCE_PUBLIC_KEY = 1",
                "START REPLICA",
            )
        else:
            replica.run(
                f"CHANGE MASTER TO MASTER_HOST = '{address.host}', MASTER_PORT = {address.port}, "
                f"MASTER_USER = '{address.user}', MASTER_USE_GTID = slave_pos",
                "START SLAVE",
            )

    def wait_for(self, replica: Origin, source: Origin) -> None:
        """Wait until a replica has all that its source has."""
        if self.is_mysql:
            ((position,),) = source.server.rows("SELECT @@global.gtid_executed")
            wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', 60)"
        else:
            ((position,),) = source.server.rows("SELECT @@gtid_binlog_pos")
            wait = f"SELECT MASTER_GTID_WAIT('{position}', 60)"
        assert replica.server.rows(wait) == ((0,),)

    def promote(self, replica: Origin, source: Origin) -> None:
        """Let a replica be the source, when it has all that its source has."""
        self.wait_for(replica, source)
        replica.run("STOP REPLICA" if self.is_mysql else "STOP SLAVE")

    @contextmanager
    def stopped(self, origin: Origin) -> Iterator[Callable[[], None]]:
        """Stop a server; it gives what starts it again."""
        folder = self._folders[origin.address.port]
        pid = int((folder / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        command = [part for part in command if not part.startswith("--init-file")]
        owner = None if self.is_mysql or os.geteuid() else "mysql"
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")[:-1]
        environment = dict(variable.split("=", 1) for variable in variables)
        program = os.readlink(f"/proc/{pid}/exe")
        with suppress(Unavailable):
            origin.run("SHUTDOWN")
        # What its parent has not waited for has no command line any more.
        until(lambda: not Path(f"/proc/{pid}/cmdline").read_bytes())
        started: list[subprocess.Popen[bytes]] = []

        def start() -> None:
            process = subprocess.Popen(
                command,
                executable=program,
                user=owner,
                cwd=folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started.append(process)
            _wait_for(origin.address.port, process, folder / "pid")
            until(lambda: _answers(origin.address))

        try:
            yield start
        finally:
            for process in started:
                process.kill()
                process.wait()


def _answers(address: Address) -> bool:
    try:
        MySQLServer(address).close()
    except Unavailable:
        return False
    return True


def _source(server: DatabaseServer) -> SourceServer:
    return SourceServer(server.url, server.data, "shop")


@pytest.fixture(params=[MARIADB, MYSQL, MYSQL_FILES])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Servers of either kind."""
    with ExitStack() as stack:
        yield Servers(request.param, stack)


def follow(origin: Origin, lake: Lake) -> Follower:
    """A pipeline that has all of the origin's table ``t``."""
    origin.run("CREATE DATABASE IF NOT EXISTS shop", "USE shop")
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", ROWS)
    follower = Follower(origin, lake)
    follower.once()
    follower.check("t")
    return follower


def request_all_again(follower: Follower) -> None:
    """Ask for what ``headwater cdc resnapshot --all`` asks for."""
    state = PipelineState.open(follower.lake, "lake", "shop")
    for name in ("t", "gone"):
        if name in follower.states():
            state.request(f"resnapshot:{TableName('shop', name).escaped}", "")
    state.request("restart", "")


@pytest.mark.parametrize("servers", [MARIADB, MYSQL], indirect=True)
def test_a_replica_takes_over(servers: Servers, lake: Lake) -> None:
    primary, replica = servers.start(1), servers.start(2)
    if not servers.is_mysql:
        replica.run("DROP DATABASE IF EXISTS shop")
        servers.forget_log(replica)
    servers.replicate(replica, primary)
    follower = follow(primary, lake)
    primary.run("UPDATE t SET v = 10 WHERE id = 1", "INSERT INTO t VALUES (4, 4)")
    servers.promote(replica, primary)
    replica.run("USE shop", "UPDATE t SET v = 20 WHERE id = 2", "DELETE FROM t WHERE id = 3")
    follower.origin = replica
    follower.once()
    follower.check("t")
    assert [(row["id"], row["v"]) for row in follower.rows("t")] == [(1, 10), (2, 20), (4, 4)]
    # It goes on from there, and not from the one before.
    replica.run("UPDATE t SET v = 30 WHERE id = 4")
    follower.once()
    follower.check("t")
    follower.origin = primary
    with pytest.raises(Conflict, match="lacks transactions"):
        follower.once()


@pytest.mark.parametrize("setting", ["--binlog-do-db=other", "--binlog-ignore-db=shop"])
def test_a_database_that_is_not_logged(servers: Servers, lake: Lake, setting: str) -> None:
    origin = servers.start(1, setting)
    name = setting.removeprefix("--").partition("=")[0]
    problem = f"setting {name}: it keeps changes of database shop out of the log; change {name}"
    with pytest.raises(Invalid, match=problem):
        follow(origin, lake)
    follower = Follower(origin, lake)
    origin.run("CREATE DATABASE other", "CREATE TABLE other.u (id INT PRIMARY KEY, v INT)")
    follower.change(include=("other.*",))
    follower.once()
    assert set(follower.phases()) == {"u"}
    # A pipeline that has begun is not given other databases either.
    follower.change(include=("other.*", "shop.*"))
    with pytest.raises(Conflict, match=problem):
        follower.once()


@pytest.mark.parametrize("servers", [MARIADB, MYSQL], indirect=True)
def test_a_replica_that_does_not_log_what_it_replicates(servers: Servers, lake: Lake) -> None:
    name = "log_replica_updates" if servers.is_mysql else "log_slave_updates"
    primary, replica = servers.start(1), servers.start(2, f"--{name.replace('_', '-')}=OFF")
    if not servers.is_mysql:
        replica.run("DROP DATABASE IF EXISTS shop")
        servers.forget_log(replica)
    servers.replicate(replica, primary)
    follower = follow(primary, lake)
    servers.wait_for(replica, primary)
    follower.origin = replica
    with pytest.raises(Conflict, match=name if servers.is_mysql else "lacks transactions"):
        follower.once()
    follower.change(name="another")
    with pytest.raises(Invalid, match=f"setting {name}: it is OFF on a replica"):
        follower.once()


@pytest.mark.parametrize("servers", [MYSQL_FILES], indirect=True)
def test_a_replica_without_gtids_is_another_server(servers: Servers, lake: Lake) -> None:
    primary, replica = servers.start(1), servers.start(2)
    ((file, offset, *_),) = primary.server.rows("SHOW BINARY LOG STATUS")
    servers.replicate(replica, primary, f"SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {offset}")
    follower = follow(primary, lake)
    ((file, offset, *_),) = primary.server.rows("SHOW BINARY LOG STATUS")
    assert replica.server.rows(f"SELECT SOURCE_POS_WAIT('{file}', {offset}, 60) >= 0") == ((1,),)
    replica.run("STOP REPLICA", "USE shop", "INSERT INTO t VALUES (4, 4)")
    follower.origin = replica
    with pytest.raises(Conflict, match=r"is server .* of one server.* resnapshot --all"):
        follower.once()
    assert len(follower.rows("t")) == 3
    request_all_again(follower)
    follower.once()
    follower.check("t")


@pytest.mark.parametrize("servers", [MYSQL_FILES], indirect=True)
def test_gtids_that_are_switched_on(servers: Servers, lake: Lake) -> None:
    origin = servers.start(1)
    follower = follow(origin, lake)
    origin.run("SET GLOBAL enforce_gtid_consistency = ON")
    # Transactions of both kinds are in one log meanwhile.
    for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "OFF_PERMISSIVE", "ON_PERMISSIVE"):
        origin.run(f"SET GLOBAL gtid_mode = {mode}", "UPDATE t SET v = v + 1")
    follower.once()
    follower.check("t")
    origin.run("UPDATE t SET v = 100 WHERE id = 1", "SET GLOBAL gtid_mode = ON")
    with pytest.raises(Conflict, match=r"gtid_mode=ON.* headwater cdc resnapshot --all"):
        follower.once()
    assert "gtid_mode=ON" in str(follower.verify()["t"].problem)
    request_all_again(follower)
    follower.once()
    follower.check("t")
    origin.run("UPDATE t SET v = 200 WHERE id = 1", "SET GLOBAL gtid_mode = ON_PERMISSIVE")
    with pytest.raises(Conflict, match=r"gtid_mode=ON_PERMISSIVE.* resnapshot --all"):
        follower.once()
    origin.run("SET GLOBAL gtid_mode = ON")
    follower.once()
    follower.check("t")


def test_the_source_is_away_for_a_while(servers: Servers, lake: Lake) -> None:
    origin = servers.start(1)
    follower = follow(origin, lake)
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: bool(running.status().tables))
        with servers.stopped(origin) as start:
            until(lambda: running.status().waits_for is not None)
            reason = str(running.status().waits_for)
            assert f"the source at {origin.address}" in reason
            start()
            again = Origin(SourceServer(_url(origin.address), Path(), "shop"))
            again.run("INSERT INTO t VALUES (9, 9)")
            until(lambda: len(follower.rows("t")) == 4)
            assert running.status().waits_for is None
            follower.origin = again
            follower.check("t")
            running.stop()
            running.wait(60)


def _url(address: Address) -> str:
    password = f":{address.password.replace(' ', '%20')}" if address.password else ""
    return f"mysql://{address.user}{password}@{address.host}:{address.port}"


def test_a_purged_log(servers: Servers, lake: Lake) -> None:
    origin = servers.start(1)
    follower = follow(origin, lake)
    origin.run("CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1)")
    follower.once()
    origin.run("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 9", "DROP TABLE gone")
    purge(origin)
    origin.run("INSERT INTO t VALUES (7, 7)")
    with pytest.raises(NotFound, match="headwater cdc resnapshot --all"):
        follower.once()
    assert len(follower.rows("t")) == 3
    request_all_again(follower)
    follower.once()
    follower.check("t")
    assert follower.phases() == {"t": TablePhase.STREAMING, "gone": TablePhase.GONE}
    origin.run("INSERT INTO t VALUES (8, 8)")
    follower.once()
    follower.check("t")


def purge(origin: Origin) -> None:
    """Delete all of the server's log, which goes on in a new file."""
    begin_file(origin)
    purge_before(origin)


def begin_file(origin: Origin) -> None:
    """Let the server's log go on in a new file."""
    origin.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")


def purge_before(origin: Origin) -> None:
    """Delete all of the server's log but the file that is being written."""
    *_, (last, *_) = origin.server.rows("SHOW BINARY LOGS")

    def is_done() -> bool:
        origin.run(f"PURGE BINARY LOGS TO '{last}'")
        return len(origin.server.rows("SHOW BINARY LOGS")) == 1

    until(is_done)


@pytest.mark.parametrize("kind", ["same server", "other server"])
def test_a_restored_source(servers: Servers, lake: Lake, kind: str) -> None:
    origin = servers.start(1)
    follower = follow(origin, lake)
    origin.run("UPDATE t SET v = v + 1", "UPDATE t SET v = v + 1")
    follower.once()
    if kind == "other server":
        origin = follower.origin = servers.start(5)
        origin.run("CREATE DATABASE IF NOT EXISTS shop", "USE shop")
        origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    else:
        # As a dump that is loaded again: the rows of a while ago, counted from 1.
        servers.forget_log(origin)
        origin.run("DELETE FROM t")
    origin.run("INSERT INTO t VALUES (1, 1), (5, 5)")
    with pytest.raises(Conflict, match=r"lacks transactions of .* headwater cdc resnapshot --all"):
        follower.once()
    assert len(follower.rows("t")) == 3
    request_all_again(follower)
    follower.once()
    follower.check("t")
    origin.run("UPDATE t SET v = 100 WHERE id = 5")
    follower.once()
    follower.check("t")


@pytest.mark.parametrize("transactions", [1, 20], ids=["fewer than before", "more than before"])
@pytest.mark.parametrize("begun", ["in the first file", "in another file"])
def test_a_log_that_is_reset_under_a_running_pipeline(
    servers: Servers, lake: Lake, begun: str, transactions: int
) -> None:
    origin = servers.start(1)
    follower = follow(origin, lake)
    if begun == "in another file":
        origin.run("FLUSH BINARY LOGS")
    running = RunningPipeline(follower.pipeline())
    until(lambda: bool(running.status().tables))
    origin.run("UPDATE t SET v = 77 WHERE id = 1")
    until(lambda: follower.rows("t")[0]["v"] == 77)
    servers.forget_log(origin)
    for number in range(transactions):
        origin.run(f"INSERT INTO t VALUES ({100 + number}, 0)")
    with pytest.raises((Conflict, NotFound), match=RESET):
        running.wait(60)
    assert len(follower.rows("t")) == 3
    # A restart does not go on either.
    origin.run("INSERT INTO t VALUES (200, 0)")
    with pytest.raises((Conflict, NotFound), match=RESET):
        follower.once()
    assert len(follower.rows("t")) == 3
    request_all_again(follower)
    follower.once()
    follower.check("t")
    origin.run("UPDATE t SET v = 78 WHERE id = 1")
    follower.once()
    follower.check("t")


@pytest.mark.parametrize("files", [0, 3])
def test_a_log_that_is_reset_while_a_pipeline_is_away(
    servers: Servers, lake: Lake, files: int
) -> None:
    """It has more transactions than before: all that the pipeline has read, by their GTIDs."""
    origin = servers.start(1)
    follower = follow(origin, lake)
    servers.forget_log(origin)
    for number in range(20):
        origin.run(f"INSERT INTO t VALUES ({100 + number}, 0)")
    for _ in range(files):
        origin.run("FLUSH BINARY LOGS")
    with pytest.raises(Conflict, match=RESET):
        follower.once()
    if files:
        purge(origin)
        with pytest.raises((Conflict, NotFound), match=RESET):
            follower.once()
    assert len(follower.rows("t")) == 3
    request_all_again(follower)
    follower.once()
    follower.check("t")


def test_a_log_whose_files_are_purged_and_begun_again(servers: Servers, lake: Lake) -> None:
    """Nothing is missing: a quiet server begins files, and deletes others."""
    origin = servers.start(1)
    follower = follow(origin, lake)
    if servers.kind != "mysql_files":
        # A position in a file needs the file.
        purge(origin)
        follower.once()
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: bool(running.status().tables))
        for value in range(1, 6):
            origin.run(f"UPDATE t SET v = {value}", "FLUSH BINARY LOGS")
        until(lambda: follower.rows("t")[0]["v"] == value)
        purge(origin)
        origin.run("INSERT INTO t VALUES (7, 7)")
        until(lambda: len(follower.rows("t")) == 4)
        running.stop()
        running.wait(60)
    follower.once()
    follower.check("t")


@pytest.mark.mysql
def test_another_kind_of_server(mariadb: SourceServer, mysql: SourceServer, lake: Lake) -> None:
    mysql.database = mariadb.database
    first, second = Origin(mariadb), Origin(mysql)
    for origin in (first, second):
        origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", ROWS)
    follower = Follower(first, lake)
    follower.once()
    second.run("DELETE FROM t WHERE id = 1")
    follower.origin = second
    with pytest.raises(Conflict, match="headwater cdc resnapshot --all"):
        follower.once()
    PipelineState.open(lake, "lake", "shop").request("restart", "")
    follower.once()
    follower.check("t")
    for origin in (first, second):
        origin.run(f"DROP DATABASE {origin.database}")


@with_files
def test_wrong_addresses_and_passwords(
    source: SourceServer, origin: Origin, follower: Follower
) -> None:
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", ROWS)
    address = origin.address

    def start(host: str, port: int, user: str, password: str) -> None:
        address = Address(host, port, user, password)
        Pipeline(follower.lake, partial(MySQLSource, address), follower.settings).run(once=True)

    for user, password in (("nobody", "secret"), (address.user, "another")):
        with pytest.raises(Forbidden, match=f"rejects user '{user}'") as caught:
            start(address.host, address.port, user, password)
        assert password not in caught.value.message
    reader = f"cdc_reader_{origin.database[-6:]}@'127.0.0.1'"
    name = reader.partition("@")[0]
    source.run_as_root(f"CREATE USER {reader} IDENTIFIED BY 'secret'")
    try:
        source.run_as_root(f"GRANT SELECT ON `{origin.database}`.* TO {reader}")
        with pytest.raises(Invalid, match=r"REPLICATION SLAVE.*; GRANT"):
            start(address.host, address.port, name, "secret")
        assert follower.lake.list_tables("lake") == []
        source.run_as_root(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {reader}")
        privileges = ["XA_RECOVER_ADMIN"] if origin.server.flavour == "mysql" else []
        if origin.server.variables("gtid_mode").get("gtid_mode") == "OFF":
            privileges.append("RELOAD")
        for privilege in privileges:
            with pytest.raises(Invalid, match=f"GRANT {privilege} ON"):
                start(address.host, address.port, name, "secret")
            source.run_as_root(f"GRANT {privilege} ON *.* TO {reader}")
        start(address.host, address.port, name, "secret")
        follower.check("t")
        source.run_as_root(f"REVOKE REPLICATION SLAVE ON *.* FROM {reader}")
        with pytest.raises(Forbidden, match=name):
            start(address.host, address.port, name, "secret")
    finally:
        source.run_as_root(f"DROP USER {reader}")


def test_nobody_listens(origin: Origin, follower: Follower) -> None:
    running = RunningPipeline(
        Pipeline(
            follower.lake,
            partial(MySQLSource, Address("127.0.0.1", 1, "root", "")),
            follower.settings,
        )
    )
    until(lambda: running.status().waits_for is not None)
    assert "cannot be reached" in str(running.status().waits_for)
    running.stop()
    running.wait(60)
