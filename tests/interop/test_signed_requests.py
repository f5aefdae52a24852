"""Other makers' clients with an access key: they sign their requests and send no secret."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from .conftest import ROOT, serving
from .java_client import rest_options

KEYS = {"HEADWATER_SECRET_KEYS": f"k1:{base64.b64encode(bytes(32)).decode()}"}


def access_key(room: Path) -> dict[str, str]:
    """The options of a client with an access key, as the command prints them."""
    command = [sys.executable, "-m", "headwater.cli.main", "token", "create", "ada"]
    made = subprocess.run(
        [*command, "--kind", "dlf", "--scope", "administer"],
        env={**os.environ, **KEYS, "HEADWATER_DATABASE_URL": f"sqlite:///{room}/headwater.db"},
        check=True,
        capture_output=True,
        text=True,
    )
    options = dict(line.split("=", 1) for line in made.stdout.splitlines())
    return {"token.provider": "dlf", "dlf.region": "cn-hangzhou", "warehouse": "main", **options}


def pypaimon(options: dict[str, str]) -> object:
    python = ROOT / ".interop" / "pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment for pypaimon: run tests/interop/environments")
    script = Path(__file__).parent / "clients" / "pypaimon_signed.py"
    done = subprocess.run(
        [str(python), str(script), json.dumps(options)], capture_output=True, text=True, timeout=120
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    return json.loads(answers[0].removeprefix("answer ")) if answers else done.stderr


@pytest.mark.interop
def test_pypaimon_signs_in_each_way_that_it_has(tmp_path: Path) -> None:
    with serving(tmp_path, **KEYS) as service:
        options = {**access_key(tmp_path), "uri": service.uri}
        for algorithm in ("default", "openapi", "openapi-v4"):
            done = pypaimon({**options, "dlf.signing-algorithm": algorithm})
            assert done == [[1, 2, 3], ["a~b c*d"]], algorithm
        # Something else may put the key into a file, and another in its place.
        key_file = tmp_path / "key.json"
        key = {
            "AccessKeyId": options["dlf.access-key-id"],
            "AccessKeySecret": options["dlf.access-key-secret"],
            "SecurityToken": None,
            "Expiration": "2100-01-01T00:00:00Z",
        }
        key_file.write_text(json.dumps(key))
        without = {name: each for name, each in options.items() if "access-key" not in name}
        assert pypaimon({**without, "dlf.token-path": str(key_file)}) == done
        wrong = pypaimon({**options, "dlf.access-key-secret": "hw_wrong"})
        assert "not signed by a key of this catalog" in str(wrong)
        assert options["dlf.access-key-secret"] not in service.log.read_text()


@pytest.mark.interop
def test_paimon_rust_signs(tmp_path: Path) -> None:
    python = ROOT / ".interop" / "pypaimon-rust" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment for pypaimon-rust: run tests/interop/environments")
    script = (
        "import json, sys\n"
        "from pypaimon_rust.datafusion import PaimonCatalog, SQLContext\n"
        "context = SQLContext()\n"
        "context.register_catalog('paimon', json.loads(sys.argv[1]))\n"
        "context.sql('CREATE SCHEMA paimon.sales')\n"
        "print(context.sql('SHOW TABLES'))\n"
    )
    with serving(tmp_path, **KEYS) as service:
        options = {**access_key(tmp_path), "uri": service.uri, "metastore": "rest"}
        for secret, is_right in ((options["dlf.access-key-secret"], True), ("hw_wrong", False)):
            chosen = {**options, "dlf.access-key-secret": secret}
            done = subprocess.run(
                [str(python), "-c", script, json.dumps(chosen)], capture_output=True, text=True
            )
            assert (done.returncode == 0) == is_right, done.stderr


@pytest.mark.interop_java
@pytest.mark.parametrize("algorithm", ["default", "openapi"])
def test_paimon_java_signs_in_each_way_that_it_has(
    java_gateway: JavaGateway, java_version: str, tmp_path: Path, algorithm: str
) -> None:
    if algorithm == "openapi" and java_version.startswith("1.3"):
        pytest.skip("it came with 1.4")
    with serving(tmp_path, **KEYS) as service:
        given = {**access_key(tmp_path), "dlf.signing-algorithm": algorithm}

        def api(**more: str) -> Any:
            options = rest_options(java_gateway, service.uri, "", {**given, **more})
            return java_gateway.jvm.org.apache.paimon.rest.RESTApi(options)

        java = api()
        java.createDatabase("sales", {"note": "ä/ &~*"})
        java.createDatabase("a~b", {})
        assert dict(java.getDatabase("sales").getOptions()) == {"note": "ä/ &~*"}
        assert java.getDatabase("a~b").getOwner() == "ada"
        page = java.listDatabasesPaged(1, None, "sal%")
        assert list(page.getElements()) == ["sales"]
        java.dropDatabase("sales")
        wrong = {"dlf.access-key-secret": "hw_wrong"}
        with pytest.raises(Py4JJavaError, match="not signed by a key of this catalog"):
            api(**wrong)
