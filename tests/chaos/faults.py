"""The faults: each begins, lasts, and ends with everything as it was."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from random import Random
from typing import TypeAlias

from tests.chaos.cluster import Cluster
from tests.chaos.proxy import Mode, Proxy

__all__ = ["FAULTS", "Fault", "possible_faults"]

Fault: TypeAlias = Callable[[Cluster, Random], AbstractContextManager[str]]
"""Begins on entering, and says what it does; ends on leaving."""

_HOUR_MILLIS = 3_600_000
_SMALL_FILE = 100
_NEARLY_NOTHING = 4096


@contextmanager
def _kill_server(cluster: Cluster, random: Random) -> Iterator[str]:
    at = random.randrange(len(cluster.servers))
    cluster.servers.signal(at, signal.SIGKILL)
    try:
        yield f"server {at}"
    finally:
        cluster.servers.start(at)


@contextmanager
def _freeze_server(cluster: Cluster, random: Random) -> Iterator[str]:
    at = random.randrange(len(cluster.servers))
    cluster.servers.signal(at, signal.SIGSTOP)
    try:
        yield f"server {at}"
    finally:
        cluster.servers.signal(at, signal.SIGCONT)


@contextmanager
def _kill_client(cluster: Cluster, random: Random) -> Iterator[str]:
    at = random.randrange(len(cluster.clients))
    cluster.clients.signal(at, signal.SIGKILL)
    try:
        yield f"client {at}"
    finally:
        cluster.clients.start(at)


@contextmanager
def _freeze_client(cluster: Cluster, random: Random) -> Iterator[str]:
    at = random.randrange(len(cluster.clients))
    cluster.clients.signal(at, signal.SIGSTOP)
    try:
        yield f"client {at}"
    finally:
        cluster.clients.signal(at, signal.SIGCONT)


@contextmanager
def _kill_database(cluster: Cluster, random: Random) -> Iterator[str]:
    cluster.database.signal(signal.SIGKILL)
    try:
        yield cluster.database.kind
    finally:
        cluster.database.start()


@contextmanager
def _freeze_database(cluster: Cluster, random: Random) -> Iterator[str]:
    cluster.database.signal(signal.SIGSTOP)
    try:
        yield cluster.database.kind
    finally:
        cluster.database.signal(signal.SIGCONT)


@contextmanager
def _cut(proxy: Proxy, mode: Mode, text: str) -> Iterator[str]:
    proxy.set(mode)
    try:
        yield text
    finally:
        proxy.set(Mode.PASS)


def _cut_clients(mode: Mode) -> Fault:
    def fault(cluster: Cluster, random: Random) -> AbstractContextManager[str]:
        at = random.randrange(len(cluster.servers))
        return _cut(cluster.servers.proxies[at], mode, f"clients and server {at}")

    return fault


def _cut_database(mode: Mode) -> Fault:
    def fault(cluster: Cluster, random: Random) -> AbstractContextManager[str]:
        assert cluster.database_proxy is not None
        return _cut(cluster.database_proxy, mode, f"servers and {cluster.database.kind}")

    return fault


@contextmanager
def _move_clock(cluster: Cluster, random: Random) -> Iterator[str]:
    at = random.randrange(len(cluster.servers))
    hours = random.choice([-48, -1, 1, 24 * 30])
    cluster.servers.set_clock(at, hours * _HOUR_MILLIS)
    try:
        yield f"of server {at} by {hours} h"
    finally:
        cluster.servers.set_clock(at, 0)


@contextmanager
def _fill_disk(cluster: Cluster, random: Random) -> Iterator[str]:
    ballast = cluster.lake / "ballast"
    with ballast.open("wb", buffering=0) as sink:
        free = os.statvfs(cluster.lake)
        with suppress(OSError):
            os.posix_fallocate(sink.fileno(), 0, free.f_bavail * free.f_frsize - _NEARLY_NOTHING)
        sink.seek(0, os.SEEK_END)
        with suppress(OSError):
            while True:
                sink.write(b"x" * 512)
    try:
        yield "of the warehouse"
    finally:
        ballast.unlink()


@contextmanager
def _limit_files(cluster: Cluster, random: Random) -> Iterator[str]:
    """As if each disk were full, for one server, SQLite's file included."""
    at = random.randrange(len(cluster.servers))
    pid = cluster.servers.pid(at)
    if pid is None:  # killed by another fault
        yield f"of server {at}, which is away"
        return
    try:
        limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_SMALL_FILE, limits[1]))
    except ProcessLookupError:  # it could not start
        yield f"of server {at}, which is away"
        return
    try:
        yield f"of server {at}"
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


FAULTS: Mapping[str, Fault] = {
    "kill a server": _kill_server,
    "freeze a server": _freeze_server,
    "kill a client": _kill_client,
    "freeze a client": _freeze_client,
    "kill the database": _kill_database,
    "freeze the database": _freeze_database,
    "delay clients": _cut_clients(Mode.DELAY),
    "reset clients": _cut_clients(Mode.RESET),
    "lose answers to clients": _cut_clients(Mode.LOSE_ANSWERS),
    "delay the database": _cut_database(Mode.DELAY),
    "reset the database": _cut_database(Mode.RESET),
    "lose the database's answers": _cut_database(Mode.LOSE_ANSWERS),
    "move a clock": _move_clock,
    "fill the disk": _fill_disk,
    "limit the size of files": _limit_files,
}
"""Each fault by its name."""


def possible_faults(cluster: Cluster) -> list[str]:
    """The names of those that can happen to a cluster, on this machine."""
    left_out = set()
    if cluster.database_proxy is None:
        left_out |= {name for name in FAULTS if "database" in name}
    if not cluster.has_small_disk:
        left_out.add("fill the disk")
    if not sys.platform.startswith("linux"):
        left_out.add("limit the size of files")
    return [name for name in FAULTS if name not in left_out]
