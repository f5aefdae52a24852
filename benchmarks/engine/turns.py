"""Runs of a step by its clients: one after another, or in turns with a reference's.

A machine's memory and what others do on it change from minute to minute; runs in turns meet the
same. The first run of a process also starts thread pools and grows heaps, differently for each
library: in turns it is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import IO

from headwater.client.connect import WAREHOUSE_FOLDER

__all__ = ["Client", "Run", "Side", "ask", "in_turns", "interpreter", "one_by_one"]

_CLIENTS = Path(".interop").absolute()
_MEBIBYTE = 1024**2


def interpreter(client: str) -> Path:
    """The Python of another client's environment, which may be missing."""
    return _CLIENTS / client / "bin/python"


@dataclass(frozen=True)
class Side:
    """A step that is measured.

    Attributes:
        step: Its name in the client.
        table: Returns the table's folder, of a new table where the step changes it; its time is not
            counted.
        data: The rows, for a step that writes.
        client: ``headwater``, or the name of another client's environment.
        package: The package of the client's module.
        more: What else the step takes.
        environment: Variables of the client's process.
    """

    step: str
    table: Callable[[], Path]
    data: Path | None = None
    client: str = "headwater"
    package: str = "benchmarks.engine"
    more: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def request(self) -> dict[str, str]:
        """The request to the client; makes the table."""
        folder = self.table()
        return {
            **self.more,
            "step": self.step,
            "folder": str(folder),
            "warehouse": str(folder / WAREHOUSE_FOLDER),
            "data": str(self.data),
        }


@dataclass
class Run:
    """The answers to one request, repeated.

    Attributes:
        seconds: The time that each took.
        user: The processor time of each, of all threads.
        system: The processor time of the kernel for each, most of it clearing fresh memory.
        rows: The rows of the last.
        mebibytes: The memory that each took at most, beyond what it began with.
        peak_mebibytes: The memory that the process held at most.
    """

    seconds: list[float] = field(default_factory=list)
    user: list[float] = field(default_factory=list)
    system: list[float] = field(default_factory=list)
    rows: int = 0
    mebibytes: float = 0
    peak_mebibytes: float = 0

    def add(self, answer: Mapping[str, float]) -> None:
        """Add a client's answer."""
        self.seconds.append(float(answer["seconds"]))
        self.user.append(float(answer["user"]))
        self.system.append(float(answer["system"]))
        self.rows = int(answer["rows"])
        self.mebibytes = max(self.mebibytes, answer["bytes"] / _MEBIBYTE)
        self.peak_mebibytes = max(self.peak_mebibytes, answer["peak"] / _MEBIBYTE)

    def time(self, clock: str) -> float:
        """The median of the times; with the clock ``processor``, of the processor times."""
        if clock == "wall":
            return median(self.seconds)
        return median(map(sum, zip(self.user, self.system, strict=True)))

    def __str__(self) -> str:
        times = " ".join(f"{seconds:.2f}" for seconds in self.seconds)
        return f"{times} s (user {median(self.user):.2f}, system {median(self.system):.2f})"


class Client:
    """A client's process, which takes one request after another.

    Args:
        name: As in `Side`.
        package: As in `Side`.
        environment: As in `Side`.
    """

    def __init__(
        self,
        name: str,
        package: str = "benchmarks.engine",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        if name == "headwater":
            command = [sys.executable, "-m", f"{package}.client"]
        else:
            module = f"{package}.{name.replace('-', '_')}_client"
            command = [str(interpreter(name)), "-m", module]
        # A file, for a pipe that nobody reads fills up.
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._errors.close()

    def ask(self, request: Mapping[str, object]) -> dict[str, float]:
        """The answer to a request; raises RuntimeError when the client fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            # Libraries print warnings of their own.
            if line.startswith("{"):
                answer: dict[str, float] = json.loads(line)
                return answer
        self._process.wait()
        self._errors.seek(0)
        raise RuntimeError(f"{self._name} failed at {request}:\n{self._errors.read()[-2000:]}")


def _client(side: Side) -> Client:
    return Client(side.client, side.package, side.environment)


def ask(request: Mapping[str, object], package: str = "benchmarks.engine") -> dict[str, float]:
    """Headwater's answer to one request, by a process of its own."""
    with Client("headwater", package) as client:
        return client.ask(request)


def one_by_one(side: Side, rounds: int, say: Callable[[str], None]) -> Run:
    """Runs each in a process of its own, so that its peak of memory is its own."""
    run = Run()
    for number in range(rounds):
        request = side.request()
        say(f"{side.client}: {side.step}, {Path(request['folder']).name}, round {number + 1}")
        with _client(side) as client:
            run.add(client.ask(request))
    return run


def in_turns(sides: Sequence[Side], rounds: int, say: Callable[[str], None]) -> list[Run]:
    """Runs of some sides in turns, each side in one process; a first turn is not counted."""
    runs = [Run() for _ in sides]
    with ExitStack() as stack:
        clients = [stack.enter_context(_client(side)) for side in sides]
        for number in range(rounds + 1):
            say(f"{' and '.join(f'{one.client}: {one.step}' for one in sides)}, turn {number}")
            for side, client, run in zip(sides, clients, runs, strict=True):
                answer = client.ask(side.request())
                if number:
                    run.add(answer)
    return runs
