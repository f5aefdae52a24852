"""Types of columns by their numbers, with domains resolved to the types that they restrict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headwater.cdc.postgres.server import PostgresServer

__all__ = ["read_types"]

# Types such as oidvector have elements and are not arrays.
_TYPES = """
SELECT t.oid::bigint, t.typtype = 'd', t.typbasetype::bigint, t.typtypmod,
  CASE WHEN t.typoutput = 'array_out'::regproc THEN t.typelem::bigint ELSE 0 END, t.typdelim::text,
  format('%%I.%%I', n.nspname, t.typname)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = ANY(%s::oid[])
"""
_NAMES = """
SELECT format_type(t, m) FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS u(t, m, n) ORDER BY n
"""
# Arrays of it are the only ones of the server with another delimiter than a comma.
_BOX = "pg_catalog.box"


@dataclass(frozen=True)
class _Type:
    is_domain: bool
    base: int
    modifier: int
    element: int
    delimiter: str
    name: str


@dataclass(frozen=True)
class _Resolved:
    """A type that is not a domain, its modifier, and whether a column has arrays of it.

    Attributes:
        name: Its name, where it is not the one that ``format_type`` writes.
    """

    oid: int
    modifier: int
    is_array: bool = False
    name: str | None = None


def read_types(
    server: PostgresServer, numbers: Collection[tuple[int, int]]
) -> Mapping[tuple[int, int], str]:
    """Read the names of types.

    Args:
        server: The server.
        numbers: ``atttypid`` and ``atttypmod`` of columns.

    Returns:
        The types as `types.parse_source_type` reads them, without those that do not exist any more.

    Raises:
        Unavailable: The server does not answer.
    """
    types = _closed(server, {oid for oid, _ in numbers})
    resolved = {key: _resolve(types, *key) for key in numbers if key[0] in types}
    needed = sorted({(type_.oid, type_.modifier) for type_ in resolved.values()})
    oids, modifiers = [oid for oid, _ in needed], [modifier for _, modifier in needed]
    rows = server.rows(_NAMES, [oids, modifiers])
    names = dict(zip(needed, (str(name) for (name,) in rows), strict=True))
    return {
        key: (type_.name or names[type_.oid, type_.modifier]) + ("[]" if type_.is_array else "")
        for key, type_ in resolved.items()
    }


def _closed(server: PostgresServer, oids: Iterable[int]) -> Mapping[int, _Type]:
    """Some types, those that they restrict, and those of their elements."""
    types: dict[int, _Type] = {}
    missing = set(oids)
    while missing:
        for oid, *rest in server.rows(_TYPES, [sorted(missing)]):
            types[int(str(oid))] = _Type(*rest)  # type: ignore[arg-type]
        parts = {part for type_ in types.values() for part in (type_.base, type_.element)}
        missing = parts - types.keys() - {0}
    return types


def _resolve(types: Mapping[int, _Type], oid: int, modifier: int) -> _Resolved:
    while types[oid].is_domain:
        oid, modifier = types[oid].base, types[oid].modifier
    type_ = types[oid]
    if not type_.element:
        return _Resolved(oid, modifier)
    element = _resolve(types, type_.element, modifier)
    if element.is_array:
        # Arrays of a domain of arrays: their elements are text.
        return _Resolved(type_.element, -1, is_array=True)
    if type_.delimiter != "," and types[element.oid].name != _BOX:
        # An extension's own delimiter: the array is text, as any type with such a name.
        return _Resolved(oid, modifier, name=type_.name)
    return _Resolved(element.oid, element.modifier, is_array=True)
