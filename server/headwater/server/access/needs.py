"""The needs of a call: rights on things, from its path, its query and its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pydantic import ValidationError

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.labels import Entity, parse_entity_type
from headwater.catalog.model.permissions import Access, PermissionTarget, TargetType
from headwater.catalog.model.rights import WITHIN, Rights, Thing, thing_of
from headwater.catalog.wire.management import RestoreTableRequest
from headwater.catalog.wire.permissions import (
    GrantModel,
    RevokePermissionRequest,
    parse_target_type,
)
from headwater.catalog.wire.reads import ReadTableRequest
from headwater.catalog.wire.tables import AuthTableQueryRequest, RenameTableRequest, WireModel
from headwater.server.json_slices import decode
from headwater.storage.errors import Invalid

__all__ = [
    "Call",
    "Need",
    "both",
    "nothing",
    "of_a_grant",
    "of_a_label",
    "of_a_list_of_grants",
    "of_a_list_of_policies",
    "of_a_query",
    "of_a_read",
    "of_a_rename",
    "of_a_restore",
    "of_a_revoke",
    "of_what_is_seen",
    "on",
    "on_dropped",
    "seeing",
]

ModelT = TypeVar("ModelT", bound=WireModel)


@dataclass(frozen=True)
class Call:
    """A request for an operation.

    Attributes:
        path: The parameters of its path, decoded.
        query: The parameters of its query.
        body: Its body; empty if it has none.
        grantees: The names by which permissions reach its caller.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    grantees: frozenset[str]


@dataclass(frozen=True)
class Need:
    """A right that a call needs.

    Attributes:
        thing: The thing that it is on.
        accesses: The accesses any of which is enough; with none of them, seeing the thing is.
        is_within: True if it is on everything in the thing and not on the thing itself.
        some_columns: True if SELECT of some columns is enough, too.
        columns: The columns that must be selectable, where SELECT is needed; None means all.
    """

    thing: Thing
    accesses: frozenset[Access] = frozenset()
    is_within: bool = False
    some_columns: bool = False
    columns: Sequence[str] | None = None

    def is_met(self, rights: Rights) -> bool:
        """True if rights are enough for it."""
        if not self.accesses:
            return rights.is_visible or self.thing.type is TargetType.CATALOG
        if not self.accesses.isdisjoint(rights.within if self.is_within else rights.own):
            return True
        if self.columns is not None:
            return bool(rights.columns) and not rights.hidden_columns(self.columns)
        return self.some_columns and bool(rights.columns)

    def __str__(self) -> str:
        thing = self.thing
        where = WITHIN[thing.type] if self.is_within else thing.type
        name = thing.id or ".".join(part for part in (thing.database, thing.name) if part)
        return f"{' or '.join(sorted(self.accesses))} on {' '.join([where.value, name]).strip()}"


Needs: TypeAlias = Callable[[Call], Sequence[Need]]

_MOST_FAULTS = 20
_NAME_OF = {TargetType.TABLE: "table", TargetType.VIEW: "view", TargetType.FUNCTION: "function"}


def nothing(call: Call) -> Sequence[Need]:
    """No right: what is not visible is not shown."""
    return ()


def seeing(type_: TargetType) -> Needs:
    """That the caller sees the thing that the path names."""
    return lambda call: [Need(_thing(type_, call))]


def on(type_: TargetType, *accesses: Access, some_columns: bool = False) -> Needs:
    """Any of some accesses on the thing that the path names."""
    wanted = frozenset(accesses)
    return lambda call: [Need(_thing(type_, call), wanted, some_columns=some_columns)]


def both(one: Needs, other: Needs) -> Needs:
    """The needs that two tell."""
    return lambda call: [*one(call), *other(call)]


def on_dropped(access: Access) -> Needs:
    """An access on the dropped table that the path names."""
    return lambda call: [Need(_dropped(call), frozenset({access}))]


def of_a_query(call: Call) -> Sequence[Need]:
    """SELECT of the columns that a query reads; one that names none reads all."""
    columns = _body(AuthTableQueryRequest, call).select
    thing = _thing(TargetType.TABLE, call)
    some = frozenset({Access.SELECT})
    return [Need(thing, some, columns=columns)]


def of_a_read(call: Call) -> Sequence[Need]:
    """SELECT of the columns that are read, those of the condition among them."""
    body = _body(ReadTableRequest, call)
    thing = _thing(TargetType.TABLE, call)
    some = frozenset({Access.SELECT})
    if body.select is None:
        return [Need(thing, some)]
    columns = [*body.select, *(body.filter_columns or ())]
    # Rows without columns are a number of rows.
    return [Need(thing, some, columns=columns) if columns else Need(thing, some, some_columns=True)]


def of_a_rename(type_: TargetType, create: Access) -> Needs:
    """ALTER; and where a thing leaves its database, DROP, and the right to create in the other."""

    def needs(call: Call) -> Sequence[Need]:
        body = _body(RenameTableRequest, call)
        source, destination = body.source.identifier(), body.destination.identifier()
        thing = _named(type_, source)
        found = [Need(thing, frozenset({Access.ALTER}))]
        if source.database != destination.database:
            target = Thing(TargetType.DATABASE, destination.database)
            found += [Need(thing, frozenset({Access.DROP})), Need(target, frozenset({create}))]
        return found

    return needs


def of_a_restore(call: Call) -> Sequence[Need]:
    """DROP of the dropped table, and the right to create one where it goes."""
    destination = _body(RestoreTableRequest, call).destination
    table = _dropped(call)
    database = "" if destination is None else destination.identifier().database
    # Without a destination it goes where it was.
    target = Thing(TargetType.DATABASE, database, id="" if database else table.id)
    return [
        Need(table, frozenset({Access.DROP})),
        Need(target, frozenset({Access.CREATETABLE})),
    ]


def of_a_grant(call: Call) -> Sequence[Need]:
    """GRANT on what is granted on."""
    return [_granting(_body(GrantModel, call).resource.target())]


def of_a_revoke(call: Call) -> Sequence[Need]:
    """GRANT on what is revoked from."""
    return [_granting(_body(RevokePermissionRequest, call).resource.target())]


def of_a_list_of_grants(call: Call) -> Sequence[Need]:
    """GRANT on the thing, or that the grants are the caller's own and the thing is seen."""
    name = call.query.get
    target = PermissionTarget(
        parse_target_type(call.query.get("resourceType", "")),
        name("database"),
        name("table"),
        name("function"),
        name("view"),
    )
    need = _granting(target)
    return [Need(need.thing)] if name("principal") in call.grantees else [need]


def of_what_is_seen(call: Call) -> Sequence[Need]:
    """GRANT on everything in the catalog, or that it is about the caller."""
    if call.query.get("principal") in call.grantees:
        return ()
    return [Need(Thing(TargetType.CATALOG), frozenset({Access.GRANT}), is_within=True)]


def of_a_list_of_policies(call: Call) -> Sequence[Need]:
    """GRANT on the table, or that the policies are the caller's own and the table is seen."""
    thing = _thing(TargetType.TABLE, call)
    own = call.query.get("principal") in call.grantees
    return [Need(thing) if own else Need(thing, frozenset({Access.GRANT}))]


def of_a_label(*accesses: Access) -> Needs:
    """Any of some accesses on the entity that the path names; with none of them, seeing it."""

    def needs(call: Call) -> Sequence[Need]:
        entity = Entity(parse_entity_type(call.path["entityType"]), call.path["entityName"])
        return [Need(thing_of(entity.target), frozenset(accesses))]

    return needs


def _granting(target: PermissionTarget) -> Need:
    database = target.database or ""
    match target.type:
        case TargetType.CATALOG | TargetType.CATALOG_ALL:
            thing = Thing(TargetType.CATALOG)
        case TargetType.DATABASE | TargetType.DATABASE_ALL:
            thing = Thing(TargetType.DATABASE, database)
        case TargetType.TABLE | TargetType.COLUMN:
            thing = Thing(TargetType.TABLE, database, target.table or "")
        case TargetType.VIEW:
            thing = Thing(TargetType.VIEW, database, target.view or "")
        case TargetType.FUNCTION:
            thing = Thing(TargetType.FUNCTION, database, target.function or "")
    is_within = target.type in WITHIN.values()
    return Need(thing, frozenset({Access.GRANT}), is_within=is_within)


def _thing(type_: TargetType, call: Call) -> Thing:
    """The thing that the path names."""
    if type_ is TargetType.CATALOG:
        return Thing(type_)
    if type_ is TargetType.TABLE and "tableId" in call.path:
        return Thing(type_, id=call.path["tableId"])
    if type_ is TargetType.DATABASE:
        return Thing(type_, call.path["database"])
    return _named(type_, Identifier(call.path["database"], call.path[_NAME_OF[type_]]))


def _named(type_: TargetType, identifier: Identifier) -> Thing:
    # A branch is its table's.
    name = identifier.table if type_ is TargetType.TABLE else identifier.name
    return Thing(type_, identifier.database, name)


def _dropped(call: Call) -> Thing:
    return Thing(TargetType.TABLE, id=call.path["table_id"], is_dropped=True)


def _body(model: type[ModelT], call: Call) -> ModelT:
    """The body as the operation itself will read it; raises Invalid."""
    try:
        return model.model_validate(decode(call.body.decode()))
    except (ValueError, RecursionError) as error:
        reason = (
            "; ".join(item["msg"] for item in error.errors()[:_MOST_FAULTS])
            if isinstance(error, ValidationError)
            else str(error)
        )
        raise Invalid(f"the request body: {reason}") from error
