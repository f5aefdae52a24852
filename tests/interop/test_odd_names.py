"""Names that clients would read differently in a path: all find the same table, and no other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from headwater.client import connect

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


def _run(client: str, *arguments: str) -> None:
    python = ROOT / ".interop" / client / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment for {client}: run tests/interop/environments")
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


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
    assert below == {"sales.db"}
    tables = [path for path in (tmp_path / "warehouse" / "sales.db").iterdir() if path.is_dir()]
    assert len(tables) == len(NAMES)
    assert not any(set("%?#") & set(path.name) for path in tables)
