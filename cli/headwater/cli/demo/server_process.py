"""The demo's server: `headwater serve` as a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

from headwater.storage.errors import Unavailable

__all__ = ["ServerProcess"]

_USUAL_PORT = 8080
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


class ServerProcess:
    """A running server with SQLite and a local warehouse, on port 8080 or else a free one.

    Args:
        folder: The folder of the database, the warehouse and the log.
        keep: Leave it running at the end, even when the terminal closes.
    """

    warehouse = "main"

    def __init__(self, folder: Path, *, keep: bool) -> None:
        self.folder = folder
        self.keep = keep
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "server.log"

    def __enter__(self) -> ServerProcess:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "headwater.cli.main", "serve"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--database-url", f"sqlite:///{self.folder / 'headwater.db'}"),
            *("--warehouse", f"{self.warehouse}={self.folder / 'warehouse'}"),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches the demo only: the server must outlive the demo's last requests.
                start_new_session=True,
            )
        try:
            self._wait_until_healthy()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.keep:
            self.stop()

    def stop(self) -> None:
        """Stop the server and wait until it is gone."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_healthy(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/healthz", timeout=5, trust_env=False).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        tail = " ".join(self.log.read_text(errors="replace").split())[-500:]
        raise Unavailable(f"the server did not start at {self.url}; its log ends: {tail or '-'}")


def _free_port() -> int:
    """The port that `serve` takes by default, or any other if somebody has it."""
    for port in (_USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            free: int = probe.getsockname()[1]
            return free
    raise Unavailable("no port of 127.0.0.1 is free")
