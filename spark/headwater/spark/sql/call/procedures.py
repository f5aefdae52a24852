"""The table of procedures, and ``CALL``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa

from headwater.spark.explained_write import stop_if_explained
from headwater.spark.sql.answers import answer
from headwater.spark.sql.call import access, compaction, history, objects, references
from headwater.spark.sql.call.arguments import read_arguments
from headwater.spark.sql.call.chains import compact_chain_table
from headwater.spark.sql.call.copies import copy
from headwater.spark.sql.call.procedure import Arguments, Parameter, Procedure, Rows
from headwater.spark.sql.call.rescale import rescale
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.elsewhere import PROCEDURES_ELSEWHERE
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["HANDLERS", "LEFT_OUT", "PROCEDURES"]


def _p(text: str) -> list[Parameter]:
    """Parameters as they are written below: ``name``, ``name?`` and ``name:int?``."""
    kinds: Mapping[str, type] = {"": str, "int": int, "bool": bool, "list": list}
    procedures = []
    for word in text.split():
        name, _, kind = word.rstrip("?").partition(":")
        procedures.append(Parameter(name, kinds[kind], not word.endswith("?")))
    return procedures


_ROLLBACK: Mapping[str, type] = {"previous_snapshot_id": int, "current_snapshot_id": int}
_PLACE = "database? table? function? view?"
_PERMISSIONS: Mapping[str, type] = {
    **dict.fromkeys(("resource_type", "database", "table", "function", "view"), str),
    **dict.fromkeys(("access", "principal"), str),
    **dict.fromkeys(("column_names", "excluded_column_names"), list),
    **dict.fromkeys(("expire_time", "next_page_token"), str),
}
_POLICIES: Mapping[str, type] = dict.fromkeys(
    (
        *("database", "table", "policy_type", "principal"),
        *("predicate_json", "on_column", "transform_json", "next_page_token"),
    ),
    str,
)
_Work = Callable[[Arguments], Rows]
_RESULT: Mapping[str, type] = {"result": bool}
_TEXT: Mapping[str, type] = {"result": str}
_ROWS: Sequence[tuple[str, str, _Work, Mapping[str, type], str]] = (
    (
        "compact",
        "table partitions? compact_strategy? order_strategy? order_by? where? options? "
        "partition_idle_time? buckets?",
        compaction.compact, _RESULT,
        "Rewrite files into fewer, of all partitions and buckets or of some (`buckets` is "
        "`0-3,7`); sort an append table's rows.",
    ),
    (
        "compact_database",
        "including_databases? including_tables? excluding_tables? options?",
        compaction.compact_database, _TEXT,
        "Compact the tables whose databases and names match regular expressions.",
    ),
    (
        "compact_manifest",
        "table options? dry_run:bool? manifest_sort_enabled:bool? manifest_sort_partition_field? "
        "manifest_sort_max_rewrite_size?",
        compaction.compact_manifest, _RESULT,
        "List a table's files again, in the order of their partitions, as a whole; `dry_run` logs "
        "how many manifests that would be.",
    ),
    (
        "rescale", "table bucket_num:int? partitions? where?", rescale, _RESULT,
        "Rewrite partitions with the number of buckets that the table's option `bucket` says.",
    ),
    (
        "compact_chain_table", "table partition overwrite:bool?", compact_chain_table, _RESULT,
        "Write a partition of a [chain table](branches.md#chain-tables) as a full one, if it is "
        "not one yet; with `overwrite`, again from the full one before it and the changes since.",
    ),
    (
        "rewrite_file_index", "table where? rebuild:bool?",
        compaction.rewrite_file_index, {"written_partitions": int, "written_indexes": int},
        "Make the indexes of data files those that the table's options ask for, and build damaged "
        "ones from the rows; with `rebuild`, all.",
    ),
    (
        "rebuild_bucket_index", "table where?", compaction.rebuild_bucket_index, {"rebuilt": bool},
        "Build the hash indexes of dynamic buckets that are damaged from the keys of their data "
        "files.",
    ),
    (
        "expire_snapshots",
        "table retain_max:int? retain_min:int? older_than? max_deletes:int? options?",
        history.expire_snapshots, {"deleted_snapshots_count": int},
        "Forget old snapshots and delete the files that only they needed.",
    ),
    (
        "expire_changelogs",
        "table retain_max:int? retain_min:int? older_than? max_deletes:int? delete_all:bool?",
        history.expire_changelogs, {"deleted_changelogs_count": int},
        "Forget old changelogs whose snapshots have expired; `delete_all` all that no consumer "
        "needs.",
    ),
    (
        "expire_partitions",
        "table expiration_time? timestamp_formatter? timestamp_pattern? expire_strategy? "
        "max_expires:int? options?",
        history.expire_partitions, {"expired_partitions": str},
        "Drop the partitions whose time is over.",
    ),
    (
        "rollback", "table version? snapshot:int? tag?", history.rollback, _ROLLBACK,
        "Make an earlier snapshot the latest: one of version, snapshot and tag.",
    ),
    (
        "rollback_to_timestamp", "table timestamp:int", history.rollback_to_timestamp, _ROLLBACK,
        "Make the snapshot of a point in time the latest; milliseconds since the epoch.",
    ),
    (
        "rollback_to_watermark", "table watermark:int", history.rollback_to_watermark, _ROLLBACK,
        "Make the latest snapshot whose watermark has not passed a time the latest.",
    ),
    (
        "purge_files", "table", history.purge_files, _TEXT,
        "Empty a table and forget its branches, tags, consumers and snapshots.",
    ),
    (
        "remove_orphan_files", "table older_than? dry_run:bool? parallelism:int? mode?",
        history.remove_orphan_files, {"deletedFileCount": int, "deletedFileTotalLenInBytes": int},
        "Delete the files that nothing refers to, of a table or (`db.*`) a database.",
    ),
    (
        "remove_unexisting_files", "table dry_run:bool? parallelism:int?",
        history.remove_unexisting_files, {"fileName": str},
        "Take data files that do not exist out of a table or (`db.*`) the tables of a database; "
        "their rows [are lost](operations.md#lost-files).",
    ),
    (
        "create_tag", "table tag snapshot:int? time_retained?", references.create_tag, _RESULT,
        "Name a snapshot, the latest unless one is given.",
    ),
    (
        "create_tag_from_timestamp", "table tag timestamp:int? time_retained?",
        references.create_tag_from_timestamp,
        {"tagName": str, "snapshot": int, "commit_time": int, "watermark": str},
        "Name the first snapshot that was committed at or after a point in time.",
    ),
    (
        "replace_tag", "table tag snapshot:int? time_retained?", references.replace_tag, _RESULT,
        "Let a tag name another snapshot.",
    ),
    (
        "rename_tag", "table tag target_tag", references.rename_tag, _RESULT,
        "Give a tag another name.",
    ),
    (
        "delete_tag", "table tag", references.delete_tag, _RESULT,
        "Delete tags (commas between them), all or none.",
    ),
    (
        "expire_tags", "table older_than?", references.expire_tags, {"expired_tags": str},
        "Delete the tags whose time is over, or that are older.",
    ),
    (
        "trigger_tag_automatic_creation", "table", references.trigger_tag_automatic_creation,
        _RESULT, "Make the tags that are due by `tag.automatic-creation`.",
    ),
    (
        "create_branch", "table branch tag? ignoreIfExists:bool?", references.create_branch,
        _RESULT, "Begin a branch, with what a tag names or empty.",
    ),
    (
        "delete_branch", "table branch", references.delete_branch, _RESULT,
        "Drop branches (commas between them), all or none.",
    ),
    (
        "rename_branch", "table from_branch to_branch", references.rename_branch, _RESULT,
        "Give a branch another name.",
    ),
    (
        "fast_forward", "table branch", references.fast_forward, _RESULT,
        "Make a table hold what a branch holds.",
    ),
    (
        "reset_consumer", "table consumerId nextSnapshotId:int?", references.reset_consumer,
        _RESULT, "Move a consumer to a snapshot; without one, forget it.",
    ),
    (
        "clear_consumers", "table includingConsumers? excludingConsumers?",
        references.clear_consumers, _RESULT,
        "Forget the consumers whose ids match regular expressions.",
    ),
    (
        "mark_partition_done", "table partitions", references.mark_partition_done, _RESULT,
        "Say that partitions are complete.",
    ),
    (
        "alter_view_dialect", "view action engine? query?", objects.alter_view_dialect, _RESULT,
        "`add`, `update` or `drop` a view's query for an engine (`spark` unless named).",
    ),
    (
        "create_function",
        "function inputParams returnParams deterministic:bool? comment? options?",
        objects.create_function, _RESULT, "Keep a function for the engines that call it.",
    ),
    (
        "alter_function", "function change", objects.alter_function, _RESULT,
        "Change a function: its definitions, options or comment, as JSON.",
    ),
    ("drop_function", "function", objects.drop_function, _RESULT, "Drop a function."),
    (
        "copy", "source_table target_table where?", copy, _RESULT,
        "Make a table of another one's latest snapshot, with copies of its files; where there is "
        "one, or `where` chooses partitions, write the rows, in the place of those of the same "
        "partitions.",
    ),
    (
        "repair", "database_or_table", objects.repair, _RESULT,
        "Make the catalog and storage agree, as `headwater reconcile --apply`; all databases for "
        "an empty text.",
    ),
    (
        "grant_permission",
        f"resource_type access principal {_PLACE} expire_time? column_names:list? "
        "excluded_column_names:list?",
        access.grant_permission, _RESULT,
        "Grant an access on a thing, as [`GRANT`](#give-access) does; granted again, it gets the "
        "new end and columns.",
    ),
    (
        "revoke_permission", f"resource_type access principal {_PLACE}",
        access.revoke_permission, _RESULT,
        "Take an access on a thing away; no error where nothing was granted.",
    ),
    (
        "list_permissions",
        f"resource_type {_PLACE} principal? access? max_results:int? page_token?",
        access.list_permissions, _PERMISSIONS,
        "List what was granted on exactly one thing.",
    ),
    (
        "create_policy",
        "database table policy_type principal predicate_json? on_column? transform_json?",
        access.create_policy, _RESULT,
        "Make a [row filter or a column mask](views.md#row-filters-and-column-masks); one that is "
        "there is not replaced.",
    ),
    (
        "drop_policy", "database table policy_type principal column? if_exists:bool?",
        access.drop_policy, _RESULT,
        "Take a row filter or a column mask away.",
    ),
    (
        "list_policies",
        "database table policy_type? principal? column? max_results:int? page_token?",
        access.list_policies, _POLICIES,
        "List a table's row filters and column masks.",
    ),
)  # fmt: skip

PROCEDURES: Mapping[str, Procedure] = {
    name: Procedure(name, summary, _p(parameters), work, columns)
    for name, parameters, work, columns, summary in _ROWS
}
"""The procedures, by their names."""

LEFT_OUT: Mapping[str, str] = {
    "create_privileged_user": "users are the names of tokens: headwater token create",
    "drop_privileged_user": "users are the names of tokens: headwater token revoke",
    "create_global_index": "Headwater writes no global indexes",
    "drop_global_index": "Headwater writes no global indexes",
    "grant_privilege_to_user": "GRANT SELECT ON TABLE d.t TO user",
    "init_file_based_privilege": "a server asks for permissions from the start",
    "materialize_deletion_vectors": "with data evolution a compaction leaves deleted rows "
    "where they are, so that the others keep their ids",
    "merge_branch": "as in Paimon for the tables of a REST catalog; INSERT what the branch added: "
    "INSERT INTO t SELECT * FROM paimon_incremental_query('t$branch_b', 2, 5), from the snapshot "
    "that it began with",
    "migrate_database": "there is no Hive catalog here; CREATE TABLE … AS SELECT from its tables",
    "migrate_table": "there is no Hive catalog here; CREATE TABLE … AS SELECT from its table",
    "reassign_row_id": "rows keep the ids that they got, so that readers that have an id find its "
    "row",
    "repair_earliest_snapshot": "the catalog knows which snapshot is the earliest, and those after "
    "it have no gap; CALL sys.repair('d.t') writes the files of snapshots that storage lacks",
    "revoke_privilege_from_user": "REVOKE SELECT ON TABLE d.t FROM user",
}
"""Paimon's procedures that are refused, and why, or what to do instead."""


def _call(statement: Statement, context: SqlContext) -> pa.Table:
    """``CALL sys.name(…)``."""
    statement.expect("CALL")
    procedure = named_procedure(statement, context)
    arguments = read_arguments(statement, procedure, context)
    if context.session.explains is not None:
        # Some take all tables of a database.
        if not (arguments.text("table") or "*").endswith("*"):
            arguments.table()
        stop_if_explained(context.session)
    return answer(procedure.columns, procedure.run(arguments))


def named_procedure(statement: Statement, context: SqlContext) -> Procedure:
    """Read the name of a procedure.

    Raises:
        Invalid: It is not in the database ``sys``.
        Unsupported: There is no such procedure.
    """
    parts = context.whole_name(statement.name_parts())
    name = parts[-1].lower()
    if name in PROCEDURES_ELSEWHERE:
        instead = PROCEDURES_ELSEWHERE[name]
        raise Unsupported(f"unknown procedure {'.'.join(parts)}; instead: {instead}")
    if len(parts) != 2 or parts[0].lower() != "sys":
        meant = f"sys.{name}" if name in PROCEDURES or name in LEFT_OUT else "sys.name"
        raise Invalid(f"'{'.'.join(parts)}' is not a procedure: write CALL {meant}(…)")
    if name in LEFT_OUT:
        raise Unsupported(f"CALL sys.{name} is not supported: {LEFT_OUT[name]}")
    procedure = PROCEDURES.get(name)
    if procedure is None:
        close = get_close_matches(name, PROCEDURES, n=1)
        meant = f"did you mean sys.{close[0]}? " if close else ""
        raise Unsupported(
            f"unknown procedure sys.{name}; {meant}There are {', '.join(sorted(PROCEDURES))}"
        )
    return procedure


HANDLERS: Mapping[tuple[str, ...], Handler] = {("CALL",): _call}
