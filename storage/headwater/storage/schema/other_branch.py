"""The other branch that reads of a table look into.

Source: ``FileStoreTableFactory.java``, ``SchemaValidation.validateFallbackBranch``.
"""

from __future__ import annotations

from headwater.storage.errors import Invalid
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["OTHER_BRANCH_OPTIONS", "other_branch"]

OTHER_BRANCH_OPTIONS = ("scan.fallback-branch", "scan.primary-branch")
"""The options that name another branch which reads of a table look into."""


def other_branch(name: str, branch: str, schema: TableSchema) -> tuple[str, bool] | None:
    """The other branch that a read of a table looks into, by the table's options.

    Args:
        name: The table's name in error messages.
        branch: The branch that is read.
        schema: Its schema.

    Returns:
        The branch, and True if its partitions go before those of the table; None for a table that
        is read alone.

    Raises:
        Invalid: Both options are set.
    """
    found = {key: schema.options.get(key, "").strip() for key in OTHER_BRANCH_OPTIONS}
    fallback, primary = found.values()
    if schema.table_options.is_chain_table:
        return None  # As ``FileStoreTableFactory.create``: its chain goes before.
    if fallback and primary:
        raise Invalid(
            f"table {name} has both {' and '.join(OTHER_BRANCH_OPTIONS)}; unset one of them"
        )
    other = fallback or primary
    return None if not other or other == branch else (other, bool(primary))
