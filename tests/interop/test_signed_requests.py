"""Other makers' clients with an access key: they sign their requests and send no secret."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


def temporary_key(uri: str, room: Path, name: str, *limits: str) -> Path:
    """A file with a temporary key of a new token, as the command writes it."""
    variables = {**os.environ, **KEYS, "HEADWATER_DATABASE_URL": f"sqlite:///{room}/headwater.db"}

    def command(*arguments: str) -> str:
        line = [sys.executable, "-m", "headwater.cli.main", "token", *arguments]
        done = subprocess.run(line, env=variables, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    token = command("create", name, "--scope", "administer")
    file = room / "dlf.json"
    limited = ("--token", token, "--catalog", uri, "--file", str(file), *limits)
    command("temporary", *limited)
    assert file.stat().st_mode & 0o777 == 0o600
    return file


def revoke(room: Path, name: str) -> None:
    command = [sys.executable, "-m", "headwater.cli.main", "token", "revoke", name]
    database = f"sqlite:///{room}/headwater.db"
    variables = {**os.environ, **KEYS, "HEADWATER_DATABASE_URL": database}
    subprocess.run(command, env=variables, check=True, capture_output=True)


def in_options(file: Path) -> dict[str, str]:
    """The options of a client that is given what a file has."""
    key = json.loads(file.read_text())
    return {
        "token.provider": "dlf",
        "dlf.region": "cn-hangzhou",
        "warehouse": "main",
        "dlf.access-key-id": key["AccessKeyId"],
        "dlf.access-key-secret": key["AccessKeySecret"],
        "dlf.security-token": key["SecurityToken"],
    }


@contextmanager
def metadata_service(file: Path) -> Iterator[str]:
    """What a machine in Alibaba's cloud asks for its role and the key of it: the role ``job``."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"job" if self.path == "/roles/" else file.read_bytes()
            self.send_response(200 if self.path in ("/roles/", "/roles/job") else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/roles/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
def test_pypaimon_signs_with_temporary_keys(tmp_path: Path) -> None:
    with serving(tmp_path, **KEYS) as service:
        file = temporary_key(service.uri, tmp_path, "bob", "--expires-in", "2 h")
        given = {**in_options(file), "uri": service.uri}
        for algorithm in ("default", "openapi", "openapi-v4"):
            done = pypaimon({**given, "dlf.signing-algorithm": algorithm})
            assert done == [[1, 2, 3], ["a~b c*d"]], algorithm
        without = {name: each for name, each in given.items() if name != "dlf.security-token"}
        assert "not signed by a key of this catalog" in str(pypaimon(without))
        shared = {name: each for name, each in without.items() if "access-key" not in name}
        assert pypaimon({**shared, "dlf.token-path": str(file)}) == done
        with metadata_service(file) as address:
            role = {"dlf.token-loader": "ecs", "dlf.token-ecs-metadata-url": address}
            assert pypaimon({**shared, **role}) == done
        secrets = [given["dlf.access-key-secret"], given["dlf.security-token"]]
        assert not any(secret in service.log.read_text() for secret in secrets)


@pytest.mark.interop
def test_pypaimon_goes_on_with_the_next_key_of_its_file(tmp_path: Path) -> None:
    python = ROOT / ".interop" / "pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment for pypaimon: run tests/interop/environments")
    script = Path(__file__).parent / "clients" / "pypaimon_renewed.py"
    with serving(tmp_path, **KEYS) as service:
        # It asks for the next one when an hour is left.
        file = temporary_key(service.uri, tmp_path, "bob", "--expires-in", "30 min")
        options = {name: each for name, each in in_options(file).items() if "-key" not in name}
        del options["dlf.security-token"]
        options |= {"uri": service.uri, "dlf.token-path": str(file)}
        client = subprocess.Popen(
            [str(python), str(script), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with client:
            assert client.stdin is not None
            assert client.stdout is not None

            def answer() -> object:
                assert client.stdin is not None
                assert client.stdout is not None
                client.stdin.write("\n")
                client.stdin.flush()
                lines = iter(client.stdout.readline, "")
                found = next(line for line in lines if line.startswith("answer "))
                return json.loads(found.removeprefix("answer "))

            assert answer() == []
            temporary_key(service.uri, tmp_path, "carl", "--expires-in", "30 min")
            revoke(tmp_path, "bob")
            assert answer() == []
            revoke(tmp_path, "carl")
            deadline = time.monotonic() + 60
            while (refused := answer()) == []:
                assert time.monotonic() < deadline, "it outlived its parent"
            assert "not signed by a key of this catalog" in str(refused)
            client.stdin.close()


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
        "context.sql('CREATE SCHEMA IF NOT EXISTS paimon.sales')\n"
        "print(context.sql('SHOW TABLES'))\n"
    )
    with serving(tmp_path, **KEYS) as service:
        lasting = {**access_key(tmp_path), "uri": service.uri, "metastore": "rest"}
        file = temporary_key(service.uri, tmp_path, "bob")
        temporary = {**lasting, **in_options(file)}
        in_file = {name: each for name, each in lasting.items() if "access-key" not in name}
        in_file["dlf.token-path"] = str(file)
        wrong = {"dlf.access-key-secret": "hw_wrong"}
        cases = [
            (lasting, True),
            ({**lasting, **wrong}, False),
            (temporary, True),
            ({**temporary, **wrong}, False),
            ({**temporary, "dlf.security-token": "a.b.c"}, False),
            (in_file, True),
        ]
        for chosen, is_right in cases:
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


@pytest.mark.interop_java
@pytest.mark.parametrize("algorithm", ["default", "openapi"])
def test_paimon_java_signs_with_temporary_keys(
    java_gateway: JavaGateway, java_version: str, tmp_path: Path, algorithm: str
) -> None:
    if algorithm == "openapi" and java_version.startswith("1.3"):
        pytest.skip("it came with 1.4")
    with serving(tmp_path, **KEYS) as service:
        file = temporary_key(service.uri, tmp_path, "bob", "--expires-in", "30 min")
        given = {**in_options(file), "dlf.signing-algorithm": algorithm}
        shared = {
            name: each
            for name, each in given.items()
            if "access-key" not in name and name != "dlf.security-token"
        }

        def api(options: dict[str, str]) -> Any:
            chosen = rest_options(java_gateway, service.uri, "", options)
            return java_gateway.jvm.org.apache.paimon.rest.RESTApi(chosen)

        java = api(given)
        java.createDatabase("sales", {"note": "ä/ &~*"})
        assert java.getDatabase("sales").getOwner() == "bob"
        with metadata_service(file) as address:
            role = {"dlf.token-loader": "ecs", "dlf.token-ecs-metadata-url": address}
            assert list(api({**shared, **role}).listDatabases()) == ["sales"]
        # With less than an hour left it reads the file before each request.
        renewed = api({**shared, "dlf.token-path": str(file)})
        assert list(renewed.listDatabases()) == ["sales"]
        temporary_key(service.uri, tmp_path, "carl", "--expires-in", "30 min")
        revoke(tmp_path, "bob")
        renewed.createDatabase("theirs", {})
        assert renewed.getDatabase("theirs").getOwner() == "carl"
        for changed in ({"dlf.security-token": "a.b.c"}, {"dlf.access-key-secret": "hw_wrong"}):
            with pytest.raises(Py4JJavaError, match="not signed by a key of this catalog"):
                api({**in_options(file), "dlf.signing-algorithm": algorithm, **changed})
