"""Paimon's types without parts, and vectors of them, and their text.

Source: ``DataTypeJsonParser.java`` and the types' ``asSQLString``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.storage.capabilities import KEPT_TYPES
from headwater.storage.errors import Invalid

__all__ = [
    "MAX_LENGTH",
    "VECTOR_ELEMENTS",
    "AtomicType",
    "Root",
    "VectorType",
    "is_nullable",
    "parse_atomic",
    "vector_type",
]

MAX_LENGTH = 2**31 - 1
_FORMS = "write one such as INT, STRING, DECIMAL(10, 2) or TIMESTAMP(3)"


class Root(StrEnum):
    """The atomic types' names, as they stand in a schema file."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    GEOMETRY = "GEOMETRY"
    GEOGRAPHY = "GEOGRAPHY"

    @property
    def is_opaque(self) -> bool:
        """True if Headwater keeps columns of it for other engines and does not read them."""
        return self in KEPT_TYPES

    @property
    def is_geospatial(self) -> bool:
        """True if its values are places on a plane or on the earth."""
        return self in (Root.GEOMETRY, Root.GEOGRAPHY)


@dataclass(frozen=True)
class AtomicType:
    """A type without parts.

    Attributes:
        root: The type's kind.
        nullable: True if null is a value of it.
        length: Characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY; else 0.
        precision: Digits of DECIMAL, fractional digits of TIME and TIMESTAMP; else 0.
        scale: Fractional digits of DECIMAL; else 0.
        crs: The coordinate reference system of GEOMETRY and GEOGRAPHY; else empty. Its case makes
            no difference.
        algorithm: The algorithm for the edges of GEOGRAPHY; else empty.
    """

    root: Root
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    crs: str = field(default="", compare=False)
    algorithm: str = ""
    # GeometryType.equals: two types with the same system in other case are one.
    _system: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "_system", self.crs.lower())

    def __str__(self) -> str:
        return self._bare() + ("" if self.nullable else " NOT NULL")

    def _bare(self) -> str:
        match self.root:
            case Root.DECIMAL:
                return f"DECIMAL({self.precision}, {self.scale})"
            case Root.VARCHAR if self.length == MAX_LENGTH:
                return "STRING"
            case Root.VARBINARY if self.length == MAX_LENGTH:
                return "BYTES"
            case Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY:
                return f"{self.root}({self.length})"
            case Root.TIME | Root.TIMESTAMP:
                return f"{self.root}({self.precision})"
            case Root.TIMESTAMP_LTZ:
                return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"
            case Root.GEOMETRY:
                return f"GEOMETRY({_crs_text(self.crs)})"
            case Root.GEOGRAPHY:
                return f"GEOGRAPHY({_crs_text(self.crs)}, {self.algorithm})"
            case _:
                return str(self.root)


@dataclass(frozen=True)
class VectorType:
    """A list of so many elements, none of which is null.

    Attributes:
        element: The elements' type: a boolean or a number.
        length: The number of elements.
        nullable: True if null is a value of it.
    """

    element: AtomicType
    length: int
    nullable: bool = True

    def __str__(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>" + ("" if self.nullable else " NOT NULL")


_NULL = r"(?P<null>(?:\s+NOT)?\s+NULL)?\s*"
_ATOMIC = re.compile(
    r"\s*(?P<name>[A-Z_]+(?:\s+PRECISION)?)"
    r"\s*(?:\(\s*(?P<p>\d+)\s*(?:,\s*(?P<s>-?\d+)\s*)?\))?"
    r"(?P<rest>(?:\s+WITH(?:OUT)?\s+(?:LOCAL\s+)?TIME\s+ZONE)?)" + _NULL,
    re.IGNORECASE,
)
_VECTOR = re.compile(
    r"\s*VECTOR\s*<(?P<element>[^<>]*),\s*(?P<length>\d+)\s*>"
    r"(?P<null>\s*(?:NOT\s+)?NULL)?\s*",
    re.IGNORECASE,
)
# A quoted text, or a word that does not begin like a number.
_WORD = r"'(?:[^']|'')*'|`(?:[^`]|``)*`|[^\s<>(),.'`\d][^\s<>(),.]*"
_PLACES = re.compile(
    rf"\s*(?P<name>GEOMETRY|GEOGRAPHY)(?:\s*\(\s*(?P<crs>{_WORD})\s*"
    rf"(?:,\s*(?P<algorithm>{_WORD})\s*)?\))?(?P<null>\s*(?:NOT\s+)?NULL)?\s*",
    re.IGNORECASE,
)

_ALIASES = {
    "INTEGER": "INT",
    "STRING": "VARCHAR",
    "BYTES": "VARBINARY",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "DOUBLE PRECISION": "DOUBLE",
}

# (default, least, greatest) of the first parameter.
_FIRST_PARAMETER: Mapping[Root, tuple[int, int, int]] = {
    Root.DECIMAL: (10, 1, 38),
    Root.CHAR: (1, 1, MAX_LENGTH),
    Root.VARCHAR: (1, 1, MAX_LENGTH),
    Root.BINARY: (1, 1, MAX_LENGTH),
    Root.VARBINARY: (1, 1, MAX_LENGTH),
    Root.TIME: (0, 0, 9),
    Root.TIMESTAMP: (6, 0, 9),
    Root.TIMESTAMP_LTZ: (6, 0, 9),
}
VECTOR_ELEMENTS = (
    Root.BOOLEAN,
    Root.TINYINT,
    Root.SMALLINT,
    Root.INT,
    Root.BIGINT,
    Root.FLOAT,
    Root.DOUBLE,
)
_DEFAULT_CRS = "OGC:CRS84"
_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_NOT_IN_WORDS = re.compile(r"[\s<>(),.'`]")


def is_nullable(text: str | None) -> bool:
    """The nullability at the end of a type's text: ``NOT NULL``, ``NULL`` or nothing."""
    return text is None or text.split()[0].upper() != "NOT"


def vector_type(element: AtomicType, length: int, nullable: bool) -> VectorType:
    """A VECTOR of so many elements (``VectorType.java``); raises Invalid."""
    if element.root not in VECTOR_ELEMENTS:
        raise Invalid(f"a VECTOR cannot hold {element}: it holds {', '.join(VECTOR_ELEMENTS)}")
    if not 1 <= length <= MAX_LENGTH:
        raise Invalid(f"the length of a VECTOR must be between 1 and {MAX_LENGTH}, not {length}")
    return VectorType(element, length, nullable)


def parse_atomic(text: str) -> AtomicType | VectorType:
    """Read a type without parts, or a vector, from its text; raises Invalid."""
    vector = _VECTOR.fullmatch(text)
    if vector is not None:
        element = parse_atomic(vector["element"])
        assert isinstance(element, AtomicType)
        return vector_type(element, int(vector["length"]), is_nullable(vector["null"]))
    places = _PLACES.fullmatch(text)
    if places is not None:
        return _geospatial_type(text, places)
    match = _ATOMIC.fullmatch(text)
    if match is None:
        raise Invalid(f"'{text}' is not a data type; {_FORMS}")
    written = " ".join(match["name"].upper().split())
    name = _ALIASES.get(written, written)
    zone = " ".join(match["rest"].upper().split())
    if zone == "WITH LOCAL TIME ZONE" and name == "TIMESTAMP":
        name = "TIMESTAMP_LTZ"
    elif zone and not (zone == "WITHOUT TIME ZONE" and name in {"TIME", "TIMESTAMP"}):
        raise Invalid(f"'{text}' is not a data type; {_FORMS}")
    try:
        root = Root(name)
    except ValueError:
        raise Invalid(f"unknown type '{text}'; {_FORMS}") from None
    if root.is_geospatial:
        raise Invalid(f"'{text}' is not a data type; {_FORMS}")
    nullable = is_nullable(match["null"])
    first = None if match["p"] is None else int(match["p"])
    second = None if match["s"] is None else int(match["s"])
    if second is not None and root is not Root.DECIMAL:
        raise Invalid(f"'{text}': only DECIMAL takes two parameters")
    if root not in _FIRST_PARAMETER:
        if first is not None:
            raise Invalid(f"'{text}': {root} takes no parameter")
        return AtomicType(root, nullable)
    default, least, greatest = _FIRST_PARAMETER[root]
    if written in {"STRING", "BYTES"}:
        if first is not None:
            raise Invalid(f"'{text}': {written} takes no parameter")
        default = MAX_LENGTH
    value = default if first is None else first
    if not least <= value <= greatest:
        raise Invalid(f"'{text}': the parameter must be between {least} and {greatest}")
    if root is Root.DECIMAL:
        scale = second or 0
        if not 0 <= scale <= value:
            raise Invalid(f"'{text}': the scale must be between 0 and the precision")
        return AtomicType(root, nullable, precision=value, scale=scale)
    if root in {Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ}:
        return AtomicType(root, nullable, precision=value)
    return AtomicType(root, nullable, length=value)


def _geospatial_type(text: str, match: re.Match[str]) -> AtomicType:
    # GeometryType.java, GeographyType.java, EdgeAlgorithm.java
    root = Root(match["name"].upper())
    crs = _DEFAULT_CRS if match["crs"] is None else _unquoted(match["crs"])
    if not crs:
        raise Invalid(f"'{text}': the coordinate reference system must not be empty")
    algorithm = ""
    if root is Root.GEOGRAPHY:
        algorithm = _unquoted(match["algorithm"] or _ALGORITHMS[0]).lower()
        if algorithm not in _ALGORITHMS:
            raise Invalid(f"'{text}': the edges' algorithm is one of {', '.join(_ALGORITHMS)}")
    elif match["algorithm"] is not None:
        raise Invalid(f"'{text}': GEOMETRY takes one parameter")
    return AtomicType(root, is_nullable(match["null"]), crs=crs, algorithm=algorithm)


def _unquoted(word: str) -> str:
    mark = word[0]
    return word[1:-1].replace(mark * 2, mark) if mark in "'`" else word


def _crs_text(crs: str) -> str:
    if crs[0].isdigit() or _NOT_IN_WORDS.search(crs):
        return "'" + crs.replace("'", "''") + "'"
    return crs
