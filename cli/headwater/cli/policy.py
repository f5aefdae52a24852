"""`headwater policy`: row filters and column masks, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.catalog.model.page import all_pages
from headwater.catalog.model.policies import (
    ColumnMask,
    Policy,
    PolicyType,
    RowFilter,
    Rule,
    policy_name,
)
from headwater.cli.arguments import IfExists, TableName, text_of
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = ["app"]

app = typer.Typer(
    help="Row filters and column masks: the part of a table that a principal sees.",
    no_args_is_help=True,
)

Principal = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="The person or program that it restricts.")
]


@app.command("list")
@on_lake
def list_policies(
    lake: Lake,
    table: TableName,
    type: Annotated[
        PolicyType | None,
        typer.Option(metavar="TYPE", case_sensitive=False, help="ROW_FILTER or COLUMN_MASKING."),
    ] = None,
    principal: Annotated[
        str | None, typer.Option(metavar="PRINCIPAL", help="Only this principal's policies.")
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Only this column's masks; needs COLUMN_MASKING."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List a table's policies."""
    policies = lake.catalog.policies
    found = all_pages(
        lambda token: policies.list(
            table, type=type, principal=principal, column=column, page_token=token
        )
    )
    print_rows(
        ["type", "principal", "column", "rule"],
        [(str(each.type), each.principal, each.column, _document(each.rule)) for each in found],
        as_json=as_json,
    )


@app.command()
@on_lake
def create(
    lake: Lake,
    table: TableName,
    principal: Principal,
    row_filter: Annotated[
        str | None,
        typer.Option(
            "--row-filter",
            metavar="JSON",
            help="A Paimon predicate on the rows that are seen: its JSON, or @FILE, or -.",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --mask: the column to mask.")
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="A Paimon transform that replaces the column's values: its JSON, or @FILE, or -.",
        ),
    ] = None,
) -> None:
    """Create a row filter or a column mask."""
    policy = Policy(principal, _rule(row_filter, column, mask))
    lake.catalog.policies.create(table, policy)
    print(f"policy {policy.name} of {table} is created")


@app.command()
@on_lake
def drop(
    lake: Lake,
    table: TableName,
    principal: Principal,
    column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column whose mask to drop; else the row filter."),
    ] = None,
    if_exists: IfExists = False,
) -> None:
    """Drop a principal's row filter, or with --column its mask of a column."""
    kind = PolicyType.ROW_FILTER if column is None else PolicyType.COLUMN_MASKING
    lake.catalog.policies.drop(table, kind, principal, column, ignore_if_not_exists=if_exists)
    print(f"policy {policy_name(kind, principal, column)} of {table} is dropped")


def _rule(row_filter: str | None, column: str | None, mask: str | None) -> Rule:
    if row_filter is not None and column is None and mask is None:
        return RowFilter(text_of(row_filter))
    if row_filter is None and column is not None and mask is not None:
        return ColumnMask(column, text_of(mask))
    raise typer.BadParameter("give --row-filter, or --column and --mask")


def _document(rule: Rule) -> str:
    return rule.predicate if isinstance(rule, RowFilter) else rule.transform
