"""Row filters and column masks: each client applies what the server says of its caller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from tests.server.restricted import HIDDEN, SCHEMA, concat, filter_policy, leaf, mask_policy, people

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.client import connect
from headwater.client.lake import Lake
from headwater.storage.runtime import SYSTEM_RUNTIME

from .conftest import PYPAIMON, Client, Service
from .java_client import JavaClient, label

SHOWN = [
    {"id": 1, "region": "EMEA", "phone": "***", "salary": None},
    {"id": 3, "region": "EMEA", "phone": "***", "salary": None},
]
JAVA = [
    pytest.param(f"{JavaClient.maker}-{version}", marks=pytest.mark.interop_java)
    for version in ("1.4.2", "2.0.0")
]


def _token(service: Service, name: str) -> str:
    """A new token of a principal, of the database behind the server."""
    with opened_database(f"sqlite:///{service.log.parent}/headwater.db") as database:
        return Tokens(database, SYSTEM_RUNTIME).create(name, scopes=[Scope.ADMINISTER]).secret


def _rows(table: pa.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.to_pylist()
    return sorted(found, key=repr)


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "keyed"])
@pytest.mark.parametrize("name", [PYPAIMON, *JAVA])
def test_clients_apply_policies(
    lake: Lake,
    service: Service,
    tmp_path: Path,
    java_gateways: Callable[[str], JavaGateway],
    name: str,
    keys: tuple[str, ...],
) -> None:
    principal = f"ada of {name} {len(keys)}"
    secret = _token(service, principal)
    identifier = Identifier("interop", f"people_{label(name)}_{len(keys)}")
    options = {"query-auth.enabled": "true", "bucket": "1" if keys else "-1"}
    made = lake.create_table(str(identifier), SCHEMA, primary_keys=keys, options=options)
    made.write(people())
    if name.startswith(JavaClient.maker):
        version = name.rpartition("-")[2]
        gateway = java_gateways(version)
        client: Client | JavaClient = JavaClient(gateway, version, service.uri, secret, tmp_path)
    else:
        client = Client(name, service, tmp_path, token=secret)
    assert len(_rows(client.read(str(identifier)))) == 4
    policies = lake.catalog.policies
    policies.create(identifier, filter_policy(principal, leaf("EQUAL", "region", "EMEA")))
    policies.create(identifier, mask_policy(principal, "phone", concat("***")))
    policies.create(identifier, mask_policy(principal, "salary", {"name": "NULL"}))
    assert _rows(client.read(str(identifier))) == SHOWN
    assert _rows(client.read(str(identifier), ["phone"])) == [{"phone": "***"}] * 2
    # And so does the server, for whoever reads through it.
    with connect(service.uri, warehouse="main", token=secret) as own:
        assert _rows(own.table(str(identifier)).scan().to_arrow()) == SHOWN


@pytest.mark.interop
def test_pypaimon_rust_does_not_read_what_is_restricted(
    lake: Lake, service: Service, tmp_path: Path
) -> None:
    table = Identifier("interop", "people_rust")
    options = {"query-auth.enabled": "true"}
    lake.create_table(str(table), SCHEMA, options=options).write(people())
    lake.catalog.policies.create(table, filter_policy("rusty", leaf("EQUAL", "region", "EMEA")))
    rust = Client("pypaimon-rust", service, tmp_path, token=_token(service, "rusty"))
    with pytest.raises(RuntimeError, match=r"query-auth\.enabled") as read:
        rust.read(str(table))
    query = [f"SELECT * FROM paimon.{table}"]
    with pytest.raises(RuntimeError) as queried:
        rust._run("sql", statements=query, out=str(tmp_path / "rows.arrow"))
    told = f"{read.value} {queried.value}"
    assert not [value for value in HIDDEN if value in told]
