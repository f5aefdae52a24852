"""Running the server: catalogs opened, a socket bound, requests taken until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from math import ceil
from multiprocessing import parent_process
from multiprocessing.connection import wait
from time import monotonic

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.drivers import PoolSettings, Timeouts
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.feed import EventFeed
from headwater.server.app import create_app
from headwater.server.clock_watch import watching_clocks
from headwater.server.connections import Connections, allow_open_files
from headwater.server.denials import Denials
from headwater.server.dependencies import Principals
from headwater.server.http_protocol import HttpProtocol
from headwater.server.logs import log_to_stderr
from headwater.server.managed_catalogs import ManagedCatalogs
from headwater.server.metrics import Metrics, share_between_workers
from headwater.server.probes import WarehouseStorage, probes_of
from headwater.server.read_audit import ReadAudit
from headwater.server.readiness import SECONDS_TO_WAIT, ask
from headwater.server.request_counts import recording
from headwater.server.settings import ServerSettings
from headwater.server.sinks.delivery import delivering
from headwater.server.sinks.settings import sinks_of
from headwater.server.sweep import sweeping
from headwater.server.trace_settings import TraceSettings, load_trace_settings
from headwater.server.tracing import Tracing
from headwater.storage.clock import Moment
from headwater.storage.errors import Unavailable
from headwater.storage.files.access import FileAccess
from headwater.storage.process_memory import keep_objects, return_large_blocks
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.steps import watching_steps

__all__ = ["catalogs_on", "open_database", "run"]

_LOG = logging.getLogger("headwater.server")
# A worker that has not begun to answer by then never will.
_START_SECONDS = 600
# Likewise one that has answered before: a request may keep the interpreter for some seconds.
_HANG_SECONDS = 30


@contextmanager
def open_database(
    settings: ServerSettings, runtime: Runtime = SYSTEM_RUNTIME
) -> Iterator[SqlDatabase]:
    """Open the database of the settings, which every warehouse shares, and close it at the end.

    An SQLite database is made, or brought to the newest revision, by the way. Any other must be
    there and up to date: several servers may share it, and one that starts must not change it.

    Raises:
        Invalid: The database's URL is malformed, or the database needs an upgrade.
        Unavailable: The database did not answer.
    """
    url = settings.database_url.get_secret_value()
    if url.startswith("sqlite"):
        # Here, because workers need it not, and start sooner without.
        from headwater.migrations import upgrade

        upgrade(url)
    with _opened(settings, runtime) as database:
        yield database


def _opened(settings: ServerSettings, runtime: Runtime) -> AbstractContextManager[SqlDatabase]:
    timeouts = Timeouts(
        settings.database_lock_timeout.total_seconds(),
        settings.database_idle_timeout.total_seconds(),
        settings.database_statement_timeout.total_seconds(),
    )
    pool = PoolSettings(settings.database_connections, settings.database_wait_seconds, timeouts)
    return opened_database(settings.database_url.get_secret_value(), runtime, pool)


def catalogs_on(
    database: SqlDatabase,
    settings: ServerSettings,
    watch_files: Callable[[FileAccess, str], FileAccess] | None = None,
) -> Mapping[str, SqlCatalog]:
    """The warehouses of the settings, by name; what a crash left half done is repaired.

    Args:
        database: The database, open.
        settings: The settings.
        watch_files: As for `SqlCatalog.on`.

    Raises:
        Invalid: A location is malformed.
        Unavailable: The database did not answer.
    """
    catalogs: dict[str, SqlCatalog] = {}
    for name, location in settings.warehouses.items():
        catalogs[name] = SqlCatalog.on(
            database,
            warehouse=name,
            location=location,
            storage_options=settings.plain_storage_options(),
            undrop_millis=settings.undrop_millis,
            history_millis=settings.history_millis,
            external_locations=settings.external_locations,
            watch_files=watch_files,
        )
        begun = ask(f"start of {name}", catalogs[name].begin)
        try:
            begun.result(timeout=SECONDS_TO_WAIT)
        except TimeoutError:
            # Others are served meanwhile; requests that need it wait, and the sweep repairs it.
            _LOG.warning("the storage of warehouse %s has not answered yet", name)
    return catalogs


def run(settings: ServerSettings, runtime: Runtime = SYSTEM_RUNTIME) -> None:
    """Serve until the process gets SIGINT or SIGTERM; requests that have begun are finished.

    With several workers this process answers no requests: it restarts those that end.

    Raises:
        Invalid: The settings cannot be met; see `open_database`, `catalogs_on` and
            `Warehouses.claim`.
        Unavailable: The address is taken, or the database did not answer.
    """
    traces = load_trace_settings()
    log_to_stderr(settings.log_format, settings.log_level)
    allow_open_files(settings.max_connections)
    with open_database(settings, runtime) as database:
        runtime = database.runtime
        # Not by a restarted worker: it would be too late to do anything about it.
        warehouses = Warehouses(database, runtime, settings.option_keys())
        warehouses.claim(settings.warehouses)
        # A key that is missing should show here, too.
        warehouses.list()
        Tokens(database, runtime, settings.option_keys()).check_secrets()
        for sink in sinks_of(settings, runtime):
            sink.close()
        if settings.workers == 1:
            with (
                _application(database, settings, traces) as app,
                _listen(settings) as listener,
            ):
                _say(settings, listener)
                uvicorn.Server(_config(settings, app)).run(sockets=[listener])
            return
        # Any mistake should show here, once, and not in every worker.
        catalogs_on(database, settings)
    with _listen(settings) as listener, share_between_workers():
        _say(settings, listener)
        worker = partial(_worker, settings, traces, database.clock.start)
        _Workers(_config(settings, worker, factory=True), [listener]).run()


class _Workers(Multiprocess):
    """Starts workers, restarts those that end, and stops them when the process is told to stop."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        # When each worker that has yet to answer for the first time was first looked at.
        self._starting: dict[int, float] = {}
        self._started: set[int] = set()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that ended or hang; one that is still starting is left alone.

        It answers nothing while it loads its modules, which takes long on a busy machine. Nobody
        waits for it, so that signals are heard meanwhile.
        """
        starting = [process for process in self.processes if self._is_starting(process)]
        self.processes = [process for process in self.processes if process not in starting]
        super().keep_subprocess_alive()
        self.processes += starting

    def _is_starting(self, process: Process) -> bool:
        pid = process.pid or 0
        if pid in self._started or not process.process.is_alive():
            return False
        if pid not in self._starting:
            self._starting[pid] = monotonic()
            process.parent_conn.send(b"ping")
        if process.parent_conn.poll(0):
            process.parent_conn.recv()
            self._started.add(pid)
            return False
        return monotonic() - self._starting[pid] < _START_SECONDS

    def terminate_all(self) -> None:
        """Tell all workers to stop, so that no client waits for an answer that will not come."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def _say(settings: ServerSettings, listener: socket.socket) -> None:
    _LOG.info("serving %s at %s", ", ".join(sorted(settings.warehouses)), _address(listener))


def _worker(settings: ServerSettings, traces: TraceSettings, start: Moment) -> FastAPI:
    """The application of a process of its own; it gives back what it opened when it stops.

    Its clock started with the process that starts it: one that is restarted while the machine's
    clock is wrong must not take that for the time.
    """
    _stop_with_parent()
    log_to_stderr(settings.log_format, settings.log_level)
    kept = ExitStack()
    # Its tables are up to date: the parent process has seen to it.
    database = kept.enter_context(
        _opened(settings, SYSTEM_RUNTIME.with_clock(SYSTEM_RUNTIME.new_clock(start)))
    )
    return kept.enter_context(_application(database, settings, traces, at_end=kept.close))


def _stop_with_parent() -> None:
    """Stop this process, as by SIGTERM, when the one that started it is gone.

    Otherwise the workers of a process that is killed would go on, and hold its port.
    """
    parent = parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        _LOG.error("the process that started this one is gone: stopping")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


@contextmanager
def _application(
    database: SqlDatabase,
    settings: ServerSettings,
    traces: TraceSettings,
    at_end: Callable[[], None] | None = None,
) -> Iterator[FastAPI]:
    runtime = database.runtime
    principals = Principals(Tokens(database, runtime, settings.option_keys()), Groups(database))
    metrics = Metrics(
        lambda: {name: each.operation.backlog() for name, each in catalogs().items()},
        principals.tokens.next_expiry_millis,
        runtime,
    )
    metrics.watch(database)
    given = catalogs_on(database, settings, metrics.count_files)
    managed = ManagedCatalogs(
        database,
        runtime,
        settings.undrop_millis,
        settings.external_locations,
        metrics.count_files,
        settings.option_keys(),
        settings.history_millis,
    )

    def catalogs() -> Mapping[str, SqlCatalog]:
        return {**given, **{k: v for k, v in managed.all().items() if k not in given}}

    storage = WarehouseStorage(catalogs, runtime, given)
    metrics.watch_warehouses(storage.states)
    feed, denials = EventFeed(database), Denials(runtime)
    reads = ReadAudit(runtime, settings.audit_reads)

    def expire() -> int:
        # By a clock that has been set forward, all events would be old.
        return feed.expire(database.certain_now_millis(), settings.event_retention_millis)

    with _tracing(traces) as tracing, ExitStack() as background:
        sweep_seconds = settings.sweep_interval.total_seconds()
        background.enter_context(watching_clocks(database))
        background.enter_context(sweeping(catalogs, expire, sweep_seconds, metrics))
        # The denials and reads of the end, too, are delivered, if not by this process then by the
        # next one.
        sinks = sinks_of(settings, runtime)
        names = [sink.name for sink in sinks]
        metrics.watch_sinks(lambda: feed.undelivered(names))
        background.enter_context(delivering(sinks, database, feed, metrics.deliveries, runtime))
        background.enter_context(
            recording((denials, reads), feed.record_requests, metrics.audit_failed)
        )

        def end() -> None:
            background.close()
            if tracing is not None:
                tracing.close()

        app = create_app(
            given,
            settings,
            runtime=runtime,
            find_token=principals.tokens.find,
            managed=managed,
            principals=principals,
            feed=feed,
            denials=denials,
            read_audit=reads if reads.operations else None,
            metrics=metrics,
            probes=probes_of(database, storage),
            storage=storage,
            # The process may be ended by a signal right after it has stopped.
            at_end=at_end or end,
            tracing=tracing,
        )
        # What is there now stays: to look through it again and again for what is garbage would
        # hold up every request that comes meanwhile.
        keep_objects()
        return_large_blocks()
        yield app


@contextmanager
def _tracing(settings: TraceSettings) -> Iterator[Tracing | None]:
    """Trace the requests and the steps of this process, if that is switched on."""
    if settings.endpoint is None:
        yield None
        return
    tracing = Tracing(settings)
    try:
        with watching_steps(tracing):
            yield tracing
    finally:
        tracing.close()


def _config(
    settings: ServerSettings, app: FastAPI | Callable[[], FastAPI], *, factory: bool = False
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=factory,
        workers=settings.workers,
        log_config=None,
        http=partial(HttpProtocol, connections=Connections(settings.connection_limits)),  # type: ignore[arg-type]
        ws="none",
        # By default uvicorn trusts clients on this machine, and a variable of the environment.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_worker_healthcheck=_HANG_SECONDS,
        timeout_graceful_shutdown=ceil(settings.shutdown_timeout.total_seconds()),
    )


@contextmanager
def _listen(settings: ServerSettings) -> Iterator[socket.socket]:
    host, port = settings.host.strip("[]"), settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"cannot listen on {host}: {error.strerror or error}") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(2048)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {host}, port {port}: {error.strerror or error}; "
                "choose another port"
            ) from error
        listener.setblocking(False)
        yield listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
