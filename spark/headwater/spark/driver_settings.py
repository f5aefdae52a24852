"""The settings that the driver of a Spark application was started with.

Spark plans a data source written in Python in a process of its own on the driver's machine, and
hands it none of the session's settings. What the driver's JVM was started with can be seen from
there: its command line, which PySpark writes the settings of a session's builder to and
``spark-submit`` its ``--conf``, and the file of defaults that it reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["driver_settings", "settings_of"]

# Between a worker and the JVM is the daemon that forks workers.
_MOST_ANCESTORS = 4
_SPARK = "org.apache.spark."
_SWITCHES = frozenset({"--verbose", "-v", "--supervise", "--load-spark-defaults"})
_PROPERTY = "-D"
_DEFAULTS = "spark-defaults.conf"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(r"((?:\\.|[^\s=:\\])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


def driver_settings(prefix: str) -> dict[str, str]:
    """The settings of this process's Spark driver whose names begin so, without that.

    Empty where they are not to be seen: outside of a driver's worker, and, but for the file of
    defaults, on systems without ``/proc``.
    """
    settings = settings_of(_driver_arguments(), os.environ)
    return {
        name.removeprefix(prefix): value
        for name, value in settings.items()
        if name.startswith(prefix)
    }


def settings_of(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings by the command line and the environment of a driver.

    Args:
        arguments: The JVM's arguments, the program's name first.
        environment: Its environment variables.
    """
    found: dict[str, str] = {}
    files: list[str] = []
    keeps_defaults = False
    rest = iter(arguments[1:])
    for argument in rest:
        if argument.startswith(_SPARK):
            break
        if argument.startswith(_PROPERTY):
            _set(found, argument.removeprefix(_PROPERTY))
    for argument in rest:
        if not argument.startswith("-"):
            break  # The program, and what follows is its own.
        name, equals, value = argument.partition("=")
        if argument in _SWITCHES:
            keeps_defaults = keeps_defaults or argument == "--load-spark-defaults"
            continue
        if not equals or not name.startswith("--"):
            name, value = argument, next(rest, "")
        if name in ("--conf", "-c"):
            _set(found, value)
        elif name == "--properties-file":
            files.append(value)
    if not files or keeps_defaults:
        files.append(_defaults(environment))
    for file in files:
        found = {**_properties(file), **found}
    return found


def _set(found: dict[str, str], text: str) -> None:
    name, _, value = text.partition("=")
    found[name.strip()] = value.strip()


def _driver_arguments() -> Sequence[str]:
    """The command line of the nearest ancestor that is one of Spark's JVMs."""
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        try:
            line = Path(f"/proc/{process}/cmdline").read_bytes()
            # The parent's number is the second after the name, which is in brackets.
            status = Path(f"/proc/{process}/stat").read_text(errors="replace")
        except OSError:
            break
        arguments = line.decode(errors="replace").rstrip("\0").split("\0")
        if any(argument.startswith(_SPARK) for argument in arguments):
            return arguments
        process = int(status.rpartition(")")[2].split()[1])
    return []


def _defaults(environment: Mapping[str, str]) -> str:
    folder = environment.get("SPARK_CONF_DIR")
    if folder is None:
        folder = str(Path(environment.get("SPARK_HOME", ""), "conf"))
    return str(Path(folder, _DEFAULTS))


def _properties(file: str) -> dict[str, str]:
    """A file in the format of Java's properties; empty if it cannot be read."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        entry = line.lstrip()
        if entry.startswith(("#", "!")):
            continue
        while _is_continued(entry):
            entry = entry[:-1] + next(lines, "").lstrip()
        match = _ENTRY.fullmatch(entry)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2]).strip()
    return found


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(plain, text)
