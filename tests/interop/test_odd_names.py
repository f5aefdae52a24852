"""Names that clients would read differently in a path: all find the same table, and no other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway

from headwater.client import connect
from headwater.storage.files.layout import WAREHOUSE_MARKER

from .conftest import ROOT, TOKEN, serving

NAMES = ("orders", "orders#x", "orders?y", "orders;z", "%2e%2e", ".%2e", "a%2Fb", "%2e%2e%2forders")
RUST = (
    "import json, sys\n"
    "from pypaimon_rust.datafusion import PaimonCatalog, SQLContext\n"
    "context = SQLContext()\n"
    "context.register_catalog('paimon', json.loads(sys.argv[1]))\n"
    "for name in json.loads(sys.argv[2]):\n"
    "    context.sql(f'INSERT INTO paimon.sales.\"{name}\" VALUES (100)')\n"
)


def _run(client: str, *arguments: str) -> str:
    python = ROOT / ".interop" / client / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment for {client}: run tests/interop/environments")
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.interop
def test_clients_agree_on_where_odd_names_lead(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        options = {"uri": service.uri, "warehouse": "main", "metastore": "rest"}
        options |= {"token.provider": "bear", "token": TOKEN}
        script = Path(__file__).parent / "clients" / "pypaimon_names.py"
        _run("pypaimon", str(script), json.dumps(options), json.dumps(NAMES))
        _run("pypaimon-rust", "-c", RUST, json.dumps(options), json.dumps(NAMES))
        with connect(service.uri, warehouse="main", token=TOKEN) as lake:
            for name in NAMES:
                rows = lake.table(f"sales.{name}").scan().to_arrow()["n"].to_pylist()
                assert sorted(rows) == [len(name), 100], name
    below = {path.name for path in (tmp_path / "warehouse").iterdir()}
    assert below == {"sales.db", WAREHOUSE_MARKER}
    tables = [path for path in (tmp_path / "warehouse" / "sales.db").iterdir() if path.is_dir()]
    assert len(tables) == len(NAMES)
    assert not any(set("%?#") & set(path.name) for path in tables)


# A path below a folder, and where Paimon's Java library, pypaimon on a disk and pypaimon in an
# object store write it.
PATHS = {
    "a%2Fb": ("a%2Fb", "a/b", "a%2Fb"),
    "%2e%2e/x": ("%2e%2e/x", "../x", "%2e%2e/x"),
    "a#b": ("a#b", "a", "a"),
    "a?b": ("a?b", "a", "a"),
    "data-../../x": ("x", "data-../../x", "data-../../x"),
}
PYPAIMON = (
    "import json, sys\n"
    "from pypaimon.common.options import Options\n"
    "from pypaimon.filesystem.local_file_io import LocalFileIO\n"
    "from pypaimon.filesystem.pyarrow_file_io import PyArrowFileIO\n"
    "disk = LocalFileIO('file:/t', Options({}))\n"
    "store = PyArrowFileIO('s3://t', Options({'fs.s3.region': 'us-east-1'}))\n"
    "for path in json.loads(sys.argv[1]):\n"
    "    local = str(disk._to_file('file:/t/' + path)).removeprefix('/t/')\n"
    "    print(json.dumps([local, store.to_filesystem_path('s3://t/' + path)[2:]]))\n"
)


@pytest.mark.interop
def test_pypaimon_reads_paths_in_ways_of_its_own() -> None:
    """Why such names are in no path; when it does otherwise one day, they may be."""
    lines = _run("pypaimon", "-c", PYPAIMON, json.dumps([*PATHS])).splitlines()
    assert [tuple(json.loads(line)) for line in lines] == [each[1:] for each in PATHS.values()]


@pytest.mark.interop_java
def test_java_resolves_dots_and_nothing_else(java_gateway: JavaGateway) -> None:
    """Why no option that is part of a path may lead out of the table's directory."""
    path = java_gateway.jvm.org.apache.paimon.fs.Path
    for written, (expected, *_) in PATHS.items():
        assert path(path("file:/t"), written).toUri().getPath() == f"/t/{expected}"
