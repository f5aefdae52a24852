"""Changes that a server's settings keep out of its log."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headwater.cdc.model.tables import Finding
from headwater.cdc.mysql.gtid import MariadbGtidList
from headwater.cdc.mysql.server import Flavour, MySQLServer

__all__ = ["unlogged_changes"]


def unlogged_changes(server: MySQLServer, databases: Collection[str]) -> list[Finding]:
    """What keeps changes of some databases out of a server's log.

    Args:
        server: The server.
        databases: The databases.

    Raises:
        Forbidden: The user may not ask for the log's status.
    """
    return [*_filters(server, databases), *_replicated(server)]


def _filters(server: MySQLServer, databases: Collection[str]) -> Iterator[Finding]:
    is_mariadb = server.flavour is Flavour.MARIADB
    status = server.rows("SHOW MASTER STATUS" if is_mariadb else "SHOW BINARY LOG STATUS")
    for _, _, logged, ignored, *_ in status:
        for option, names in (("binlog-do-db", logged), ("binlog-ignore-db", ignored)):
            listed = {name for name in str(names).split(",") if name}
            if not listed:
                continue
            missing = [name for name in sorted(databases) if (name in listed) is (names is ignored)]
            if missing:
                yield Finding(
                    f"setting {option}",
                    f"it keeps changes of database {missing[0]} out of the log",
                    f"change {option} in the server's configuration and restart it",
                )


def _replicated(server: MySQLServer) -> Iterator[Finding]:
    is_mariadb = server.flavour is Flavour.MARIADB
    name = "log_slave_updates" if is_mariadb else "log_replica_updates"
    settings = server.variables(name, "gtid_slave_pos", "gtid_binlog_pos")
    if is_mariadb:
        # Another privilege is needed to see whether it is a replica.
        replicated = MariadbGtidList.from_text(settings.get("gtid_slave_pos", ""))
        logged = MariadbGtidList.from_text(settings.get("gtid_binlog_pos", ""))
        is_replica = not logged.contains(replicated)
    else:
        is_replica = bool(server.rows("SHOW REPLICA STATUS"))
    if is_replica and settings.get(name) == "OFF":
        yield Finding(
            f"setting {name}",
            "it is OFF on a replica, whose log lacks the changes of its primary",
            f"set {name} = ON in the server's configuration and restart it, or follow the primary",
        )
