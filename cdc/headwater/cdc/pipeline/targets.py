"""The lake's tables that a pipeline writes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock

import pyarrow as pa

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.queries.names import check_table_name
from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import STATE_TABLE
from headwater.cdc.sink.row_mapping import RowMapping, row_schema, with_kind
from headwater.cdc.sink.target_tables import (
    check_existing,
    check_new,
    target_schema,
)
from headwater.cdc.sink.united_schemas import uniting_changes
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid, NotFound
from headwater.storage.rows.kinds import RowKind
from headwater.storage.schema.change import RemoveOption, SchemaChange, SetOption

__all__ = ["BATCH_OPTION", "CLASH_REMEDY", "DEFINITION_OPTION", "Targets"]

CLASH_REMEDY = (
    "name one of them with table-mapping, all by their databases with merge-shards false, merge "
    "them with merge-shards true, exclude one, or follow them with two pipelines"
)
"""What helps where two tables of the source would have one table of the lake."""

BATCH_OPTION = "headwater.cdc.batch"
"""The option of a table that tells which batch has altered it last."""

DEFINITION_OPTION = "headwater.cdc.definition"
"""The option of a table with the source's definition that it was altered for; see `alter`."""

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
        self._writing: dict[str, Lock] = {}

    def name(self, source: TableName) -> str:
        """The name of the lake's table of a source's, ``database.table``."""
        return f"{self._settings.target}.{self._settings.layout.names.table(source)}"

    def open(self, target: str) -> Table:
        """A table; NotFound."""
        if target not in self._tables:
            self._tables[target] = self._lake.table(target)
        return self._tables[target]

    def own(self, target: str, source: TableName) -> Table:
        """A table that is written to for a source's.

        Raises:
            NotFound: Somebody dropped it.
            Invalid: Somebody made it again: it has none of the rows.
        """
        help_ = f"read the table again: headwater cdc resnapshot {source}"
        try:
            table = self.open(target)
        except NotFound as error:
            raise NotFound(f"{error.message}: somebody dropped it; {help_}") from error
        if self._owner(target) != self._settings.name:
            raise Invalid(
                f"table {target} is not the one that the pipeline wrote; drop or rename it, and "
                f"{help_}"
            )
        return table

    def forget(self, target: str) -> None:
        """Read a table again when it is opened next: somebody else may have changed it."""
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
        layout = self._settings.layout.layout(source.name)
        expanded = layout.expanded(source)
        if not self.exists(target):
            check_new(target, expanded, self._settings.table_options, layout.partition_keys)
            return
        partition_keys, is_merged = layout.partition_keys, layout.is_merged
        check_existing(self._lake, target, expanded, partition_keys, is_merged=is_merged)
        self._check_owner(target)

    def _owner(self, target: str) -> str | None:
        """The name of the pipeline that writes to a table; None if no pipeline has taken it."""
        return self.open(target).schema.options.get(_PIPELINE_OPTION)

    def _check_owner(self, target: str) -> None:
        other = self._owner(target)
        if other not in (None, self._settings.name):
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
        layout = self._settings.layout.layout(source.name)
        options = {**self._settings.table_options, _PIPELINE_OPTION: self._settings.name}
        schema = target_schema(layout.expanded(source), options, layout.partition_keys)
        self._lake.create_table(target, schema, ignore_if_exists=True)
        self.forget(target)
        self.take(target)
        if layout.is_merged:
            self.unite(target, source)

    def take(self, target: str) -> None:
        """Make a table the pipeline's.

        Raises:
            Invalid: Another pipeline writes to it.
        """
        self._check_owner(target)
        if self._owner(target) is None:
            self.alter(target, SetOption(_PIPELINE_OPTION, self._settings.name))

    def check_number(self, target: str, source: TableName, number: int) -> None:
        """Check that the batches after a number can be committed to a table.

        Raises:
            Invalid: It has commits of later ones: these would count as committed.
        """
        table = self.open(target)
        altered = table.schema.options.get(BATCH_OPTION, "")
        written = table.last_committed(self._settings.user(source)) or 0
        last = max(written, int(altered) if altered.isdecimal() else 0)
        if last > number:
            raise Invalid(
                f"table {target} of the lake has batch {last} of pipeline '{self._settings.name}', "
                f"which has come to batch {number} only: its state was lost; restore the table "
                f"{self._settings.target}.{STATE_TABLE}, or replace the lake's table: headwater "
                f"cdc resnapshot {source} --replace"
            )

    def is_own(self, target: str) -> bool:
        """Whether there is a table of that name that the pipeline made."""
        return self.exists(target) and self._owner(target) == self._settings.name

    def alter(self, target: str, *changes: SchemaChange) -> None:
        """Change a table's schema; without a definition it is altered for none."""
        is_defined = any(
            isinstance(change, SetOption) and change.key == DEFINITION_OPTION for change in changes
        )
        if not is_defined and DEFINITION_OPTION in self.open(target).schema.options:
            changes = (*changes, RemoveOption(DEFINITION_OPTION))
        if changes:
            self._tables[target] = self.open(target).alter(*changes)

    def unite(self, target: str, source: SourceTable, gone: Collection[str] = ()) -> None:
        """Let a merged table also have the rows of a source's table.

        Args:
            target: The lake's table.
            source: The source's table.
            gone: Columns that no table has any more that is merged into it.

        Raises:
            Invalid, Unsupported: The table's rows do not fit.
        """
        expanded = self._settings.layout.layout(source.name).expanded(source)
        changes = uniting_changes(self.open(target).schema, expanded, gone)
        if changes:
            self.alter(target, *changes)

    def clear(
        self, target: str, source: TableName, number: int, properties: Mapping[str, str]
    ) -> None:
        """Delete the rows of one of the source's tables, once for each number.

        Its columns may not be known. The user is another one than that of its rows, as the batch
        may have some of these.
        """
        user = f"{self._settings.user(source)}-truncate"
        table = self.own(target, source)
        if not self._settings.layout.merges:
            table.truncate(commit_user=user, commit_identifier=number, properties=properties)
            return
        columns = [SourceColumn(field.name, "", field.type) for field in table.schema.fields]
        stored = SourceTable(source, tuple(columns), table.schema.primary_keys)
        schema = row_schema(stored)
        where = RowMapping(stored, stored, self._settings.layout.layout(source), ()).where
        scan = table.scan(columns=schema.names[:-1], where=where)
        rows = (with_kind(batch, RowKind.DELETE, schema) for batch in scan.to_batches())
        table.write(
            pa.RecordBatchReader.from_batches(schema, rows),
            commit_user=user,
            commit_identifier=number,
            properties=properties,
        )

    def writing(self, target: str) -> Lock:
        """What a thread holds that writes to a table, as several may write to a merged one."""
        return self._writing.setdefault(target, Lock())

    def rename(self, target: str, new_target: str) -> None:
        """Rename a table of the pipeline, unless that is done; one of somebody else stays.

        Raises:
            Invalid: No table can have that name.
        """
        check_table_name(Identifier.parse(new_target))
        self.forget(target)
        if target != new_target and self.is_own(target):
            self._lake.rename_table(target, new_target)
        self.forget(target)

    def drop(self, target: str) -> None:
        """Drop a table of the pipeline, if it exists; one of somebody else stays."""
        self.forget(target)
        if self.is_own(target):
            self._lake.drop_table(target, ignore_if_not_exists=True)
        self.forget(target)

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

    def mapping(self, target: str, source: SourceTable) -> RowMapping:
        """How rows of a source's table become rows of the lake's.

        Raises:
            Invalid: The lake's table lacks a column, or the options do not fit the source's table.
        """
        layout = self._settings.layout.layout(source.name)
        expanded = self.lake_table(target, layout.expanded(source))
        count = len(source.columns)
        lake_table = replace(source, columns=expanded.columns[:count])
        if layout.is_merged:
            own = {column.name for column in expanded.columns}
            others = [
                SourceColumn(field.name, "", field.type)
                for field in self.open(target).schema.fields
                if field.name not in own
            ]
            expanded = replace(expanded, columns=(*expanded.columns, *others))
        return RowMapping(lake_table, expanded, layout, layout.identity(source))
