"""Running the server: catalogs opened, a socket bound, requests taken until told to stop."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import uvicorn

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.opened import opened_database
from headwater.catalog.sql.tokens import Tokens
from headwater.migrations import upgrade
from headwater.server.app import create_app
from headwater.server.envelope import JsonLines
from headwater.server.settings import ServerSettings
from headwater.storage.errors import Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["open_catalogs", "run"]

_LOG = logging.getLogger("headwater.server")


@contextmanager
def open_catalogs(
    settings: ServerSettings, runtime: Runtime = SYSTEM_RUNTIME
) -> Iterator[Mapping[str, SqlCatalog]]:
    """Open every warehouse of the settings, by name, and close them at the end.

    An SQLite database is made, or brought to the newest revision, by the way. Any other must be
    there and up to date: several servers may share it, and one that starts must not change it.

    Raises:
        Invalid: A location or the database's URL is malformed, or the database needs an upgrade.
        Unavailable: The database did not answer.
    """
    url = settings.database_url.get_secret_value()
    if url.startswith("sqlite"):
        upgrade(url)
    with ExitStack() as stack:
        catalogs: dict[str, SqlCatalog] = {}
        for name, location in settings.warehouses.items():
            catalogs[name] = SqlCatalog.open(
                url,
                warehouse=name,
                location=location,
                storage_options=settings.plain_storage_options(),
                runtime=runtime,
            )
            stack.callback(catalogs[name].close)
        yield catalogs


def run(settings: ServerSettings, runtime: Runtime = SYSTEM_RUNTIME) -> None:
    """Serve until the process gets SIGINT or SIGTERM; requests that have begun are finished.

    Raises:
        Invalid: The settings cannot be met; see `open_catalogs`.
        Unavailable: The address is taken, or the database did not answer.
    """
    _log_to_stderr()
    url = settings.database_url.get_secret_value()
    with (
        open_catalogs(settings, runtime) as catalogs,
        opened_database(url, runtime) as database,
        _listen(settings) as listener,
    ):
        find_token = Tokens(database, runtime).find
        config = uvicorn.Config(
            create_app(catalogs, settings, runtime=runtime, find_token=find_token),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=30,
        )
        _LOG.info("serving %s at %s", ", ".join(sorted(catalogs)), _address(listener))
        uvicorn.Server(config).run(sockets=[listener])


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


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("headwater", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
