"""A catalog that is only read, in which EXPLAIN checks statements.

What a catalog would reject about names and schemas is rejected here, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import pyarrow as pa

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.tables import TableInfo
from headwater.client import Lake
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.explained_write import WriteReached
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.files.access import FileAccess, FileStatus
from headwater.storage.files.withheld import WithheldFiles
from headwater.storage.schema.change import SchemaChange
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema, replacing_schema
from headwater.storage.schema.table_schema import Schema

__all__ = ["explaining"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_Check = Callable[..., bool]
"""Rejects what a method of a catalog's part would; the result is whether nothing would change."""

_READS = frozenset(
    (
        "access", "commits_of", "get", "get_by_id", "is_database_protected",
        "is_table_protected", "latest", "list", "list_by_filter", "list_by_names",
        "list_details", "list_globally", "of", "read", "state", "was_taken", "who",
    )
)  # fmt: skip
"""The methods of a catalog's parts that change nothing."""


def explaining(session: CatalogSession, mode: str) -> CatalogSession:
    """A session whose statements raise `WriteReached` where they would change something.

    Args:
        session: The session in which they would be run.
        mode: As `DataFrame.explain` takes it.
    """
    catalog = cast("Catalog", _ReadOnlyCatalog(session.catalog.catalog))
    lake = Lake(catalog, session.catalog.runtime)
    return replace(session, catalog=lake, executor=_NoTasks(), explains=mode)


class _NoTasks:
    """Implements `headwater.storage.jobs.executor.ParallelExecutor` for jobs that are not run."""

    at_once = 1

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        raise WriteReached


class _ReadOnlyCatalog:
    """Implements `headwater.catalog.model.catalog.Catalog` for reads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __reduce__(self) -> tuple[type[_ReadOnlyCatalog], tuple[Catalog]]:
        return _ReadOnlyCatalog, (self._catalog,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._catalog, name)
        is_plain = isinstance(value, str | int | float | Mapping)
        return value if is_plain else _ReadOnlyPart(self._catalog, name)

    def table_files(self, info: TableInfo) -> FileAccess:
        """Access to a table's files, of which none is written."""
        files = self._catalog.table_files(info)
        # Readers of such tables look for the class.
        return files if isinstance(files, WithheldFiles) else _ReadOnlyFiles(files)

    def patient(self, seconds: float) -> _ReadOnlyCatalog:
        """The same catalog with another patience."""
        return _ReadOnlyCatalog(self._catalog.patient(seconds))


class _ReadOnlyPart:
    """The tables of a catalog, its views, its tags and so on."""

    def __init__(self, catalog: Catalog, name: str) -> None:
        self._catalog = catalog
        self._name = name

    def __reduce__(self) -> tuple[type[_ReadOnlyPart], tuple[Catalog, str]]:
        return _ReadOnlyPart, (self._catalog, self._name)

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        if method in _READS:
            return getattr(getattr(self._catalog, self._name), method)
        check = _CHECKS.get((self._name, method))

        def stop(*args: Any, **options: Any) -> None:
            if check is None or not check(self._catalog, *args, **options):
                raise WriteReached

        return stop


@dataclass(frozen=True)
class _ReadOnlyFiles:
    """Implements `headwater.storage.files.access.FileAccess` for reads.

    Attributes:
        files: The access to the files.
    """

    files: FileAccess

    def read(self, path: str) -> bytes:
        """The file's content; raises NotFound."""
        return self.files.read(path)

    def exists(self, path: str) -> bool:
        """Whether the file exists."""
        return self.files.exists(path)

    def size(self, path: str) -> int:
        """The file's size in bytes; raises NotFound."""
        return self.files.size(path)

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Stop."""
        raise WriteReached

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Stop."""
        raise WriteReached

    def delete(self, path: str) -> None:
        """Stop."""
        raise WriteReached

    def make_directory(self, directory: str) -> None:
        """Stop."""
        raise WriteReached

    def check_directory(self, directory: str) -> None:
        """Stop."""
        raise WriteReached

    def delete_tree(self, directory: str) -> None:
        """Stop."""
        raise WriteReached

    def list(self, directory: str) -> list[FileStatus]:
        """The files directly in a directory."""
        return self.files.list(directory)

    def folders(self, directory: str) -> Sequence[str]:
        """The directories directly in a directory."""
        return self.files.folders(directory)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All files below a directory."""
        return self.files.walk(directory, unfinished=unfinished)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads; raises NotFound."""
        return self.files.open_input(path)

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """Stop."""
        raise WriteReached


# What a catalog would reject ------------------------------------------------------------------


def _create_database(
    catalog: Catalog, name: str, options: object = None, *, ignore_if_exists: bool = False
) -> bool:
    get = catalog.databases.get
    return _is_taken(get, name, ResourceType.DATABASE, ignore=ignore_if_exists)


def _change_database(catalog: Catalog, name: str, *changes: object) -> bool:
    catalog.databases.get(name)
    return False


def _create_table(
    catalog: Catalog, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
) -> bool:
    catalog.databases.get(identifier.database)
    taken = _is_taken(catalog.tables.get, identifier, ResourceType.TABLE, ignore=ignore_if_exists)
    if not taken:
        new_table_schema(schema, 0)
    return taken


def _alter_table(catalog: Catalog, identifier: Identifier, changes: Sequence[SchemaChange]) -> bool:
    info = catalog.tables.get(identifier)
    has_snapshots = catalog.snapshots.latest(identifier) is not None
    changed = apply_changes(info.schema, changes, now_millis=0, has_snapshots=has_snapshots)
    return changed is info.schema


def _replace_table(catalog: Catalog, identifier: Identifier, schema: Schema) -> bool:
    replacing_schema(catalog.tables.get(identifier).schema, schema, 0)
    return False


def _create_tag(
    catalog: Catalog, identifier: Identifier, tag: str, *of: object, **how: object
) -> bool:
    get = catalog.tags.get
    return _is_taken(lambda name: get(identifier, name), tag, ResourceType.TAG, ignore=False)


def _change_tag(
    catalog: Catalog, identifier: Identifier, tag: str, *to: object, **how: object
) -> bool:
    catalog.tags.get(identifier, tag)
    return False


def _of_objects(part: str, resource_type: ResourceType) -> dict[tuple[str, str], _Check]:
    """The checks of tables, views or functions that are about their names alone."""

    def create(
        catalog: Catalog, identifier: Identifier, content: object, *, ignore_if_exists: bool = False
    ) -> bool:
        catalog.databases.get(identifier.database)
        get = getattr(catalog, part).get
        return _is_taken(get, identifier, resource_type, ignore=ignore_if_exists)

    def change(catalog: Catalog, identifier: Identifier, *changes: object, **how: object) -> bool:
        getattr(catalog, part).get(identifier)
        return False

    def drop(
        catalog: Catalog, identifier: Identifier, *, ignore_if_not_exists: bool = False
    ) -> bool:
        try:
            getattr(catalog, part).get(identifier)
        except NotFound:
            if not ignore_if_not_exists:
                raise
            return True
        return False

    def rename(catalog: Catalog, source: Identifier, destination: Identifier) -> bool:
        get = getattr(catalog, part).get
        get(source)
        catalog.databases.get(destination.database)
        return _is_taken(get, destination, resource_type, ignore=False)

    checks: Mapping[str, _Check] = {
        "create": create,
        "alter": change,
        "replace": change,
        "drop": drop,
        "rename": rename,
    }
    return {(part, method): check for method, check in checks.items()}


def _is_taken(
    get: Callable[[Any], object], name: object, resource_type: ResourceType, *, ignore: bool
) -> bool:
    """Whether there is something of a name already.

    Raises:
        AlreadyExists: There is, and that is not to be ignored.
    """
    try:
        get(name)
    except NotFound:
        return False
    if ignore:
        return True
    raise AlreadyExists(
        f"{resource_type.value.lower()} {name} exists already",
        resource_type=resource_type,
        resource_name=str(name),
    )


_CHECKS: Mapping[tuple[str, str], _Check] = {
    ("databases", "create"): _create_database,
    ("databases", "alter"): _change_database,
    ("databases", "drop"): _change_database,
    **_of_objects("tables", ResourceType.TABLE),
    **_of_objects("views", ResourceType.VIEW),
    **_of_objects("functions", ResourceType.FUNCTION),
    ("tables", "create"): _create_table,
    ("tables", "alter"): _alter_table,
    ("tables", "replace"): _replace_table,
    ("tags", "create"): _create_tag,
    ("tags", "replace"): _change_tag,
    ("tags", "rename"): _change_tag,
    ("tags", "delete"): _change_tag,
}
