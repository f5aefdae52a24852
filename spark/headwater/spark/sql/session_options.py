"""The settings ``spark.paimon.…`` of a session: options that override those of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.schema_merging import MERGE_OPTIONS
from headwater.spark.session import session_settings
from headwater.spark.sql.context import SqlContext
from headwater.storage.capabilities import find_option
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.schema.read_start import INCREMENTAL_OPTIONS, START_OPTIONS

__all__ = [
    "named_table",
    "paimon_settings",
    "refuse_not_followed",
    "session_options",
    "table_to_change",
    "with_session_options",
]

_SETTINGS = "spark.paimon."
_BRANCH = "branch"
_OF_READS = START_OPTIONS.union(INCREMENTAL_OPTIONS)


# Options of Paimon's Spark that would change what a statement means: the value that each has
# without being set, and what to do instead.
_NOT_FOLLOWED: Mapping[str, tuple[str, str]] = {
    "legacy-timestamp-mapping.enabled": (
        "false", "TIMESTAMP is an instant; declare a local time as TIMESTAMP_NTZ",
    ),
    "read.allow.fullScan": (
        "true", "name the partitions in the query; SparkLake.last_query tells what it reads",
    ),
    "write.hive-style-dynamic-partition.enabled": (
        "false", "the columns of an INSERT's query stand in the order of the table's",
    ),
}  # fmt: skip


def paimon_settings(context: SqlContext) -> dict[str, str]:
    """The session's settings for tables, without their prefix."""
    return session_settings(context.session.spark, _SETTINGS)


def session_options(
    context: SqlContext, table: Table, settings: Mapping[str, str]
) -> dict[str, str]:
    """The options of a table that the session overrides.

    They are ``spark.paimon.<key>``, and before it ``spark.paimon.<catalog>.<db>.<table>.<key>``.

    Args:
        context: The user's.
        table: The table.
        settings: As `paimon_settings` gives them.

    Raises:
        Invalid: One is not an option of a table.
        Unsupported: One asks for what statements here do not do, or for a branch that the name
            of the table does not say.
    """
    chosen: dict[str, str] = {}
    narrow: dict[str, str] = {}
    place = (context.catalog.warehouse, table.identifier.database, table.identifier.name)
    for key, value in settings.items():
        if key in MERGE_OPTIONS:
            continue  # Of writes, which ask for them.
        if find_option(key) is not None:
            chosen[key] = value
            continue
        parts = key.split(".", 3)
        if len(parts) < 4 or find_option(parts[3]) is None:
            raise Invalid(
                f"'{_SETTINGS}{key}' is set in this session, and is not an option of a table: "
                f"RESET {_SETTINGS}{key}"
            )
        if all(want in ("*", have) for want, have in zip(parts, place, strict=False)):
            narrow[parts[3]] = value
    options = {**chosen, **narrow}
    refuse_not_followed(options)
    branch = options.pop(_BRANCH, MAIN_BRANCH)
    if branch not in (MAIN_BRANCH, table.identifier.branch):
        raise Unsupported(
            f"table {table.name}: '{_SETTINGS}{_BRANCH}' is {branch} in this session, and here a "
            f"statement names the branch: write `{table.identifier.table}$branch_{branch}`, and "
            f"RESET {_SETTINGS}{_BRANCH}"
        )
    return options


def refuse_not_followed(options: Mapping[str, str]) -> None:
    """Refuse options of the session that ask for another meaning of statements; Unsupported."""
    for key, (usual, instead) in _NOT_FOLLOWED.items():
        value = options.get(key, usual)
        if value.strip().lower() != usual:
            raise Unsupported(
                f"'{_SETTINGS}{key}' is {value} in this session, which is not followed here: "
                f"{instead}"
            )


def named_table(context: SqlContext, name: str) -> Table:
    """A table that a statement names, as it is.

    Raises:
        Invalid, Unsupported: As `session_options`.
        NotFound: There is no such table.
    """
    table = context.table(name)
    session_options(context, table, paimon_settings(context))
    return table


def with_session_options(context: SqlContext, table: Table) -> Table:
    """A table that is to be changed or maintained, with the session's options in place of its own.

    Those that say which part of its history is read do not count: what is changed is the latest.

    Raises:
        Invalid: An option of the session's does not exist, or cannot be a table's.
    """
    context.note_change(table.name)
    options = session_options(context, table, paimon_settings(context))
    of_writes = {key: value for key, value in options.items() if key not in _OF_READS}
    return table.with_options(of_writes) if of_writes else table


def table_to_change(
    context: SqlContext, parts: Sequence[str], options: Mapping[str, str] | None = None
) -> Table:
    """The table whose rows a statement changes, as `with_session_options`.

    Args:
        context: The user's.
        parts: The parts of its name.
        options: Those of a hint that follows it.

    Raises:
        Invalid: As there, of the hint's options, too; or it is a view.
        NotFound: There is no such table.
    """
    name = context.full_name(parts)
    try:
        table = context.catalog.table(name)
    except NotFound:
        if context.view(Identifier.parse(name)) is None:
            raise
        raise Invalid(f"{name} is a view: change the rows of the tables that it reads") from None
    table = with_session_options(context, table)
    for key in options or ():
        if find_option(key) is None or key in _OF_READS:
            raise Invalid(f"table {name}: '{key}' is not an option of a table that is changed")
    return table.with_options(options) if options else table
