"""Policies: row filters and column masks of tables, each for one principal.

Their identity, their limits and their JSON are those of ``org.apache.paimon.management``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from headwater.catalog.model.access import TableAccess
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.permissions import check_principal
from headwater.storage.errors import Invalid

__all__ = [
    "ColumnMask",
    "Policies",
    "Policy",
    "PolicyType",
    "RowFilter",
    "Rule",
    "check_filter",
    "check_identity",
    "policy_name",
]

_MOST_BYTES = 60 * 1024
_LONGEST_COLUMN = 255


class PolicyType(StrEnum):
    """The kinds of policy, by their names on the wire."""

    ROW_FILTER = "ROW_FILTER"
    COLUMN_MASKING = "COLUMN_MASKING"


@dataclass(frozen=True)
class RowFilter:
    """A condition on the rows that a principal sees.

    Attributes:
        predicate: A Paimon ``Predicate`` as JSON, at most 60 KiB.

    Raises:
        Invalid: The text is empty or too long.
    """

    predicate: str

    def __post_init__(self) -> None:
        """Refuse a text that cannot be kept."""
        _check_size("predicate", self.predicate)


@dataclass(frozen=True)
class ColumnMask:
    """A replacement for a column's values.

    Attributes:
        column: The masked column.
        transform: A Paimon ``Transform`` as JSON, at most 60 KiB; its result has the column's type.

    Raises:
        Invalid: The column is blank, or the text is empty or too long.
    """

    column: str
    transform: str

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        _check_column(self.column)
        _check_size("transform", self.transform)


Rule: TypeAlias = RowFilter | ColumnMask


@dataclass(frozen=True)
class Policy:
    """A row filter or column mask of a table.

    Attributes:
        principal: Whom it restricts.
        rule: The row filter or column mask.

    Raises:
        Invalid: The principal is blank or too long.
    """

    principal: str
    rule: Rule

    def __post_init__(self) -> None:
        """Refuse a principal that is none."""
        check_principal(self.principal)

    @property
    def type(self) -> PolicyType:
        """The kind of its rule."""
        if isinstance(self.rule, RowFilter):
            return PolicyType.ROW_FILTER
        return PolicyType.COLUMN_MASKING

    @property
    def column(self) -> str | None:
        """The masked column; None for a row filter."""
        return None if isinstance(self.rule, RowFilter) else self.rule.column

    @property
    def name(self) -> str:
        """Its identity in messages, such as ``COLUMN_MASKING:ada:phone``."""
        return policy_name(self.type, self.principal, self.column)


def policy_name(kind: PolicyType, principal: str, column: str | None) -> str:
    """The identity of a table's policy in messages, as Paimon writes it."""
    return ":".join([kind.value, principal, *([] if column is None else [column])])


def check_filter(kind: PolicyType | None, principal: str | None, column: str | None) -> None:
    """Refuse what selects no policies of a listing; raises Invalid."""
    if principal is not None:
        check_principal(principal)
    if column is not None and kind is not PolicyType.COLUMN_MASKING:
        raise Invalid(f"column '{column}' needs type {PolicyType.COLUMN_MASKING} beside it")


def check_identity(kind: PolicyType, principal: str, column: str | None) -> None:
    """Refuse what identifies no policy; raises Invalid."""
    check_principal(principal)
    if kind is PolicyType.ROW_FILTER:
        if column is not None:
            raise Invalid(f"a {kind} policy has no column; leave '{column}' out")
    elif column is None:
        raise Invalid(f"a {kind} policy is of one column; name it")
    else:
        _check_column(column)


def _check_column(column: str) -> None:
    if not column.strip() or len(column) > _LONGEST_COLUMN:
        raise Invalid(f"a masked column's name has 1 to {_LONGEST_COLUMN} characters")


def _check_size(what: str, text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text.strip() or size > _MOST_BYTES:
        raise Invalid(f"a policy's {what} has 1 to {_MOST_BYTES} bytes of JSON, not {size}")


class Policies(Protocol):
    """The row filters and column masks of one warehouse's tables.

    They restrict the principals that they name, and the members of groups that they name, where a
    server stands between; a program that opens the catalog itself is its owner and is shown all.

    They belong to the table and not to its name: they follow it when it is renamed, stay with a
    dropped table that is restored, and go when it goes.
    """

    def list(
        self,
        identifier: Identifier,
        *,
        type: PolicyType | None = None,
        principal: str | None = None,
        column: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Policy]:
        """The policies of a table, row filters last, by principal and column.

        Args:
            identifier: The table.
            type: Only policies of this kind.
            principal: Only this principal's.
            column: Only masks of this column; with `type` COLUMN_MASKING alone.
            max_results: The size of a page; None means all policies.
            page_token: The `next_token` of the page before.

        Raises:
            NotFound: There is no such table (TABLE).
            Invalid: A column is given without the type that has columns.
            Forbidden: Policies restrict the caller on the table, and others than its own are asked.
        """
        ...

    def access(self, identifier: Identifier) -> TableAccess:
        """The part of a table, or of a branch of it, that the caller is shown.

        All row filters of the caller and its groups hold together. Where they have different masks
        of one column, it is null for the caller.

        Raises:
            NotFound: There is no such table (TABLE).
            Forbidden: Different masks meet on a column that cannot be null.
        """
        ...

    def create(self, identifier: Identifier, policy: Policy) -> None:
        """Create a policy: from now on it restricts its principal.

        Columns are found by name; the JSON is stored with the table's own indexes and types.

        Raises:
            NotFound: There is no such table, or the policy names a column that is not there
                (TABLE, COLUMN).
            AlreadyExists: The principal has a row filter on the table, or a mask on the column
                (POLICY); drop it first.
            Conflict: The table's option ``query-auth.enabled`` is not true: readers would not ask
                what they may see (TABLE).
            Invalid: The predicate or transform is not one that Paimon's clients evaluate on the
                table.
            Forbidden: Policies restrict the caller on the table.
        """
        ...

    def drop(
        self,
        identifier: Identifier,
        type: PolicyType,
        principal: str,
        column: str | None = None,
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Drop a policy.

        Args:
            identifier: The table.
            type: The kind of policy.
            principal: Whom it restricts.
            column: The masked column; None for a row filter.
            ignore_if_not_exists: Do nothing when there is no such policy.

        Raises:
            NotFound: There is no such table or policy (TABLE, POLICY).
            Invalid: A row filter is named with a column, or a mask without.
            Forbidden: Policies restrict the caller on the table.
        """
        ...
