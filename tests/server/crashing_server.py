"""A server in a process of its own that kills itself at a chosen step of a change.

Its arguments, see `tests.forks`: DATABASE_URL LOCATION PORT TRIGGER.

It says ``ready`` when it listens. Steps are counted while the file TRIGGER exists; the server dies
(SIGKILL) at the step whose number is in that file.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from threading import Lock

import uvicorn
from sqlalchemy import Connection, Engine, event
from tests.catalog.worker import warm_up
from tests.compiled_statements import share_compiled_statements
from tests.dying_files import SteppedFiles
from tests.forks import serve_forks

from headwater.catalog.sql import SqlCatalog
from headwater.server.app import create_app
from headwater.server.settings import ServerSettings


class Steps:
    """Counts the steps that a crash can fall between."""

    def __init__(self, trigger: Path) -> None:
        self._trigger = trigger
        self._lock = Lock()
        self._taken = 0

    def step(self) -> None:
        with self._lock:
            if not self._trigger.exists():
                return
            self._taken += 1
            if self._taken == int(self._trigger.read_text()):
                os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, location: str, port: str, trigger: str) -> None:
    steps = Steps(Path(trigger))
    files = SteppedFiles(steps.step)
    catalog = SqlCatalog.open(url, warehouse="main", location=location, files=files)

    # Before the database is told to commit; what follows the commit is the next step's "before".
    def on_commit(_: Connection) -> None:
        steps.step()

    event.listen(Engine, "commit", on_commit)
    app = create_app(catalog, ServerSettings())
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(port)))
        listener.listen(128)
        print("ready", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None)).run([listener])


if __name__ == "__main__":
    share_compiled_statements()
    serve_forks(main, prepare=warm_up)
