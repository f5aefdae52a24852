"""What keeps a pipeline from being started, before anything is created."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import STATE_TABLE
from headwater.cdc.pipeline.targets import CLASH_REMEDY, Targets
from headwater.cdc.sink.target_tables import check_options, target_schema
from headwater.cdc.sink.united_schemas import united, uniting_changes
from headwater.cdc.source.source import Source
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import TableSchema

__all__ = [
    "check_all_matched",
    "check_no_more_selected",
    "check_same_layout",
    "start_findings",
    "start_problems",
]


# What the parts of a layout are, for messages.
_PARTS = {
    "target": "name",
    "partition_keys": "partition key",
    "primary_keys": "primary key",
    "computed": "choice of computed columns",
    "metadata": "choice of metadata columns",
    "is_merged": "choice of merge-shards",
}


def start_problems(lake: Lake, source: Source, settings: PipelineSettings) -> list[Finding]:
    """Everything that keeps a new pipeline from following its tables; see `start_findings`."""
    return [each for each in start_findings(lake, source, settings) if not each.is_note]


def start_findings(lake: Lake, source: Source, settings: PipelineSettings) -> list[Finding]:
    """Everything that keeps a new pipeline from following its tables, and notes at the end.

    Args:
        lake: The lake; nothing is created.
        source: The source.
        settings: The pipeline's.

    Raises:
        Forbidden, Unavailable: The source or the lake cannot be asked.
    """
    if not source.has_rows:
        findings = [*_options(settings.table_options), *_target(lake, settings.target)]
        return sorted([*source.findings(()), *findings], key=lambda finding: finding.is_note)
    tables = source.tables(mapping=settings.type_mapping, without_key=settings.appends)
    names = {table.name for table in tables.followed}
    names |= {finding.table for finding in tables.findings if finding.table is not None}
    selection = settings.selection()
    chosen = sorted(name for name in names if selection.matches(name))
    followed = [table for table in tables.followed if selection.matches(table.name)]
    findings = list(source.findings({name.database for name in chosen}))
    seen = f"that user '{source.address.user}' sees"
    remedy = "correct it, or grant the user SELECT on the tables"
    findings += _unmatched(settings, names, seen, remedy)
    if not chosen and not findings:
        findings.append(
            Finding(
                f"patterns {', '.join(pattern.text for pattern in selection.include)}",
                "all tables that they match are excluded",
                "correct --include or --exclude",
            )
        )
    findings += (finding for finding in tables.findings if finding.table in chosen)
    findings += source.unreadable(followed)
    findings += _unwatched(source, {table.name for table in followed})
    findings += _clashes(chosen, settings)
    findings += _partly_logged(source, settings, followed)
    options = _options(settings.table_options)
    findings += options
    findings += _target(lake, settings.target) or _tables(
        lake, settings, followed, is_new_checked=not options
    )
    findings += _unmergeable(settings, followed)
    return [*findings, *(note for note in tables.notes if note.table in chosen)]


def check_same_layout(
    stored: Mapping[str, str], settings: PipelineSettings, tables: Collection[TableName]
) -> None:
    """Check that the lake's tables of a pipeline that ran before are to be as they are.

    Args:
        stored: The settings that it was started with last; empty for a new pipeline.
        settings: Those that it is started with now.
        tables: The tables that it follows.

    Raises:
        Invalid: One is to have another name, other keys or columns.
    """
    if not stored:
        return
    before = PipelineSettings.from_stored(settings.name, settings.target, stored)
    for name in sorted(tables):
        old, new = before.layout.layout(name), settings.layout.layout(name)
        changed = [
            part.name for part in fields(old) if getattr(old, part.name) != getattr(new, part.name)
        ]
        if changed:
            what = changed[0]
            raise Invalid(
                f"pipeline '{settings.name}' cannot start: its options give the lake's table of "
                f"{name} another {_PARTS[what]} than before ({getattr(new, what)!r}, not "
                f"{getattr(old, what)!r}); give the options of before, or start a pipeline with "
                "another name into another database"
            )


def check_no_more_selected(stored: Mapping[str, str], settings: PipelineSettings) -> None:
    """Check that a pipeline selects no table that it left out before, whose rows were passed over.

    Fewer patterns to include, or more to exclude, select fewer tables.

    Args:
        stored: The settings that it was started with last; empty for a new pipeline.
        settings: Those that it is started with now.

    Raises:
        Invalid: It may select others.
    """
    if not stored:
        return
    before = PipelineSettings.from_stored(settings.name, settings.target, stored)
    patterns = {*settings.include} <= {*before.include} and {*settings.exclude} >= {*before.exclude}
    old, new = before.selection(), settings.selection()
    if not patterns or (old.tables, old.databases) != (new.tables, new.databases):
        raise Invalid(
            f"pipeline '{settings.name}' cannot start: it may select tables that it left out "
            f"before (it included {', '.join(before.include)}), and their messages were passed "
            "over; give the selection of before (patterns are compared as they are written; to "
            "select fewer tables, leave patterns out, or exclude more), or let the next start "
            "create all tables again from where the topics begin: headwater cdc resnapshot --all "
            "--replace"
        )


def check_all_matched(settings: PipelineSettings, names: Collection[TableName]) -> None:
    """Check that messages had tables for each pattern and each name of options.

    Args:
        settings: The pipeline's.
        names: The tables that messages had.

    Raises:
        Invalid: They had none for one.
    """
    remedy = (
        "leave it out, wait for its messages, or correct it and let the next start create all "
        "tables again: headwater cdc resnapshot --all --replace"
    )
    findings = [*_unmatched(settings, names, "that has messages", remedy)]
    if findings:
        raise Invalid(
            f"pipeline '{settings.name}' has read all messages: {'; '.join(map(str, findings))}"
        )


def _unwatched(source: Source, followed: Collection[TableName]) -> Iterator[Finding]:
    """Tables whose rows a foreign key changes, silently, with those of a table that is left out."""
    if source.logs_cascades:
        return
    for action in source.silent_foreign_keys():
        if action.child in followed and action.parent not in followed:
            yield Finding(
                f"table {action.child}",
                f"a foreign key changes its rows with those of {action.parent} without an event in "
                f"the log, and {action.parent} is not followed",
                f"follow {action.parent}, too, drop the foreign key, or leave the table out with "
                "--exclude",
                action.child,
            )


def _partly_logged(
    source: Source, settings: PipelineSettings, tables: Sequence[SourceTable]
) -> Iterator[Finding]:
    """Tables whose log lacks rows as they were, where the lake's tables are made of them."""
    is_input = settings.table_options.get("changelog-producer") == "input"
    reasons = dict.fromkeys(
        (table.name for table in tables if is_input and table.primary_key),
        ("changelog-producer is input", "choose lookup or full-compaction"),
    )
    for table in tables:
        further = [
            name
            for name in settings.layout.layout(table.name).identity(table)
            if name not in table.primary_key
        ]
        if further:
            reason = f"its key in the lake has {', '.join(further)} besides its own"
            reasons.setdefault(table.name, (reason, "leave primary-keys out for it"))
    for finding in source.partly_logged(reasons):
        assert finding.table is not None
        reason, remedy = reasons[finding.table]
        yield replace(
            finding,
            problem=f"{reason}, and {finding.problem}",
            remedy=f"{finding.remedy}, or {remedy}",
        )


def _unmatched(
    settings: PipelineSettings, names: Collection[TableName], seen: str, remedy: str
) -> Iterator[Finding]:
    """Patterns and names of options that no table has.

    Args:
        settings: The pipeline's.
        names: The tables that there are.
        seen: Which these are, for messages.
        remedy: What to do.
    """
    selection = settings.selection()
    for pattern in selection.include:
        if not any(pattern.matches(name) for name in names):
            yield Finding(
                f"pattern '{pattern.text}'",
                f"it matches no table of the source {seen}",
                remedy,
            )
    for subject, choice, parts in (
        ("tables", selection.tables, {name.table for name in names}),
        ("dbs", selection.databases, {name.database for name in names}),
    ):
        if choice.including is not None and not any(map(choice.including.matches, parts)):
            yield Finding(
                f"option 'including-{subject}'",
                f"'{choice.including.text}' matches no name {seen}",
                remedy,
            )
    for option, text in settings.layout.unused(filter(selection.matches, names)):
        yield Finding(
            f"option '{option}'",
            f"no followed table has the name '{text}'",
            "correct it, or leave it out",
        )


def _clashes(chosen: Sequence[TableName], settings: PipelineSettings) -> Iterator[Finding]:
    """Tables that would have one table of the lake."""
    taken: dict[str, list[TableName]] = {}
    for name in chosen:
        table = settings.layout.names.table(name)
        target = f"{settings.target}.{table}"
        others = taken.setdefault(table.lower(), [])
        clash = next((other for other in others if settings.layout.clash(other, name)), None)
        others.append(name)
        if clash is not None:
            yield Finding(
                f"table {name}",
                f"it and {clash} are both table {target} of the lake",
                CLASH_REMEDY,
                name,
            )
        if table.lower() == STATE_TABLE:
            yield Finding(
                f"table {name}",
                f"table {target} of the lake is where pipelines keep their state",
                "name it with table-mapping, leave it out with --exclude, or rename it",
                name,
            )


def _unmergeable(settings: PipelineSettings, tables: Sequence[SourceTable]) -> Iterator[Finding]:
    """Tables whose schemas do not go together with those of others of one name in the lake."""
    schemas: dict[str, TableSchema] = {}
    for table in tables if settings.layout.merges else ():
        layout = settings.layout.layout(table.name)
        try:
            expanded = layout.expanded(table)
            schema = schemas.get(layout.target)
            if schema is None:
                new = target_schema(expanded, settings.table_options, layout.partition_keys)
                schemas[layout.target] = new_table_schema(new, 0)
                continue
            changes = uniting_changes(schema, expanded)
            schemas[layout.target] = united(schema, expanded, changes)
        except Unsupported as error:
            subject = f"table {table.name}"
            yield replace(_finding(subject, error, "exclude it"), table=table.name)
        except Invalid:
            # `_tables` names what does not fit one table alone.
            continue


def _target(lake: Lake, target: str) -> list[Finding]:
    try:
        lake.get_database(target)
    except NotFound:
        return [
            Finding(
                f"target '{target}'",
                "it is not a database of the lake",
                f"create it: headwater database create {target}",
            )
        ]
    return []


def _options(options: Mapping[str, str]) -> list[Finding]:
    """Options of the lake's tables that none of them can have."""
    try:
        check_options(options)
    except Invalid as error:
        return [_finding("table options", error, "correct it")]
    return []


def _tables(
    lake: Lake,
    settings: PipelineSettings,
    tables: Sequence[SourceTable],
    *,
    is_new_checked: bool,
) -> list[Finding]:
    """Tables of the lake that have another schema, or cannot be created."""
    targets = Targets(lake, settings)
    present = {name.lower() for name in lake.list_tables(settings.target)}
    findings = []
    for table in tables:
        if settings.layout.names.table(table.name).lower() not in present and not is_new_checked:
            continue
        target = targets.name(table.name)
        try:
            targets.check(target, table)
        except (Invalid, Unsupported) as error:
            subject = f"table {target} of the lake, for {table.name}"
            finding = _finding(subject, error, "rename it, or choose other types or table options")
            remedy = f"{finding.remedy}, or leave the table out with --exclude"
            findings.append(replace(finding, remedy=remedy, table=table.name))
    return findings


def _finding(subject: str, error: Invalid | Unsupported, default_remedy: str) -> Finding:
    """What an error says, whose problem follows its subject and goes before the remedy."""
    problem, _, remedy = error.message.rpartition("; ")
    if not problem:
        problem, remedy = remedy, default_remedy
    if problem.startswith(("table ", "the lake's tables ")):
        problem = problem.partition(": ")[2] or problem
    return Finding(subject, problem, remedy)
