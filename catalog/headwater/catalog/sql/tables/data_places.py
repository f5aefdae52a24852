"""The places outside a table's directory that its options name, for data and for indexes.

Paimon writes below such a place as below the table's directory (``FileStorePathFactory``), in no
folder of the table's own, and deletes the whole place with the table
(``AbstractCatalog.dropTable``). So a place belongs to one table alone, and is deleted only if
nothing was there when the table claimed it. A place that was named once stays claimed until the
table is purged: files of earlier snapshots lie there still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.engine import Connection

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.queries.claimed_places import (
    Claim,
    Kind,
    claim,
    data_claims,
    find_overlap,
    lock_places,
    refuse_overlap,
)
from headwater.catalog.sql.tables.places import check_may_name
from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable, Unsupported
from headwater.storage.files.location import Place, new_location
from headwater.storage.schema.table_schema import TableSchema

__all__ = [
    "DataOwner",
    "DataPlace",
    "claim_data_places",
    "find_data_places",
    "named_options",
    "note_data_places",
]

_OPTIONS = ("data-file.external-paths", "global-index.external-path")


@dataclass(frozen=True)
class DataOwner:
    """A table that claims places.

    Attributes:
        identifier: Its name.
        id: Its id.
        location: Its directory.
        is_external: True if the catalog never deletes its files.
    """

    identifier: Identifier
    id: str
    location: str
    is_external: bool


@dataclass(frozen=True)
class DataPlace:
    """A place that a table's options name.

    Attributes:
        place: The place.
        option: The option.
        is_empty: True if the catalog may work there and found no file.
    """

    place: Place
    option: str
    is_empty: bool


def named_options(schemas: Iterable[TableSchema]) -> Mapping[str, str]:
    """The options of several schemas that name such places, as if they were one's."""
    texts = [(option, schema.options.get(option, "")) for schema in schemas for option in _OPTIONS]
    return {option: ",".join(text for at, text in texts if at == option) for option in _OPTIONS}


def find_data_places(
    context: CatalogContext,
    identifier: Identifier,
    options: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *,
    are_checked: bool = True,
) -> Sequence[DataPlace]:
    """The places that a table's options name and did not name before.

    Args:
        context: The warehouse and its storage, where they are looked at.
        identifier: The table.
        options: Its options.
        before: Those that it had.
        are_checked: Refuse what is no place at all, rather than leave it out.

    Raises:
        Invalid: An option names what is neither a URI nor an absolute path.
        Forbidden: It names a place that the caller may not have, see `check_may_name`.
    """
    places = _named(identifier, options, before or {}, are_checked=are_checked)
    for place, option in places.items():
        check_may_name(context, f"table {identifier}: option '{option}'", place)
    return [DataPlace(place, option, _is_empty(context, place)) for place, option in places.items()]


def claim_data_places(
    connection: Connection,
    context: CatalogContext,
    table: DataOwner,
    found: Sequence[DataPlace],
) -> None:
    """Claim places for a table; those that it has claimed already are passed over.

    Raises:
        Invalid: A place overlaps the place of something else.
    """
    for each in _unclaimed(connection, table, found):
        wanted = Claim(each.place, Kind.DATA, context.warehouse, table.id)
        is_own = each.is_empty and not table.is_external
        if not is_own or find_overlap(connection, wanted) is not None:
            wanted = replace(wanted, kind=Kind.KEPT_DATA)
            what = f"table {table.identifier}: option '{each.option}'"
            refuse_overlap(connection, wanted, what)
        claim(connection, wanted)


def note_data_places(
    connection: Connection,
    context: CatalogContext,
    table: DataOwner,
    options: Mapping[str, str],
) -> None:
    """Claim places that an external table's files name, whatever they overlap.

    Whoever changed the files has not asked. No other table's files that overlap are deleted then.
    """
    places = _named(table.identifier, options, {}, are_checked=False)
    found = [DataPlace(place, option, is_empty=False) for place, option in places.items()]
    for each in _unclaimed(connection, table, found):
        claim(connection, Claim(each.place, Kind.KEPT_DATA, context.warehouse, table.id))


def _unclaimed(
    connection: Connection, table: DataOwner, found: Sequence[DataPlace]
) -> Iterator[DataPlace]:
    if not found:
        return
    lock_places(connection)
    # What lies in the table's directory goes with it.
    held = [Place.of(table.location), *(each.place for each in data_claims(connection, table.id))]
    for each in found:
        if not any(place.holds(each.place) for place in held):
            yield each
            held.append(each.place)


def _is_empty(context: CatalogContext, place: Place) -> bool:
    if not context.is_allowed(place) and not context.place.holds(place):
        return False
    if place.parent is None:
        return False  # a bucket or a disk as a whole is no table's alone
    try:
        found = context.files_at(place.uri).walk(place.uri, unfinished=True)
        return next(found, None) is None
    except (Forbidden, NotFound, Unavailable, Unsupported):
        return False


def _named(
    identifier: Identifier,
    options: Mapping[str, str],
    before: Mapping[str, str],
    *,
    are_checked: bool,
) -> Mapping[Place, str]:
    """The option that names each new place, outer ones first."""
    named: dict[Place, str] = {}
    for option in _OPTIONS:
        known = _texts(before, option)
        for text in _texts(options, option):
            if text in known:
                continue
            try:
                named.setdefault(_place(identifier, option, text), option)
            except Invalid:
                if are_checked:
                    raise
    return {place: named[place] for place in sorted(named, key=lambda place: len(place.key))}


def _texts(options: Mapping[str, str], option: str) -> list[str]:
    return [text.strip() for text in options.get(option, "").split(",") if text.strip()]


def _place(identifier: Identifier, option: str, text: str) -> Place:
    if not text.startswith("/") and ":" not in text:
        raise Invalid(
            f"table {identifier}: option '{option}' must name URIs or absolute paths, not '{text}'"
        )
    return Place.of(new_location(text))
