"""Rows of a child that refer to values of its parent, as the server compares them.

The server compares text by a collation. Its comparison is not repeated here: rows that it may have
equal are enough, as they are read from the source. ASCII text is equal in the collations that have
no rules of a language only if it differs in case, characters that have no weight, and spaces at the
end. What other text may equal is not known. The lake may have both sides with other types, such as
BOOLEAN for any number but 0, or a wider one that a column had before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from headwater.cdc.model.tables import SourceColumn

__all__ = ["referring_rows"]

_WITHOUT_LANGUAGE = re.compile(
    r"(utf8|utf8mb3|utf8mb4|ucs2|utf16|utf16le|utf32|ascii|latin1)_"
    r"(general(_nopad)?|unicode(_520)?(_nopad)?|0900_a[is]|uca1400(_nopad)?_a[is])_c[is]"
    r"|latin1_swedish_(nopad_)?ci"
)
_INDEX = "_row"
_TEXT = re.compile(
    r"(national )?(var)?char\b|(tiny|medium|long)?text\b|(enum|set)\(", re.IGNORECASE
)
_NOT_ASCII = r"[^\x00-\x7F]"
_WEIGHTLESS = r"[\x00-\x1F\x7F]"


def referring_rows(
    frames: Sequence[pl.DataFrame],
    values: pl.DataFrame,
    columns: Sequence[tuple[SourceColumn, SourceColumn]],
) -> list[pl.DataFrame] | None:
    """Rows that refer to some values of a parent, and perhaps others.

    Args:
        frames: The child's rows.
        values: The parent's values, which are not null; its columns are in the order of `columns`.
        columns: The columns of the child's foreign key, each with that of the parent.

    Returns:
        The rows, frame by frame; None if they cannot be told from the others.
    """
    names = [column.name for column, _ in columns]
    if all(frame.select(names).drop_nulls().is_empty() for frame in frames):
        return [frame.clear() for frame in frames]
    wanted = values.rename(dict(zip(values.columns, names, strict=True)))
    folds: list[pl.Expr] = []
    is_unclear = pl.lit(value=False)
    for column, parent in columns:
        if not _is_comparable(column, parent):
            return None
        collation = column.collation or parent.collation
        if collation is None:
            continue
        folds.append(_folded(column.name, collation))
        if not collation.endswith("_bin"):
            is_unclear |= pl.col(column.name).str.contains(_NOT_ASCII)
    if not wanted.filter(is_unclear).is_empty():
        return None
    typed = _with_types(wanted, frames[0].select(names).schema)
    if typed is None:
        return None
    wanted = typed.with_columns(folds)
    rows = []
    for frame in frames:
        numbered = frame.with_row_index(_INDEX)
        matching = numbered.with_columns(folds).join(wanted, on=names, how="semi")[_INDEX]
        unclear = numbered.filter(is_unclear & pl.all_horizontal(pl.col(names).is_not_null()))
        rows.append(frame[pl.concat([matching, unclear[_INDEX]]).unique()])
    return rows


def _with_types(wanted: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame | None:
    """Values in the types of the child's columns; None if these have not one for each of them."""
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


def _is_comparable(column: SourceColumn, parent: SourceColumn) -> bool:
    """Whether it is known which values of two columns are not equal at the source."""
    if _TEXT.match(column.source_type) is None:
        return True
    if column.source_type.lower().startswith(("enum", "set")):
        # The server compares the numbers of their values.
        return column.source_type == parent.source_type
    collations = {each for each in (column.collation, parent.collation) if each is not None}
    if len(collations) != 1:
        return False
    (collation,) = collations
    return collation.endswith("_bin") or _WITHOUT_LANGUAGE.fullmatch(collation) is not None


def _folded(name: str, collation: str) -> pl.Expr:
    """ASCII text that is the same where the collation may have it equal."""
    text = pl.col(name)
    if not collation.endswith("_bin"):
        text = text.str.to_lowercase().str.replace_all(_WEIGHTLESS, "")
    return text.str.strip_chars_end(" ")
