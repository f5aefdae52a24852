"""The cluster: a database, servers on it, clients, and proxies between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tests import plain_http
from tests.chaos.client import create_tables, work
from tests.chaos.database import Database, open_database
from tests.chaos.ledger import Ledger
from tests.chaos.proxy import Proxy
from tests.ports import free_port
from tests.processes import ServerProcess
from tests.wrong_clock import WrongClock, serve

from headwater.migrations import upgrade

__all__ = ["WAREHOUSE", "Clients", "Cluster", "Servers"]

WAREHOUSE = "main"
_DISK_SIZE = "400m"
_PATIENCE_SECONDS = 120


class Servers:
    """Server processes on one database, each at a port of its own that it keeps.

    Args:
        settings: Those that all have.
        folder: Where their logs and clocks are.
        count: How many there are.
    """

    def __init__(self, settings: dict[str, object], folder: Path, count: int) -> None:
        self._settings = settings
        self._folder = folder
        self._ports = [free_port() for _ in range(count)]
        self._processes: list[ServerProcess | None] = [None] * count
        # Each life's own: set when it has begun to answer.
        self._is_up = [Event() for _ in range(count)]
        self.proxies = [Proxy(port) for port in self._ports]
        self.addresses = [f"http://127.0.0.1:{proxy.port}" for proxy in self.proxies]
        for at in range(count):
            self.set_clock(at, 0)

    def __len__(self) -> int:
        return len(self._ports)

    def start(self, at: int) -> None:
        """Start one, if it does not run."""
        process = self._processes[at]
        if process is not None and process.poll() is None:
            return
        settings = {**self._settings, "port": self._ports[at]}
        started = ServerProcess(settings, serve, str(self._clock(at)))
        self._processes[at] = started
        self._is_up[at] = Event()
        log = self._folder / f"server-{at}.log"
        Thread(target=_keep, args=(started.stderr, log, self._is_up[at]), daemon=True).start()

    def supervise(self) -> Sequence[str]:
        """Start those again that ended by themselves; those that should not have.

        A server that cannot reach its database when it starts does end.
        """
        wrong = []
        for at, process in enumerate(self._processes):
            if process is not None and (code := process.poll()) is not None:
                if self._is_up[at].is_set():
                    wrong.append(f"server {at} ended by itself, with exit code {code}")
                self.start(at)
        return wrong

    def signal(self, at: int, number: signal.Signals) -> None:
        """Send one a signal; after SIGKILL and SIGTERM wait for its end."""
        process = self._processes[at]
        if process is None:
            return
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(_PATIENCE_SECONDS)
            self._processes[at] = None

    def pid(self, at: int) -> int | None:
        """Its process."""
        process = self._processes[at]
        return None if process is None else process.pid

    def set_clock(self, at: int, millis: int) -> None:
        """Let its clock go wrong by so much; 0 is right."""
        WrongClock(self._clock(at)).set(millis)

    def wait_until_ready(self) -> Sequence[str]:
        """Wait for all; those that are not ready in time, with what they say."""
        late = []
        end = time.monotonic() + _PATIENCE_SECONDS
        for at, address in enumerate(self.addresses):
            told = "nothing"
            while time.monotonic() < end:
                self.supervise()
                with suppress(Exception):
                    answer = plain_http.get(f"{address}/readyz", timeout=10)
                    told = answer.text
                    if answer.status_code == 200:
                        break
                time.sleep(0.2)
            else:
                late.append(f"server {at} is not ready; it says {told}")
        return late

    def close(self) -> None:
        """Kill all."""
        for at in range(len(self)):
            self.signal(at, signal.SIGKILL)
            self.proxies[at].close()

    def _clock(self, at: int) -> Path:
        return self._folder / f"clock-{at}"


class Clients:
    """Client processes; each life of one has a name of its own.

    Args:
        addresses: The servers'.
        folder: Where the ledger and the file `stop` are.
        seed: What each chooses by.
        count: How many there are.
    """

    def __init__(self, addresses: Sequence[str], folder: Path, seed: str, count: int) -> None:
        self._addresses = list(addresses)
        self._folder = folder
        self._seed = seed
        self._lives = [0] * count
        self._processes: list[ServerProcess | None] = [None] * count

    def __len__(self) -> int:
        return len(self._lives)

    def start(self, at: int) -> None:
        """Start one, if it does not run."""
        process = self._processes[at]
        if process is not None and process.poll() is None:
            return
        self._lives[at] += 1
        name = f"c{at}.{self._lives[at]}"
        given = {
            "name": name,
            "addresses": self._addresses,
            "seed": f"{self._seed}-{name}",
            "folder": str(self._folder),
        }
        started = ServerProcess({}, work, json.dumps(given))
        self._processes[at] = started
        log = self._folder / f"client-{at}.log"
        Thread(target=_keep, args=(started.stderr, log, Event()), daemon=True).start()

    def signal(self, at: int, number: signal.Signals) -> None:
        """Send one a signal; after SIGKILL wait for its end."""
        process = self._processes[at]
        if process is None:
            return
        process.send_signal(number)
        if number is signal.SIGKILL:
            process.wait(_PATIENCE_SECONDS)
            self._processes[at] = None

    def stop(self) -> Sequence[str]:
        """Let all end what they are at; those that hang are killed and named."""
        (self._folder / "stop").touch()
        hang = []
        for at, process in enumerate(self._processes):
            if process is None:
                continue
            try:
                process.wait(_PATIENCE_SECONDS)
            except AssertionError:
                hang.append(f"client {at} hangs")
                self.signal(at, signal.SIGKILL)
        return hang

    def close(self) -> None:
        """Kill all."""
        for at in range(len(self)):
            self.signal(at, signal.SIGKILL)


class Cluster:
    """All of it, in a folder; it runs when it is made.

    Args:
        kind: The database's kind.
        folder: An empty folder.
        seed: What clients choose by.
        clients: How many there are.
    """

    def __init__(self, kind: str, folder: Path, seed: str, clients: int) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self.ledger = Ledger(folder / "ledger")
        self.lake = folder / "lake"
        for path in (folder / "ledger", self.lake):
            path.mkdir()
        try:
            self.has_small_disk = _mount(self.lake)
            if self.has_small_disk:
                self._stack.callback(_unmount, self.lake)
            self._open(kind, seed, clients)
        except BaseException:
            self.close()
            raise

    def _open(self, kind: str, seed: str, clients: int) -> None:
        self.database: Database = open_database(kind, self.folder)
        self._stack.callback(self.database.close)
        self.database_proxy: Proxy | None = None
        if self.database.port:
            self.database_proxy = Proxy(self.database.port)
            self._stack.callback(self.database_proxy.close)
        self.url = self.database.url()
        upgrade(self.url)
        through = None if self.database_proxy is None else self.database_proxy.port
        settings: dict[str, object] = {
            "database_url": self.database.url(through),
            "warehouses": {WAREHOUSE: str(self.lake / "warehouse")},
            "database_idle_timeout": "2 s",
            "database_lock_timeout": "4 s",
            "database_statement_timeout": "10 s",
            "sweep_interval": "2 s",
            "shutdown_timeout": "20 s",
        }
        # SQLite is for one server.
        self.servers = Servers(settings, self.folder, 2 if self.database.port else 1)
        self._stack.callback(self.servers.close)
        for at in range(len(self.servers)):
            self.servers.start(at)
        late = self.servers.wait_until_ready()
        if late:
            raise RuntimeError("; ".join(late))
        create_tables(self.servers.addresses[0])
        self.clients = Clients(self.servers.addresses, self.folder, seed, clients)
        self._stack.callback(self.clients.close)
        for at in range(clients):
            self.clients.start(at)

    def wait_for_progress(self) -> Sequence[str]:
        """Wait until each client's commits are acknowledged again; those that are not."""
        before = self.ledger.acknowledged_by_client()
        end = time.monotonic() + _PATIENCE_SECONDS
        late: list[str] = []
        while time.monotonic() < end:
            now = self.ledger.acknowledged_by_client()
            running = {name.partition(".")[0] for name in now}
            late = [
                f"client {at} gets nothing committed any more"
                for at in range(len(self.clients))
                if f"c{at}" not in running or _of(now, f"c{at}") <= _of(before, f"c{at}")
            ]
            if not late:
                return []
            time.sleep(0.5)
        return late

    def end(self) -> Sequence[str]:
        """End clients, then servers, so that nothing is under way; what did not end as it should.

        The database goes on.
        """
        wrong = list(self.clients.stop())
        for at in range(len(self.servers)):
            try:
                self.servers.signal(at, signal.SIGTERM)
            except AssertionError:
                wrong.append(f"server {at} does not stop")
                self.servers.signal(at, signal.SIGKILL)
        return wrong

    def close(self) -> None:
        """Kill everything and give back the disk."""
        self._stack.close()


def _of(counts: dict[str, int], client: str) -> int:
    return sum(count for name, count in counts.items() if name.partition(".")[0] == client)


def _keep(log: Any, path: Path, is_up: Event) -> None:
    with log, path.open("a", encoding="utf-8") as sink, suppress(ValueError, OSError):
        for line in log:
            if "Application startup complete." in line:
                is_up.set()
            sink.write(line)


def _mount(folder: Path) -> bool:
    if os.geteuid() != 0:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_SIZE}", "tmpfs", str(folder)]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
