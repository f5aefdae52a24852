"""Rows of a child that refer to values of its parent, as the server compares them.

The server compares text by a collation. Its comparison is not repeated here: rows that it may have
equal are enough, as they are read from the source. Where a collation has no rules of a language,
ASCII text is equal if it differs only in case, in characters without a weight, and in spaces at the
end; any other character may equal any text. The lake may have both sides with other types, such as
BOOLEAN for any number but 0, or a wider one that a column had before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.source.foreign_keys import Comparison

__all__ = ["referring_rows", "rows_without_parent"]

_INDEX = "_row"
_TEXT = re.compile(r"(national )?(var)?char\b|(tiny|medium|long)?text\b", re.IGNORECASE)
_NOT_ASCII = r"[^\x00-\x7F]"
_WEIGHTLESS = r"[\x00-\x1F\x7F]"
# Values of a parent beside ASCII text that rows are searched for, and rows that are looked up for
# what they may equal.
_MAX_VALUES, _MAX_UNCLEAR_ROWS = 100, 10_000


def referring_rows(
    frames: Sequence[pl.DataFrame],
    values: pl.DataFrame,
    columns: Sequence[tuple[SourceColumn, SourceColumn, Comparison]],
) -> list[pl.DataFrame] | None:
    """Rows that refer to some values of a parent, and perhaps others.

    Args:
        frames: The child's rows.
        values: The parent's values, which are not null; its columns are in the order of `columns`.
        columns: The columns of the child's foreign key, each with that of the parent and how the
            server compares them.

    Returns:
        The rows, frame by frame; None if they cannot be told from the others, or are many.
    """
    names = [column.name for column, *_ in columns]
    if all(frame.select(names).drop_nulls().is_empty() for frame in frames):
        return [frame.clear() for frame in frames]
    how = {child.name: _comparison(child, parent, given) for child, parent, given in columns}
    wanted = values.rename(dict(zip(values.columns, names, strict=True)))
    typed = _with_types(wanted, frames[0].select(names).schema)
    if typed is None or Comparison.LANGUAGE in how.values():
        return None
    texts = [name for name in names if how[name] is Comparison.CASE]
    clear = [name for name in names if name not in texts]
    folds = [_folded(name, how[name]) for name in names if how[name] is not Comparison.EXACT]
    folds += [pl.col(name).str.contains(_NOT_ASCII).alias(_other(name)) for name in texts]
    folded = typed.with_columns(folds)
    if any(folded[_other(name)].sum() > _MAX_VALUES for name in texts):
        return None
    is_unclear = _is_unclear(folded, texts)
    rows, unclear_rows = [], 0
    for frame in frames:
        numbered = frame.with_row_index(_INDEX).with_columns(folds)
        matching = numbered.join(folded, on=names, how="semi")
        unclear = numbered.filter(is_unclear)
        if clear:
            unclear = unclear.join(folded, on=clear, how="semi")
        unclear_rows += len(unclear)
        if unclear_rows > _MAX_UNCLEAR_ROWS:
            return None
        rows.append(frame[pl.concat([matching[_INDEX], unclear[_INDEX]]).unique()])
    return rows


def rows_without_parent(
    frames: Sequence[pl.DataFrame], parents: pl.DataFrame, names: Sequence[str]
) -> list[pl.DataFrame] | None:
    """Rows that refer to none of a parent's rows by the same value, frame by frame.

    Args:
        frames: The child's rows.
        parents: The parent's values, in the order of `names`.
        names: The columns of the child's foreign key.

    Returns:
        The rows; None if they cannot be told from the others, or are many.
    """
    values = parents.rename(dict(zip(parents.columns, names, strict=True)))
    typed = _with_types(values, frames[0].select(names).schema)
    if typed is None:
        return None
    rows = [frame.drop_nulls(names).join(typed, on=names, how="anti") for frame in frames]
    return None if sum(map(len, rows)) > _MAX_UNCLEAR_ROWS else rows


def _is_unclear(values: pl.DataFrame, texts: Sequence[str]) -> pl.Expr:
    """Whether a row has other text than ASCII, or may equal such, and may equal some values."""
    may_equal, is_other = pl.lit(value=True), pl.lit(value=False)
    for name in texts:
        text, other = pl.col(name), pl.col(_other(name))
        by_kind = values.partition_by(_other(name), as_dict=True)
        ascii_values, others = (
            by_kind[key,][name].to_list() if (key,) in by_kind else [] for key in (False, True)
        )
        resembles = text.str.contains(_pattern(others)) if others else pl.lit(value=False)
        ends = [
            pl.any_horizontal(
                pl.lit(value=bool(others)),
                end.str.contains(_NOT_ASCII),
                end.is_in(_texts([value[at:][:1] for value in ascii_values])),
            )
            for end, at in ((text.str.slice(0, 1), 0), (text.str.slice(-1), -1))
        ]
        may_equal &= (
            pl.when(other)
            .then(pl.all_horizontal(ends))
            .otherwise(resembles | text.is_in(_texts(ascii_values)))
        )
        is_other |= other | resembles
    return may_equal & is_other


def _texts(values: Sequence[str]) -> pl.Series:
    return pl.Series(values, dtype=pl.String).implode()


def _pattern(values: Sequence[str]) -> str:
    """A pattern of ASCII text that may equal some other text: its other characters may be any."""
    parts = (".*".join(map(re.escape, re.split(f"{_NOT_ASCII}+", value))) for value in values)
    return f"(?s)^(?:{'|'.join(parts)})$"


def _with_types(wanted: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame | None:
    """Values in the types of the child's columns; None if one may have no equal of that type."""
    for name, type_ in schema.items():
        own = wanted.schema[name]
        if own == type_:
            continue
        if not (_is_exact(own) and _is_exact(type_)):
            return None
        # What does not fit is not in the child.
        wanted = wanted.with_columns(pl.col(name).cast(type_, strict=False)).drop_nulls(name)
    return wanted


def _is_exact(type_: pl.DataType) -> bool:
    return type_.is_integer() or type_.is_decimal()


def _comparison(column: SourceColumn, parent: SourceColumn, stated: Comparison) -> Comparison:
    """How the server compares two columns, as the lake has their values."""
    if column.source_type.lower().startswith(("enum", "set")):
        # By the numbers of their values.
        is_same = column.source_type == parent.source_type
        return Comparison.EXACT if is_same else Comparison.LANGUAGE
    if _TEXT.match(column.source_type) is None:
        return Comparison.EXACT
    # Text without a collation became text after the foreign keys were read.
    return Comparison.LANGUAGE if stated is Comparison.EXACT else stated


def _folded(name: str, how: Comparison) -> pl.Expr:
    """Text in a form that is the same where the server may have ASCII text equal."""
    text = pl.col(name)
    if how is Comparison.CASE:
        text = text.str.to_lowercase().str.replace_all(_WEIGHTLESS, "")
    return text.str.strip_chars_end(" ")


def _other(name: str) -> str:
    """The column that tells whether a text has other characters than ASCII."""
    return f"_other_{name}"
