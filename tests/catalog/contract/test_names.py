"""Names that would mislead people: rejected where they are new, served where they are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.labels import Entity, EntityType, Label
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.views import ViewSchema
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import AddColumn, RenameColumn
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import DataField, parse_type

MISLEADING = (
    "a\u202eb",
    "a\u2066b",
    "a\u200eb",
    "a\u061cb",
    "a\u2028b",
    "a\u2029b",
    "a\x85b",
    "a\x1bb",
)
JOINED = "\u0646\u200c\u0645"  # a joiner that Persian is written with


@pytest.fixture
def table(catalog: Catalog, table: Identifier, snapshot: Callable[..., Snapshot]) -> Identifier:
    """A table with a snapshot."""
    assert catalog.snapshots.commit(table, None, snapshot(1), None, []).decided()
    return table


def test_no_new_name_misleads(
    catalog: Catalog, table: Identifier, orders_schema: Schema, subtests: pytest.Subtests
) -> None:
    catalog.branches.create(table, "b")
    catalog.views.create(Identifier("sales", "v"), ViewSchema((), "SELECT 1"))
    for name in MISLEADING:
        for what, attempt in _attempts(catalog, table, orders_schema, name).items():
            with subtests.test(what, name=ascii(name)):
                with pytest.raises(Invalid) as rejected:
                    attempt()
                assert name not in str(rejected.value)
                assert ascii(name)[1:-1] in rejected.value.message


def _attempts(
    catalog: Catalog, table: Identifier, schema: Schema, name: str
) -> dict[str, Callable[[], object]]:
    other = Identifier("sales", name)
    string = parse_type("STRING")
    column = Schema(fields=(DataField(0, name, string),))
    target = PermissionTarget(TargetType.DATABASE, "sales")
    return {
        "database": lambda: catalog.databases.create(name),
        "table": lambda: catalog.tables.create(other, schema),
        "renamed table": lambda: catalog.tables.rename(table, other),
        "column": lambda: catalog.tables.create(Identifier("sales", "t"), column),
        "added column": lambda: catalog.tables.alter(table, [AddColumn((name,), string)]),
        "renamed column": lambda: catalog.tables.alter(table, [RenameColumn(("amount",), name)]),
        "view": lambda: catalog.views.create(other, ViewSchema((), "SELECT 1")),
        "renamed view": lambda: catalog.views.rename(Identifier("sales", "v"), other),
        "tag": lambda: catalog.tags.create(table, name),
        "branch": lambda: catalog.branches.create(table, name),
        "renamed branch": lambda: catalog.branches.rename(table, "b", name),
        "consumer": lambda: catalog.consumers.reset(table, name, 1),
        "label": lambda: catalog.labels.set(
            Entity(EntityType.DATABASE, "sales"), Label(name, "value")
        ),
        "grantee": lambda: catalog.permissions.grant(Grant(target, Access.DESCRIBE, name, None)),
    }


def test_words_may_be_joined(catalog: Catalog, table: Identifier, orders_schema: Schema) -> None:
    catalog.databases.create(JOINED)
    catalog.tables.create(Identifier(JOINED, JOINED), orders_schema)
    catalog.tags.create(table, JOINED)
    assert list(catalog.tables.list(JOINED).items) == [JOINED]


def test_misleading_names_of_other_engines_are_served(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    catalog.tags.create(table, "v1")
    name = MISLEADING[0]
    (directory / "tag" / "tag-v1").rename(directory / "tag" / f"tag-{name}")
    (directory / "consumer").mkdir()
    (directory / "consumer" / f"consumer-{name}").write_text('{"nextSnapshot": 1}')
    assert list(catalog.tags.list(table).items) == [name]
    assert [consumer.consumer_id for consumer in catalog.consumers.list(table).items] == [name]
    catalog.branches.create(table, "b", from_tag=name)
    assert catalog.snapshots.latest(branch_of(table, "b")) is not None
    catalog.tags.delete(table, name)
    catalog.consumers.reset(table, name, None)
    assert not catalog.consumers.list(table).items
