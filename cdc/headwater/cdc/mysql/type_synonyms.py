"""Types as statements write them, turned into the text of ``COLUMN_TYPE``.

``INTEGER``, ``BOOL``, ``DEC(10)``, ``NATIONAL VARCHAR(20)`` or ``TEXT(300)`` are other words for
types of the information schema, which has few of them. MySQL from 8.0.19 on shows the display width
of an integer only for ``tinyint(1)`` and with ``zerofill``; MariaDB always does.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cdc.ddl import Syntax
from headwater.cdc.ddl.tokens import Token, TokenType, UnclearSyntaxError, tokenize
from headwater.storage.errors import Unsupported

__all__ = ["charset_width", "column_type", "is_text"]

_SYNONYMS = {
    "INTEGER": "int",
    "INT1": "tinyint",
    "INT2": "smallint",
    "INT3": "mediumint",
    "MIDDLEINT": "mediumint",
    "INT4": "int",
    "INT8": "bigint",
    "DEC": "decimal",
    "NUMERIC": "decimal",
    "FIXED": "decimal",
    "FLOAT4": "float",
    "FLOAT8": "double",
    # It is a float with sql_mode REAL_AS_FLOAT, which the TABLE_MAP then shows.
    "REAL": "double",
    "DOUBLE PRECISION": "double",
    "CHARACTER": "char",
    "VARCHARACTER": "varchar",
    "LONG": "mediumtext",
    "LONG VARBINARY": "mediumblob",
}
_SECOND_WORDS = (
    "VARYING",
    "CHAR",
    "CHARACTER",
    "VARCHAR",
    "VARCHARACTER",
    "VARBINARY",
    "PRECISION",
)
_INTEGER_WIDTHS = {
    "tinyint": (4, 3),
    "smallint": (6, 5),
    "mediumint": (9, 8),
    "int": (11, 10),
    "bigint": (20, 20),
}
_NUMBERS = (*_INTEGER_WIDTHS, "decimal", "float", "double")
_SIZES = ((2**8, "tiny"), (2**16, ""), (2**24, "medium"))
_MAX_VARCHAR_BYTES = 65535
_MAX_CHARACTER_WIDTH = 4
_MAX_FLOAT_BITS = 24
_DEFAULT_DIGITS = 10
# Those of values of ENUM and SET in the information schema.
_ESCAPES = str.maketrans({"'": "''", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_AS_BYTES = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
# The bytes of a character at most; sets of one byte a character are left out.
_WIDTHS = {
    "utf8mb4": 4,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "gb18030": 4,
    "utf8mb3": 3,
    "utf8": 3,
    "ujis": 3,
    "eucjpms": 3,
    "ucs2": 2,
    "big5": 2,
    "cp932": 2,
    "euckr": 2,
    "gb2312": 2,
    "gbk": 2,
    "sjis": 2,
}


def charset_width(charset: str | None) -> int | None:
    """How many bytes a character of a character set has at most; None if the set is unknown."""
    return None if charset is None else _WIDTHS.get(charset, 1)


def is_text(type_name: str) -> bool:
    """Whether a type such as ``varchar`` has a character set."""
    return type_name in _AS_BYTES or type_name in ("enum", "set")


def column_type(text: str, *, syntax: Syntax, charset: str | None = None) -> str:
    """The text of ``COLUMN_TYPE`` for a type as a statement writes it.

    Args:
        text: The type as written, with its modifiers.
        syntax: How the session writes statements; it also decides between MySQL and MariaDB.
        charset: The column's character set where it is known; that of NCHAR is.

    Raises:
        Unsupported: The type depends on a character set that is not known, or it is not understood.
    """
    name, arguments, modifiers = _parts(text, syntax)
    if name.startswith(("NATIONAL ", "NCHAR", "NVARCHAR")):
        charset, name = "utf8mb3", name.removeprefix("NATIONAL ").removeprefix("N")
    if "BYTE" in modifiers:
        charset = "binary"
    if name == "SERIAL":
        name, modifiers = "BIGINT", (*modifiers, "UNSIGNED")
    if name in ("BOOL", "BOOLEAN"):
        name, arguments = "TINYINT", ["1"]
    if name.split()[-1] in ("VARYING", "VARCHAR", "VARCHARACTER"):
        name = "LONG" if name.startswith("LONG ") else "VARCHAR"
    base = _SYNONYMS.get(name, name.lower())
    if base in _NUMBERS:
        return _number(base, arguments, modifiers, syntax)
    if base in ("enum", "set"):
        return _enumeration(base, arguments, charset)
    if is_text(base) or base in _AS_BYTES.values():
        return _characters(base, arguments, charset, syntax)
    return _other(base, arguments, syntax)


def _parts(text: str, syntax: Syntax) -> tuple[str, list[str], tuple[str, ...]]:
    try:
        tokens = tokenize(text, syntax)
    except UnclearSyntaxError as error:
        raise _not_understood(text) from error
    words = [tokens[0].keyword]
    rest = tokens[1:-1]
    while rest and rest[0].keyword in _SECOND_WORDS:
        words.append(rest.pop(0).keyword)
    arguments: list[str] = []
    if rest and rest[0].text == "(":
        end = next((at for at, token in enumerate(rest) if token.text == ")" and _is(token)), 0)
        arguments = [_argument(token, text) for token in rest[1:end] if not _is(token)]
        rest = rest[end + 1 :]
    modifiers = tuple(token.keyword for token in rest)
    if not all(words) or not all(modifiers):
        raise _not_understood(text)
    return " ".join(words), arguments, modifiers


def _is(token: Token) -> bool:
    return token.type is TokenType.SYMBOL


def _argument(token: Token, text: str) -> str:
    if token.type is TokenType.NUMBER and token.text.isdecimal():
        return str(int(token.text))
    if token.type is TokenType.STRING:
        return token.text
    digits = token.text.removeprefix("0x").strip("xX'\"")
    try:
        return bytes.fromhex(digits).decode("ascii")
    except ValueError as error:
        raise _not_understood(text) from error


def _not_understood(text: str) -> Unsupported:
    return Unsupported(
        f"column type {text!r} is not understood; read the table's columns from the source"
    )


def _number(base: str, arguments: Sequence[str], modifiers: Sequence[str], syntax: Syntax) -> str:
    is_zerofill = "ZEROFILL" in modifiers
    is_unsigned = is_zerofill or "UNSIGNED" in modifiers
    if base == "decimal":
        digits = int(arguments[0]) if arguments else 0
        scale = arguments[1] if len(arguments) > 1 else "0"
        arguments = (str(digits or _DEFAULT_DIGITS), scale)
    elif base in _INTEGER_WIDTHS:
        width = int(arguments[0]) if arguments else 0
        shown = syntax.mariadb or is_zerofill or (base, width, is_unsigned) == ("tinyint", 1, False)
        arguments = (str(width or _INTEGER_WIDTHS[base][is_unsigned]),) if shown else ()
    elif len(arguments) == 1:
        # FLOAT(25) is a double.
        base = "double" if base == "double" or int(arguments[0]) > _MAX_FLOAT_BITS else "float"
        arguments = ()
    suffix = (" unsigned" if is_unsigned else "") + (" zerofill" if is_zerofill else "")
    return _with_arguments(base, arguments) + suffix


def _enumeration(base: str, arguments: Sequence[str], charset: str | None) -> str:
    values = arguments if charset == "binary" else [value.rstrip(" ") for value in arguments]
    quoted = ",".join(f"'{value.translate(_ESCAPES)}'" for value in values)
    return f"{base}({quoted})"


def _characters(base: str, arguments: Sequence[str], charset: str | None, syntax: Syntax) -> str:
    width = charset_width(charset)
    if base in _AS_BYTES.values():
        width = 1
    elif charset == "binary":
        base = _AS_BYTES[base]
    length = int(arguments[0]) if arguments else None
    if base in ("char", "binary"):
        return f"{base}({1 if length is None else length})"
    if base in ("varchar", "varbinary"):
        return _varying(base, length or 0, width)
    if base not in ("text", "blob") or length is None or (length == 0 and syntax.mariadb):
        return base
    prefix = _prefix(length * (width or _MAX_CHARACTER_WIDTH))
    if width is None and prefix == "long" and _prefix(length) != "long":
        raise _depends(f"{base}({length})")
    return prefix + base


def _varying(base: str, length: int, width: int | None) -> str:
    if length * (width or _MAX_CHARACTER_WIDTH) <= _MAX_VARCHAR_BYTES:
        return f"{base}({length})"
    if width is None and length <= _MAX_VARCHAR_BYTES:
        raise _depends(f"{base}({length})")
    # Sessions that are not strict get a type that holds it.
    prefix = _prefix(length * (width or _MAX_CHARACTER_WIDTH))
    return prefix + ("blob" if base == "varbinary" else "text")


def _prefix(size: int) -> str:
    return next((prefix for limit, prefix in _SIZES if size < limit), "long")


def _depends(text: str) -> Unsupported:
    return Unsupported(
        f"what column type {text} becomes depends on the table's character set, which is not "
        "known; read the table's columns from the source"
    )


def _other(base: str, arguments: Sequence[str], syntax: Syntax) -> str:
    if base == "json" and syntax.mariadb:
        return "longtext"
    if base in ("geometrycollection", "geomcollection"):
        return "geometrycollection" if syntax.mariadb else "geomcollection"
    if base == "year":
        return f"year({arguments[0] if arguments else 4})" if syntax.mariadb else "year"
    if base == "bit":
        return f"bit({int(arguments[0]) or 1 if arguments else 1})"
    if base in ("time", "datetime", "timestamp") and arguments == ["0"]:
        arguments = ()
    return _with_arguments(base, arguments)


def _with_arguments(base: str, arguments: Sequence[str]) -> str:
    return f"{base}({','.join(arguments)})" if arguments else base
