"""`headwater maintain`: the maintenance of many tables at once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.arguments import duration
from headwater.cli.connection import on_lake
from headwater.cli.output import AsJson, print_rows
from headwater.cli.spark_session import spark_executor
from headwater.storage.errors import Invalid
from headwater.storage.options import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.client import Lake
    from headwater.client.maintenance import MaintenancePlan, PlanFile, Step

__all__ = ["maintain"]

_COLUMNS = ("table", "action", "due", "state", "outcome")
_WHICH, _HOW, _LIMITS = "What is done", "How it is done", "Limits"


@on_lake
def maintain(
    lake: Lake,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            rich_help_panel=_WHICH,
            help="Only tables whose DATABASE.TABLE is like this, with * and ?; may be repeated.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", rich_help_panel=_WHICH, help="No tables like this; may be repeated."
        ),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTION",
            rich_help_panel=_WHICH,
            help="Only this; may be repeated. create-tags, expire-partitions, compact, expire-tags "
            "and expire-snapshots are done unless actions are named; compact-manifests, "
            "rewrite-file-indexes, analyze and remove-orphan-files when they are.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", rich_help_panel=_WHICH, help="Compact all there is, not what is due."
        ),
    ] = False,
    orphans_older_than: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            rich_help_panel=_WHICH,
            help="Files changed within this time are not orphans.",
        ),
    ] = "1 d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=_HOW, help="Only say what is due.")
    ] = False,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_HOW, help="Keep the plan and its progress here."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_HOW, help="Go on with the plan in this file."
        ),
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER",
            rich_help_panel=_HOW,
            help="Run the tasks as Spark's, such as local[4] or spark://host:7077.",
        ),
    ] = None,
    tables_at_once: Annotated[
        int, typer.Option(min=1, rich_help_panel=_HOW, help="Tables that are worked on at once.")
    ] = 2,
    max_tables: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_LIMITS, help="Tables at most.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", rich_help_panel=_LIMITS, help="Bytes rewritten at most."),
    ] = None,
    max_time: Annotated[
        str | None,
        typer.Option(metavar="DURATION", rich_help_panel=_LIMITS, help="Begin nothing after this."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compact tables, and expire what is past, wherever it is due.

    Each step is a commit of its own. With --plan the steps that are done are noted in a file, from
    which --resume goes on after an interruption, or with what a limit left undone. The exit code is
    1 if a step failed.
    """
    from headwater.catalog.table.upkeep import THIS_PROCESS
    from headwater.client.maintenance import Limits, PlanFile, State, run_maintenance

    if resume is not None and (include or exclude or do or full or plan or max_tables):
        raise Invalid("--resume goes on with a plan as it is: leave out what says what to plan")
    limits = Limits(
        None if max_time is None else duration(max_time, "--max-time"),
        None if max_bytes is None else parse_bytes(max_bytes, "--max-bytes"),
    )
    older_than = duration(orphans_older_than, "--orphans-older-than")
    if resume is not None:
        steps = PlanFile(resume).read()
    else:
        steps = _planned(lake, include, exclude, do, full, older_than, max_tables)
    file = _file(steps, plan, resume, dry_run)
    if not dry_run:
        with spark_executor(spark, "headwater maintain") as executor:
            run_maintenance(
                lake,
                steps,
                executor=executor or THIS_PROCESS,
                tables_at_once=tables_at_once,
                limits=limits,
                on_step=lambda step: None if file is None else file.add(step),
            )
    print_rows(_COLUMNS, map(_row, steps.steps), as_json=as_json)
    if steps.in_state(State.FAILED):
        raise typer.Exit(1)


def _planned(
    lake: Lake,
    include: Sequence[str] | None,
    exclude: Sequence[str] | None,
    do: Sequence[str] | None,
    full: bool,
    older_than: timedelta,
    max_tables: int | None,
) -> MaintenancePlan:
    from headwater.client.maintenance import DEFAULT_ACTIONS, Action, Rules, plan_maintenance

    unknown = sorted(set(do or ()) - set(Action))
    if unknown:
        raise Invalid(f"there is no action {unknown[0]}: --do takes {', '.join(Action)}")
    return plan_maintenance(
        lake,
        include=include or ("*",),
        exclude=exclude or (),
        actions=[Action(each) for each in do] if do else DEFAULT_ACTIONS,
        rules=Rules(full, older_than),
        max_tables=max_tables,
    )


def _file(
    steps: MaintenancePlan, plan: str | None, resume: str | None, dry_run: bool
) -> PlanFile | None:
    from headwater.client.maintenance import PlanFile

    if resume is not None:
        return PlanFile(resume)
    if plan is None:
        return None
    file = PlanFile(plan)
    file.create(steps)
    return file


def _row(step: Step) -> tuple[str, str, str, str, str]:
    return step.table, str(step.action), step.due, str(step.state), step.outcome
