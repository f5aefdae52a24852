"""The one table of what each operation needs of its caller, by the operation's id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.catalog.model.principal import Scope

__all__ = ["OPERATIONS", "Rule"]


@dataclass(frozen=True)
class Rule:
    """The needs of an operation.

    Attributes:
        scope: The scope that the caller's credential must have; None lets anybody in.
        warehouse: The parameter of the path that names the warehouse; None where none does.
        is_of_all_warehouses: True if it is about every warehouse, so that a credential for some of
            them is not enough.
    """

    scope: Scope | None
    warehouse: str | None = None
    is_of_all_warehouses: bool = False


_OPEN = Rule(None)
_SERVER = Rule(Scope.READ)
_READ = Rule(Scope.READ, "prefix")
_WRITE = Rule(Scope.WRITE, "prefix")
_READ_TOO = Rule(Scope.READ, "warehouse")
_WRITE_TOO = Rule(Scope.WRITE, "warehouse")
_MANAGE_ONE = Rule(Scope.MANAGE, "warehouse")
_MANAGE_ALL = Rule(Scope.MANAGE, is_of_all_warehouses=True)

OPERATIONS: Mapping[str, Rule] = {
    "getHealth": _OPEN,
    "getReadiness": _OPEN,
    "getMetrics": _SERVER,
    "getConfig": _SERVER,
    # Databases
    "listDatabases": _READ,
    "createDatabase": _WRITE,
    "getDatabase": _READ,
    "alterDatabase": _WRITE,
    "dropDatabase": _WRITE,
    # Tables
    "listTables": _READ,
    "listTableDetails": _READ,
    "listTablesGlobally": _READ,
    "getTableById": _READ,
    "getTable": _READ,
    "authTableQuery": _READ,
    "getTableToken": _READ,
    "createTable": _WRITE,
    "registerTable": _WRITE,
    "renameTable": _WRITE,
    "alterTable": _WRITE,
    "replaceTable": _WRITE,
    "dropTable": _WRITE,
    # History
    "commitTable": _WRITE,
    "getTableSnapshot": _READ,
    "listSnapshots": _READ,
    "getVersionSnapshot": _READ,
    "getLastCommit": _READ,
    "rollbackTable": _WRITE,
    "rollbackSchema": _WRITE,
    "listTags": _READ,
    "getTag": _READ,
    "createTag": _WRITE,
    "deleteTag": _WRITE,
    "listBranches": _READ,
    "createBranch": _WRITE,
    "dropBranch": _WRITE,
    "renameBranch": _WRITE,
    "forwardBranch": _WRITE,
    # Partitions
    "listPartitions": _READ,
    "listPartitionsByNames": _READ,
    "listPartitionsByFilter": _READ,
    "createPartitions": _WRITE,
    "dropPartitions": _WRITE,
    "markDonePartitions": _WRITE,
    # A position is its reader's: who reads may move it.
    "listConsumers": _READ,
    "resetConsumer": _READ,
    "leaseConsumer": _READ,
    # Views and functions
    "listViews": _READ,
    "listViewDetails": _READ,
    "listViewsGlobally": _READ,
    "getView": _READ,
    "createView": _WRITE,
    "alterView": _WRITE,
    "renameView": _WRITE,
    "dropView": _WRITE,
    "listFunctions": _READ,
    "listFunctionDetails": _READ,
    "listFunctionsGlobally": _READ,
    "getFunction": _READ,
    "createFunction": _WRITE,
    "alterFunction": _WRITE,
    "dropFunction": _WRITE,
    # Permissions and policies
    "listPermissions": _READ,
    "grantPermission": _WRITE,
    "revokePermission": _WRITE,
    "listPolicies": _READ,
    "createPolicy": _WRITE,
    "dropPolicy": _WRITE,
    # Dropped tables and protection
    "listDroppedTables": _READ_TOO,
    "restoreTable": _WRITE_TOO,
    "purgeTable": _WRITE_TOO,
    "getDatabaseProtection": _READ_TOO,
    "setDatabaseProtection": _WRITE_TOO,
    "getTableProtection": _READ_TOO,
    "setTableProtection": _WRITE_TOO,
    # Management
    "listWarehouses": _MANAGE_ALL,
    "addWarehouse": _MANAGE_ALL,
    "getWarehouse": _MANAGE_ONE,
    "setWarehouse": _MANAGE_ONE,
    "removeWarehouse": _MANAGE_ONE,
    "listTokens": _MANAGE_ALL,
    "createToken": _MANAGE_ALL,
    "revokeToken": _MANAGE_ALL,
    "listMemberships": _MANAGE_ALL,
    "addMember": _MANAGE_ALL,
    "removeMember": _MANAGE_ALL,
}
