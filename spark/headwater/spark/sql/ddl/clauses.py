"""The clauses that follow a table's name and columns in CREATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.spark.sql.ddl.column_types import refuse_collation
from headwater.spark.sql.ddl.columns import read_column
from headwater.spark.sql.ddl.options import COMMENT, PATH, check_properties, provider_options
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import DataField

__all__ = ["TableClauses", "read_clauses"]

_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
_REFUSED = {
    ("CLUSTERED", "BY"): "write TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'id') for buckets",
    ("CLUSTER", "BY"): "write TBLPROPERTIES ('clustering.columns' = 'a,b')",
    ("CLONE",): "CALL sys.copy(source_table => 'd.t', target_table => 'd.u')",
    ("SHALLOW", "CLONE"): "CALL sys.copy(source_table => 'd.t', target_table => 'd.u') copies the "
    "files, too; a branch shares them: CALL sys.create_branch(table => 'd.t', branch => 'b')",
    ("DEEP", "CLONE"): "CALL sys.copy(source_table => 'd.t', target_table => 'd.u')",
    ("SKEWED", "BY"): "tables have no skew",
    ("ROW", "FORMAT"): "write USING csv, with the options of the format",
    ("STORED", "AS"): "write USING parquet, orc, csv, json or text",
    ("STORED", "BY"): "tables have no storage handlers",
}


@dataclass
class TableClauses:
    """The clauses of a table besides its columns.

    Attributes:
        provider: The name after ``USING``; None without it.
        options: The properties, with those that other clauses stand for.
        comment: The table's comment.
        partition_keys: The names of partition columns, as they are written.
        partition_columns: Those that the clause itself defines.
        query: The query after AS; empty without one.
    """

    provider: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    partition_keys: list[str] = field(default_factory=list)
    partition_columns: list[DataField] = field(default_factory=list)
    query: str = ""


def read_clauses(statement: Statement) -> TableClauses:
    """Read the rest of a CREATE TABLE.

    Raises:
        Invalid: A clause stands twice, or a property is neither an option nor the user's own.
        Unsupported: A clause is one that tables do not have.
    """
    clauses = TableClauses()
    seen: set[str] = set()
    while not statement.at_end:
        if statement.accept("AS") or any(statement.peek(word) for word in _QUERIES):
            clauses.query = statement.rest()
            if not clauses.query:
                raise statement.unexpected("a query")
            break
        clause = _read_clause(statement, clauses)
        if clause in seen:
            raise Invalid(f"{clause} stands twice")
        seen.add(clause)
    comment = clauses.options.pop(COMMENT, None)
    if comment is not None:
        if clauses.comment is not None:
            raise Invalid("COMMENT and the property 'comment' are the same: write one of them")
        clauses.comment = comment
    for key, value in provider_options(clauses.provider).items():
        if clauses.options.get(key, value) != value:
            raise Invalid(
                f"USING {clauses.provider} stands for '{key}' = '{value}', not another one"
            )
        clauses.options[key] = value
    check_properties(clauses.options)
    return clauses


def _read_clause(statement: Statement, clauses: TableClauses) -> str:
    """Read one clause; its name."""
    if statement.accept("USING"):
        clauses.provider = statement.name()
        return "USING"
    if statement.accept("COMMENT"):
        clauses.comment = statement.string()
        return "COMMENT"
    for words in (("TBLPROPERTIES",), ("OPTIONS",)):
        if statement.accept(*words):
            for key, value in statement.properties().items():
                _set(clauses, key, value)
            return words[0]
    if statement.accept("LOCATION"):
        _set(clauses, PATH, statement.string())
        return "LOCATION"
    if statement.accept("PARTITIONED", "BY"):
        _read_partitioning(statement, clauses)
        return "PARTITIONED BY"
    if statement.peek("DEFAULT", "COLLATION"):
        refuse_collation(statement)
        return "DEFAULT COLLATION"
    for refused, instead in _REFUSED.items():
        if statement.peek(*refused):
            raise Unsupported(f"CREATE TABLE … {' '.join(refused)} is not supported: {instead}")
    raise statement.unexpected(
        "USING, PARTITIONED BY, TBLPROPERTIES, OPTIONS, LOCATION, COMMENT or AS"
    )


def _set(clauses: TableClauses, key: str, value: str) -> None:
    if key in clauses.options:
        raise Invalid(f"the property '{key}' is given twice")
    clauses.options[key] = value


def _read_partitioning(statement: Statement, clauses: TableClauses) -> None:
    statement.expect("(")
    while not statement.accept(")"):
        if clauses.partition_keys:
            statement.expect(",")
        start = statement.mark()
        name = statement.name()
        if statement.peek("("):
            raise Unsupported(
                f"PARTITIONED BY ({name}(…)): a table is partitioned by columns, not by what is "
                "computed of them; add a column with the value"
            )
        if not (statement.peek(",") or statement.peek(")")):
            statement.reset(start)
            column = read_column(statement)
            clauses.partition_columns.append(column)
        clauses.partition_keys.append(name)
    if not clauses.partition_keys:
        raise Invalid("PARTITIONED BY () names no column")
    if clauses.partition_columns and len(clauses.partition_columns) < len(clauses.partition_keys):
        raise Invalid("PARTITIONED BY has types for all of its columns or for none")
