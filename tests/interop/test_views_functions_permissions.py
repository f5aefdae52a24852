"""Views and functions shared with Paimon's Java library, permissions with pypaimon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.model.column import Column
from headwater.catalog.model.functions import (
    FileDefinition,
    FileResource,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import (
    GRANTABLE,
    Access,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.model.views import AddDialect, ViewSchema
from headwater.client.lake import Lake

from .conftest import TOKEN, Service
from .java_client import rest_options
from .java_rest_api import raises

PYTHON = Path(__file__).parents[2] / ".interop" / "pypaimon" / "bin" / "python"
SCRIPT = Path(__file__).parent / "clients" / "pypaimon_management.py"

DATABASE = "objects"


@pytest.fixture
def database(lake: Lake) -> Iterator[str]:
    lake.create_database(DATABASE)
    yield DATABASE
    lake.drop_database(DATABASE, cascade=True)


class Java:
    """Views and functions, as a Flink or Spark job with Paimon's JAR reaches them."""

    def __init__(self, gateway: JavaGateway, uri: str) -> None:
        self._gateway = gateway
        self.paimon: Any = gateway.jvm.org.apache.paimon
        # Java's cache does not pass on every listing of functions.
        options = rest_options(gateway, uri, TOKEN, {"cache-enabled": "false"})
        context = self.paimon.catalog.CatalogContext.create(options)
        self.catalog = self.paimon.catalog.CatalogFactory.createCatalog(context)

    def name(self, name: str) -> Any:
        return self.paimon.catalog.Identifier.create(DATABASE, name)

    def fields(self) -> Any:
        types = self.paimon.types
        return [
            types.DataField(0, "id", types.DataTypes.BIGINT().notNull(), "a number"),
            types.DataField(1, "tags", types.DataTypes.ARRAY(types.DataTypes.STRING())),
        ]

    def view(self, name: str) -> Any:
        return self.paimon.view.ViewImpl(
            self.name(name),
            self.fields(),
            "SELECT 1",
            {"spark": "SELECT 2"},
            "a comment",
            {"team": "billing"},
        )

    def change(self, kind: str, method: str, *arguments: object) -> Any:
        """A change; the interfaces' static methods make them."""
        names = {"view": "view.ViewChange", "function": "function.FunctionChange"}
        made: Any = self.paimon
        for part in names[kind].split("."):
            made = getattr(made, part)
        return getattr(made, method)(*arguments)

    def names(self, found: Any) -> list[str]:
        return [str(name) for name in found]


@pytest.fixture
def java(java_gateway: JavaGateway, service: Service, database: str) -> Java:
    return Java(java_gateway, service.uri)


COLUMNS = (
    Column(0, "id", "BIGINT NOT NULL", "a number"),
    Column(1, "tags", {"type": "ARRAY", "element": "STRING"}),
)


@pytest.mark.interop_java
def test_java_makes_changes_and_drops_views(java: Java, lake: Lake) -> None:
    views = lake.catalog.views
    recent = Identifier(DATABASE, "recent")
    java.catalog.createView(java.name("recent"), java.view("recent"), False)
    assert views.get(recent).schema == ViewSchema(
        COLUMNS, "SELECT 1", {"spark": "SELECT 2"}, "a comment", {"team": "billing"}
    )
    raises(
        "ViewAlreadyExistException",
        lambda: java.catalog.createView(java.name("recent"), java.view("recent"), False),
    )
    java.catalog.createView(java.name("recent"), java.view("recent"), True)

    changes = [
        java.change("view", "addDialect", "flink", "SELECT 3"),
        java.change("view", "updateDialect", "spark", "SELECT 4"),
        java.change("view", "setOption", "tier", "1"),
        java.change("view", "removeOption", "team"),
        java.change("view", "updateComment", "another"),
    ]
    java.catalog.alterView(java.name("recent"), changes, False)
    assert views.get(recent).schema == ViewSchema(
        COLUMNS, "SELECT 1", {"flink": "SELECT 3", "spark": "SELECT 4"}, "another", {"tier": "1"}
    )
    for change, error in (
        (java.change("view", "addDialect", "flink", "x"), "DialectAlreadyExistException"),
        (java.change("view", "updateDialect", "trino", "x"), "DialectNotExistException"),
        (java.change("view", "dropDialect", "trino"), "DialectNotExistException"),
    ):
        raises(error, partial(java.catalog.alterView, java.name("recent"), [change], False))

    java.catalog.renameView(java.name("recent"), java.name("newest"), False)
    assert java.names(java.catalog.listViews(DATABASE)) == ["newest"]
    java.catalog.dropView(java.name("newest"), False)
    assert list(views.list(DATABASE).items) == []
    raises("ViewNotExistException", lambda: java.catalog.dropView(java.name("newest"), False))
    java.catalog.dropView(java.name("newest"), True)


@pytest.mark.interop_java
def test_java_reads_views(java: Java, lake: Lake) -> None:
    views = lake.catalog.views
    for name in ("a", "b", "c"):
        views.create(Identifier(DATABASE, name), ViewSchema(COLUMNS, f"SELECT '{name}'"))
    views.alter(Identifier(DATABASE, "b"), [AddDialect("spark", "SELECT 2")])
    found = java.catalog.getView(java.name("b"))
    assert found.query() == "SELECT 'b'"
    assert found.query("spark") == "SELECT 2"
    assert found.query("flink") == "SELECT 'b'"
    assert not found.comment().isPresent()
    assert found.rowType().getFields().equals(java.fields())
    raises("ViewNotExistException", lambda: java.catalog.getView(java.name("none")))
    page = java.catalog.listViewsPaged(DATABASE, 2, None, None)
    assert java.names(page.getElements()) == ["a", "b"]
    rest = java.catalog.listViewsPaged(DATABASE, 2, page.getNextPageToken(), None)
    assert java.names(rest.getElements()) == ["c"]
    assert java.names(java.catalog.listViewsPaged(DATABASE, None, None, "b%").getElements()) == [
        "b"
    ]
    details = java.catalog.listViewDetailsPaged(DATABASE, None, None, None).getElements()
    assert [view.query() for view in details] == ["SELECT 'a'", "SELECT 'b'", "SELECT 'c'"]
    everywhere = java.catalog.listViewsPagedGlobally(f"{DATABASE}%", "c%", None, None)
    assert [name.getFullName() for name in everywhere.getElements()] == [f"{DATABASE}.c"]


@pytest.mark.interop_java
def test_java_makes_changes_and_drops_functions(java: Java, lake: Lake) -> None:
    functions = lake.catalog.functions
    area = Identifier(DATABASE, "area")
    definition = java.paimon.function.FunctionDefinition
    resource = definition.FunctionFileResource("jar", "/a/b/c.jar")
    made = java.paimon.function.FunctionImpl(
        java.name("area"),
        java.fields(),
        java.fields(),
        False,
        {
            "flink": definition.file([resource], "java", "Area", "eval"),
            "spark": getattr(definition, "lambda")("(l) -> l", "java"),
            "trino": definition.sql("l * l"),
        },
        "a comment",
        {"team": "billing"},
    )
    java.catalog.createFunction(java.name("area"), made, False)
    assert functions.get(area).spec == FunctionSpec(
        COLUMNS,
        COLUMNS,
        {
            "flink": FileDefinition((FileResource("jar", "/a/b/c.jar"),), "java", "Area", "eval"),
            "spark": LambdaDefinition("(l) -> l", "java"),
            "trino": SqlDefinition("l * l"),
        },
        False,
        "a comment",
        {"team": "billing"},
    )
    assert java.catalog.getFunction(java.name("area")).equals(made)
    raises(
        "FunctionAlreadyExistException",
        lambda: java.catalog.createFunction(java.name("area"), made, False),
    )
    changes = [
        java.change("function", "addDefinition", "duckdb", definition.sql("1")),
        java.change("function", "dropDefinition", "spark"),
        java.change("function", "updateComment", "another"),
    ]
    java.catalog.alterFunction(java.name("area"), changes, False)
    assert set(functions.get(area).spec.definitions) == {"duckdb", "flink", "trino"}
    raises(
        "DefinitionAlreadyExistException",
        lambda: java.catalog.alterFunction(java.name("area"), changes[:1], False),
    )
    raises(
        "DefinitionNotExistException",
        lambda: java.catalog.alterFunction(java.name("area"), changes[1:2], False),
    )
    assert java.names(java.catalog.listFunctions(DATABASE)) == ["area"]
    details = java.catalog.listFunctionDetailsPaged(DATABASE, None, None, None).getElements()
    assert [function.comment() for function in details] == ["another"]
    java.catalog.dropFunction(java.name("area"), False)
    raises("FunctionNotExistException", lambda: java.catalog.getFunction(java.name("area")))


@pytest.fixture
def pypaimon(service: Service) -> Callable[..., Any]:
    """Runs pypaimon in its own environment."""
    if not PYTHON.exists():
        pytest.skip("no environment for pypaimon: run tests/interop/environments")

    def run(command: str, **request: object) -> Any:
        body = {"command": command, "uri": service.uri, "token": TOKEN, **request}
        done = subprocess.run(
            [str(PYTHON), str(SCRIPT)],
            input=json.dumps(body),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run


@pytest.mark.interop
def test_what_can_be_granted_is_what_pypaimon_grants(pypaimon: Callable[..., Any]) -> None:
    pairs = {(TargetType(kind), Access(access)) for kind, access in pypaimon("pairs")}
    assert pairs == {(kind, access) for kind, some in GRANTABLE.items() for access in some}


@pytest.mark.interop
def test_pypaimon_grants_lists_and_revokes(
    pypaimon: Callable[..., Any], lake: Lake, database: str
) -> None:
    lake.catalog.views.create(Identifier(database, "recent"), ViewSchema((), "SELECT 1"))
    resource = {"type": "VIEW", "database": database, "view": "recent"}
    target = PermissionTarget(TargetType.VIEW, database, view="recent")
    permissions = lake.catalog.permissions
    pypaimon(
        "grant",
        resource=resource,
        access="select",
        principal="ada",
        expireTime="2099-01-31T10:20:30.500Z",
    )
    assert list(permissions.list(target).items) == [
        Grant(target, Access.SELECT, "ada", expires_at=4073538030500)
    ]
    for principal in ("bob", "eve"):
        permissions.grant(Grant(target, Access.ALTER, principal))
    assert pypaimon("list", resource=resource) == [
        {
            "resource": resource,
            "access": "SELECT",
            "principal": "ada",
            "expireTime": "2099-01-31T10:20:30.500Z",
        },
        {"resource": resource, "access": "ALTER", "principal": "bob"},
        {"resource": resource, "access": "ALTER", "principal": "eve"},
    ]
    pypaimon("revoke", resource=resource, access="ALTER", principal="bob")
    assert [grant.principal for grant in permissions.list(target).items] == ["ada", "eve"]
