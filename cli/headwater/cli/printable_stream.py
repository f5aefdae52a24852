"""Standard output and standard error of the command, without characters that mislead a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOWrapper
from typing import Any, TextIO, cast

from headwater.storage.printable import printable_json

__all__ = ["printable_output", "unescaped"]

# What the command writes itself: lines, columns, colours, and a line of progress over another.
_OWN = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|[\n\t]|\r(?=\n|\x1b\[[0-9]*K))")


class _PrintableStream:
    """A stream that escapes what `printable_json` does, which leaves lines of JSON what they are.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text, escaped."""
        parts = _OWN.split(text)
        parts[::2] = map(printable_json, parts[::2])
        self.stream.write("".join(parts))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Escape what is written to standard output and standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal's encoding lacks must not fail the command.
            stream.reconfigure(errors="backslashreplace")
    output, errors = _PrintableStream(sys.stdout), _PrintableStream(sys.stderr)
    with redirect_stdout(cast("TextIO", output)), redirect_stderr(cast("TextIO", errors)):
        yield


def unescaped(stream: TextIO) -> TextIO:
    """The stream for data in a format that has no escapes, unless a terminal shows it."""
    if isinstance(stream, _PrintableStream) and not stream.stream.isatty():
        return stream.stream
    return stream
