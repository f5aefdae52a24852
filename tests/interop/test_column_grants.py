"""Grants on some columns: each client reads those, and is refused every other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from tests.server.restricted import HIDDEN, SCHEMA, people

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.client.lake import Lake
from headwater.storage.runtime import SYSTEM_RUNTIME

from .conftest import PYPAIMON, Client, Service
from .java_client import JavaClient, label

JAVA = [
    pytest.param(f"{JavaClient.maker}-{version}", marks=pytest.mark.interop_java)
    for version in ("1.4.2", "2.0.0")
]
SETS = {
    "allowed": ColumnSet(names=("id", "region")),
    "denied": ColumnSet(excluded=("phone", "salary")),
}


def _token(service: Service, name: str) -> str:
    """A new token whose holder may do what is granted, of the database behind the server."""
    with opened_database(f"sqlite:///{service.log.parent}/headwater.db") as database:
        return Tokens(database, SYSTEM_RUNTIME).create(name).secret


def _table(lake: Lake, name: str, columns: ColumnSet, principal: str) -> str:
    """A table of people, some columns of which are granted to a principal."""
    options = {"query-auth.enabled": "true"}
    made = lake.create_table(f"interop.{name}", SCHEMA, options=options)
    made.write(people())
    target = PermissionTarget(TargetType.COLUMN, "interop", name)
    lake.catalog.permissions.grant(Grant(target, Access.SELECT, principal, columns))
    return str(Identifier("interop", name))


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("name", [PYPAIMON, *JAVA])
def test_clients_read_granted_columns_and_no_others(
    lake: Lake,
    service: Service,
    tmp_path: Path,
    java_gateways: Callable[[str], JavaGateway],
    name: str,
    kind: str,
) -> None:
    principal = f"{kind} of {name}"
    secret = _token(service, principal)
    table = _table(lake, f"{kind}_{label(name)}", SETS[kind], principal)
    if name.startswith(JavaClient.maker):
        version = name.rpartition("-")[2]
        gateway = java_gateways(version)
        client: Client | JavaClient = JavaClient(gateway, version, service.uri, secret, tmp_path)
    else:
        client = Client(name, service, tmp_path, token=secret)
    for columns in (["id", "region"], ["region"]):
        found = client.read(table, columns)
        expected = people().select(columns)
        assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)
    for refused, words in (
        (["phone"], ", columns phone;"),
        (["id", "salary"], ", columns salary;"),
        (None, ""),
    ):
        with pytest.raises((RuntimeError, Py4JJavaError)) as caught:
            client.read(table, refused)
        told = str(caught.value)
        assert f"needs SELECT on TABLE {table}{words}" in told
        assert not [value for value in HIDDEN if value in told]


@pytest.mark.interop
@pytest.mark.parametrize("kind", SETS)
def test_pypaimon_rust_reads_nothing_with_grants_on_some_columns(
    lake: Lake, service: Service, tmp_path: Path, kind: str
) -> None:
    principal = f"{kind} of rust"
    table = _table(lake, f"{kind}_rust", SETS[kind], principal)
    permissions = lake.catalog.permissions
    # Its SQL makes the database `default` unless it sees one.
    lake.create_database("default", ignore_if_exists=True)
    default = PermissionTarget(TargetType.DATABASE, "default")
    permissions.grant(Grant(default, Access.DESCRIBE, principal))
    rust = Client("pypaimon-rust", service, tmp_path, token=_token(service, principal))
    # Whichever columns it reads, it asks for all.
    for columns in (["id", "region"], ["phone"], None):
        with pytest.raises(RuntimeError, match=f"needs SELECT on TABLE {table};") as caught:
            rust.read(table, columns)
        assert not [value for value in HIDDEN if value in str(caught.value)]
    for names in ("id, region", "phone", "*"):
        with pytest.raises(RuntimeError, match=f"needs SELECT on TABLE {table};"):
            rust.sql(f"SELECT {names} FROM paimon.{table}")
    some = PermissionTarget(TargetType.COLUMN, "interop", f"{kind}_rust")
    permissions.revoke(some, Access.SELECT, principal)
    whole = PermissionTarget(TargetType.TABLE, "interop", f"{kind}_rust")
    permissions.grant(Grant(whole, Access.SELECT, principal))
    assert rust.read(table, ["phone"]).num_rows == 4
