"""``ALTER TABLE``: properties, names, columns. All changes of a statement are one version."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.alter_columns import (
    read_added_columns,
    read_altered_columns,
    read_changed_column,
    renamed_column,
)
from headwater.spark.sql.ddl.column_types import refuse_collation
from headwater.spark.sql.ddl.options import COMMENT, check_properties
from headwater.spark.sql.ddl.partitions import PARTITION_CLAUSES
from headwater.spark.sql.ddl.tags import TAG_CLAUSES
from headwater.spark.sql.names import column_path, object_identifier
from headwater.spark.sql.session_options import named_table
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import NotFound, Unsupported
from headwater.storage.schema.change import (
    DropColumn,
    RemoveOption,
    SchemaChange,
    SetOption,
    UpdateComment,
)

__all__ = ["HANDLERS", "renamed", "set_properties", "unset_properties"]

_Clause = Callable[[Statement, Table, SqlContext], None]
_REFUSED: Mapping[tuple[str, ...], str] = {
    ("SET", "LOCATION"): "a table stays where it is; clone it with CREATE TABLE … AS",
    ("SET", "SERDE"): "tables have no serialisers",
    ("SET", "SERDEPROPERTIES"): "tables have no serialisers",
    ("REPLACE", "COLUMNS"): "name the changes with ADD, DROP and ALTER COLUMN",
    ("PARTITION",): "write the rows to the other partition, and drop this one",
    ("CLUSTER", "BY"): "set the property 'clustering.columns'",
    ("ADD", "CONSTRAINT"): "tables have no constraints but keys and NOT NULL",
    ("DROP", "CONSTRAINT"): "tables have no constraints but keys and NOT NULL",
    ("CREATE", "BRANCH"): "CALL sys.create_branch(table => 't', branch => 'b', tag => 'v1')",
    ("CREATE", "OR", "REPLACE", "BRANCH"): "drop the branch, and create it with a procedure",
    ("REPLACE", "BRANCH"): "drop the branch, and create it with a procedure",
    ("DROP", "BRANCH"): "CALL sys.delete_branch(table => 't', branch => 'b')",
    ("DROP", "TAG"): "write DELETE TAG",
    ("ADD", "PARTITION", "FIELD"): "a table keeps its partition columns; make another of it",
    ("DROP", "PARTITION", "FIELD"): "a table keeps its partition columns; make another of it",
    ("REPLACE", "PARTITION", "FIELD"): "a table keeps its partition columns; make another of it",
    ("WRITE",): "set the property 'clustering.columns'; a table with a primary key is sorted by it",
    ("SET", "IDENTIFIER", "FIELDS"): "a table keeps its primary key; make another of it",
    ("DROP", "IDENTIFIER", "FIELDS"): "a table keeps its primary key; make another of it",
}


def _alter(statement: Statement, context: SqlContext) -> None:
    """``ALTER TABLE t …``."""
    statement.expect("ALTER", "TABLE")
    name = object_identifier(statement, context)
    context.note_change(str(name))
    for words, instead in _REFUSED.items():
        if statement.peek(*words):
            raise Unsupported(f"ALTER TABLE … {' '.join(words)} is not supported: {instead}")
    for words, of_tags in TAG_CLAUSES.items():
        if statement.peek(*words):
            of_tags(statement, named_table(context, str(name)))
            return
    for words, of_partitions in PARTITION_CLAUSES.items():
        if statement.peek(*words):
            of_partitions(statement, named_table(context, str(name)), context)
            return
    if statement.peek("DEFAULT", "COLLATION"):
        named_table(context, str(name))
        refuse_collation(statement)
        statement.end()
        return
    for words, clause in _CLAUSES.items():
        if statement.accept(*words):
            clause(statement, named_table(context, str(name)), context)
            return
    known = (*_CLAUSES, *PARTITION_CLAUSES, *TAG_CLAUSES)
    raise statement.unexpected(", ".join(" ".join(words) for words in known))


def _set_properties(statement: Statement, table: Table, context: SqlContext) -> None:
    table.alter(*set_properties(statement, check=True))


def _unset_properties(statement: Statement, table: Table, context: SqlContext) -> None:
    table.alter(*unset_properties(statement))


def set_properties(statement: Statement, *, check: bool) -> list[SetOption | UpdateComment]:
    """Read the properties after ``SET TBLPROPERTIES``, as changes; ``comment`` is the comment.

    Args:
        statement: The statement.
        check: Whether they are a table's, which must be options or properties of the user's own.
    """
    options = statement.properties()
    statement.end()
    changes: list[SetOption | UpdateComment] = []
    comment = options.pop(COMMENT, None)
    if comment is not None:
        changes.append(UpdateComment(comment))
    if check:
        check_properties(options)
    changes += [SetOption(key, value) for key, value in options.items()]
    return changes


def unset_properties(statement: Statement) -> list[RemoveOption | UpdateComment]:
    """Read the keys after ``UNSET TBLPROPERTIES``, as changes; what is not set stays so."""
    statement.accept("IF", "EXISTS")
    keys = statement.keys()
    statement.end()
    return [UpdateComment(None) if key == COMMENT else RemoveOption(key) for key in keys]


def _rename(statement: Statement, table: Table, context: SqlContext) -> None:
    target = renamed(statement, table.identifier, context)
    context.catalog.catalog.tables.rename(table.identifier, target)


def renamed(statement: Statement, source: Identifier, context: SqlContext) -> Identifier:
    """Read a new name; one without a database stays in that of the old one."""
    parts = statement.name_parts()
    statement.end()
    if len(parts) == 1:
        return Identifier(source.database, parts[0])
    return Identifier.parse(context.full_name(parts))


def _rename_column(statement: Statement, table: Table, context: SqlContext) -> None:
    path = column_path(table.schema.fields, statement.name_parts())
    statement.expect("TO")
    new_name = statement.name()
    statement.end()
    table.alter(renamed_column(table.schema, path, new_name, statement.fold))


def _add_columns(statement: Statement, table: Table, context: SqlContext) -> None:
    table.alter(*read_added_columns(statement, table.schema))


def _drop_columns(statement: Statement, table: Table, context: SqlContext) -> None:
    ignore = statement.accept("IF", "EXISTS")
    brackets = statement.accept("(")
    changes: list[SchemaChange] = []
    while True:
        path = statement.name_parts()
        try:
            changes.append(DropColumn(column_path(table.schema.fields, path)))
        except NotFound:
            if not ignore:
                raise
        if not statement.accept(","):
            break
    if brackets:
        statement.expect(")")
    statement.end()
    if changes:
        table.alter(*changes)


def _alter_columns(statement: Statement, table: Table, context: SqlContext) -> None:
    table.alter(*read_altered_columns(statement, table.schema))


def _change_column(statement: Statement, table: Table, context: SqlContext) -> None:
    table.alter(*read_changed_column(statement, table.schema))


_CLAUSES: Mapping[tuple[str, ...], _Clause] = {
    ("SET", "TBLPROPERTIES"): _set_properties,
    ("UNSET", "TBLPROPERTIES"): _unset_properties,
    ("RENAME", "TO"): _rename,
    ("RENAME", "COLUMN"): _rename_column,
    ("ADD", "COLUMNS"): _add_columns,
    ("ADD", "COLUMN"): _add_columns,
    ("DROP", "COLUMNS"): _drop_columns,
    ("DROP", "COLUMN"): _drop_columns,
    ("ALTER", "COLUMN"): _alter_columns,
    ("ALTER",): _alter_columns,
    ("CHANGE", "COLUMN"): _change_column,
    ("CHANGE",): _change_column,
}

HANDLERS: Mapping[tuple[str, ...], Handler] = {("ALTER", "TABLE"): _alter}
