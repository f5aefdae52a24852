"""Rolling a schema back, over every catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Conflict, Invalid, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import Snapshot

MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def altered(catalog: Catalog, table: Identifier) -> Identifier:
    """A table with schemas 0, 1 and 2."""
    for value in ("true", "false"):
        catalog.tables.alter(table, [SetOption("write-only", value)])
    return table


def _schema_files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "schema").iterdir())


def test_a_schema_is_rolled_back_and_goes_on_from_there(
    catalog: Catalog, altered: Identifier, directory: Path
) -> None:
    catalog.snapshots.rollback_schema(altered, 1)
    schema = catalog.tables.get(altered).schema
    assert (schema.id, schema.options["write-only"]) == (1, "true")
    assert _schema_files(directory) == ["schema-0", "schema-1"]
    catalog.snapshots.rollback_schema(altered, 1)
    catalog.tables.alter(altered, [SetOption("manifest.format", "avro")])
    schema = catalog.tables.get(altered).schema
    assert (schema.id, schema.options["manifest.format"]) == (2, "avro")
    assert "avro" in (directory / "schema" / "schema-2").read_text()
    catalog.snapshots.rollback_schema(altered, 0)
    assert "write-only" not in catalog.tables.get(altered).schema.options
    assert _schema_files(directory) == ["schema-0"]


def test_a_schema_in_use_stays(
    catalog: Catalog, altered: Identifier, snapshot: MakeSnapshot, directory: Path
) -> None:
    first = snapshot(1, schemaId=1)
    second = snapshot(2, schemaId=0)
    assert catalog.snapshots.commit(altered, None, first, None, []).decided()
    assert catalog.snapshots.commit(altered, None, second, first.uuid, []).decided()
    catalog.tags.create(altered, "v1", 1)
    message = "Cannot rollback to schema 0 .*, schema 1 is still referenced"
    with pytest.raises(Conflict, match=message):
        catalog.snapshots.rollback_schema(altered, 0)
    # A tag alone, once the snapshot has expired.
    (directory / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(Conflict, match=message):
        catalog.snapshots.rollback_schema(altered, 0)
    assert catalog.tables.get(altered).schema.id == 2
    # A changelog alone.
    catalog.tags.delete(altered, "v1")
    changelog = directory / "changelog" / "changelog-1"
    changelog.parent.mkdir()
    changelog.write_text(first.to_json())
    with pytest.raises(Conflict, match=message):
        catalog.snapshots.rollback_schema(altered, 0)
    changelog.unlink()
    catalog.snapshots.rollback_schema(altered, 0)
    assert _schema_files(directory) == ["schema-0"]


def test_a_commit_cannot_name_a_schema_that_is_gone(
    catalog: Catalog, altered: Identifier, snapshot: MakeSnapshot
) -> None:
    catalog.snapshots.rollback_schema(altered, 1)
    with pytest.raises(Invalid):
        catalog.snapshots.commit(altered, None, snapshot(1, schemaId=2), None, []).decided()
    assert catalog.snapshots.latest(altered) is None


def test_what_cannot_be_rolled_back_to(catalog: Catalog, altered: Identifier) -> None:
    for number in (3, 999, -1):
        with pytest.raises(Invalid):
            catalog.snapshots.rollback_schema(altered, number)
    assert catalog.tables.get(altered).schema.id == 2
    with pytest.raises(NotFound) as missing:
        catalog.snapshots.rollback_schema(Identifier(altered.database, "nowhere"), 0)
    assert missing.value.resource_type is ResourceType.TABLE


def test_each_branch_has_schemas_of_its_own(
    catalog: Catalog, altered: Identifier, snapshot: MakeSnapshot, directory: Path
) -> None:
    catalog.branches.create(altered, "b")
    b = branch_of(altered, "b")
    assert catalog.snapshots.commit(b, None, snapshot(1, schemaId=2), None, []).decided()
    catalog.snapshots.rollback_schema(altered, 0)
    assert catalog.tables.get(altered).schema.id == 0
    assert catalog.tables.get(b).schema.id == 2
    assert len(_schema_files(directory / "branch" / "branch-b")) == 3
    with pytest.raises(Conflict):
        catalog.snapshots.rollback_schema(b, 1)
