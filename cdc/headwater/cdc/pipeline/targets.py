"""The lake's tables that a pipeline writes to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.queries.names import check_table_name
from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.sink.target_tables import (
    check_existing,
    check_new,
    target_schema,
)
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import SchemaChange, SetOption

__all__ = ["CLASH_REMEDY", "Targets"]

CLASH_REMEDY = (
    "name one of them with table-mapping, all by their databases with merge-shards false, exclude "
    "one, or follow them with two pipelines into two databases"
)
"""What helps where two tables of the source would have one table of the lake."""

_PIPELINE_OPTION = "headwater.cdc.pipeline"


class Targets:
    """The lake's tables, opened once.

    Args:
        lake: The lake.
        settings: The pipeline's.

    Attributes:
        writers: Threads that write to them. New ones for each batch would begin with fresh memory.
    """

    def __init__(self, lake: Lake, settings: PipelineSettings) -> None:
        self._lake, self._settings = lake, settings
        self.writers = ThreadPoolExecutor(settings.writers, "cdc-write")
        self._tables: dict[str, Table] = {}

    def name(self, source: TableName) -> str:
        """The name of the lake's table of a source's, ``database.table``."""
        return f"{self._settings.target}.{self._settings.names.table(source)}"

    def open(self, target: str) -> Table:
        """A table; NotFound."""
        if target not in self._tables:
            self._tables[target] = self._lake.table(target)
        return self._tables[target]

    def forget(self, target: str) -> None:
        """Look at a table anew when it is opened next: somebody else may have changed it."""
        self._tables.pop(target, None)

    def exists(self, target: str) -> bool:
        """Whether there is a table of that name."""
        return self._lake.table_exists(target)

    def check(self, target: str, source: SourceTable) -> None:
        """Check that a table can follow a source's, whether it exists or not.

        Raises:
            Invalid: It is another table, or the options do not fit it.
            Unsupported: Headwater does not write such a table.
        """
        if not self.exists(target):
            check_new(target, source, self._settings.table_options)
            return
        check_existing(self._lake, target, source)
        other = self.open(target).schema.options.get(_PIPELINE_OPTION, self._settings.name)
        if other != self._settings.name:
            raise Invalid(
                f"table {target} of the lake: pipeline '{other}' writes to it; choose another "
                f"database of the lake, or, if that pipeline does not run any more, unset the "
                f"table's option '{_PIPELINE_OPTION}'"
            )

    def create(self, target: str, source: SourceTable) -> None:
        """Create a table, unless it exists in the same form.

        Raises:
            Invalid: It exists in another form.
        """
        self.check(target, source)
        options = {**self._settings.table_options, _PIPELINE_OPTION: self._settings.name}
        table = self._lake.create_table(
            target, target_schema(source, options), ignore_if_exists=True
        )
        if _PIPELINE_OPTION not in table.schema.options:
            table.alter(SetOption(_PIPELINE_OPTION, self._settings.name))
        self._tables.pop(target, None)

    def is_own(self, target: str) -> bool:
        """Whether there is a table of that name that the pipeline made."""
        return self.exists(target) and (
            self.open(target).schema.options.get(_PIPELINE_OPTION) == self._settings.name
        )

    def alter(self, target: str, *changes: SchemaChange) -> None:
        """Change a table's schema."""
        self._tables[target] = self.open(target).alter(*changes)

    def rename(self, target: str, new_target: str) -> None:
        """Rename a table, unless that is done; Invalid for a name that no table can have."""
        check_table_name(Identifier.parse(new_target))
        if target != new_target and self.exists(target):
            self._lake.rename_table(target, new_target)
        self._tables.pop(target, None)

    def drop(self, target: str) -> None:
        """Drop a table, if it exists."""
        self._lake.drop_table(target, ignore_if_not_exists=True)
        self._tables.pop(target, None)

    def lake_table(self, target: str, source: SourceTable) -> SourceTable:
        """A source's table with the types that its columns have in the lake.

        Raises:
            Invalid: The lake's table lacks a column: somebody else changed it.
        """
        fields = self.open(target).schema.field_by_name
        missing = [column.name for column in source.columns if column.name not in fields]
        if missing:
            raise Invalid(
                f"table {target} of the lake lacks the column '{missing[0]}' of {source.name} at "
                f"the source; somebody changed it. Read it again: headwater cdc resnapshot "
                f"{source.name}"
            )
        columns = tuple(replace(column, type=fields[column.name].type) for column in source.columns)
        return replace(source, columns=columns)
