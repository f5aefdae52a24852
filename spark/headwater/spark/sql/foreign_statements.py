"""Statements of Delta Lake and Iceberg, which are refused with the ones to write here."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.show.describe import HANDLERS as DESCRIBE
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Unsupported

__all__ = ["HANDLERS"]

_STATEMENTS: Mapping[tuple[str, ...], str] = {
    ("OPTIMIZE",): "CALL sys.compact(table => 'd.t'), which sorts an append table's rows with "
    "order_strategy => 'zorder', order_by => 'a,b'",
    ("VACUUM",): "CALL sys.expire_snapshots(table => 'd.t') forgets old versions, and "
    "CALL sys.remove_orphan_files(table => 'd.t') deletes what is left over",
    ("RESTORE",): "CALL sys.rollback(table => 'd.t', snapshot => 3)",
    ("REORG",): "CALL sys.compact(table => 'd.t')",
    ("CONVERT", "TO"): "CREATE TABLE t AS SELECT * FROM parquet.`path`",
    ("GENERATE",): "other engines reach the tables through the catalog and need no list of files",
    ("FSCK",): "headwater fsck checks a table, and CALL sys.repair('d.t') mends the catalog",
}
_DESCRIPTIONS: Mapping[str, str] = {
    "HISTORY": "SELECT * FROM `t$snapshots`",
    "DETAIL": "DESCRIBE EXTENDED t, or SELECT * FROM `t$files`",
}


def _refuse(statement: Statement, context: SqlContext) -> Answer:
    words = next(words for words in _STATEMENTS if statement.peek(*words))
    raise Unsupported(f"{' '.join(words)} is not supported; instead: {_STATEMENTS[words]}")


def _describe(statement: Statement, context: SqlContext) -> Answer:
    """``DESCRIBE HISTORY t`` and ``DESCRIBE DETAIL t``, unless a table has such a name."""
    start = statement.mark()
    if not statement.accept("DESC"):
        statement.expect("DESCRIBE")
    word = statement.name()
    is_table = statement.at_end or (
        context.database is not None and context.catalog.table_exists(f"{context.database}.{word}")
    )
    statement.reset(start)
    if is_table:
        return DESCRIBE[("DESCRIBE",)](statement, context)
    raise Unsupported(
        f"DESCRIBE {word.upper()} is not supported; instead: {_DESCRIPTIONS[word.upper()]}"
    )


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    **dict.fromkeys(_STATEMENTS, _refuse),
    **{(verb, word): _describe for verb in ("DESCRIBE", "DESC") for word in _DESCRIPTIONS},
}
