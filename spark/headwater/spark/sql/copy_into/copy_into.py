"""``COPY INTO``: files into a table, or rows into files.

Source: ``CopyIntoTableExec.scala``, ``CopyIntoLocationExec.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Observation
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.errors import own_errors
from headwater.spark.explained_write import stop_if_explained
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.copy_into.file_format import (
    FileFormat,
    FileType,
    boolean_clause,
    read_format,
)
from headwater.spark.sql.copy_into.load_history import LoadHistory
from headwater.spark.sql.copy_into.source_files import (
    SourceFile,
    list_files,
    refuse_pattern,
    select_files,
)
from headwater.spark.sql.copy_into.source_rows import FileErrors, SourceRows
from headwater.spark.sql.names import column_name, string_literal
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.statements import query_text
from headwater.spark.sql.session_options import table_to_change
from headwater.spark.sql.statement import Statement, split_statements
from headwater.spark.write.change_commit import insert_numbered
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    HeadwaterError,
    Invalid,
    OutcomeUnknown,
    Unsupported,
)
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.job import until_no_conflict

__all__ = ["HANDLERS"]

_RESULT: Mapping[str, type] = {
    "file_name": str, "status": str, "rows_loaded": int, "rows_parsed": int, "errors_seen": int,
    "first_error": str,
}  # fmt: skip
_TABLE_FILE = "schema-[0-9]*"


class _OnError(StrEnum):
    ABORT_STATEMENT = "ABORT_STATEMENT"
    CONTINUE = "CONTINUE"
    SKIP_FILE = "SKIP_FILE"


@dataclass
class _Choices:
    """The clauses after the format."""

    pattern: str | None = None
    files: list[str] | None = None
    force: bool = False
    on_error: _OnError = _OnError.ABORT_STATEMENT


def _copy(statement: Statement, context: SqlContext) -> pa.Table:
    """``COPY INTO name [(columns)] FROM 'path' …`` and ``COPY INTO 'path' FROM …``."""
    statement.expect("COPY", "INTO")
    if statement.peek_string():
        return _into_location(statement, context)
    return _into_table(statement, context)


# Into a table ---------------------------------------------------------------------------------


def _into_table(statement: Statement, context: SqlContext) -> pa.Table:
    """``COPY INTO name [(columns)] FROM 'path' FILE_FORMAT = (…) [PATTERN = …] …``."""
    table = table_to_change(context, statement.name_parts(), statement.hint())
    columns = _columns(statement, table)
    statement.expect("FROM")
    if not statement.peek_string():
        raise statement.unexpected("the path of files in quotes")
    path = statement.string()
    file_format = read_format(statement, loads=True)
    choices = _read_choices(statement)
    rows = SourceRows(context.session, table, columns, file_format)
    listed = list_files(context.session.spark, path)
    chosen = select_files(listed, choices.pattern, choices.files)
    loading = _Loading(context, table, rows, choices)
    retries = table.schema.table_options.commit_max_retries
    return answer(_RESULT, until_no_conflict(retries, lambda: loading.run(chosen)))


def _columns(statement: Statement, table: Table) -> list[str]:
    """The columns that the files have; the others take their defaults, or null."""
    fields = table.schema.fields
    names = [field.name for field in fields]
    if not statement.accept("("):
        return names
    names = []
    while not statement.accept(")"):
        if names:
            statement.expect(",")
        name = column_name(fields, statement.name())
        if name in names:
            raise Invalid(f"table {table.name}: column '{name}' is named twice")
        names.append(name)
    for field in fields:
        if field.name not in names and not field.type.nullable and field.default_value is None:
            raise Invalid(
                f"table {table.name}: column '{field.name}' must not be null and has no default: "
                "name it"
            )
    return names


def _read_choices(statement: Statement) -> _Choices:
    choices = _Choices()
    seen: set[str] = set()
    while not statement.at_end:
        refused = statement.unexpected("PATTERN, FILES, FORCE or ON_ERROR")
        clause = statement.name().upper()
        if clause in seen:
            raise Invalid(f"{clause} stands twice")
        seen.add(clause)
        match clause:
            case "PATTERN":
                statement.expect("=")
                choices.pattern = statement.string()
            case "FILES":
                statement.expect("=", "(")
                choices.files = [statement.string()]
                while statement.accept(","):
                    choices.files.append(statement.string())
                statement.expect(")")
            case "FORCE":
                choices.force = boolean_clause(statement)
            case "ON_ERROR":
                statement.expect("=")
                word = statement.name().upper()
                if word not in _OnError.__members__:
                    raise Unsupported(f"ON_ERROR is one of {', '.join(_OnError)}, not {word}")
                choices.on_error = _OnError[word]
            case _:
                raise refused
    if {"PATTERN", "FILES"} <= seen:
        raise Invalid("PATTERN and FILES both say which files are meant: write one of them")
    return choices


@dataclass
class _Loading:
    """Loads files into a table."""

    context: SqlContext
    table: Table
    source: SourceRows
    choices: _Choices

    def run(self, files: list[SourceFile]) -> list[tuple[object, ...]]:
        """Load those that have not been loaded.

        Returns:
            A row for each file.

        Raises:
            Invalid: Rows do not fit the table, and ON_ERROR says nothing else.
            Conflict: Another load came first.
        """
        if self.context.session.explains is not None:
            self._explain(files)
        history = LoadHistory(self.table)
        number = history.settle()
        old = set() if self.choices.force else history.loaded(files)
        new = [file for file in files if file not in old]
        outcomes: list[tuple[object, ...]] = []
        if new:
            with own_errors():
                problems = self.source.errors(new)
            self._refuse_errors(problems)
            outcomes = [_outcome(file, problems[file], self._loads(problems[file])) for file in new]
            good = {
                file: count
                for file, errors in problems.items()
                if (count := self._loads(errors)) or not errors.errors
            }
            self._load(history, number, good)
        return [
            *outcomes,
            *((file.name, "SKIPPED", 0, 0, 0, None) for file in sorted(old, key=_name)),
        ]

    def _explain(self, files: list[SourceFile]) -> None:
        loaded = set() if self.choices.force else LoadHistory(self.table).loaded(files)
        new = [file for file in files if file not in loaded]
        keeps_good = self.choices.on_error is _OnError.CONTINUE
        frame = self.source.rows(new, keeps_good=keeps_good) if new else None
        mode = f"append from {len(new)} of {len(files)} files"
        stop_if_explained(self.context.session, frame, table=self.table.name, mode=mode)

    def _refuse_errors(self, found: Mapping[SourceFile, FileErrors]) -> None:
        if self.choices.on_error is not _OnError.ABORT_STATEMENT:
            return
        for file, each in found.items():
            if each.errors:
                raise Invalid(
                    f"table {self.table.name}: {each.errors} of {each.rows} rows of the file "
                    f"'{file.name}' cannot be loaded ({each.first}), so that nothing was; "
                    "ON_ERROR = CONTINUE leaves such rows out, SKIP_FILE such files"
                )

    def _loads(self, errors: FileErrors) -> int:
        """The rows of a file that are loaded."""
        if errors.errors and self.choices.on_error is _OnError.SKIP_FILE:
            return 0
        return errors.rows - errors.errors

    def _load(self, history: LoadHistory, number: int, rows: Mapping[SourceFile, int]) -> None:
        """Commit rows of files, and note them as loaded."""
        with_rows = [file for file, count in rows.items() if count]
        load = history.begin(rows, number)
        made = None
        if with_rows:
            keeps_good = self.choices.on_error is _OnError.CONTINUE
            frame = self.source.rows(with_rows, keeps_good=keeps_good)
            session = self.context.session
            try:
                made = insert_numbered(session, self.table, frame, load.writer, load.numbered)
            except OutcomeUnknown:
                raise
            except HeadwaterError:
                history.forget(load)
                raise
            if made is None:
                history.forget(load)
                raise Conflict(
                    f"table {self.table.name}: another COPY INTO was done at the same time; "
                    "repeat the statement"
                )
            with after_commit(self.table.name, made, "Noting the files as loaded"):
                history.finish(load, made)
        else:
            history.finish(load, None)


def _outcome(file: SourceFile, found: FileErrors, loaded: int) -> tuple[object, ...]:
    status = "LOADED"
    if found.errors:
        status = "PARTIALLY_LOADED" if loaded else "LOAD_FAILED"
    return file.name, status, loaded, found.rows, found.errors, found.first


def _name(file: SourceFile) -> str:
    return file.name


# Into files -----------------------------------------------------------------------------------


def _into_location(statement: Statement, context: SqlContext) -> pa.Table:
    """``COPY INTO 'path' FROM {name | (query)} FILE_FORMAT = (…) [OVERWRITE = TRUE]``."""
    path = statement.string()
    refuse_pattern(path)
    statement.expect("FROM")
    if statement.peek("("):
        text = statement.bracketed()
        parsed = split_statements(text)
        if len(parsed) != 1:
            raise Invalid("COPY INTO a path FROM () needs a query between the brackets")
        query = query_text(parsed[0])
    else:
        start = statement.mark()
        statement.name_parts()
        query = f"SELECT * FROM {statement.since(start)}"
    file_format = read_format(statement, loads=False)
    overwrites = False
    if statement.accept("OVERWRITE"):
        overwrites = boolean_clause(statement)
    statement.end()
    if overwrites:
        _refuse_tables(context, path)
    count, files = _write(context, query, path, file_format, overwrites)
    return pa.table(
        {
            "output_path": pa.array([path]),
            "file_count": pa.array([files], pa.int32()),
            "rows_written": pa.array([count], pa.int64()),
        }
    )


def _write(
    context: SqlContext, query: str, path: str, file_format: FileFormat, overwrites: bool
) -> tuple[int, int]:
    """Write a query's rows; their number and that of the files."""
    # Counted while they are written: a second run of the query might give others.
    counted = Observation()
    frame = query_frame(query, context).observe(counted, sf.count(sf.lit(1)).alias("rows"))
    mode = "overwrite" if overwrites else "new files"
    stop_if_explained(context.session, frame, table=string_literal(path), mode=mode)
    writer = frame.write.mode("overwrite" if overwrites else "error")
    writer = writer.options(**file_format.writer_options)
    try:
        with own_errors():
            match file_format.type:
                case FileType.CSV:
                    writer.csv(path)
                case FileType.JSON:
                    writer.json(path)
                case FileType.PARQUET:
                    writer.parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise AlreadyExists(
            f"'{path}' is there already: write OVERWRITE = TRUE to replace what it holds"
        ) from None
    written = list_files(context.session.spark, path)
    return int(counted.get["rows"]), sum(file.name.startswith("part-") for file in written)


def _refuse_tables(context: SqlContext, path: str) -> None:
    """Refuse to replace a directory with a table in it."""
    reader = context.session.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        table_file = reader.option("pathGlobFilter", _TABLE_FILE).load(path).select("path").head()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return
    if table_file is not None:
        raise Invalid(
            f"there is a table in '{path}' ({table_file['path']}), which OVERWRITE = TRUE "
            "would delete: name another directory"
        )


HANDLERS: Mapping[tuple[str, ...], Handler] = {("COPY",): _copy}
