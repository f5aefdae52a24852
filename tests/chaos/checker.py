"""The checker: holds what is there in the end against the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.client import APPENDED, COMMIT_PROPERTY, UPSERTED
from tests.chaos.evidence import Evidence, MissingFile, StoredSnapshot, TableEvidence
from tests.chaos.ledger import Entry, Fate, Row

__all__ = ["COLUMNS", "Finding", "check"]

COLUMNS: Mapping[str, Sequence[str]] = {
    APPENDED: ("commit", "number", "value"),
    UPSERTED: ("owner", "slot", "commit", "value"),
}
_KEY_COLUMNS = 2
_MOST_NAMED = 5

ReadTable = Callable[[str], Sequence[Row]]
"""The rows of a table, as the engine reads them."""


@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check(evidence: Evidence, entries: Mapping[str, Entry], read: ReadTable) -> Sequence[Finding]:
    """All that is wrong; nothing is under way any more, and a sweep has been done.

    Args:
        evidence: The database's rows and the files.
        entries: The ledger's.
        read: Reads a table by the engine.
    """
    findings = []
    if evidence.open_decisions:
        findings.append(Finding("open", f"{evidence.open_decisions} decisions after the sweep"))
    for name in COLUMNS:
        table = evidence.tables.get(name)
        if table is None:
            findings.append(Finding("lost", f"table {name} is not there"))
            continue
        mine = {entry.name: entry for entry in entries.values() if entry.table == name}
        findings += _history(table)
        findings += _events(table)
        findings += _commits(table, mine)
        findings += _files(table, mine)
        findings += _rows(table, mine, read)
    return findings


def _history(table: TableEvidence) -> Iterator[Finding]:
    """Numbers are dense, uuids are unique, and storage tells the same as the database."""
    numbers = [snapshot.number for snapshot in table.snapshots]
    if numbers != list(range(1, len(numbers) + 1)):
        gaps = sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
        yield Finding("gap", f"{table.name}: snapshots {_some(gaps)} are not there")
    last = table.snapshots[-1] if table.snapshots else None
    expected = (0, None) if last is None else (last.number, last.uuid)
    if table.head != expected:
        yield Finding("head", f"{table.name}: the head is {table.head}, the latest is {expected}")
    uuids = Counter(snapshot.uuid for snapshot in table.snapshots)
    for uuid, count in uuids.items():
        if count > 1:
            yield Finding("doubled", f"{table.name}: {count} snapshots have the uuid {uuid}")
    stored = {snapshot.number: snapshot.document for snapshot in table.snapshots}
    files = table.snapshot_files()
    for number in sorted({*stored, *files}):
        if number not in files:
            yield Finding("storage", f"{table.name}: the file of snapshot {number} is not there")
        elif number not in stored:
            yield Finding("storage", f"{table.name}: snapshot {number} is on storage alone")
        elif files[number] != stored[number]:
            yield Finding("storage", f"{table.name}: the file of snapshot {number} differs")
    if last is not None and table.latest_hint() != str(last.number):
        hint = table.latest_hint()
        yield Finding("storage", f"{table.name}: LATEST says {hint}, not {last.number}")


def _events(table: TableEvidence) -> Iterator[Finding]:
    """Each snapshot has one event, in the order of the snapshots, and nothing else has."""
    numbers = [snapshot.number for snapshot in table.snapshots]
    told = Counter(table.told)
    for number in sorted({*numbers, *told}):
        if told[number] != (expected := int(number in numbers)):
            text = f"{table.name}: snapshot {number} has {told[number]} events, not {expected}"
            yield Finding("event", text)
    if list(table.told) != sorted(table.told):
        yield Finding("event", f"{table.name}: the events of its commits are out of order")


def _commits(table: TableEvidence, entries: Mapping[str, Entry]) -> Iterator[Finding]:
    """Each commit that was acknowledged is there once, none that was refused, none unknown."""
    found = Counter(
        name
        for snapshot in table.snapshots
        if (name := snapshot.property(COMMIT_PROPERTY)) is not None
    )
    for name, count in found.items():
        if count > 1:
            yield Finding("doubled", f"{table.name}: commit {name} is there {count} times")
        if name not in entries:
            yield Finding("foreign", f"{table.name}: nobody made commit {name}")
    for name, entry in entries.items():
        if entry.fate is Fate.ACKNOWLEDGED and name not in found:
            yield Finding("lost", f"{table.name}: commit {name} was acknowledged and is not there")
        if entry.fate is Fate.REFUSED and name in found:
            yield Finding("refused", f"{table.name}: commit {name} was refused and is there")


def _files(table: TableEvidence, entries: Mapping[str, Entry]) -> Iterator[Finding]:
    """Every file that a snapshot needs is there; what a commit added are its rows."""
    columns = COLUMNS[table.name]
    missing: set[str] = set()
    for snapshot in table.snapshots:
        try:
            live = table.live_files(snapshot)
        except MissingFile as error:
            if str(error) not in missing:
                missing.add(str(error))
                yield Finding("missing", f"{table.name}: snapshot {snapshot.number} needs {error}")
            continue
        for file in live:
            if file.name not in missing and not table.path(file).exists():
                missing.add(file.name)
                text = f"{table.name}: snapshot {snapshot.number} needs {file.name}"
                yield Finding("missing", text)
        entry = entries.get(snapshot.property(COMMIT_PROPERTY) or "")
        if entry is not None:
            yield from _added_rows(table, snapshot, entry, columns)


def _added_rows(
    table: TableEvidence, snapshot: StoredSnapshot, entry: Entry, columns: Sequence[str]
) -> Iterator[Finding]:
    try:
        added = [row for file in table.added_files(snapshot) for row in table.rows(file, columns)]
    except MissingFile as error:
        yield Finding("missing", f"{table.name}: snapshot {snapshot.number} needs {error}")
        return
    expected, got = Counter(entry.rows), Counter(added)
    where = f"{table.name}: snapshot {snapshot.number}, commit {entry.name}"
    if expected - got:
        yield Finding("half", f"{where}, has {len(added)} of {len(entry.rows)} rows of its own")
    if got - expected:
        yield Finding("swapped", f"{where}, has the rows {_some((got - expected).elements())}")


def _rows(table: TableEvidence, entries: Mapping[str, Entry], read: ReadTable) -> Iterator[Finding]:
    """The rows that are read are those of the commits in the history, in its order."""
    columns = COLUMNS[table.name]
    order = [
        entries[name]
        for snapshot in table.snapshots
        if (name := snapshot.property(COMMIT_PROPERTY) or "") in entries
    ]
    written = [row for entry in order for row in entry.rows]
    if table.name == UPSERTED:
        expected = Counter({row[:_KEY_COLUMNS]: row for row in written}.values())
    else:
        expected = Counter(written)
    yield from _compared(f"{table.name}, as the engine reads it", expected, read(table.name))
    if table.name == UPSERTED or not table.snapshots:
        return
    try:
        plain = [
            row
            for file in table.live_files(table.snapshots[-1])
            for row in table.rows(file, columns)
        ]
    except MissingFile:
        return  # told of already
    yield from _compared(f"{table.name}, file by file", expected, plain)


def _compared(where: str, expected: Counter[Row], rows: Iterable[Row]) -> Iterator[Finding]:
    got = Counter(rows)
    lost, more = expected - got, got - expected
    if lost:
        yield Finding("lost", f"{where}: {lost.total()} rows are missing: {_some(lost)}")
    doubled = {row: count for row, count in more.items() if row in expected}
    if doubled:
        yield Finding("doubled", f"{where}: {len(doubled)} rows: {_some(doubled)}")
    foreign = [row for row in more if row not in expected]
    if foreign:
        yield Finding("foreign", f"{where}: {len(foreign)} rows: {_some(foreign)}")


def _some(items: Iterable[object]) -> str:
    listed = list(items)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(str(item) for item in listed[:_MOST_NAMED]) + more
