"""Branches that other makers' clients make, write, read and forward through one server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import JAVA, PYPAIMON, Client
from .java_client import JavaClient

AnyClient = Client | JavaClient
NUMBERS = pa.schema([("n", pa.int64())])


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": list(values)}, schema=NUMBERS)


def _make(lake: Lake, name: str) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, NUMBERS)


def _read(table: Table) -> list[int]:
    found: list[int] = table.scan().to_arrow().column("n").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("client", [PYPAIMON, *JAVA], indirect=True)
def test_a_client_works_on_branches(lake: Lake, client: AnyClient) -> None:
    name = f"interop.branched_{client.label}"
    table = _make(lake, name)
    for number in (1, 2):
        table.write(numbers(number))
    table.create_tag("first", 1)
    client.create_branch(name, "trial", "first")
    client.create_branch(name, "empty")
    assert sorted(client.branches(name)) == ["empty", "trial"]
    # Each side reads what the other wrote to a branch.
    client.write(f"{name}$branch_trial", numbers(20))
    trial = table.branch("trial")
    assert _read(trial) == [1, 20]
    trial.write(numbers(30))
    assert sorted(client.read(f"{name}$branch_trial")["n"].to_pylist()) == [1, 20, 30]
    client.write(f"{name}$branch_empty", numbers(7))
    assert _read(table.branch("empty")) == [7]
    assert sorted(client.read(name)["n"].to_pylist()) == [1, 2]
    client.fast_forward(name, "trial")
    assert _read(table) == [1, 20, 30]
    client.write(name, numbers(40))
    assert sorted(client.read(name)["n"].to_pylist()) == [1, 20, 30, 40]
    for branch in ("trial", "empty"):
        client.drop_branch(name, branch)
    assert client.branches(name) == []
    assert _read(table) == [1, 20, 30, 40]
