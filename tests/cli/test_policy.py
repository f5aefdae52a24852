"""`headwater policy` on an embedded catalog."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.policies import ColumnMask, RowFilter
from headwater.client import Lake, connect

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., str]

PEOPLE = Identifier("sales", "people")
REGION = '{"name": "FIELD_REF", "fieldRef": {"name": "region"}}'
EMEA = f'{{"kind": "LEAF", "transform": {REGION}, "function": "EQUAL", "literals": ["EMEA"]}}'
HIDDEN = '{"name": "CONCAT", "inputs": ["****"]}'


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as opened:
        opened.create_database("sales")
        schema = pa.schema([("region", pa.string()), ("phone", pa.string())])
        opened.create_table("sales.people", schema, options={"query-auth.enabled": "true"})
        yield opened


@pytest.fixture
def run(headwater: Headwater, lake: Lake, tmp_path: Path) -> Run:
    """Runs a command; what it prints, or with `code` what it says is wrong."""

    def command(*arguments: str, code: int = 0) -> str:
        done = headwater("policy", *arguments, HEADWATER_CATALOG=str(tmp_path / "lake"))
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return command


def test_policies_are_created_listed_and_dropped(run: Run, lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "emea.json"
    file.write_text(EMEA)
    table = "sales.people"
    said = run("create", table, "group:analysts", "--row-filter", f"@{file}")
    assert said == ("policy ROW_FILTER:group:analysts of sales.people is created\n")
    for principal in ("ada", "bob"):
        run("create", table, principal, "--column", "phone", "--mask", HIDDEN)
    rules = {policy.name: policy.rule for policy in lake.catalog.policies.list(PEOPLE).items}
    assert isinstance(rules["ROW_FILTER:group:analysts"], RowFilter)
    assert isinstance(rules["COLUMN_MASKING:ada:phone"], ColumnMask)

    def listed(*arguments: str) -> list[tuple[str, str, str | None]]:
        rows = [json.loads(row) for row in run("list", table, *arguments, "--json").splitlines()]
        assert all(json.loads(row["rule"]) for row in rows)
        return [(row["type"], row["principal"], row["column"]) for row in rows]

    masks = [("COLUMN_MASKING", name, "phone") for name in ("ada", "bob")]
    rows = ("ROW_FILTER", "group:analysts", None)
    assert listed() == [*masks, rows]
    assert listed("--type", "column_masking", "--column", "phone") == masks
    assert listed("--principal", "bob") == masks[1:]
    assert "group:analysts" in run("list", table)
    said = run("drop", table, "ada", "--column", "phone")
    assert said == "policy COLUMN_MASKING:ada:phone of sales.people is dropped\n"
    run("drop", table, "group:analysts")
    run("drop", table, "group:analysts", "--if-exists")
    assert listed() == masks[1:]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["create", "sales.people", "ada"], 2, "--row-filter"),
        (["create", "sales.people", "ada", "--mask", HIDDEN], 2, "--column"),
        (["create", "sales.people", "ada", "--column", "phone"], 2, "--mask"),
        (
            ["create", "sales.people", "ada", "--row-filter", EMEA, "--column", "phone"],
            2,
            "--row-filter",
        ),
        (["create", "sales.people", "ada", "--row-filter", "{"], 1, "JSON"),
        (["create", "sales.people", "ada", "--column", "no", "--mask", HIDDEN], 1, "'no'"),
        (["create", "sales.none", "ada", "--row-filter", EMEA], 1, "sales.none"),
        (["list", "sales.people", "--column", "phone"], 1, "COLUMN_MASKING"),
        (["list", "sales.people", "--type", "MOON"], 2, "MOON"),
        (["drop", "sales.people", "ada"], 1, "ROW_FILTER:ada"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], code: int, says: str) -> None:
    assert says in run(*arguments, code=code)
