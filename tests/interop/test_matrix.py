"""Each client with each kind of table: it writes, it reads, and both go on with each other's rows.

What is seen must be what `matrix.json` says, and with it ``docs/compatibility.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.errors import HeadwaterError
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type, to_arrow

from .conftest import ROOT, Client
from .java_client import JavaClient
from .matrix import IS_WRONG, NOT_OFFERED, NOT_RUN, WORKS, leave, record
from .matrix_modes import MODES, READS, SCHEMA, WITHOUT_STREAMS, WRONG, Mode, Read, batch

AnyClient = Client | JavaClient


def parts(*, moves: bool = False) -> list[pa.Table]:
    """What is written, one after the other."""
    keys = (range(40), range(20, 60), range(10, 30), range(70))
    return [batch(1 + at, each, moves=moves) for at, each in enumerate(keys)]


def name_of(client: AnyClient) -> str:
    """The client as the record names it, with its version."""
    if isinstance(client, JavaClient):
        return client.name.replace("paimon-java-", "Paimon Java ")
    pins = (ROOT / "tests" / "interop" / f"{client.name}.txt").read_text(encoding="utf-8")
    version = re.search(rf"^{client.name}==([\d.]+)", pins, re.MULTILINE)
    assert version is not None
    return f"{client.name} {version[1]}"


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    if table.num_rows == 0:
        return []
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    return sorted(zip(*columns, strict=True), key=repr)


def outcome(steps: Callable[[], bool]) -> str:
    """The outcome of some steps, which say whether the rows were right."""
    try:
        return WORKS if steps() else IS_WRONG
    except HeadwaterError as error:
        return f"Headwater refuses: {message(str(error))}"
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return f"Refused: {message(str(cause.toString()))}"
    except RuntimeError as error:
        return f"Refused: {message(str(error).strip().splitlines()[-1])}"


def message(text: str) -> str:
    """The first line of a message, without what differs between runs."""
    line = text.strip().splitlines()[0]
    for pattern, word in (
        (r"\b[\w.]*matrix_\w+(\$branch_\w+)?", "t"),
        (r"(file|https?):/\S+", "…"),
        (r"/[\w./-]{8,}", "…"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+", "…"),
        (r"@[0-9a-f]{5,}", ""),
        (r"\borg\.apache\.paimon\.[\w.$]*\.|\bjava\.[a-z.]+\.", ""),
        (r"\|", "/"),
    ):
        line = re.sub(pattern, word, line)
    return line if len(line) < 200 else f"{line[:200]}…"


@pytest.mark.parametrize("kind", MODES)
def test_tables_are_shared(lake: Lake, client: AnyClient, kind: str) -> None:
    mode = MODES[kind]
    stem = f"interop.matrix_{kind.replace('-', '_')}_{client.label}"
    theirs, ours = (new_table(lake, f"{stem}_{whose}", mode) for whose in ("theirs", "ours"))
    before, after = parts(moves=mode.moves)[:2], parts(moves=mode.moves)[2:]
    if mode.together:
        before = [pa.concat_tables(before)]

    def writes() -> bool:
        for part in before:
            client.write(str(theirs.identifier), part)
        settle(theirs, mode)
        return rows(theirs.scan().to_arrow()) == expected(mode, before)

    def reads() -> bool:
        for part in before:
            ours.write(part)
        settle(ours, mode)
        if mode.deletes:
            ours.delete("k < 5 OR k = 33")
        return rows(client.read(str(ours.identifier))) == expected(mode, before, DELETED)

    def continues() -> bool:
        client.write(str(ours.identifier), after[0])
        settle(ours, mode)
        ours.write(after[1])
        settle(ours, mode)
        wanted = expected(mode, before, DELETED, after)
        return rows(ours.scan().to_arrow()) == wanted == rows(client.read(str(ours.identifier)))

    # Releases before 2.0 look keys up in other ways, which the tests do not drive.
    driven = not mode.moves or client.name not in ("paimon-java-1.3.1", "paimon-java-1.4.2")
    found = {"writes": outcome(writes) if driven else NOT_RUN, "reads": outcome(reads)}
    both = all(each == WORKS for each in found.values())
    found["continues"] = outcome(continues) if both else NOT_RUN
    check(name_of(client), kind, found)


DELETED = frozenset({*range(5), 33})


def expected(
    mode: Mode,
    before: Sequence[pa.Table],
    deleted: frozenset[int] = frozenset(),
    after: Sequence[pa.Table] = (),
) -> list[tuple[object, ...]]:
    first = mode.merge(row for part in before for row in rows(part))
    if mode.deletes:
        first = [row for row in first if row[1] not in deleted]
    later = (row for part in after for row in rows(part))
    return sorted(mode.merge([*first, *later]), key=repr)


def settle(table: Table, mode: Mode) -> None:
    if mode.compacts:
        table.compact()


def new_table(lake: Lake, name: str, mode: Mode) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name,
        SCHEMA,
        primary_keys=["k"] if mode.moves else ["day", "k"] if mode.is_keyed else [],
        partition_keys=["day"],
        options=mode.options,
        for_another_engine=True,
    )
    return table if mode.branch is None else table.create_branch(mode.branch)


VARIANTS = Schema(
    (DataField(0, "k", parse_type("BIGINT")), DataField(1, "v", parse_type("VARIANT")))
)


def test_variants_are_shared(lake: Lake, client: AnyClient) -> None:
    names = [f"interop.matrix_variant_{client.label}_{whose}" for whose in ("theirs", "ours")]
    for name in names:
        lake.drop_table(name, ignore_if_not_exists=True)
    theirs, ours = (lake.create_table(name, VARIANTS) for name in names)
    # Small numbers, short texts and nulls; none has names.
    values = [bytes([0b1100, 7]), b"\x0dabc", b"\x00", None]
    variants = [each and {"value": each, "metadata": b"\x01\x00\x00"} for each in values]
    types = [to_arrow(field.type) for field in VARIANTS.fields]
    data = pa.table([pa.array(range(4), types[0]), pa.array(variants, types[1])], ["k", "v"])

    def is_data(found: pa.Table) -> bool:
        return bool(found.sort_by("k").select(["k", "v"]).to_pylist() == data.to_pylist())

    def writes() -> bool:
        if isinstance(client, JavaClient):
            # It reads them, too: no value passes Python.
            ours.write(data)
            client.copy(ours.name, theirs.name)
        else:
            client.write(theirs.name, data)
        return is_data(theirs.scan().to_arrow())

    def reads() -> bool:
        ours.write(data)
        return is_data(client.read(ours.name))

    found = {"writes": outcome(writes)}
    found["reads"] = found["writes"] if isinstance(client, JavaClient) else outcome(reads)
    check(name_of(client), "variant", found)


@pytest.mark.parametrize("kind", READS)
def test_reads_are_the_same(lake: Lake, client: AnyClient, kind: str) -> None:
    read = READS[kind]
    if read.stream and client.name in WITHOUT_STREAMS:
        check(name_of(client), kind, {"reads": NOT_OFFERED})
        return
    name = f"interop.matrix_{kind.replace('-', '_')}_{client.label}"
    table = a_history(lake, name, read)
    times = {"first": table.snapshot(1).time_millis, "last": table.snapshot(3).time_millis}
    options = {key: value.format(**times) for key, value in read.options.items()}

    def reads() -> bool:
        if read.stream:
            streamed = (
                row for plan in client.changes(str(table.identifier)) for row in kinds(plan)
            )
            return sorted(streamed, key=repr) == sorted(
                kinds(table.changes(0).to_arrow()), key=repr
            )
        return rows(client.read(str(table.identifier), options=options)) == ours(table, options)

    check(name_of(client), kind, {"reads": outcome(reads)})


def a_history(lake: Lake, name: str, read: Read) -> Table:
    """A table of three snapshots or more, a tag, and a branch with another partition."""
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name,
        SCHEMA,
        primary_keys=["day", "k"],
        partition_keys=["day"],
        options={"bucket": "1", "changelog-producer": read.producer},
    )
    other = batch(9, range(100, 110)).set_column(0, SCHEMA.field(0), pa.array(["2026-02-01"] * 10))
    table.create_branch("live").write(other)
    first, *others = parts()
    table.write(first)
    table.create_tag("one", 1)
    for part in others:
        table.write(part)
    table.delete("k < 5")
    if read.producer == "full-compaction":
        table.compact()
    if read.table_options:
        table.alter(*(SetOption(key, value) for key, value in read.table_options.items()))
    return table


def ours(table: Table, options: dict[str, str]) -> list[tuple[object, ...]]:
    chosen = table.with_options(options)
    if any(key.startswith("incremental") for key in options):
        return rows(chosen.changes(row_kinds=False).to_arrow())
    return rows(chosen.scan().to_arrow())


def kinds(table: pa.Table) -> list[tuple[object, ...]]:
    """Changes with their kinds, which come last."""
    columns = [table[name].to_pylist() for name in (*SCHEMA.names, "_ROW_KIND")]
    return list(zip(*columns, strict=True))


def check(client: str, kind: str, found: dict[str, str]) -> None:
    """Compare with the record, and leave what was seen for the next one."""
    leave(client, kind, found)
    for direction, each in found.items():
        assert ((client, kind, direction) in WRONG) == (each == IS_WRONG), (direction, each)
    assert record().get(client, {}).get(kind) == found, "see tests/interop/matrix.py"
