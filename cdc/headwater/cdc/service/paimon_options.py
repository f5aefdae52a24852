"""Options of Paimon's actions that pipelines do not have, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.storage.errors import Invalid

__all__ = ["check_paimon_options"]

_SOURCE = "name the server with source, its tables with include"
_INSTEAD = {
    "catalog-conf": "connect to the catalog first",
    "database": "use target",
    "eager-init": "leave it out: each table begins when its definition is read",
    "ignore-incompatible": "leave it out: check names each table that does not fit; use exclude",
    "mode": "leave it out: tables that appear are always followed, as with the mode 'combined'",
    "mysql-conf": _SOURCE,
    "postgres-conf": _SOURCE,
    "sync-primary-keys-from-source-schema": (
        "leave it out: keys are those of the source; see tables-without-key"
    ),
    "table": "use table-mapping",
    "table-conf": "use table-options, or --table-option on the command line",
    "warehouse": "connect to the catalog first",
}


def check_paimon_options(names: Iterable[str]) -> None:
    """Reject options of Paimon's actions by name.

    Args:
        names: Names of options, with hyphens.

    Raises:
        Invalid: One is Paimon's and not one of a pipeline.
    """
    for name in names:
        if name in _INSTEAD:
            raise Invalid(
                f"option '{name}' is one of Paimon's actions, which pipelines do not have; "
                f"{_INSTEAD[name]}"
            )
