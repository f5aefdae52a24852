"""``CACHE TABLE`` and the statements about what it keeps.

Spark cannot see that a table of the catalog has changed. So what is cached is one snapshot of it,
which this session's queries read under the table's name. As plain Spark does, a statement of the
session's own that changes the table caches it again; commits of others wait for ``REFRESH TABLE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.scan import Scan
from headwater.spark.explained_write import stop_if_explained
from headwater.spark.names import quoted
from headwater.spark.session import is_connect
from headwater.spark.source.table_read import Relation
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import CachedTable, Handler, SqlContext
from headwater.spark.sql.query.frame import query_frame, read_relations
from headwater.spark.sql.query.named_frames import make_view
from headwater.spark.sql.query.references import TableReference
from headwater.spark.sql.query.relations import Relations
from headwater.spark.sql.query.statements import query_text
from headwater.spark.sql.session_options import paimon_settings, session_options
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_names import is_temporary
from headwater.spark.sql.temporary_views import drop_temporary_view
from headwater.storage.errors import HeadwaterError, Invalid, Unsupported

__all__ = ["HANDLERS", "cache_changed_tables"]

_COLUMNS: Mapping[str, type] = {"table": str, "snapshot_id": int, "note": str}
_NOTE = (
    "queries of this session read this snapshot; its own changes of the table cache the next one, "
    "and REFRESH TABLE those of others"
)


def _cache(statement: Statement, context: SqlContext) -> DataFrame | pa.Table:
    """``CACHE [LAZY] TABLE name [OPTIONS (…)] [[AS] query]``."""
    spark = context.session.spark
    whole = statement.text
    statement.expect("CACHE")
    lazy = " LAZY" if statement.accept("LAZY") else ""
    statement.expect("TABLE")
    parts = statement.name_parts()
    name = ".".join(map(quoted, parts))
    storage = f" OPTIONS ({statement.bracketed()})" if statement.accept("OPTIONS") else ""
    if statement.at_end:
        if is_temporary(parts, context):
            stop_if_explained(context.session)
            return spark.sql(whole)
        return _cache_table(parts, lazy, storage, context)
    statement.accept("AS")
    if len(parts) > 1:
        raise Invalid(f"CACHE TABLE {name} AS …: a temporary view has a name of one part")
    frame = query_frame(query_text(statement), context)
    stop_if_explained(context.session)
    frame.createTempView(parts[0])
    return spark.sql(f"CACHE{lazy} TABLE {name}{storage}")


def _cache_table(
    parts: tuple[str, ...], lazy: str, storage: str, context: SqlContext
) -> DataFrame | pa.Table:
    """Cache a table of the catalog, or one of Spark's own; again if it is cached already."""
    spark = context.session.spark
    # What is cached of it is not what is to be cached.
    opened = Relations(replace(context, cached={}))
    relation = opened.open(TableReference(parts), context.database)
    name = ".".join(map(quoted, parts))
    if relation is None:
        error = opened.missing.get(parts)
        if error is None or spark.catalog.tableExists(name):
            stop_if_explained(context.session)
            return spark.sql(f"CACHE{lazy} TABLE {name}{storage}")
        raise error
    instead = f"name the rows to keep: CACHE TABLE a_name AS SELECT * FROM {name}"
    if isinstance(relation, ViewInfo) or not isinstance(relation.rows, Scan):
        raise Unsupported(f"CACHE TABLE {name}: it is not a table with snapshots; {instead}")
    if is_connect(spark):
        raise Unsupported(f"CACHE TABLE {name} is not supported on Spark Connect; {instead}")
    stop_if_explained(context.session)
    before = context.cached.get(relation.name)
    if before is None or before.storage != storage or not _is_same(before.relation, relation):
        _keep(relation, lazy, storage, context)
    snapshot = relation.rows.snapshot
    row = (relation.name, None if snapshot is None else snapshot.id, _NOTE)
    return answer(_COLUMNS, [row])


def _keep(relation: Relation, lazy: str, storage: str, context: SqlContext) -> None:
    """Cache the rows of a table, in the place of those of it that are cached."""
    spark = context.session.spark
    _release(relation.name, context)
    table = context.catalog.table(relation.name)
    settings = session_options(context, table, paimon_settings(context))
    aside = replace(context)  # Its `last_query` is nobody's.
    frame = read_relations([relation], [None], lambda frames: frames[0], aside)
    snapshot = relation.rows.snapshot if isinstance(relation.rows, Scan) else None
    title = f"{relation.name} without snapshots"
    if snapshot is not None:
        title = f"{relation.name} as of snapshot {snapshot.id}"
    view = make_view(spark, frame, title, ())
    try:
        spark.sql(f"CACHE{lazy} TABLE {quoted(view)}{storage}")
        rows = spark.table(quoted(view))
    finally:
        drop_temporary_view(spark, view)
    kept = replace(relation, cached=rows)
    context.cached[relation.name] = CachedTable(table.info.id, settings, kept, storage)


def _release(name: str, context: SqlContext) -> None:
    cached = context.cached.pop(name, None)
    if cached is not None and cached.relation.cached is not None:
        cached.relation.cached.unpersist()


def _is_same(one: Relation, other: Relation) -> bool:
    """Whether two relations of a table have the same rows."""
    if not isinstance(one.rows, Scan) or not isinstance(other.rows, Scan):
        return False
    return one.schema == other.schema and one.rows.snapshot == other.rows.snapshot


def cache_changed_tables(context: SqlContext) -> None:
    """Cache the tables again that a statement may have changed, as they are when next read."""
    while context.changed:
        name = context.changed.pop()
        try:
            _cache_again(name, context)
        except HeadwaterError:
            # The statement was run, whatever the catalog says now: queries read the table.
            _release(name, context)


def _cache_again(name: str, context: SqlContext) -> None:
    """Cache a table as it is now, when it is next read; not if it does not exist any more."""
    cached = context.cached[name]
    identifier = Identifier.parse(name)
    reference = TableReference((identifier.database, identifier.name))
    relation = Relations(replace(context, cached={})).open(reference, None)
    if isinstance(relation, Relation) and _is_same(cached.relation, relation):
        return
    if isinstance(relation, Relation) and isinstance(relation.rows, Scan):
        _keep(relation, " LAZY", cached.storage, context)
    else:
        _release(name, context)


def _named_table(statement: Statement, context: SqlContext) -> str | None:
    """Read the name of what the catalog may have; None for what only Spark can."""
    parts = statement.name_parts()
    statement.end()
    if is_temporary(parts, context) or len(context.whole_name(parts)) > 2:
        return None
    return context.full_name(parts)


def _uncache(statement: Statement, context: SqlContext) -> DataFrame | None:
    """``UNCACHE TABLE [IF EXISTS] name``; no error for a table that is not cached, as in Spark."""
    statement.expect("UNCACHE", "TABLE")
    statement.accept("IF", "EXISTS")
    name = _named_table(statement, context)
    stop_if_explained(context.session)
    if name is None or not (name in context.cached or context.catalog.table_exists(name)):
        return context.session.spark.sql(statement.text)
    _release(name, context)
    return None


def _clear(statement: Statement, context: SqlContext) -> DataFrame:
    """``CLEAR CACHE``."""
    statement.expect("CLEAR", "CACHE")
    statement.end()
    stop_if_explained(context.session)
    for name in list(context.cached):
        _release(name, context)
    return context.session.spark.sql(statement.text)


def _refresh(statement: Statement, context: SqlContext) -> DataFrame | None:
    """``REFRESH TABLE name``: a table that is cached is cached as it is now, as in Spark."""
    statement.expect("REFRESH", "TABLE")
    name = _named_table(statement, context)
    stop_if_explained(context.session)
    if name is None:
        return context.session.spark.sql(statement.text)
    if name in context.cached:
        _cache_again(name, context)
    elif context.view(Identifier.parse(name)) is None:
        context.table(name)
    return None


def _refresh_path(statement: Statement, context: SqlContext) -> DataFrame:
    """``REFRESH 'path'``: files that Spark's own frames read."""
    stop_if_explained(context.session)
    return context.session.spark.sql(statement.text)


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("CACHE",): _cache,
    ("UNCACHE", "TABLE"): _uncache,
    ("CLEAR", "CACHE"): _clear,
    ("REFRESH", "TABLE"): _refresh,
    ("REFRESH",): _refresh_path,
}
