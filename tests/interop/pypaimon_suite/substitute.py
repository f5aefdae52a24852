"""A pytest plugin that runs pypaimon's tests of its REST client against a Headwater server.

It runs inside an environment of pypaimon's. Variables:

``PYPAIMON_SOURCE``: the folder ``paimon-python`` of a checkout of Paimon, where the tests are.
``PYPAIMON_CLIENT``: ``release`` tests the installed pypaimon, ``source`` the checkout's own, which
must be on ``PYTHONPATH`` then, for the processes that the tests start, too.
``HEADWATER_PYTHON``: the interpreter that has Headwater.

Left out are the tests of ``cannot_run.toml``, and those that a class only inherits from another
module: they run there.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pypaimon
import pytest

_SOURCE = Path(os.environ["PYPAIMON_SOURCE"])

if os.environ["PYPAIMON_CLIENT"] == "release":
    # A release has no tests; the modules that it has come first on its path.
    pypaimon.__path__.append(str(_SOURCE / "pypaimon"))

# Beside this module, which is no package; it imports pypaimon.
sys.modules["pypaimon.tests.rest.rest_server"] = import_module("served")


def _cannot_run() -> Iterator[str]:
    for group in tomllib.loads(Path(__file__).with_name("cannot_run.toml").read_text())["group"]:
        yield from group["tests"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    patterns = dict.fromkeys(_cannot_run(), 0)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        assert isinstance(item, pytest.Function)
        name = f"{item.path.name}::{item.nodeid.split('::', 1)[1]}"
        found = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
        for pattern in found:
            patterns[pattern] += 1
        inherited = item.function.__module__ != item.module.__name__
        (left_out if found or inherited else kept).append(item)
    files = {item.path.name for item in items}
    stale = [p for p, hits in patterns.items() if p.split("::")[0] in files and not hits]
    if stale:
        raise pytest.UsageError(f"cannot_run.toml names tests that are not there: {stale}")
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
