"""Statements that are queries, or are about one: ``EXPLAIN``, temporary views."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.spark.explained_write import stop_if_explained
from headwater.spark.names import quoted
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.statement import Statement, WordKind, read_words
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["HANDLERS", "QUERY_WORDS", "query_text", "session_text"]

QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP", "REDUCE")
"""The words that queries begin with."""
_OWN_PROVIDERS = ("paimon", "headwater")
_NOT_TEMPORARY: Mapping[tuple[str, ...], str] = {
    ("TBLPROPERTIES",): "is for views that the catalog keeps; leave it out",
    ("WITH", "SCHEMA"): "is for views that the catalog keeps: make the temporary one again when "
    "its tables have changed",
    ("DEFAULT", "COLLATION"): "would not reach the strings of its query; write COLLATE after them",
}
_WRITES = {("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO")}
_COLUMNS = pa.schema(
    [("col_name", pa.string()), ("data_type", pa.string()), ("comment", pa.string())]
)


def _query(statement: Statement, context: SqlContext) -> DataFrame:
    return query_frame(query_text(statement), context)


def query_text(statement: Statement) -> str:
    """The rest of a statement, which must be a query.

    Raises:
        Invalid: It is not a query.
        Unsupported: It writes.
    """
    if not any(statement.peek(word) for word in QUERY_WORDS):
        raise statement.unexpected("a query")
    may_write = statement.peek("WITH") or statement.peek("FROM")
    text = statement.rest()
    # Spark would run what stands after FROM or WITH, and not only read.
    if may_write and (word := _writing_word(text)) is not None:
        raise Unsupported(
            f"{word} after FROM or WITH is not supported: begin with {word}, and write the query "
            "after it"
        )
    return text


def _writing_word(text: str) -> str | None:
    """The word that begins a statement which writes, after what may also begin a query."""
    depth = 0
    words = read_words(text)
    plain = [word.text.upper() if word.kind is WordKind.WORD else "" for word in words]
    for at, word in enumerate(words):
        if word.kind is WordKind.SYMBOL:
            depth += (word.text == "(") - (word.text == ")")
        elif depth == 0 and (
            tuple(plain[at : at + 2]) in _WRITES
            or (plain[at] == "UPDATE" and "SET" in plain[at + 2 : at + 7])
        ):
            return plain[at]
    return None


def _describe(statement: Statement, context: SqlContext) -> pa.Table:
    """``DESCRIBE [QUERY] query``."""
    if not statement.accept("DESCRIBE"):
        statement.expect("DESC")
    statement.accept("QUERY")
    schema = query_frame(query_text(statement), context).schema
    rows = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment"))
        for field in schema.fields
    ]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.Table.from_arrays(columns, schema=_COLUMNS)


def _temporary_view(statement: Statement, context: SqlContext) -> DataFrame | None:
    """``CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW [IF NOT EXISTS] name [(columns)] AS query``."""
    whole = statement.text
    statement.expect("CREATE")
    replaces = statement.accept("OR", "REPLACE")
    is_global = statement.accept("GLOBAL")
    if not statement.accept("TEMP"):
        statement.expect("TEMPORARY")
    if statement.accept("FUNCTION"):
        stop_if_explained(context.session)
        return context.session.spark.sql(whole)
    statement.expect("VIEW")
    keeps = statement.accept("IF", "NOT", "EXISTS")
    parts = statement.name_parts()
    if len(parts) > 1:
        raise Invalid(
            f"temporary view {'.'.join(parts)}: it is the session's and in no database; give it a "
            "name of one part"
        )
    (name,) = parts
    if _uses_provider(statement, name):
        stop_if_explained(context.session)
        return context.session.spark.sql(whole)
    columns = _view_columns(statement)
    _read_view_clauses(statement, name)
    frame = query_frame(query_text(statement), context)
    if columns:
        if len(columns) != len(frame.columns):
            raise Invalid(
                f"temporary view {name}: {len(columns)} columns are named, and the query has "
                f"{len(frame.columns)}"
            )
        frame = frame.toDF(*(column for column, _ in columns))
        for column, comment in columns:
            if comment is not None:
                frame = frame.withMetadata(column, {"comment": comment})
    catalog = context.session.spark.catalog
    database = f"{quoted(context.global_database)}." if is_global else ""
    if keeps and catalog.tableExists(f"{database}{quoted(name)}"):
        return None
    stop_if_explained(context.session)
    if is_global and replaces:
        frame.createOrReplaceGlobalTempView(name)
    elif is_global:
        frame.createGlobalTempView(name)
    elif replaces:
        frame.createOrReplaceTempView(name)
    else:
        frame.createTempView(name)
    return None


def _uses_provider(statement: Statement, name: str) -> bool:
    """Whether a temporary view is one of files or of another system, which Spark reads.

    Raises:
        Unsupported: It is a table of the catalog.
    """
    start = statement.mark()
    if statement.peek("("):
        statement.bracketed()
    if not statement.accept("USING"):
        statement.reset(start)
        return False
    provider = ".".join(statement.name_parts())
    if provider.lower() in _OWN_PROVIDERS:
        raise Unsupported(
            f"temporary view {name}: USING {provider} is not supported: write CREATE TEMPORARY "
            f"VIEW {name} AS SELECT * FROM database.table"
        )
    return True


def _view_columns(statement: Statement) -> list[tuple[str, str | None]]:
    """Read ``(a, b COMMENT 'x')``, if it comes next: the columns' names and comments."""
    columns: list[tuple[str, str | None]] = []
    if statement.accept("("):
        while True:
            column = statement.name()
            columns.append((column, statement.string() if statement.accept("COMMENT") else None))
            if not statement.accept(","):
                break
        statement.expect(")")
    return columns


def _read_view_clauses(statement: Statement, name: str) -> None:
    """Read up to the query of a temporary view; its comment is nowhere shown, as in Spark."""
    has_comment = False
    while not statement.accept("AS"):
        for words, instead in _NOT_TEMPORARY.items():
            if statement.peek(*words):
                raise Unsupported(f"temporary view {name}: {' '.join(words)} {instead}")
        if not statement.accept("COMMENT"):
            raise statement.unexpected("COMMENT or AS")
        statement.string()
        if has_comment:
            raise Invalid("COMMENT stands twice")
        has_comment = True


def _setting(statement: Statement, context: SqlContext) -> DataFrame:
    """``SET [key [= value]]`` and ``RESET [key]``.

    Spark reads keys with a ``-`` or ``*``, as Paimon's options are, in backquotes alone.
    """
    named = _SETTING.fullmatch(statement.text)
    if named is None:
        return _sparks(statement, context)
    return context.session.spark.sql(_setting_text(named))


def _setting_text(named: re.Match[str]) -> str:
    return f"{named[1]} {quoted(named[2])}{named[3]}"


def session_text(statement: Statement, handler: Handler) -> str | None:
    """A statement about the session as Spark runs it; None for one of another handler."""
    if handler is _setting and (named := _SETTING.fullmatch(statement.text)):
        return _setting_text(named)
    return statement.text if handler in (_setting, _sparks) else None


def _sparks(statement: Statement, context: SqlContext) -> DataFrame:
    """A statement about the session, which reads no table."""
    words = read_words(statement.text)
    if any(word.kind is WordKind.WORD and word.text.upper() == "SELECT" for word in words):
        raise Unsupported(
            f"'{statement.text[:60]}' with a query in it is not supported: run the query first"
        )
    return context.session.spark.sql(statement.text)


_SETTING = re.compile(r"(SET|RESET)\s+(spark\.[\w.*-]*[*-][\w.*-]*)(\s*(?:=.*)?)", re.I | re.S)
_TEMPORARY = [
    ("CREATE", *replaces, *reach, word)
    for replaces in ((), ("OR", "REPLACE"))
    for reach in ((), ("GLOBAL",))
    for word in ("TEMP", "TEMPORARY")
]
_OF_SESSION = [
    ("DROP", "TEMPORARY"),
    ("DROP", "TEMP"),
    ("SHOW", "COLLATIONS"),
    ("ADD",),
    ("LIST",),
]
HANDLERS: Mapping[tuple[str, ...], Handler] = {
    **{(word,): _query for word in QUERY_WORDS},
    **{(verb, word): _describe for verb in ("DESCRIBE", "DESC") for word in ("QUERY", *QUERY_WORDS)
       if word != "TABLE"},
    **dict.fromkeys(_TEMPORARY, _temporary_view),
    **dict.fromkeys(_OF_SESSION, _sparks),
    ("SET",): _setting,
    ("RESET",): _setting,
}  # fmt: skip
