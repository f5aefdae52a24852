"""Stands where pypaimon's tests expect their mock of a server: a real Headwater server.

The names are the mock's (``pypaimon/tests/rest/rest_server.py``), because the tests call them. What
the tests put into the mock's dictionaries is created here through the REST API; what a server
decides by itself (ids, times, locations) is written back into the objects that the tests gave.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import requests
from pypaimon.api.api_response import ConfigResponse, GetDatabaseResponse
from pypaimon.api.auth import BearTokenAuthProvider
from pypaimon.catalog.rest.table_metadata import TableMetadata
from pypaimon.common.json_util import JSON

_PREFIX = "prefix"
# The mock keeps a database in a folder of its name; Paimon, and so this server, in `<name>.db`.
# Some tests look into the folder of this database.
_LOOKED_INTO = ("default",)


class _Host:
    """The process that runs the servers, started with the first of them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [os.environ["HEADWATER_PYTHON"], str(Path(__file__).with_name("host.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # It must not see pypaimon's modules.
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )

    def call(self, request: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the servers' process ended; its error output says why")
        answer: dict[str, Any] = json.loads(line)
        return answer


_hosts: list[_Host] = []


def _host() -> _Host:
    if not _hosts:
        _hosts.append(_Host())
    return _hosts[0]


class RESTCatalogServer:
    """A server of one warehouse, with what pypaimon's tests expect of their mock."""

    def __init__(
        self,
        data_path: str,
        auth_provider: object,
        config: ConfigResponse,
        warehouse: str,
        role_name: str | None = None,
        token_json: str | None = None,
    ) -> None:
        if role_name is not None or token_json is not None:
            raise NotImplementedError("this server is not a cloud's metadata service")
        if not isinstance(auth_provider, BearTokenAuthProvider | None):
            raise NotImplementedError("this server knows bearer tokens only")
        self.warehouse = warehouse
        self.port = 0
        self.database_store = _Databases(self)
        self.table_metadata_store = _Tables(self)
        self._token = auth_provider.token if auth_provider is not None else None
        self._client_options = {k: v for k, v in config.defaults.items() if k != _PREFIX}
        self._room = tempfile.mkdtemp(prefix="headwater-suite-")
        # A test that looks at files has made the folder itself.
        self.data_path = data_path if os.path.isdir(data_path) else self._room
        self._session = requests.Session()
        self._session.trust_env = False

    def start(self) -> None:
        location = Path(self.data_path, self.warehouse)
        location.mkdir()
        for name in _LOOKED_INTO:
            (location / name).symlink_to(f"{name}.db")
        request = {
            "warehouse": self.warehouse,
            "location": str(location),
            "database": f"{self._room}/catalog.db",
            "token": self._token,
            "client_options": self._client_options,
        }
        self.port = _host().call({"start": request})["port"]

    def shutdown(self) -> None:
        self._session.close()
        if self.port:
            _host().call({"stop": self.port})
        shutil.rmtree(self._room, ignore_errors=True)

    def get_url(self) -> str:
        return f"http://localhost:{self.port}"

    def mock_database(self, name: str, options: Mapping[str, str]) -> GetDatabaseResponse:
        return GetDatabaseResponse(name=name, options=dict(options))

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Call the server and give the answer's body, or `None` if what is meant is there."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        answer = self._session.request(
            method,
            f"{self.get_url()}/v1/{quote_plus(self.warehouse)}/{path}",
            data=None if body is None else json.dumps(body),
            headers=headers,
            timeout=60,
        )
        if answer.status_code == 409:
            return None
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None


class _Databases(Mapping[str, GetDatabaseResponse]):
    """The mock's dictionary of databases."""

    def __init__(self, server: RESTCatalogServer) -> None:
        self._server = server

    def update(self, databases: Mapping[str, GetDatabaseResponse]) -> None:
        for name, given in databases.items():
            body = {"name": name, "options": given.options}
            self._server.request("POST", "databases", body)
            changes = {"removals": [], "updates": given.options}
            self._server.request("POST", f"databases/{quote_plus(name)}", changes)
            vars(given).update(vars(self[name]))

    def __getitem__(self, name: str) -> GetDatabaseResponse:
        body = self._server.request("GET", f"databases/{quote_plus(name)}")
        return JSON.from_json(json.dumps(body), GetDatabaseResponse)

    def __iter__(self) -> Iterator[str]:
        return iter(self._server.request("GET", "databases")["databases"])

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Tables:
    """The mock's dictionary of tables, by ``database.table``."""

    def __init__(self, server: RESTCatalogServer) -> None:
        self._server = server

    def update(self, tables: Mapping[str, TableMetadata]) -> None:
        for full_name, given in tables.items():
            database, _, table = full_name.partition(".")
            schema = json.loads(JSON.to_json(given.schema.to_schema()))
            if given.is_external:
                path = Path(self._server.data_path, "external", self._server.warehouse, full_name)
                schema["options"] = {**schema["options"], "path": path.as_uri()}
            self._server.request("POST", "databases", {"name": database, "options": {}})
            tables_of = f"databases/{quote_plus(database)}/tables"
            body = {"identifier": {"database": database, "object": table}, "schema": schema}
            self._server.request("POST", tables_of, body)
            made = self._server.request("GET", f"{tables_of}/{quote_plus(table)}")
            given._uuid = made["id"]
