"""The one table of what each operation needs of its caller, by the operation's id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.catalog.model.permissions import Access, TargetType
from headwater.catalog.model.principal import Scope
from headwater.server.access import needs
from headwater.server.access.needs import Call, Need

__all__ = ["OPERATIONS", "Rule"]


@dataclass(frozen=True)
class Rule:
    """The needs of an operation.

    Attributes:
        scope: The scope that the caller's credential must have; None lets anybody in.
        warehouse: The parameter of the path that names the warehouse; None where none does.
        is_of_all_warehouses: Whether it is about every warehouse, so that a credential for some of
            them is not enough.
        needs: Tells from a call what a caller who asks permission needs, all of it; none if the
            answer shows no more than the caller may see.
        ends_rights: Whether it may take rights away, restrict somebody, or lead a name to another
            thing.
        changes_rows: Whether it changes the rows of the table that its path names, which is not
            for callers who are shown a part of them.
    """

    scope: Scope | None
    warehouse: str | None = None
    is_of_all_warehouses: bool = False
    needs: Callable[[Call], Sequence[Need]] = needs.nothing
    ends_rights: bool = False
    changes_rows: bool = False


def _read(need: Callable[[Call], Sequence[Need]]) -> Rule:
    return Rule(Scope.READ, "prefix", needs=need)


def _write(need: Callable[[Call], Sequence[Need]], *, ends_rights: bool = False) -> Rule:
    return Rule(Scope.WRITE, "prefix", needs=need, ends_rights=ends_rights)


def _change(need: Callable[[Call], Sequence[Need]], *, ends_rights: bool = False) -> Rule:
    return Rule(Scope.WRITE, "prefix", needs=need, ends_rights=ends_rights, changes_rows=True)


def _kept(scope: Scope, need: Callable[[Call], Sequence[Need]]) -> Rule:
    return Rule(scope, "warehouse", needs=need)


_OPEN = Rule(None)
_SERVER = Rule(Scope.READ)
_ALL_WAREHOUSES = Rule(Scope.READ, is_of_all_warehouses=True)
_MANAGE_ONE = Rule(Scope.MANAGE, "warehouse")
_MANAGE_ALL = Rule(Scope.MANAGE, is_of_all_warehouses=True)

_DATABASE, _TABLE = TargetType.DATABASE, TargetType.TABLE
_VIEW, _FUNCTION = TargetType.VIEW, TargetType.FUNCTION
_SEE_DATABASE = needs.seeing(_DATABASE)
_SEE_TABLE = needs.seeing(_TABLE)
_UPDATE = needs.on(_TABLE, Access.UPDATE)
_GRANT = needs.on(_TABLE, Access.GRANT)

OPERATIONS: Mapping[str, Rule] = {
    "getHealth": _OPEN,
    "getReadiness": _OPEN,
    "getMetrics": _ALL_WAREHOUSES,
    "getConfig": _SERVER,
    # Databases
    "listDatabases": _read(needs.nothing),
    "createDatabase": _write(needs.on(TargetType.CATALOG, Access.CREATEDATABASE)),
    "getDatabase": _read(_SEE_DATABASE),
    "alterDatabase": _write(needs.on(_DATABASE, Access.ALTER)),
    "dropDatabase": _write(needs.on(_DATABASE, Access.DROP), ends_rights=True),
    # Tables
    "listTables": _read(_SEE_DATABASE),
    "listTableDetails": _read(_SEE_DATABASE),
    "listTablesGlobally": _read(needs.nothing),
    "getTableById": _read(_SEE_TABLE),
    "getTable": _read(_SEE_TABLE),
    "authTableQuery": _read(needs.of_a_query),
    "getTableToken": _read(needs.on(_TABLE, Access.SELECT, Access.UPDATE, some_columns=True)),
    "signTableRequests": _read(needs.on(_TABLE, Access.SELECT, Access.UPDATE, some_columns=True)),
    "readTable": _read(needs.of_a_read),
    "createTable": _write(needs.on(_DATABASE, Access.CREATETABLE)),
    "registerTable": _write(needs.on(_DATABASE, Access.CREATETABLE)),
    "renameTable": _write(needs.of_a_rename(_TABLE, Access.CREATETABLE), ends_rights=True),
    # Permissions on columns follow the columns.
    "alterTable": _write(needs.on(_TABLE, Access.ALTER), ends_rights=True),
    "replaceTable": _change(
        needs.both(needs.on(_TABLE, Access.ALTER), needs.on(_TABLE, Access.UPDATE)),
        ends_rights=True,
    ),
    "dropTable": _write(needs.on(_TABLE, Access.DROP), ends_rights=True),
    # History
    "commitTable": _change(_UPDATE),
    "getTableSnapshot": _read(_SEE_TABLE),
    "listSnapshots": _read(_SEE_TABLE),
    "getVersionSnapshot": _read(_SEE_TABLE),
    "getLastCommit": _read(_SEE_TABLE),
    "rollbackTable": _change(_UPDATE),
    "rollbackSchema": _write(needs.on(_TABLE, Access.ALTER), ends_rights=True),
    "listTags": _read(_SEE_TABLE),
    "getTag": _read(_SEE_TABLE),
    "createTag": _write(_UPDATE),
    "replaceTag": _write(_UPDATE),
    "renameTag": _write(_UPDATE),
    "deleteTag": _write(_UPDATE),
    "getReferences": _read(_SEE_TABLE),
    "commitDeletion": _change(_UPDATE),
    "finishDeletion": _change(_UPDATE),
    "listBranches": _read(_SEE_TABLE),
    "createBranch": _write(_UPDATE),
    "dropBranch": _change(_UPDATE),
    "renameBranch": _write(_UPDATE),
    "forwardBranch": _change(_UPDATE, ends_rights=True),
    # Partitions
    "listPartitions": _read(_SEE_TABLE),
    "listPartitionsByNames": _read(_SEE_TABLE),
    "listPartitionsByFilter": _read(_SEE_TABLE),
    "createPartitions": _change(_UPDATE),
    "dropPartitions": _change(_UPDATE),
    "markDonePartitions": _change(_UPDATE),
    # A position is its reader's: who reads may move it.
    "listConsumers": _read(_SEE_TABLE),
    "resetConsumer": _read(needs.on(_TABLE, Access.SELECT, Access.UPDATE, some_columns=True)),
    "leaseConsumer": _read(needs.on(_TABLE, Access.SELECT, Access.UPDATE, some_columns=True)),
    # Views and functions
    "listViews": _read(_SEE_DATABASE),
    "listViewDetails": _read(_SEE_DATABASE),
    "listViewsGlobally": _read(needs.nothing),
    "getView": _read(needs.seeing(_VIEW)),
    "createView": _write(needs.on(_DATABASE, Access.CREATEVIEW)),
    "alterView": _write(needs.on(_VIEW, Access.ALTER)),
    "replaceView": _write(needs.on(_VIEW, Access.ALTER)),
    "renameView": _write(needs.of_a_rename(_VIEW, Access.CREATEVIEW), ends_rights=True),
    "dropView": _write(needs.on(_VIEW, Access.DROP), ends_rights=True),
    "listFunctions": _read(_SEE_DATABASE),
    "listFunctionDetails": _read(_SEE_DATABASE),
    "listFunctionsGlobally": _read(needs.nothing),
    "getFunction": _read(needs.seeing(_FUNCTION)),
    "createFunction": _write(needs.on(_DATABASE, Access.CREATEFUNCTION)),
    "alterFunction": _write(needs.on(_FUNCTION, Access.ALTER)),
    "replaceFunction": _write(needs.on(_FUNCTION, Access.ALTER)),
    "dropFunction": _write(needs.on(_FUNCTION, Access.DROP), ends_rights=True),
    # Permissions and policies
    "listPermissions": _read(needs.of_a_list_of_grants),
    "grantPermission": _write(needs.of_a_grant, ends_rights=True),
    "revokePermission": _write(needs.of_a_revoke, ends_rights=True),
    "listPolicies": _read(needs.of_a_list_of_policies),
    "createPolicy": _write(_GRANT, ends_rights=True),
    "dropPolicy": _write(_GRANT),
    # Labels
    "listLabels": _read(needs.of_a_label()),
    "getLabel": _read(needs.of_a_label()),
    "upsertLabel": _write(needs.of_a_label(Access.ALTER)),
    "deleteLabel": _write(needs.of_a_label(Access.ALTER)),
    # Dropped tables and protection
    "listDroppedTables": _kept(Scope.READ, needs.nothing),
    "restoreTable": _kept(Scope.WRITE, needs.of_a_restore),
    "purgeTable": _kept(Scope.WRITE, needs.on_dropped(Access.DROP)),
    "getDatabaseProtection": _kept(Scope.READ, _SEE_DATABASE),
    "setDatabaseProtection": _kept(Scope.WRITE, needs.on(_DATABASE, Access.ALTER)),
    "getTableProtection": _kept(Scope.READ, _SEE_TABLE),
    "setTableProtection": _kept(Scope.WRITE, needs.on(_TABLE, Access.ALTER)),
    "listHolders": _kept(Scope.READ, needs.of_a_list_of_grants),
    "listSeenTables": _kept(Scope.READ, needs.of_what_is_seen),
    # The change feed shows all of a warehouse, whatever is granted.
    "listEvents": _kept(Scope.ADMINISTER, needs.nothing),
    "listAllEvents": _MANAGE_ALL,
    # Management
    "getServerState": Rule(Scope.MANAGE),
    "listWarehouses": _MANAGE_ALL,
    "addWarehouse": _MANAGE_ALL,
    "getWarehouse": _MANAGE_ONE,
    "setWarehouse": _MANAGE_ONE,
    "removeWarehouse": _MANAGE_ONE,
    "listTokens": _MANAGE_ALL,
    "createToken": _MANAGE_ALL,
    "revokeToken": _MANAGE_ALL,
    "createTemporaryKey": _SERVER,
    "listMemberships": _MANAGE_ALL,
    "addMember": _MANAGE_ALL,
    "removeMember": _MANAGE_ALL,
}
