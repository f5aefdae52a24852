"""Processes of their own that need not import Headwater anew.

They are forked off one process that has imported all of it, by Python's own fork server: a new
interpreter spends seconds on imports before it does anything. The command as a user starts it is
tested in `tests/cli/test_command.py` and `tests/deploy`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

__all__ = ["ServerProcess", "address_in", "command", "run_command", "run_function", "serving"]

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", "tests.preloaded"])


class ServerProcess:
    """A server's process: `headwater.server.run.run`, or another function that takes the same.

    It is killed at the end of a ``with`` block, unless it has ended.

    Args:
        settings: The server's settings, as `load_settings` takes them.
        serve: Called with `settings` and `arguments` in the process.
        arguments: More for `serve`.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        serve: Callable[..., None] | None = None,
        *arguments: str,
    ) -> None:
        reader, writer = _FORKS.Pipe(duplex=False)
        work = (serve or _serve, (dict(settings), *arguments))
        self._process = _FORKS.Process(target=_log_to_pipe, args=(writer, *work))
        self._process.start()
        writer.close()
        self.stderr = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.join()
        self.stderr.close()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        pid = self._process.pid
        assert pid is not None
        if self.poll() is None:
            os.kill(pid, number)

    @property
    def pid(self) -> int:
        """The process's id."""
        pid = self._process.pid
        assert pid is not None
        return pid

    def poll(self) -> int | None:
        """The exit code, or the signal that killed it, negative; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, no longer than `timeout` seconds; as `poll`."""
        self._process.join(timeout)
        ended = self.poll()
        assert ended is not None, "it still runs"
        return ended


@contextmanager
def serving(
    settings: Mapping[str, object], serve: Callable[..., None] | None = None, *arguments: str
) -> Iterator[str]:
    """A server's process, which is told to stop at the end; its address.

    Args:
        settings, serve, arguments: As for `ServerProcess`.
    """
    with ServerProcess(settings, serve, *arguments) as process:
        address = address_in(process.stderr)
        with ThreadPoolExecutor(1) as drain:
            # Nobody reads the rest: let it go rather than fill the pipe.
            drain.submit(process.stderr.read)
            try:
                yield address
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


def address_in(log: Iterable[str]) -> str:
    """Read a server's log, line by line, until it says where it listens; that address.

    What a server does on the side, such as sending its events, may be told of before.
    """
    told = (str(json.loads(line).get("message")) for line in log)
    serving = next((message for message in told if message.startswith("serving ")), None)
    assert serving is not None, "the server ended"
    return serving.rpartition(" ")[2]


def run_command(
    arguments: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run `headwater` in a folder, with these variables of the environment and no others."""
    return run_function(_command, list(arguments), folder=folder, variables=variables)


def run_function(
    work: Callable[..., None], *arguments: object, folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Call a function in a process of its own, and wait for its end; what it printed."""
    with TemporaryDirectory() as room:
        printed = [Path(room, name) for name in ("stdout", "stderr")]
        place = (str(folder), dict(variables), *map(str, printed))
        process = _FORKS.Process(target=_in_folder, args=(*place, work, arguments))
        process.start()
        process.join()
        assert process.exitcode is not None
        texts = [path.read_text(encoding="utf-8") for path in printed]
        return subprocess.CompletedProcess([], process.exitcode, *texts)


def command(_: dict[str, object], *arguments: str) -> None:
    """Run `headwater` with arguments, for `ServerProcess`; what it prints is in the log."""
    sys.stdout = sys.stderr
    _command(list(arguments))


def _log_to_pipe(
    writer: Connection, work: Callable[..., None], arguments: Sequence[object]
) -> None:
    os.dup2(writer.fileno(), 2)
    writer.close()
    # The stream that is there may be of a file, and would look for its place in the pipe.
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    work(*arguments)


def _in_folder(
    folder: str,
    variables: Mapping[str, str],
    stdout: str,
    stderr: str,
    work: Callable[..., None],
    arguments: Sequence[object],
) -> None:
    for number, path in ((1, stdout), (2, stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    work(*arguments)


def _serve(settings: dict[str, Any]) -> None:
    from headwater.server.run import run
    from headwater.server.settings import load_settings

    run(load_settings(settings))


def _command(arguments: list[str]) -> None:
    from headwater.cli.main import main

    sys.argv = ["headwater", *arguments]
    main()
