"""Every operation that pypaimon and pypaimon-rust have, called by them on a running server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT, TOKEN, serving
from .java_client import label
from .seen_operations import documented, seen_by

MISSING = "NoSuchResourceException"
THERE = "AlreadyExistsException"

PYPAIMON = {
    "databases": [
        ["a_one", "a_two", "other"],
        [["a_one"], ["a_two"]],
        ["a_one", {"tier": "1"}],
        MISSING,
        THERE,
    ],
    "tables": {
        "listed": [["new name", "numbers"], [["new name"], ["numbers"]]],
        "columns": ["n", "day"],
        "seen": [[], {}],
        "token": [{}, True],
        "missing": MISSING,
        "again": THERE,
    },
    "schema_changes": {
        "fields": [
            ["n", "BIGINT", "a number"],
            ["day", "STRING", None],
            ["renamed", "BIGINT", "the first"],
            ["b", "STRING", None],
        ],
        "default": ["none"],
        "others": [{"snapshot.num-retained.max": "20"}, "changed"],
    },
    "snapshots": {
        "empty": None,
        "found": [4, 4, 4],
        "commits": [True, True, False, False],
        "wrong table": MISSING,
        "read": [[1, 2, 3, 4], [1, 2, 3], [1, 2]],
        "failures": [THERE, MISSING, MISSING],
    },
    "tags": [[["v1"], ["v2"]], ["v1", 1, "1d"], [MISSING, THERE, MISSING]],
    "branches": [["renamed", "trial"], ["trial"], [1], [THERE, MISSING, MISSING]],
    "partitions": {
        "made": [[{"day": "d5"}], [{"day": "d1"}]],
        "listed": [[["d0", 1], ["d1", 2]], [["d5", -1]]],
        "some": [["d5"]],
        "none": "NotImplementedException",
    },
    "functions": [
        [
            ["area", "length", "width"],
            [["area", "length"], ["width"]],
            [["length"]],
            [["other.area", "other.length"], ["other.width"]],
        ],
        ["another", {"tier": "1"}, ["flink"]],
        MISSING,
    ],
    "permissions": [[["ann", "DESCRIBE"]], []],
    "not called": [],
}
RUST = {
    "databases": [
        ["another", "default", "other"],
        "Database other already exists.",
        "Database another does not exist.",
    ],
    "tables": [
        ["id", "more", "v"],
        ["id", "v"],
        "Bad request: Cannot drop partition key or primary key: [id]; make a new table with other "
        "keys instead",
    ],
    "snapshots": [[[1, 2, 3], [1, 2], [1]], "Resource not found"],
    "views": [
        [[1], ["numbers", "recent"]],
        "View other.recent already exists.",
        "View other.recent does not exist.",
    ],
    "functions": [2],
    "partitions": [["dt=a", "dt=b"], ["dt=a"], [10], [11], [11], ["dt=b", "dt=c"], [11]],
    "permissions": [[["SELECT", "ann"]], []],
    "dropped": ["Table other.logs does not exist.", "Database other is not empty."],
    "left": ["default"],
}


@pytest.mark.interop
@pytest.mark.parametrize(
    ("client", "version", "answers"),
    [
        pytest.param("pypaimon", "2.1.0", PYPAIMON, id="pypaimon"),
        pytest.param("pypaimon-rust", "0.4.0", RUST, id="pypaimon-rust"),
    ],
)
def test_a_client_calls_every_operation_that_it_has(
    client: str, version: str, answers: object, tmp_path: Path
) -> None:
    python = ROOT / ".interop" / client / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment for {client}: run tests/interop/environments")
    assert f"{client}=={version}" in Path(__file__).with_name(f"{client}.txt").read_text()
    script = Path(__file__).parent / "clients" / f"{label(client)}_operations.py"
    with serving(tmp_path, HEADWATER_DATA_TOKEN_SECONDS="7200") as service:
        done = subprocess.run(
            [str(python), str(script)],
            input=json.dumps({"uri": service.uri, "warehouse": "main", "token": TOKEN}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert json.loads(done.stdout.strip().splitlines()[-1]) == answers
        name = f"{client} {version}"
        assert seen_by(name, service.uri, TOKEN) == documented(name)
