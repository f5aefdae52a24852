"""Table options and partition definitions, after CREATE TABLE's columns or within ALTER TABLE."""

from __future__ import annotations

from headwater.cdc.ddl.changes import PartitionChange, RowEffect
from headwater.cdc.ddl.columns import read_charset_name
from headwater.cdc.ddl.tokens import Cursor, TokenType, UnclearSyntaxError
from headwater.cdc.model.tables import TableName

_OPTIONS = [
    "AUTOEXTEND_SIZE",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "CHECKSUM",
    "COMMENT",
    "COMPRESSION",
    "CONNECTION",
    "DELAY_KEY_WRITE",
    "ENCRYPTED",
    "ENCRYPTION",
    "ENCRYPTION_KEY_ID",
    "ENGINE_ATTRIBUTE",
    "IETF_QUOTES",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PAGE_CHECKSUM",
    "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL",
    "PASSWORD",
    "ROW_FORMAT",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLE_CHECKSUM",
    "TABLESPACE",
    "TRANSACTIONAL",
]
# Engines that store the rows of one table as they are: BLACKHOLE, MERGE or FEDERATED do not.
_ENGINES = frozenset(
    [
        "INNODB",
        "MYISAM",
        "ARIA",
        "MARIA",
        "ROCKSDB",
        "TOKUDB",
        "NDB",
        "NDBCLUSTER",
        "ARCHIVE",
        "CSV",
        "MEMORY",
        "HEAP",
    ]
)
_ON_NAMES = {
    "TRUNCATE": RowEffect.REMOVED,
    "ANALYZE": RowEffect.NONE,
    "CHECK": RowEffect.NONE,
    "OPTIMIZE": RowEffect.NONE,
    "REBUILD": RowEffect.NONE,
    "REPAIR": RowEffect.REPLACED,
    "DISCARD": RowEffect.REMOVED,
    "IMPORT": RowEffect.REPLACED,
}


def read_table_option(cursor: Cursor) -> bool:
    """Read a table option that changes neither rows nor columns, if one comes next.

    Raises:
        UnclearSyntaxError: The option may change rows, as some engines do.
    """
    if cursor.at("DEFAULT") or cursor.at_any("CHARACTER", "CHARSET", "CHAR", "COLLATE"):
        cursor.take("DEFAULT")
        if not (
            cursor.take_any("CHARSET", "COLLATE")
            or cursor.take("CHARACTER", "SET")
            or cursor.take("CHAR", "SET")
        ):
            raise cursor.unclear("CHARACTER SET or COLLATE")
        if not cursor.take("=", "DEFAULT") and not cursor.take("DEFAULT"):
            read_charset_name(cursor)
        return True
    if cursor.take_any("ENGINE", "TYPE"):
        cursor.take("=")
        engine = _value(cursor)
        if engine.upper() not in _ENGINES:
            raise UnclearSyntaxError(f"engine {engine} may not keep the rows")
        return True
    if cursor.take("WITH", "SYSTEM", "VERSIONING"):
        raise UnclearSyntaxError("the table is system-versioned, which is not supported")
    if cursor.take("START", "TRANSACTION"):
        return True
    if cursor.take("DATA", "DIRECTORY") or cursor.take("INDEX", "DIRECTORY"):
        cursor.take("=")
        cursor.string()
        return True
    # MariaDB writes the options of engines as quoted names.
    if cursor.token.type is TokenType.QUOTED_NAME and cursor.token.text.upper() in _OPTIONS:
        cursor.advance()
    elif not cursor.take_any(*_OPTIONS):
        return False
    cursor.take("=")
    _value(cursor)
    return True


def _value(cursor: Cursor) -> str:
    token = cursor.token
    if token.type is TokenType.STRING:
        return cursor.string()
    if token.type in (TokenType.SYMBOL, TokenType.END):
        raise cursor.unclear("a value")
    return cursor.advance().text


def read_partitioning(cursor: Cursor, table: TableName) -> PartitionChange | None:
    """Read PARTITION BY …, REMOVE PARTITIONING or UPGRADE PARTITIONING, if one comes next."""
    if cursor.take("PARTITION", "BY"):
        cursor.skip_until("SELECT", "AS", "IGNORE", "REPLACE", "WITH", ",", ";")
        return PartitionChange(table, "PARTITION BY", RowEffect.NONE)
    for verb in ("REMOVE", "UPGRADE"):
        if cursor.take(verb, "PARTITIONING"):
            return PartitionChange(table, f"{verb} PARTITIONING", RowEffect.NONE)
    return None


def read_partition_operation(cursor: Cursor, table: TableName) -> PartitionChange | None:
    """Read ALTER TABLE's operations on single partitions, if one comes next."""
    if cursor.take("CONVERT", "PARTITION"):
        partition = cursor.name("a partition")
        cursor.expect("TO", "TABLE")
        other = cursor.table()
        return PartitionChange(table, "CONVERT PARTITION", RowEffect.REMOVED, (partition,), other)
    if cursor.take("CONVERT", "TABLE"):
        other = cursor.table()
        cursor.expect("TO", "PARTITION")
        partition = cursor.name("a partition")
        cursor.skip_until(",", ";")
        return PartitionChange(table, "CONVERT TABLE", RowEffect.REPLACED, (partition,), other)
    if cursor.take("EXCHANGE", "PARTITION"):
        partition = cursor.name("a partition")
        cursor.expect("WITH", "TABLE")
        other = cursor.table()
        if cursor.take_any("WITH", "WITHOUT"):
            cursor.expect("VALIDATION")
        return PartitionChange(table, "EXCHANGE PARTITION", RowEffect.REPLACED, (partition,), other)
    for verb, effect in _ON_NAMES.items():
        if cursor.take(verb, "PARTITION"):
            return _on_names(cursor, table, verb, effect)
    return _definitions(cursor, table)


def _on_names(cursor: Cursor, table: TableName, verb: str, effect: RowEffect) -> PartitionChange:
    _local(cursor)
    names = () if cursor.take("ALL") else cursor.names("a partition")
    if verb in ("DISCARD", "IMPORT"):
        cursor.expect("TABLESPACE")
    elif verb in ("CHECK", "REPAIR"):
        while cursor.take_any("QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM"):
            pass
        if cursor.take("FOR"):
            cursor.expect("UPGRADE")
    return PartitionChange(table, f"{verb} PARTITION", effect, names)


def _definitions(cursor: Cursor, table: TableName) -> PartitionChange | None:
    if cursor.take("ADD", "PARTITION"):
        cursor.take("IF", "NOT", "EXISTS")
        _local(cursor)
        if cursor.take("PARTITIONS"):
            cursor.advance()
        else:
            cursor.group()
        return PartitionChange(table, "ADD PARTITION", RowEffect.NONE)
    if cursor.take("DROP", "PARTITION"):
        cursor.take("IF", "EXISTS")
        names = cursor.names("a partition")
        return PartitionChange(table, "DROP PARTITION", RowEffect.REMOVED, names)
    if cursor.take("COALESCE", "PARTITION"):
        _local(cursor)
        cursor.advance()
        return PartitionChange(table, "COALESCE PARTITION", RowEffect.NONE)
    if cursor.take("REORGANIZE", "PARTITION"):
        _local(cursor)
        names = ()
        if not cursor.at_end():
            names = cursor.names("a partition")
            cursor.expect("INTO")
            cursor.group()
        return PartitionChange(table, "REORGANIZE PARTITION", RowEffect.NONE, names)
    return None


def _local(cursor: Cursor) -> None:
    cursor.take_any("NO_WRITE_TO_BINLOG", "LOCAL")
