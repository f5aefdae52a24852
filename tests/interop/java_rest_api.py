"""Paimon's own REST client, ``org.apache.paimon.rest.RESTApi``, with a note of what was called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from .java_client import JavaClient, rest_options

# What a client asks of its own settings, not of a server.
_LOCAL = {"options"}

NUMBERS = pa.schema([pa.field("n", pa.int64(), nullable=False), ("day", pa.string())])


class Noted:
    """An object or class of Java's; `called` has the names of the methods that were taken of it."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self._target, name)


class JavaRestApi:
    """The REST client of one release, and the catalog that Flink and Spark put on top of it.

    Attributes:
        api: Its ``RESTApi``: one method for each operation.
        catalog: Its ``RESTCatalog``, which turns errors into Paimon's exceptions.
        schema_change: ``SchemaChange``, whose static methods make the kinds of changes.
        view_change: ``ViewChange``.
        function_change: ``FunctionChange``.
    """

    def __init__(self, gateway: JavaGateway, uri: str, token: str) -> None:
        self._gateway = gateway
        self._jvm: Any = gateway.jvm
        self.paimon: Any = self._jvm.org.apache.paimon
        options = rest_options(gateway, uri, token)
        self.api = Noted(self.paimon.rest.RESTApi(options))
        context = self.paimon.catalog.CatalogContext.create(options)
        self.catalog: Any = self.paimon.rest.RESTCatalog(context)
        self.schema_change = Noted(self.paimon.schema.SchemaChange)
        self.view_change = Noted(self.paimon.view.ViewChange)
        self.function_change = Noted(self.paimon.function.FunctionChange)

    def has(self, method: str) -> bool:
        """Whether this release's `RESTApi` has a method."""
        return method in self._methods("rest.RESTApi", static=False)

    def commit(self, target: Any, *request: Any, base: str | None) -> bool:
        """Commit a snapshot by the client or the catalog; newer ones say upon which it is based."""
        table, table_id, *rest = request
        bases = [base] if self.has("createPartitions") else []
        taken: bool = target.commitSnapshot(table, table_id, *bases, *rest)
        return taken

    def not_called(self) -> set[str]:
        """What the release has, and nobody has called."""
        classes = {
            "rest.RESTApi": (self.api, False),
            "schema.SchemaChange": (self.schema_change, True),
            "view.ViewChange": (self.view_change, True),
            "function.FunctionChange": (self.function_change, True),
        }
        return {
            f"{name}.{method}"
            for name, (noted, static) in classes.items()
            for method in self._methods(name, static) - noted.called - _LOCAL
        }

    def _methods(self, name: str, static: bool) -> set[str]:
        modifier = self._jvm.java.lang.reflect.Modifier
        kind = self._jvm.java.lang.Class.forName(f"org.apache.paimon.{name}")
        return {
            str(method.getName())
            for method in kind.getDeclaredMethods()
            if modifier.isPublic(method.getModifiers())
            and modifier.isStatic(method.getModifiers()) == static
        }

    def name(self, full_name: str) -> Any:
        """An ``Identifier``, from ``database.object``."""
        return self.paimon.catalog.Identifier.fromString(full_name)

    def schema(
        self,
        columns: Mapping[str, Any],
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Any:
        builder = self.paimon.schema.Schema.newBuilder()
        for column, kind in columns.items():
            builder.column(column, kind)
        builder.primaryKey(list(primary_keys))
        builder.partitionKeys(list(partition_keys))
        builder.options(dict(options or {}))
        builder.comment(comment)
        return builder.build()

    def fields(self) -> Any:
        """Two columns, as views and functions have them."""
        types = self.paimon.types
        return [
            types.DataField(0, "id", types.DataTypes.BIGINT().notNull(), "a number"),
            types.DataField(1, "tags", types.DataTypes.ARRAY(types.DataTypes.STRING())),
        ]

    def strings(self, *values: str) -> Any:
        """A ``String[]``."""
        array = self._gateway.new_array(self._jvm.java.lang.String, len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array


class Java(JavaRestApi):
    """The client, and something that writes rows."""

    def __init__(
        self, gateway: JavaGateway, version: str, uri: str, token: str, room: Path
    ) -> None:
        super().__init__(gateway, uri, token)
        self.room = room
        # With a data token for each table's files, as the server of this test hands them out.
        options = {"data-token.enabled": "true"}
        self.tables = JavaClient(gateway, version, uri, token, room, options)

    def make(self, table: str, *commits: int, **keys: Any) -> Any:
        """A table of numbers, with one number in each commit; gives its identifier."""
        self.tables.create(table, NUMBERS, **keys)
        for number in commits:
            self.write(table, number)
        return self.name(table)

    def write(self, table: str, number: int) -> None:
        row = {"n": [number], "day": [f"d{number % 2}"]}
        self.tables.write(table, pa.table(row, schema=NUMBERS))

    def read(self, table: str) -> list[int]:
        values: list[int] = self.tables.read(table)["n"].to_pylist()
        return sorted(values)


def pages(listed: Callable[[str | None], Any]) -> list[list[Any]]:
    """The elements of each page, until no token comes with one."""
    found = []
    token = None
    while True:
        page = listed(token)
        found.append(list(page.getElements()))
        token = page.getNextPageToken()
        if not token:
            return found


def raises(error: str, action: Callable[[], object], saying: str = "") -> None:
    """Java throws an exception of this simple name, whose message holds ``saying``."""
    with pytest.raises(Py4JJavaError) as raised:
        action()
    thrown = raised.value.java_exception
    assert str(thrown.getClass().getSimpleName()) == error, thrown.toString()
    assert saying in str(thrown.getMessage())


def names(found: Any) -> list[str]:
    return [str(name) for name in found]


def full_names(found: Any) -> list[list[str]]:
    return [[str(name.getFullName()) for name in page] for page in found]
