"""A table's references as storage's jobs change them, through the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType, Unsupported
from headwater.storage.jobs.deletion import FileReferences
from headwater.storage.maintenance.deletion import Deletion, ReferenceAuthority, References
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["references_of"]


def references_of(
    catalog: Catalog, identifier: Identifier, storage: TableStorage, *, is_external: bool
) -> ReferenceAuthority:
    """The authority on a table's references: the catalog, or an external table's own files."""
    if is_external:
        return FileReferences(storage)
    return _CatalogReferences(catalog, identifier, storage)


@dataclass(frozen=True)
class _CatalogReferences:
    """References that a catalog serialises; implements `ReferenceAuthority`.

    Other catalogs than Headwater's have no such operations: there, nothing is serialised.
    """

    catalog: Catalog
    identifier: Identifier
    storage: TableStorage

    def state(self) -> References:
        """The version of the references, with the open deletion."""
        try:
            return self.catalog.references.state(self.identifier)
        except (NotFound, Unsupported) as error:
            if _is_of_table(error):
                raise
            return FileReferences(self.storage).state()

    def commit_deletion(self, deletion: Deletion) -> bool:
        """Decide a deletion, and delete its roots."""
        try:
            return self.catalog.references.commit_deletion(self.identifier, deletion)
        except (NotFound, Unsupported) as error:
            if _is_of_table(error):
                raise
            return FileReferences(self.storage).commit_deletion(deletion)

    def finish_deletion(self, deletion_id: str) -> None:
        """Forget an open deletion whose files are gone."""
        self.catalog.references.finish_deletion(self.identifier, deletion_id)

    def create_tag(self, name: str, snapshot: Snapshot, retained_millis: int | None) -> bool:
        """Create a tag; False if there is one of that name, or the snapshot has gone."""
        try:
            self.catalog.tags.create(
                self.identifier,
                name,
                snapshot.id,
                retained_millis=retained_millis,
                snapshot_uuid=snapshot.uuid,
            )
        except AlreadyExists:
            return False
        except NotFound as error:
            if error.resource_type is not ResourceType.SNAPSHOT:
                raise
            return False
        return True


def _is_of_table(error: NotFound | Unsupported) -> bool:
    return error.resource_type is ResourceType.TABLE
