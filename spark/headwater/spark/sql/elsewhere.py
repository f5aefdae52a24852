"""Names of Delta Lake and Iceberg, and how the same is written here."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CHANGES_FUNCTION", "PROCEDURES_ELSEWHERE", "SYSTEM_TABLES_ELSEWHERE"]

CHANGES_FUNCTION = "table_changes"
"""Delta Lake's table function of changes."""

PROCEDURES_ELSEWHERE: Mapping[str, str] = {
    "cherrypick_snapshot": "INSERT what the snapshot added: "
    "INSERT INTO t SELECT * FROM paimon_incremental_query('t', 2, 3)",
    "create_changelog_view": "SELECT * FROM paimon_incremental_query('t', 2, 5)",
    "rewrite_data_files": "CALL sys.compact(table => 'd.t')",
    "rewrite_manifests": "CALL sys.compact_manifest(table => 'd.t')",
    "rollback_to_snapshot": "CALL sys.rollback(table => 'd.t', snapshot => 3)",
    "set_current_snapshot": "CALL sys.rollback(table => 'd.t', snapshot => 3)",
    "snapshot": "CALL sys.copy(source_table => 'd.t', target_table => 'd.u')",
}
"""Iceberg's procedures that have other names here."""

SYSTEM_TABLES_ELSEWHERE: Mapping[str, str] = {
    "all_data_files": "files",
    "all_manifests": "manifests",
    "data_files": "files",
    "files": "files",
    "history": "snapshots",
    "manifests": "manifests",
    "partitions": "partitions",
    "refs": "tags",
    "snapshots": "snapshots",
}
"""Iceberg's metadata tables, and those here that have what they have."""
