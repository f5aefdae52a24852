"""The places that warehouses, databases and tables have claimed: the one check that none overlap.

Deleting a table deletes its directory with all that is in it, and removing orphan files deletes
what no snapshot of the table names. Neither may ever reach another table's files, so a place is
claimed before anything is written there, and every claim is compared with all others, in all
warehouses. The cost follows the depth of the directory, not the number of tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Select, and_, column, delete, func, insert, not_, select, table
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.column_types import SORT_NAME_LENGTH
from headwater.catalog.sql.database.models import VERSION_TABLE, PlaceRow
from headwater.catalog.sql.queries.names import first_after
from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place

__all__ = [
    "Claim",
    "Kind",
    "claim",
    "data_claims",
    "find_overlap",
    "lock_places",
    "overlap_error",
    "place_columns",
    "place_hash",
    "refuse_overlap",
    "release",
    "release_warehouse",
]


class Kind(StrEnum):
    """The purpose of a place.

    Attributes:
        WAREHOUSE: A warehouse's databases.
        DATABASE: A database's tables.
        TABLE: A table's files, which the catalog deletes. It stays claimed when the table is gone:
            its deletion may be repeated, late or while a table of the same name is made.
        EXTERNAL: The files of an external table, which the catalog never deletes.
        DATA: A table's files outside its directory, in a place that was empty when it was claimed;
            the catalog deletes them with the table.
        KEPT_DATA: A table's files outside its directory that the catalog never deletes: an
            external table's, or in a place where other files may be. Several tables may share it.
    """

    WAREHOUSE = "warehouse"
    DATABASE = "database"
    TABLE = "table"
    EXTERNAL = "external"
    DATA = "data"
    KEPT_DATA = "kept-data"


# What may hold a place of each kind, in the same warehouse. Everything else must be apart.
_HOLDERS: Mapping[Kind, frozenset[Kind]] = {
    Kind.WAREHOUSE: frozenset(),
    Kind.DATABASE: frozenset({Kind.WAREHOUSE}),
    Kind.TABLE: frozenset({Kind.WAREHOUSE, Kind.DATABASE}),
    Kind.EXTERNAL: frozenset(),
    Kind.DATA: frozenset({Kind.WAREHOUSE}),
    Kind.KEPT_DATA: frozenset({Kind.WAREHOUSE}),
}
_OF_TABLES = frozenset({Kind.TABLE, Kind.EXTERNAL, Kind.DATA, Kind.KEPT_DATA})
_SHARED = frozenset({Kind.EXTERNAL, Kind.KEPT_DATA})
_NAMES: Mapping[Kind, str] = {
    Kind.DATABASE: "the place of a database",
    Kind.TABLE: "the place of another table, which may be dropped",
    Kind.EXTERNAL: "the place of an external table",
    Kind.DATA: "the data files of another table, which may be dropped,",
    Kind.KEPT_DATA: "the data files of another table, which may be dropped,",
}


_UNKNOWN = ""


@dataclass(frozen=True)
class Claim:
    """A place and what it is for.

    Attributes:
        place: The place.
        kind: The purpose of the place.
        warehouse: The warehouse that claims it; empty for a table that is gone and was of a
            warehouse that is not known any more.
        owner: The id of the database or table; the warehouse's name for a warehouse.
    """

    place: Place
    kind: Kind
    warehouse: str
    owner: str

    def may_hold(self, inner: Claim) -> bool:
        """True if another claim may lie in this one's place."""
        return (
            self.kind in _HOLDERS[inner.kind]
            and inner.warehouse in (self.warehouse, _UNKNOWN)
            and self.place != inner.place
        )

    def is_compatible(self, other: Claim) -> bool:
        """True if both may be there: they are apart, or one holds the other as it should.

        Several external tables may have the same files, and what is never deleted may lie together.
        A warehouse that is known at two places is one that is moved, or that servers reach in
        different ways.
        """
        if not self.place.overlaps(other.place):
            return True
        if self.kind is other.kind is Kind.WAREHOUSE and self.owner == other.owner:
            return True
        if self.kind is other.kind is Kind.KEPT_DATA or self._is_of_same_table(other):
            return True
        if self.place == other.place:
            return self.kind is other.kind is Kind.EXTERNAL
        outer, inner = (self, other) if self.place.holds(other.place) else (other, self)
        return outer.may_hold(inner)

    def _is_of_same_table(self, other: Claim) -> bool:
        return self.owner == other.owner and {self.kind, other.kind} <= _OF_TABLES


def lock_places(connection: Connection) -> None:
    """Keep others from claiming a place until the transaction ends, except for managed tables.

    Those lie in databases, which are apart from each other and from all else. What there is not
    cannot be locked: the one row that every database has stands for it. On SQLite the write
    transaction itself is that lock.
    """
    if connection.dialect.name == "sqlite":
        return
    connection.execute(
        select(column("version_num")).select_from(table(VERSION_TABLE)).with_for_update()
    )


def find_overlap(connection: Connection, wanted: Claim) -> Claim | None:
    """A claim that must not be there beside the wanted one; None when there is none."""
    row = PlaceRow
    hashes = [place_hash(each) for each in wanted.place.enclosing]
    above = select(*_COLUMNS).where(row.place_hash.in_(hashes))
    found = [_claim(*each) for each in connection.execute(above)]
    for query in _below(wanted):
        found += [_claim(*each) for each in connection.execute(query.limit(1))]
    found.sort(key=lambda other: len(other.place.key), reverse=True)  # the nearest says most
    return next((other for other in found if not wanted.is_compatible(other)), None)


def refuse_overlap(connection: Connection, wanted: Claim, what: str) -> None:
    """Refuse a claim that overlaps another.

    Args:
        connection: To look with; a transaction that has called `lock_places` where nobody may come
            in between.
        wanted: The claim.
        what: The claimant, such as ``table sales.orders``.

    Raises:
        Invalid: It overlaps another.
    """
    other = find_overlap(connection, wanted)
    if other is not None:
        raise overlap_error(what, wanted, other)


def claim(connection: Connection, wanted: Claim) -> None:
    """Record a claim; raises IntegrityError when somebody else has claimed the same place."""
    row = {
        **place_columns(wanted.place),
        "sharer": wanted.owner if wanted.kind in _SHARED else "",
        "kind": wanted.kind.value,
        "warehouse": wanted.warehouse,
        "owner": wanted.owner,
    }
    connection.execute(insert(PlaceRow), row)


def data_claims(connection: Connection, owner: str) -> list[Claim]:
    """The claims of a table on places outside its directory."""
    row = PlaceRow
    mine = select(*_COLUMNS).where(row.owner == owner, row.kind.in_((Kind.DATA, Kind.KEPT_DATA)))
    return [_claim(*each) for each in connection.execute(mine.order_by(row.place))]


def release(connection: Connection, kind: Kind, owner: str) -> None:
    """Give back the place of something that is gone."""
    connection.execute(delete(PlaceRow).where(PlaceRow.owner == owner, PlaceRow.kind == kind.value))


def release_warehouse(connection: Connection, name: str, place: Place) -> None:
    """Give back the places of an empty warehouse that is removed and has nothing to delete."""
    start = place.key[:SORT_NAME_LENGTH]
    row = PlaceRow
    connection.execute(
        delete(row).where(
            row.kind.in_([kind.value for kind in Kind]),
            row.sort_place >= start,
            row.sort_place < first_after(start),
            row.warehouse == name,
        )
    )


def overlap_error(what: str, wanted: Claim, other: Claim) -> Invalid:
    """The error about two places that overlap."""
    whose = _NAMES.get(other.kind) or f"warehouse '{other.owner}'"
    return Invalid(
        f"{what}: {wanted.place.uri} overlaps {whose} at {other.place.uri}; choose a location "
        "apart from it"
    )


def place_columns(place: Place) -> Mapping[str, str]:
    """The columns of a claim that follow from its place."""
    return {
        "place_hash": place_hash(place),
        "place": place.key,
        "sort_place": place.key[:SORT_NAME_LENGTH],
    }


def place_hash(place: Place) -> str:
    """The key of a place in an index."""
    return hashlib.sha256(place.key.encode()).hexdigest()


_COLUMNS = (PlaceRow.place, PlaceRow.kind, PlaceRow.warehouse, PlaceRow.owner)
_Columns = Select[str, str, str, str]


def _claim(place: str, kind: str, warehouse: str, owner: str) -> Claim:
    return Claim(Place(place), Kind(kind), warehouse, owner)


def _below(wanted: Claim) -> list[_Columns]:
    """The claims below a place that must not be there."""
    row, key = PlaceRow, wanted.place.key
    start = key[:SORT_NAME_LENGTH]
    if len(key) < SORT_NAME_LENGTH:
        below = and_(row.sort_place > start, row.sort_place < first_after(start))
    else:
        # The index holds the same of all that lies in it.
        is_below = func.substr(row.place, 1, len(key)) == key
        below = and_(row.sort_place == start, is_below, row.place != key)
    query = select(*_COLUMNS).where(below)
    kept = [kind.value for kind in Kind if wanted.kind in _HOLDERS[kind]]
    refused = [kind.value for kind in Kind if kind.value not in kept]
    if wanted.kind in _OF_TABLES:
        if wanted.kind is Kind.KEPT_DATA:
            refused.remove(Kind.KEPT_DATA)
        return [query.where(row.kind.in_(refused), row.owner != wanted.owner)]
    if wanted.kind is not Kind.WAREHOUSE:
        return [query.where(row.kind.in_(refused))]
    of_others = row.warehouse.not_in([wanted.warehouse, _UNKNOWN])
    is_itself = and_(row.kind == wanted.kind.value, row.owner == wanted.owner)
    return [
        query.where(row.kind.in_(refused), not_(is_itself)),
        query.where(row.kind.in_(kept), of_others),
    ]
