"""The table of capabilities names every option of Paimon's, and is what users meet."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.capabilities import (
    OPTIONS,
    Operation,
    Option,
    find_option,
    is_own_property,
)
from headwater.storage.errors import Unsupported
from headwater.storage.merge.column_functions import AGGREGATE_FUNCTIONS
from headwater.storage.merge.registry import MERGE_ENGINES
from headwater.storage.options import MergeEngine

ROOT = Path(__file__).parents[3]
KEYS = Path(__file__).parent / "paimon_options.txt"
SOURCES = (os.environ.get("PAIMON_REPOSITORY"), ROOT / ".interop" / "paimon-source")

CALL = re.compile(
    r"(?:ConfigOptions\.|(?<![\w.]))key\(|"
    r"(?:withFallbackKeys|createFallbackKey|withDeprecatedKeys)\("
)


def keys_in(source: str) -> set[str]:
    """The keys that a Java class of options declares, older names included."""
    constants = dict(re.findall(r'String (\w+)\s*=\s*"([^"]*)"\s*;', source))
    keys: set[str] = set()
    for match in CALL.finditer(source):
        depth, end = 1, match.end()
        while depth:
            depth += (source[end] == "(") - (source[end] == ")")
            end += 1
        keys.update(
            filter(
                None, (_key(text, constants) for text in source[match.end() : end - 1].split(","))
            )
        )
    return keys


def _key(expression: str, constants: Mapping[str, str]) -> str:
    text = ""
    for part in re.split(r"\s*\+\s*", expression.strip()):
        if part.startswith('"'):
            text += part.strip('"')
        elif part in constants:
            text += constants[part]
        elif re.fullmatch(r"[a-z]\w*", part):
            text += "<column>"
        else:
            return ""
    return text if re.fullmatch(r"[a-z-]+|\S+\.\S+", text) else ""


def committed_keys() -> dict[str, set[str]]:
    keys_by_path: dict[str, set[str]] = {}
    for line in KEYS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            keys_by_path[line.strip("[]")] = keys = set()
        elif line and not line.startswith("#"):
            keys.add(line)
    return keys_by_path


ALL_KEYS = set().union(*committed_keys().values())


def test_every_option_of_paimon_is_in_the_table() -> None:
    assert len(ALL_KEYS) > 450
    assert {key for key in ALL_KEYS if find_option(key) is None} == set()


def test_no_option_is_in_the_table_twice_or_without_being_paimons() -> None:
    keys = [key for option in OPTIONS for key in (option.key, *option.aliases)]
    assert [key for key, count in Counter(keys).items() if count > 1] == []
    # ORC's own, which Paimon hands on to ORC's library, and one of release 2.0.0 alone.
    others = {"orc.compress", "upsert-key"}
    assert {o.key for o in OPTIONS if not o.is_pattern} - ALL_KEYS == others
    assert all(option.is_honoured or option.refusals or option.note for option in OPTIONS)


def test_the_list_of_options_is_that_of_paimons_source() -> None:
    repository = next((str(path) for path in SOURCES if path and Path(path).exists()), None)
    if repository is None:
        pytest.skip("there is no checkout of Paimon: see PAIMON_REPOSITORY")
    commit = re.findall(r"# commit (\w+)", KEYS.read_text(encoding="utf-8"))[0]
    for path, keys in committed_keys().items():
        git = ["git", "-C", repository, "show"]
        newest = subprocess.run([*git, f"HEAD:{path}"], capture_output=True, text=True, check=False)
        if newest.returncode:
            pytest.skip(f"{repository} does not hold {path}")
        assert {key for key in keys_in(newest.stdout) if find_option(key) is None} == set()
        then = subprocess.run(
            [*git, f"{commit}:{path}"], capture_output=True, text=True, check=False
        )
        if not then.returncode:
            assert keys_in(then.stdout) == keys


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Table]:
    """A table with a primary key and one without, with rows in several files."""
    with connect(str(tmp_path_factory.mktemp("lake"))) as lake:
        lake.create_database("d")
        return {keyed: _table(lake, keyed) for keyed in (True, False)}


def _table(lake: Lake, keyed: bool) -> Table:
    schema = pa.schema([pa.field("k", pa.int32(), nullable=not keyed), ("n", pa.int32())])
    table = lake.create_table(
        f"d.{'keyed' if keyed else 'plain'}",
        schema,
        primary_keys=["k"] if keyed else (),
        options={"bucket": "1"} if keyed else {},
    )
    for number in range(2):
        table.write(pa.table({"k": [number], "n": [number]}, schema=schema))
    return table


def having(table: Table, options: Mapping[str, str]) -> Table:
    """The table as if it had been made with other options, some of which cannot be overridden."""
    info = replace(table.info, schema=table.schema.with_options(options))
    return Table(table.catalog, info)


USES: Mapping[Operation, Callable[[Table], object]] = {
    Operation.READ: lambda table: table.scan().to_arrow(),
    Operation.STREAM: lambda table: table.changes(0).to_arrow(),
    Operation.WRITE: lambda table: table.write({"k": [1], "n": [1]}),
    Operation.COMPACT: lambda table: table.compact(),
    Operation.EXPIRE: lambda table: table.expire_snapshots(dry_run=True),
    Operation.REMOVE_ORPHANS: lambda table: table.remove_orphan_files(dry_run=True),
    Operation.MARK_DONE: lambda table: table.mark_partitions_done(),
    Operation.CHANGE: lambda table: table.update({"n": 1}),
}
# Of the values that an option has, one that is refused.
VALUES = {"changelog-producer": "lookup", "merge-engine": "aggregation", "bucket": "-2",
          "file.format": "csv",
          "file.format.per.level": "0:parquet,1:csv"}  # fmt: skip
# Options with which alone it is refused.
BESIDE = {
    key: {"bucket": "-2"} for key in ("sequence.snapshot-ordering", "streaming-read-overwrite")
}

REFUSED = {
    f"{option.key}-{operation.name}-{'keyed' if refusal.keyed is not False else 'plain'}": (
        option, operation, refusal.keyed is not False
    )
    for option in OPTIONS
    for refusal in option.refusals
    for operation in refusal.operations
}  # fmt: skip


@pytest.mark.parametrize(("option", "operation", "keyed"), REFUSED.values(), ids=REFUSED)
def test_what_the_table_refuses_is_refused_by_its_name(
    tables: Mapping[bool, Table], option: Option, operation: Operation, keyed: bool
) -> None:
    for key in (option.key.replace("<column>", "n"), *option.aliases):
        boolean = any("`false`" in refusal.unless.text for refusal in option.refusals)
        value = VALUES.get(key, "true" if boolean else "other")
        table = having(tables[keyed], {key: value, **BESIDE.get(key, {})})
        with pytest.raises(Unsupported, match=re.escape(f"{key}={value}")):
            USES[operation](table)


@pytest.mark.parametrize("operation", USES)
@pytest.mark.parametrize("keyed", [True, False])
def test_other_options_change_nothing(
    tables: Mapping[bool, Table], operation: Operation, keyed: bool
) -> None:
    kept = {
        option.key: "anything"
        for option in OPTIONS
        if not option.is_honoured and not option.refusals
    }
    table = having(tables[keyed], {**kept, "some-other-engine.key": "x"})
    USES[operation](table)
    assert find_option("some-other-engine.key") is None


@pytest.mark.parametrize(
    "key",
    ["team.owner", "some-other-engine.key", "Org.Team.Cost Center", "tax.bucket"],
)
def test_a_key_in_a_namespace_of_the_user_s_own_is_a_property(key: str) -> None:
    assert find_option(key) is None
    assert is_own_property(key)


@pytest.mark.parametrize(
    "key",
    [
        *("owner", "buckett", "", ".", "team.", ".owner", "team..owner", "team. .owner"),
        # In the namespace of options, or one that resembles it.
        *("snapshot.owner", "snapshots.x", "Snapshot.owner", "snap-shot.x", "fields.x", "bucket.x"),
        # Near an option.
        *(
            "scna.mode",
            "x.bucket",
            "Bucket",
            "file.fromat",
            "merge_engine",
            "my.file.format",
            "etl.scan.mode",
        ),
        *("spark.paimon.bucket", "paimon.owner", "headwater.owner"),
    ],
)
def test_a_key_that_resembles_an_option_is_no_property(key: str) -> None:
    assert not is_own_property(key)


def test_no_option_is_a_property_of_the_user_s_own() -> None:
    assert [key for key in ALL_KEYS if is_own_property(key)] == []
    assert is_own_property("lines.x")
    assert not is_own_property("lines.x", ["lines"])


def test_an_empty_option_is_none(tables: Mapping[bool, Table]) -> None:
    table = tables[True].with_options({"scan.fallback-branch": " ", "scan.snapshot-id": ""})
    assert table.scan().to_arrow().num_rows == 2


def test_deletes_are_ignored_under_the_older_names_too(tables: Mapping[bool, Table]) -> None:
    for engine in ("first-row", "deduplicate", "partial-update"):
        table = tables[True].with_options({f"{engine}.ignore-delete": "true"})
        table.write({"k": [0], "_ROW_KIND": ["-D"]})
        assert table.scan().to_arrow().num_rows == 2


def test_the_aggregate_functions_of_the_engine_are_those_that_are_not_refused() -> None:
    for key in ("fields.n.aggregate-function", "fields.default-aggregate-function"):
        option = find_option(key)
        assert option is not None
        (refusal,) = option.refusals
        for name in (*AGGREGATE_FUNCTIONS, "rbm128"):
            refused = option.forbidden(name, Operation.READ, {}, keyed=True)
            assert (refused is None) == (name in AGGREGATE_FUNCTIONS)
        assert refusal.exceptions == ", ".join(f"`{name}`" for name in sorted(AGGREGATE_FUNCTIONS))


def test_the_merge_engines_of_the_registry_are_those_that_are_not_refused() -> None:
    option = find_option("merge-engine")
    assert option is not None
    supported = {
        engine
        for engine in MergeEngine
        if option.forbidden(engine.value, Operation.READ, {}, keyed=True) is None
    }
    assert supported == set(MERGE_ENGINES)
