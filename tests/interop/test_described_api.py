"""The running server does what its OpenAPI document says, whatever it is sent: Schemathesis.

It makes requests from the document, right and wrong ones, and looks at every answer: no server
error, no status, content type or body that the document does not name.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from tests import plain_http

from headwater.client import connect

from .conftest import ROOT, TOKEN, serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
PROGRAM = ROOT / ".interop" / "schemathesis" / "bin" / "st"
SETTINGS = Path(__file__).with_name("schemathesis.toml")
ORDERS = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        pa.field("dt", pa.string(), nullable=False),
        ("amount", pa.decimal128(10, 2)),
    ]
)


def make_ready(uri: str) -> None:
    """One of each thing that schemathesis.toml names."""
    with connect(uri, warehouse="main", token=TOKEN) as lake:
        lake.create_database("sales")
        orders = lake.create_table(
            "sales.orders",
            ORDERS,
            primary_keys=["dt", "order_id"],
            partition_keys=["dt"],
            options={"bucket": "4", "metastore.partitioned-table": "true"},
        )
        rows = [{"order_id": number, "dt": "2026-01-01", "amount": None} for number in range(9)]
        orders.write(pa.Table.from_pylist(rows, schema=ORDERS))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    sales = f"{uri}/v1/main/databases/sales"
    view = {"fields": [], "query": "SELECT 1", "dialects": {}, "options": {}}
    recent = {"database": "sales", "object": "recent"}
    bodies = {
        "tables/orders/tags": {"tagName": "v1"},
        "tables/orders/branches": {"branch": "trial", "fromTag": "v1"},
        "tables/orders/consumers/reset": {"consumerId": "billing", "nextSnapshotId": 1},
        "views": {"identifier": recent, "schema": view},
        "functions": {"name": "area", "deterministic": True, "definitions": {}, "options": {}},
    }
    with plain_http.Client(headers=headers) as http:
        for path, body in bodies.items():
            http.post(f"{sales}/{path}", json=body).raise_for_status()


@pytest.mark.interop
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "requests",
    [
        pytest.param(["--exclude-method=DELETE", "--max-examples=20"], id="to what is there"),
        pytest.param(["--include-method=DELETE", "--max-examples=5"], id="that delete it"),
    ],
)
def test_every_answer_is_described(requests: list[str], tmp_path: Path) -> None:
    if not PROGRAM.exists():
        pytest.skip("no Schemathesis: run tests/interop/environments")
    with serving(tmp_path) as service:
        make_ready(service.uri)
        done = subprocess.run(
            [
                *(str(PROGRAM), "--config-file", str(SETTINGS), "run"),
                f"{service.uri}/openapi.json",
                *("--header", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(CHECKS)),
                # The same requests every time: another seed, another search.
                *("--phases", "examples,coverage,fuzzing", "--seed", "20260101"),
                *("--warnings", "off", *requests),
            ],
            cwd=tmp_path,
            env={"NO_PROXY": "*", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-4000:]
