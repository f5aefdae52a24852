"""Calls every operation that pypaimon's REST client has: one JSON request, one answer."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.api.rest_api import RESTApi
from pypaimon.api.rest_exception import RESTException
from pypaimon.common.identifier import Identifier
from pypaimon.function.function import FunctionImpl
from pypaimon.function.function_change import FunctionChange
from pypaimon.function.function_definition import FunctionDefinition
from pypaimon.management.list_permissions_request import ListPermissionsRequest
from pypaimon.management.permission_assignment import PermissionAssignment
from pypaimon.management.permission_resource import PermissionResource
from pypaimon.management.resource_type import ResourceType
from pypaimon.schema.data_types import AtomicType, DataField
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.table.instant import Instant

NUMBERS = pa.schema([pa.field("n", pa.int64(), nullable=False), ("day", pa.string())])
# What a client asks of its own settings and names, not of a server.
LOCAL = {"get_options", "check_function_name", "is_valid_function_name"}


class Client:
    """The REST client, with a note of what was called, and the catalog on top of it for rows."""

    def __init__(self, request: dict[str, str]) -> None:
        self._api = RESTApi({**request, "token.provider": "bear"})
        self._tables = CatalogFactory.create(
            {
                **request,
                "metastore": "rest",
                "token.provider": "bear",
                "data-token.enabled": "true",
            }
        )
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self._api, name)

    def not_called(self) -> list[str]:
        there = {name for name, _ in inspect.getmembers(RESTApi, inspect.isfunction)}
        return sorted(name for name in there - self.called - LOCAL if not name.startswith("_"))

    def make(self, name: str, *numbers: int, **keys: Any) -> Identifier:
        """A table of numbers, with one number in each commit."""
        table = Identifier.create("other", name)
        self.create_table(table, Schema.from_pyarrow_schema(NUMBERS, **keys))
        for number in numbers:
            self.write(name, number)
        return table

    def write(self, name: str, number: int) -> None:
        builder = self._tables.get_table(f"other.{name}").new_batch_write_builder()
        writer, committer = builder.new_write(), builder.new_commit()
        row = {"n": [number], "day": [f"d{number % 2}"]}
        writer.write_arrow(pa.table(row, schema=NUMBERS))
        committer.commit(writer.prepare_commit())
        writer.close()
        committer.close()

    def read(self, name: str) -> list[int]:
        builder = self._tables.get_table(f"other.{name}").new_read_builder()
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return sorted(rows["n"].to_pylist())


def pages(listed: Callable[[str | None], Any]) -> list[list[Any]]:
    found, token = [], None
    while True:
        page = listed(token)
        found.append(page.elements)
        token = page.next_page_token
        if not token:
            return found


def refused(action: Callable[[], object]) -> str:
    """The client's error."""
    try:
        action()
    except RESTException as error:
        return type(error).__name__
    return ""


def databases(api: Client) -> object:
    for name in ("a_one", "a_two"):
        api.create_database(name, {"team": name})
    listed = [api.list_databases(), pages(lambda at: api.list_databases_paged(1, at, "a%"))]
    api.alter_database("a_one", ["team"], {"tier": "1"})
    found = api.get_database("a_one")
    api.drop_database("a_two")
    missing = refused(lambda: api.get_database("a_two"))
    again = refused(lambda: api.create_database("a_one", {}))
    api.drop_database("a_one")
    return [*listed, [found.name, found.options], missing, again]


def tables(api: Client) -> object:
    old, new = Identifier.create("other", "old"), Identifier.create("other", "new name")
    api.make("old")
    api.rename_table(old, new)
    api.make("numbers")
    listed = pages(lambda at: api.list_tables_paged("other", 1, at, "n%", "table"))
    names = api.list_tables("other")
    columns = [field.name for field in api.get_table(new).schema.fields]
    seen = api.auth_table_query(new, ["n"])
    token = api.load_table_token(new)
    api.drop_table(new)
    return {
        "listed": [names, listed],
        "columns": columns,
        "seen": [seen.filter or [], seen.column_masking or {}],
        "token": [token.token, token.expires_at_millis > 0],
        "missing": refused(lambda: api.get_table(new)),
        "again": refused(lambda: api.make("numbers")),
    }


def schema_changes(api: Client) -> object:
    # Not positions: pypaimon 2.1.0 cannot write a Move as JSON.
    table = Identifier.create("other", "numbers")
    api.alter_table(
        table,
        [
            SchemaChange.set_option("snapshot.num-retained.max", "20"),
            SchemaChange.set_option("owner", "ann"),
            SchemaChange.remove_option("owner"),
            SchemaChange.update_comment("changed"),
            SchemaChange.add_column("a", AtomicType("INT"), "the first"),
            SchemaChange.add_column("b", AtomicType("STRING")),
            SchemaChange.add_column("c", AtomicType("INT")),
        ],
    )
    api.alter_table(
        table,
        [
            SchemaChange.rename_column("a", "renamed"),
            SchemaChange.update_column_type("renamed", AtomicType("BIGINT")),
            SchemaChange.update_column_nullability("n", True),
            SchemaChange.update_column_comment("n", "a number"),
            SchemaChange.update_column_default_value(["b"], "none"),
            SchemaChange.drop_column("c"),
        ],
    )
    schema = api.get_table(table).schema
    api.drop_table(table)
    return {
        "fields": [[field.name, str(field.type), field.description] for field in schema.fields],
        "default": [field.default_value for field in schema.fields if field.name == "b"],
        "others": [schema.options, schema.comment],
    }


def snapshots(api: Client) -> object:
    table = api.make("counted")
    empty = api.load_snapshot(table) if not refused(lambda: api.load_snapshot(table)) else None
    for number in range(1, 5):
        api.write("counted", number)
    latest = api.load_snapshot(table)
    found = [latest.snapshot.id, latest.record_count, latest.file_count]
    table_id = api.get_table(table).id
    base = latest.snapshot

    def commit(base_uuid: str | None, **changes: Any) -> bool:
        following = dataclasses.replace(base, id=5, commit_kind="ANALYZE", **changes)
        done: bool = api.commit_snapshot(table, table_id, base_uuid, following, [])
        return done

    # Taken on its base; the same again is the client that lost the answer; on an old base, refused.
    commits = [
        commit(base.uuid, uuid="first", commit_identifier=77),
        commit(base.uuid, uuid="first", commit_identifier=77),
        commit(base.uuid, uuid="second", commit_identifier=78),
        commit(None, uuid="third", commit_identifier=79),
    ]
    wrong_table = refused(lambda: api.commit_snapshot(table, "other", base.uuid, base, []))
    api.create_tag(table, "second", 2)
    read = []
    for instant, start in (
        (Instant.snapshot(4), None),
        (Instant.snapshot(3), 4),
        (Instant.tag("second"), None),
    ):
        api.rollback_to(table, instant, start)
        read.append(api.read("counted"))
    failures = [
        refused(lambda: api.rollback_to(table, Instant.snapshot(1), 9)),
        refused(lambda: api.rollback_to(table, Instant.snapshot(9))),
        refused(lambda: api.rollback_to(table, Instant.tag("none"))),
    ]
    api.drop_table(table)
    return {
        "empty": empty,
        "found": found,
        "commits": commits,
        "wrong table": wrong_table,
        "read": read,
        "failures": failures,
    }


def tags(api: Client) -> object:
    table = api.make("tagged", 1, 2)
    api.create_tag(table, "v1", 1, "1d")
    api.create_tag(table, "v2")
    api.create_tag(table, "w", 2)
    listed = pages(lambda at: api.list_tags_paged(table, 1, at, "v"))
    first = api.get_tag(table, "v1")
    api.delete_tag(table, "v1")
    failures = [
        refused(lambda: api.get_tag(table, "v1")),
        refused(lambda: api.create_tag(table, "v2", 1)),
        refused(lambda: api.create_tag(table, "x", 9)),
    ]
    api.drop_table(table)
    return [listed, [first.tag_name, first.snapshot.id, first.tag_time_retained], failures]


def branches(api: Client) -> object:
    table = api.make("branched", 1, 2)
    api.create_tag(table, "first", 1)
    api.create_branch(table, "trial", "first")
    api.create_branch(table, "empty")
    api.rename_branch(table, "empty", "renamed")
    listed = sorted(api.list_branches(table))
    api.fast_forward(table, "trial")
    api.drop_branch(table, "renamed")
    failures = [
        refused(lambda: api.create_branch(table, "trial")),
        refused(lambda: api.drop_branch(table, "renamed")),
        refused(lambda: api.create_branch(table, "x", "none")),
    ]
    found = [listed, api.list_branches(table), api.read("branched"), failures]
    api.drop_table(table)
    return found


def partitions(api: Client) -> object:
    keys = {"partition_keys": ["day"], "options": {"metastore.partitioned-table": "true"}}
    table = api.make("days", 1, 2, 3, **keys)
    made = api.create_partitions(table, [{"day": "d1"}, {"day": "d5"}])
    listed = pages(lambda at: api.list_partitions_paged(table, 2, at))
    some = pages(lambda at: api.list_partitions_paged(table, None, at, "day=d5%"))
    plain = api.make("plain", partition_keys=["day"])
    found = {
        "made": [made.created, made.existed],
        "listed": [[[each.spec["day"], each.record_count] for each in page] for page in listed],
        "some": [[each.spec["day"] for each in page] for page in some],
        "none": refused(lambda: api.list_partitions_paged(plain)),
    }
    for each in (table, plain):
        api.drop_table(each)
    return found


def functions(api: Client) -> object:
    columns = [DataField(0, "l", AtomicType("DOUBLE"))]
    for name in ("area", "length", "width"):
        identifier = Identifier.create("other", name)
        definitions = {"spark": FunctionDefinition.sql("l * l")}
        made = FunctionImpl(identifier, columns, columns, True, definitions, "a comment", {})
        api.create_function(identifier, made)
    area = Identifier.create("other", "area")
    listed = [
        api.list_functions("other"),
        pages(lambda at: api.list_functions_paged("other", 2, at)),
        [
            [each.name for each in page]
            for page in pages(lambda at: api.list_function_details_paged("other", 1, at, "l%"))
        ],
        [
            [each.get_full_name() for each in page]
            for page in pages(lambda at: api.list_functions_paged_globally("o%", None, 2, at))
        ],
    ]
    api.alter_function(
        area,
        [
            FunctionChange.set_option("tier", "1"),
            FunctionChange.update_comment("another"),
            FunctionChange.add_definition("flink", FunctionDefinition.sql("l")),
            FunctionChange.drop_definition("spark"),
        ],
    )
    found = api.get_function(area)
    for name in ("area", "length", "width"):
        api.drop_function(Identifier.create("other", name))
    changed = [found.comment, found.options, sorted(found.definitions)]
    return [listed, changed, refused(lambda: api.get_function(area))]


def permissions(api: Client) -> object:
    database = PermissionResource(ResourceType.DATABASE, "other")
    api.grant_permission(PermissionAssignment(database, "describe", "ann"))

    def listed() -> object:
        answer = api.list_permissions(ListPermissionsRequest(ResourceType.DATABASE, "other"))
        return [[each.get_principal(), each.get_access()] for each in answer.data()]

    before = listed()
    api.revoke_permission(database, "DESCRIBE", "ann")
    return [before, listed()]


AREAS = (
    databases,
    tables,
    schema_changes,
    snapshots,
    tags,
    branches,
    partitions,
    functions,
    permissions,
)


def main() -> None:
    api = Client(json.load(sys.stdin))
    api.create_database("other", {})
    answers = {area.__name__: area(api) for area in AREAS}
    api.drop_database("other")
    answers["not called"] = api.not_called()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
