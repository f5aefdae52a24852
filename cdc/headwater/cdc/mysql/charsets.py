"""Character sets of MySQL and MariaDB, by collation id."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from headwater.cdc.columns import Charset
from headwater.storage.errors import Unsupported

BINARY_COLLATION = 63
"""The collation id of bytes."""

# MariaDB's collations without padding are numbered as the others, from here on.
_NO_PAD_BASE = 1024
# MariaDB's collations of UCA 14.0: 256 ids for each of these character sets.
_UCA_1400_BASE = 2048
_UCA_1400_CHARSETS = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")

# The collation ids of each character set, as ranges with both ends
# (``information_schema.collations`` of MySQL 9.7 and MariaDB 10.11).
_COLLATIONS: dict[str, tuple[int | tuple[int, int], ...]] = {
    "ascii": (11, 65),
    "armscii8": (32, 64),
    "big5": (1, 84),
    "binary": (BINARY_COLLATION,),
    "cp1250": (26, 34, 44, 66, 99),
    "cp1251": (14, 23, (50, 52)),
    "cp1256": (57, 67),
    "cp1257": (29, 58, 59),
    "cp850": (4, 80),
    "cp852": (40, 81),
    "cp866": (36, 68),
    "cp932": (95, 96),
    "dec8": (3, 69),
    "eucjpms": (97, 98),
    "euckr": (19, 85),
    "gb18030": ((248, 250),),
    "gb2312": (24, 86),
    "gbk": (28, 87),
    "geostd8": (92, 93),
    "greek": (25, 70),
    "hebrew": (16, 71),
    "hp8": (6, 72),
    "keybcs2": (37, 73),
    "koi8r": (7, 74),
    "koi8u": (22, 75),
    "latin1": (5, 8, 15, 31, (47, 49), 94),
    "latin2": (2, 9, 21, 27, 77),
    "latin5": (30, 78),
    "latin7": (20, 41, 42, 79),
    "macce": (38, 43),
    "macroman": (39, 53),
    "sjis": (13, 88),
    "swe7": (10, 82),
    "tis620": (18, 89),
    "ucs2": (35, 90, (128, 151), 159, (640, 642)),
    "ujis": (12, 91),
    "utf16": (54, 55, (101, 124), (672, 674)),
    "utf16le": (56, 62),
    "utf32": (60, 61, (160, 183), (736, 738)),
    "utf8mb3": (33, 76, 83, (192, 215), 223, (576, 578)),
    "utf8mb4": (45, 46, (224, 247), (255, 323), (608, 610)),
}

_CODECS = {
    "ascii": "ascii",
    "big5": "cp950",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "dec8": "latin-1",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "swe7": "ascii",
    "tis620": "tis_620",
    "ucs2": "utf-16-be",
    "ujis": "euc_jp",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}
_UNITS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}

# Where MySQL's characters of one byte differ from those of Python's codec.
_DIFFERENCES: dict[str, dict[int, str]] = {
    "cp866": {0xFC: "\u207f", 0xFD: "\u00b2"},
    "dec8": {0xA8: "\u00a4", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"},
    "greek": {0xA1: "\u02bd", 0xA2: "\u02bc"},
    "hebrew": {0xAF: "\u203e"},
    "koi8u": {0x95: "\u2022"},
    "latin1": {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "swe7": dict(zip(b"@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True)),
    "tis620": dict.fromkeys((0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100)), "\ufffd"),
}
# The same for characters of several bytes, by the character that Python's codec returns.
_REPLACEMENTS: Mapping[str, Mapping[int, str | int]] = {
    "big5": str.maketrans(
        "\u2027\ufe51\u2574\u00af\uffe3\u02cd\uff5e\u2295\u2299\uff0f\uff3c\u2215\ufe68\uffe5\uffe0\uffe1",
        "\u2022\uff64\ufffd\u203e\ufffd\ufffd\u223c\u2641\u2609\ufffd\ufffd\uff0f\uff3c\u00a5\u00a2\u00a3",
    ),
    "gb18030": {0xE7C7: "ḿ"},
    "sjis": {0xFF3C: "\\"},
    "ujis": {0xFF3C: "\\"},
}


@cache
def charset_of_collation(collation: int | None) -> Charset:
    """The character set of a collation id.

    Raises:
        Unsupported: The id is unknown, or there is no codec for its character set.
    """
    name = None if collation is None else _charset_name(collation)
    codec = _CODECS.get(name or "")
    if name is None or codec is None:
        raise Unsupported(
            f"cannot decode text: the character set {name or 'unknown'} of collation {collation} "
            "is not supported; convert the column to utf8mb4 at the source"
        )
    differences = _DIFFERENCES.get(name)
    table = None
    if differences is not None:
        characters = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
        # U+FFFE is an undefined byte for codecs.charmap_decode.
        characters = [char if char != "\ufffd" else "\ufffe" for char in characters]
        for byte, char in differences.items():
            characters[byte] = char
        table = "".join(characters)
    unit = _UNITS.get(name, 1)
    is_ascii = unit == 1 and name != "swe7"
    return Charset(name, codec, unit, is_ascii, table, _REPLACEMENTS.get(name))


def charset_of(collation: str | None) -> str | None:
    """The character set of a collation such as ``utf8mb4_general_ci``.

    None if its name does not say it: MariaDB's ``uca1400_ai_ci`` is of the column's own.
    """
    if collation is None:
        return None
    name = collation.partition("_")[0].lower()
    return name if name in _COLLATIONS or name == "utf8" else None


def check_collation(name: str) -> None:
    """Check that text of a collation can be decoded.

    Args:
        name: The collation's name, which begins with that of its character set.

    Raises:
        Unsupported: There is no codec for its character set.
    """
    charset = name.partition("_")[0]
    if charset in _COLLATIONS and charset not in _CODECS and charset != "binary":
        raise Unsupported(f"its character set {charset} is not supported; convert it to utf8mb4")


def _charset_name(collation: int) -> str | None:
    if collation >= _UCA_1400_BASE:
        index = (collation - _UCA_1400_BASE) // 256
        return _UCA_1400_CHARSETS[index] if index < len(_UCA_1400_CHARSETS) else None
    if collation >= _NO_PAD_BASE:
        collation -= _NO_PAD_BASE
    for name, ids in _COLLATIONS.items():
        for item in ids:
            first, last = (item, item) if isinstance(item, int) else item
            if first <= collation <= last:
                return name
    return None
