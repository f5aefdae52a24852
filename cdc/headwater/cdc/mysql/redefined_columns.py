"""Whether the values of a column stay as they are when MODIFY, CHANGE or CONVERT redefines it."""

from __future__ import annotations

from headwater.cdc.ddl import ColumnDefinition, Syntax
from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.model.type_changes import keeps_values
from headwater.cdc.mysql.charsets import charset_of
from headwater.cdc.mysql.column_types import SourceType, parse_source_type
from headwater.cdc.mysql.type_synonyms import charset_width, column_type, is_text

__all__ = ["converted_type", "reread_reason"]

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_SIZES = tuple(2**bits - 1 for bits in (8, 16, 24, 32))
_TIMES = ("time", "datetime", "timestamp")
# Text of these sets is the same text in utf8mb4.
_PARTS_OF_UTF8 = ("ascii", "utf8mb3", "utf8")


def reread_reason(
    old: SourceColumn, new: SourceColumn, definition: ColumnDefinition, *, strict: bool
) -> str | None:
    """Why the values of a redefined column may have changed; None if they cannot have.

    Args:
        old: The column before.
        new: The column after.
        definition: What the statement states of it.
        strict: Whether the session rejects text that the column's character set lacks.
    """
    if new.is_generated:
        return "is generated, and may be computed in another way"
    if definition.auto_increment:
        return "is AUTO_INCREMENT, and zeros may have got numbers"
    before, after = parse_source_type(old.source_type), parse_source_type(new.source_type)
    if not _keeps_type(before, after, charset_of(old.collation)):
        return f"of type {old.source_type} became {new.source_type}"
    if is_text(after.name) and not _keeps_charset(old, new, definition, strict):
        return "may have another character set"
    if not keeps_values(old.type, new.type):
        return f"is {old.type} in the lake and becomes {new.type}"
    return None


def _keeps_charset(
    old: SourceColumn, new: SourceColumn, definition: ColumnDefinition, strict: bool
) -> bool:
    before = charset_of(old.collation)
    after = definition.character_set or charset_of(new.collation)
    if after is None:
        # It is the table's default. Names of an ENUM or SET that it lacks become question marks
        # in strict sessions as well.
        names = parse_source_type(new.source_type).arguments
        return strict and all(name.isascii() for name in names)
    if before is None:
        return False
    after = after.lower()
    return before == after or (before in _PARTS_OF_UTF8 and after == "utf8mb4")


def _keeps_type(old: SourceType, new: SourceType, charset: str | None) -> bool:
    """Whether the source keeps all values of one type when it converts them to the other."""
    if old.name in _INTEGERS and new.name in _INTEGERS:
        growth = _INTEGERS.index(new.name) - _INTEGERS.index(old.name)
        if old.is_unsigned == new.is_unsigned:
            return growth >= 0
        return old.is_unsigned and growth > 0
    if new.is_unsigned and not old.is_unsigned:
        return False
    if old.name == new.name:
        return _keeps_arguments(old, new)
    return _keeps_characters(old, new, charset)


def _keeps_arguments(old: SourceType, new: SourceType) -> bool:
    if old.arguments == new.arguments:
        return True
    match old.name:
        case "decimal":
            return old.arguments[1] == new.arguments[1] and (new.length or 0) >= (old.length or 0)
        case "varchar" | "varbinary":
            return (new.length or 0) >= (old.length or 0)
        case "enum":
            return set(old.arguments) <= set(new.arguments)
        case "set":
            # The lake has the chosen values as a list, in the type's order.
            former = set(old.arguments)
            return tuple(value for value in new.arguments if value in former) == old.arguments
        case name if name in _TIMES:
            return (new.length or 0) >= (old.length or 0)
    return False


def _keeps_characters(old: SourceType, new: SourceType, charset: str | None) -> bool:
    # A CHAR is padded in the lake, so that its values are not those of a VARCHAR.
    width = charset_width(charset) or 4
    for family, short, factor in ((_TEXTS, "varchar", width), (_BLOBS, "varbinary", 1)):
        if new.name in family:
            size = _SIZES[family.index(new.name)]
            if old.name in family:
                return size >= _SIZES[family.index(old.name)]
            return old.name == short and (old.length or 0) * factor <= size
    return False


def converted_type(column: SourceColumn, source: SourceType, charset: str | None) -> str:
    """The type of a text column after CONVERT TO CHARACTER SET, as far as it can be known.

    A TEXT grows so that it holds as many characters as before.
    """
    text = column.source_type
    if source.name in _TEXTS:
        before, after = charset_width(charset_of(column.collation)), charset_width(charset)
        if before is not None and after is not None and after > before:
            bytes_ = _SIZES[_TEXTS.index(source.name)] // before * after
            text = next(
                (name for name, size in zip(_TEXTS, _SIZES, strict=True) if bytes_ <= size),
                "longtext",
            )
    if charset == "binary" or source.name == "varchar":
        return column_type(text, syntax=Syntax(), charset=charset)
    return text
