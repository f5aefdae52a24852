"""Starts and stops servers on demand: one JSON object a line in, one a line out.

``{"start": {"warehouse": …, "location": …, "database": …, "token": …, "client_options": {…}}}`` is
answered ``{"port": …}``, and ``{"stop": port}`` is answered ``{}``. What is started is what
``headwater serve`` runs: its catalogs, its application, its HTTP server. It ends with its input.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing

import uvicorn

from headwater.server.app import create_app
from headwater.server.run import catalogs_on, open_database
from headwater.server.settings import load_settings


class Running:
    """One server in a thread of its own."""

    def __init__(self, request: Mapping[str, object]) -> None:
        token = request["token"]
        settings = load_settings(
            {
                "database_url": f"sqlite:///{request['database']}",
                "warehouses": {str(request["warehouse"]): str(request["location"])},
                "tokens": [token] if token else [],
                "client_options": request["client_options"],
            }
        )
        with ExitStack() as resources:
            database = resources.enter_context(open_database(settings))
            catalogs = catalogs_on(database, settings)
            listener = resources.enter_context(closing(socket.socket()))
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            self.port = int(listener.getsockname()[1])
            config = uvicorn.Config(
                create_app(catalogs, settings), log_config=None, access_log=False
            )
            self._server = uvicorn.Server(config)
            self._thread = threading.Thread(target=self._server.run, args=([listener],))
            self._thread.start()
            self._resources = resources.pop_all()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._resources.close()


def main() -> None:
    servers: dict[int, Running] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        if "start" in request:
            server = Running(request["start"])
            servers[server.port] = server
            answer["port"] = server.port
        else:
            servers.pop(request["stop"]).stop()
        print(json.dumps(answer), flush=True)
    for server in servers.values():
        server.stop()


if __name__ == "__main__":
    main()
