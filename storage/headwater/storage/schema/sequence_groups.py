"""The sequence groups of ``merge-engine=partial-update``: columns that are updated together.

Source: ``PartialUpdateMergeFunction.Factory``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.errors import Invalid
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["SequenceGroup", "check_partial_update", "sequence_groups"]

_PREFIX, _SUFFIX = "fields.", ".sequence-group"
_DEFAULT = "last_non_null_value"


@dataclass(frozen=True)
class SequenceGroup:
    """Columns that a row updates only if its sequence fields are not older than those there.

    Attributes:
        option: The option that declares it.
        fields: The sequence fields, the most significant first.
        columns: The other columns.
        removes_record: True if a ``-D`` row of the group ends its key's row.
    """

    option: str
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    removes_record: bool


def sequence_groups(schema: TableSchema) -> list[SequenceGroup]:
    """The sequence groups that a table's options declare.

    Raises:
        Invalid: They name a column that does not exist.
    """
    removing = set(schema.table_options.removing_sequence_fields)
    groups: list[SequenceGroup] = []
    for key, value in schema.options.items():
        if not (key.startswith(_PREFIX) and key.endswith(_SUFFIX)):
            continue
        fields = tuple(key[len(_PREFIX) : -len(_SUFFIX)].split(","))
        columns = value.split(",")
        for name in (*fields, *columns):
            if name not in schema.field_by_name:
                raise Invalid(
                    f"option '{key}' = '{value}' is about column '{name}', which does not exist "
                    "(columns stand between commas, without spaces)"
                )
        others = tuple(name for name in columns if name not in fields)
        groups.append(SequenceGroup(key, fields, others, not removing.isdisjoint(fields)))
    return groups


def check_partial_update(schema: TableSchema) -> None:
    """Check the options of a table with ``merge-engine=partial-update``.

    Raises:
        Invalid: They contradict each other or the schema; the message names them.
    """
    groups = sequence_groups(schema)
    _check_members(schema, groups)
    options = schema.table_options
    removes = options.partial_update_removes_on_delete
    removing = options.removing_sequence_fields
    conflicts = (
        (options.ignore_delete and removes, "ignore-delete", _REMOVE),
        (options.ignore_delete and bool(removing), "ignore-delete", _REMOVE_ON_GROUP),
        (removes and bool(groups), "fields.<column>.sequence-group", _REMOVE),
    )
    for conflict, one, other in conflicts:
        if conflict:
            raise Invalid(f"'{one}' and '{other}' contradict each other; set one of them")
    known = {name for group in groups for name in group.fields}
    for name in removing:
        if name not in known:
            raise Invalid(
                f"'{_REMOVE_ON_GROUP}' names '{name}', which is not a sequence field of a "
                "sequence group"
            )
    grouped = {name for group in groups for name in group.columns}
    for field in schema.fields:
        function = options.aggregate_function(field.name)
        if function is None or function == _DEFAULT or field.name in {*known, *grouped}:
            continue
        if field.name not in schema.primary_keys:
            raise Invalid(
                f"column '{field.name}' has the aggregate function {function}, which needs a "
                f"sequence group with merge-engine=partial-update: set 'fields.<sequence field>"
                f".sequence-group' = '{field.name}'"
            )


_REMOVE = "partial-update.remove-record-on-delete"
_REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"


def _check_members(schema: TableSchema, groups: Sequence[SequenceGroup]) -> None:
    grouped: dict[str, str] = {}
    for group in groups:
        for name in (*group.fields, *group.columns):
            if name in schema.primary_keys:
                raise Invalid(
                    f"option '{group.option}' names '{name}', a column of the primary key, which "
                    "cannot be in a sequence group"
                )
        for name in group.columns:
            if name in grouped:
                raise Invalid(
                    f"column '{name}' is in two sequence groups: '{grouped[name]}' and "
                    f"'{group.option}'"
                )
            grouped[name] = group.option
